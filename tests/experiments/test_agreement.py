"""Whether ours says what the paper's says (`agreement.py`): the same rule for everything, and it can say no."""

from dataclasses import replace

import pytest
from experiments.plans import _nobodys_files, plan_of, result  # noqa: F401

from orderless.experiments.agreement import allowance, judge, pairs_told_apart
from orderless.experiments.table import build_table

pytestmark = pytest.mark.usefixtures("_nobodys_files")


def judged(values, *, task="normal_var", norm="none", noise=0.0, test_error=0.0, released=None, **changes):
    """The verdict on Deep Sets 50 (published on Normal Var: 8.4501 ± 0.0031) with these figures of seeds 0, 1, ..."""
    plan = plan_of("norms", only={"task": [task], "norm": [norm]})
    (metric,) = plan.recipe.metrics_of(task)
    noises = noise if isinstance(noise, list) else [noise] * len(values)  # of each seed
    lines = [
        {
            **result(spec, value),
            "metrics": {metric: value},
            "intervals": {metric: [value - 1.96 * test_error, value + 1.96 * test_error]},
            "epochs": [{"epoch": n, f"test_{metric}": value + up_and_down * (-1) ** n} for n in range(50)],
            "released": None if released is None else {metric: released},
            "num_test": 1000,
            **changes,
        }
        for spec, value, up_and_down in zip(published_data(plan), values, noises, strict=False)
    ]
    (entry,) = build_table(plan, lines).entries.values()
    return entry


def published_data(plan):
    """The runs of a plan as they are where the publisher's files are."""
    return [replace(spec, task=spec.task.replace("@shapes", "@modelnet40")) for spec in plan.runs]


def word(*arguments, **options):
    return judge(judged(*arguments, **options)).word


def test_a_figure_within_the_errors_of_seeds_is_reproduced_and_one_beyond_is_not():
    assert word([8.44, 8.45, 8.46]) == "reproduced"
    assert allowance(judged([8.44, 8.45, 8.46])).size == pytest.approx(2 * ((0.01**2 + 0.0031**2) / 3) ** 0.5 + 0.00005)
    assert word([8.47, 8.47, 8.47]) == "not reproduced"
    assert word([8.43, 8.43, 8.43]) == "better"


def test_the_printed_digits_are_all_that_can_be_compared():
    assert word([3.6094, 3.6094, 3.6094], task="point_cloud") == "reproduced"  # published: 3.609 ± 0.000
    assert word([3.6096, 3.6096, 3.6096], task="point_cloud") == "not reproduced"


def test_a_figure_may_change_as_much_as_from_one_epoch_to_the_next():
    assert word([8.6, 8.6, 8.6], noise=0.2) == "reproduced"
    assert word([8.6, 8.6, 8.6], noise=0.05) == "not reproduced"
    chance = judged([8.44, 8.45, 8.46])  # epochs that differ by more than one error, and by less than two, allow no more
    assert allowance(judged([8.44, 8.45, 8.46], noise=0.004)) == allowance(chance)
    assert allowance(chance).size / 2 < judged([8.44, 8.45, 8.46], noise=0.004).noise < allowance(chance).size
    # up and down by 0.2, so changes of 0.4: 1.4826 * 0.4 / sqrt(2)
    assert judged([8.6, 8.6, 8.6], noise=0.2).noise == pytest.approx(1.4826 * 0.4 / 2**0.5)


def test_what_counts_is_how_the_mean_over_seeds_changes():
    """Seeds take the same batches, so they may rise and fall together; where they do not, the mean is steadier than each."""
    together, apart = (judged([8.6, 8.6], noise=noise).noise for noise in ([0.2, 0.2], [0.2, -0.2]))
    assert together == judged([8.6], noise=0.2).noise
    assert apart == pytest.approx(0, abs=1e-12)


def test_one_epoch_that_went_wrong_excuses_nothing():
    epochs = [{"epoch": n, "test_mse": 99.0 if n == 45 else 8.6} for n in range(50)]
    assert word([8.6, 8.6, 8.6], epochs=epochs) == "not reproduced"


def test_where_test_sets_are_drawn_anew_their_number_counts():
    assert word([8.3, 8.3, 8.3]) == "better"
    assert word([8.3, 8.3, 8.3], test_error=0.2) == "reproduced"


def test_where_test_sets_are_those_of_the_paper_only_what_is_left_out_of_them_counts():
    files = {"task": "point_cloud", "test_error": 0.1, "num_test": 2468}
    assert word([3.62, 3.62, 3.62], **files) == "not reproduced"
    assert word([3.62, 3.62, 3.62], released=3.63, **files) == "reproduced"  # 36 of 2,468: 2 * 0.1 * sqrt(2 * 0.0146) = 0.034
    assert word([3.62, 3.62, 3.62], released=3.65, **files) == "not reproduced"


def test_like_is_compared_with_like():
    assert word([9.0, 9.0, 9.0], released=8.45) == "reproduced"
    assert word([8.45, 8.45, 8.45], released=9.0) == "not reproduced"


def test_what_is_not_reproduced_says_by_how_much():
    entry = judged([8.5, 8.5, 8.5])
    assert str(judge(entry)) == f"not reproduced (off by 0.05, chance explains {allowance(entry).size:.2g})"
    assert str(judge(judged([8.0]))).startswith("better (off by 0.45, chance explains ")
    assert str(judge(judged([8.0]))).endswith(", 1 of 3 seeds)")


def test_pairs_are_those_that_the_paper_tells_apart_with_its_better_one_first():
    plan = plan_of("norms", only={"task": ["normal_var"]})
    figures = {"none": 8.0, "layer": 7.0, "set": 9.0}
    lines = [result(spec, figures[spec.model_options["norm"]]) for spec in published_data(plan)]
    entries = list(build_table(plan, lines).entries.values())
    # 8.4501 ± 0.0031 without, 8.4498 ± 0.0054 with layer norm, which is no difference, and 8.4433 ± 0.0011 with set norm
    assert told_apart(entries) == [("set", "none", False), ("set", "layer", False)]
    others = [replace(e, published={"mean": mean, "std": 0.01}) for e, mean in zip(entries, (3.25, 1.25, 2.25), strict=True)]
    assert told_apart(others) == [("layer", "none", True), ("set", "none", False), ("layer", "set", True)]
    assert told_apart([replace(entry, ours=None) for entry in others]) == []
    assert told_apart([others[0], replace(others[1], metric="accuracy")]) == [], "another metric"


def told_apart(entries):
    pairs = pairs_told_apart(entries)
    return [(pair.first.cell.settings["norm"], pair.second.cell.settings["norm"], pair.is_kept) for pair in pairs]


def test_what_made_the_margin_is_named():
    assert str(judge(judged([8.6, 8.6, 8.6], noise=0.2))) == "reproduced (off by 0.15, epochs differ by 0.42)"
    assert str(judge(judged([8.9, 8.9, 8.9], noise=0.2))) == "not reproduced (off by 0.45, epochs differ by 0.42)"


def test_where_chance_explains_nearly_everything_agreeing_is_said_to_say_little():
    scattered, apart = judged([5.0, 11.9]), judged([8.0, 8.9])
    assert str(judge(scattered)) == "reproduced (off by 0.0001, chance explains 6.9, which says little, 2 of 3 seeds)"
    assert "says little" not in str(judge(apart))


def test_more_is_better_where_it_is():
    plan = plan_of("main_results", only={"task": ["point_cloud"], "model": ["deep_sets"], "depth": ["3"]})
    for value, expected in ((0.9, "better"), (0.7, "not reproduced"), (0.7755, "reproduced")):
        changes = {"metrics": {"accuracy": value}, "epochs": [], "num_test": 640}
        lines = [{**result(spec), **changes} for spec in published_data(plan)]
        (entry,) = build_table(plan, lines).entries.values()
        assert judge(entry).word == expected


def test_fewer_seeds_and_diverged_runs_are_told():
    assert str(judge(judged([8.45, 8.45]))) == "reproduced (off by 0.0001, chance explains 0.0036, 2 of 3 seeds)"
    assert str(judge(judged([]))) == "not run"
    assert str(judge(judged([1.0, 1.0, 1.0], status="diverged"))) == "not reproduced (3 of 3 diverged)"
    assert str(judge(judged([1.0, 1.0], status="diverged"))) == "not reproduced (2 of 2 diverged, 2 of 3 seeds)"


def test_a_run_that_diverged_is_not_made_up_for_by_others():
    entry = judged([8.45, 8.45])
    assert str(judge(replace(entry, num_diverged=1))) == "not reproduced (1 of 3 diverged)"


def test_one_run_is_as_uncertain_as_the_published_ones_and_more_so_than_several():
    one, several = allowance(judged([8.45])).size, allowance(judged([8.4469, 8.4501, 8.4532])).size
    assert one == pytest.approx(2 * (0.0031**2 + 0.0031**2 / 3) ** 0.5 + 0.00005)
    assert one > several


def test_other_data_are_never_said_to_reproduce_anything():
    plan = plan_of("norms", only={"task": ["hematocrit"], "norm": ["none"]})
    (entry,) = build_table(plan, [result(spec, 25.879) for spec in plan.runs]).entries.values()
    assert str(judge(entry)) == "not testable here (simulated data)"


def test_without_a_published_figure_there_is_nothing_to_say():
    plan = plan_of("freq_add", only={"residual": ["freq_add"]})
    assert {judge(entry) for entry in build_table(plan, []).entries.values()} == {None}
