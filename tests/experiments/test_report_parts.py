"""Parts of reports: names, words, settings, curves and gradients (`naming.py`, `verdict.py`, `settings.py`, `curves.py`,
`health.py`)."""

import html
import json
import re
import shlex

import pytest
from experiments.lines import make_line, write_run

from orderless.experiments.report.curves import curves_part
from orderless.experiments.report.health import judge_run
from orderless.experiments.report.naming import listed, name_runs
from orderless.experiments.report.runs import read_run
from orderless.experiments.report.settings import command_for, settings_part
from orderless.experiments.report.verdict import Score, best, compare, differences
from orderless.experiments.sources import task_of
from orderless.experiments.spec import make_spec, parse_options


def runs_of(tmp_path, *lines):
    return [read_run(write_run(tmp_path / str(n), line)) for n, line in enumerate(lines)]


def test_names_tell_runs_apart_and_no_more(tmp_path):
    runs = runs_of(
        tmp_path,
        make_line(model="deep_sets", options={"depth": 3}),
        make_line(options={"norm": "layer"}),
        make_line(options={"learning_rate": 0.01}),
        make_line(options={"learning_rate": 0.001}),
    )
    names = name_runs(runs)
    assert [name.text for name in names] == [
        "Deep Sets 3",
        "Deep Sets++ 50, layer norm, learning rate 0.0001",
        "Deep Sets++ 50, set norm, learning rate 0.01",
        "Deep Sets++ 50, set norm, learning rate 0.001",
    ]
    assert [name.mark for name in names] == ["1", "2", "3", "4"]


def test_seeds_share_a_number_and_a_colour(tmp_path):
    lines = [make_line(options={"seed": seed, "depth": depth}) for depth in (3, 50) for seed in (0, 1)]
    names = name_runs(runs_of(tmp_path, *lines))
    assert [name.mark for name in names] == ["1a", "1b", "2a", "2b"]
    assert [name.place for name in names] == [0, 0, 1, 1]
    assert {name.text for name in names} == {"Deep Sets++ 3", "Deep Sets++ 50"}


def test_more_seeds_than_letters_still_have_marks_of_their_own(tmp_path):
    names = name_runs(runs_of(tmp_path, *(make_line(options={"seed": seed}) for seed in range(28))))
    assert [name.mark for name in names][25:] == ["1z", "1aa", "1ab"]


def test_lists_read_like_sentences():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


COMPARED = {
    "clearly lower": ((1.0, (0.9, 1.1)), (2.0, (1.8, 2.2)), "better than"),
    "clearly higher": ((3.0, (2.9, 3.1)), (2.0, (1.8, 2.2)), "worse than"),
    "overlapping": ((1.9, (1.7, 2.1)), (2.0, (1.8, 2.2)), "not clearly different from"),
    "no interval": ((1.0, None), (2.0, (1.8, 2.2)), "better than"),
}


@pytest.mark.parametrize(("mine", "other", "expected"), COMPARED.values(), ids=COMPARED.keys())
def test_a_score_is_better_only_where_intervals_are_apart(mine, other, expected):
    assert compare(Score("mine", *mine), Score("other", *other), "mse") == expected
    opposite = {"better than": "worse than", "worse than": "better than"}.get(expected, expected)
    assert compare(Score("mine", *mine), Score("other", *other), "accuracy") == opposite


def test_the_best_score_depends_on_the_metric():
    low, high = Score("low", 0.1), Score("high", 0.9)
    assert best([low, high], "mse") is low
    assert best([low, high], "accuracy") is high
    assert best([], "mse") is None


def test_the_papers_settings_differ_in_nothing():
    assert differences(make_spec("normal_var@exact", "deep_sets++")) == []
    assert differences(make_spec("mnist_var@mnist", "set_transformer", {"depth": 16, "norm": "layer", "seed": 2})) == []


OPTIONS = {
    "nothing": {},
    "network": {"depth": 10, "width": 8, "norm": "layer", "residual": "mean", "pool": "max", "eps": 1e-7},
    "training": {"epochs": 2, "learning_rate": 3e-5, "clip_norm": 1, "schedule": "cosine", "precision": "bf16-mixed", "seed": 7},
    "data": {"num_train": 64, "num_test": 32, "set_size": 20, "data_seed": 3},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_the_command_makes_the_same_run(options):
    spec = make_spec("normal_var@exact", "deep_sets++", options)
    words = shlex.split(" ".join(command_for(spec)))
    assert words[:3] == ["orderless", "train", "normal_var@exact"]
    settings = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
    seed = int(words[words.index("--seed") + 1]) if "--seed" in words else 0
    again = make_spec(words[2], words[words.index("--model") + 1], {**parse_options(settings), "seed": seed})
    assert again.key == spec.key
    assert len(settings) == len(options) - ("seed" in options), "what is as in the paper needs no saying"


def test_settings_say_which_runs_standardise(tmp_path):
    runs = runs_of(tmp_path, make_line(options={"standardize": True}), make_line())
    page = settings_part(list(zip(runs, name_runs(runs), strict=True)))
    lists, _, table = page.partition("<table>")
    assert "<dt>standardize</dt>" not in lists
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["run", "standardize"]


def test_settings_say_once_what_runs_share(tmp_path):
    runs = runs_of(tmp_path, make_line(options={"depth": 3}), make_line(options={"depth": 50, "clip_norm": 1.0}))
    page = settings_part(list(zip(runs, name_runs(runs), strict=True)))
    lists, _, table = page.partition("<table>")
    assert "<dt>width</dt><dd>128</dd>" in lists
    assert "<dt>commit</dt><dd>abc1234</dd>" in lists
    assert "<dt>depth</dt>" not in lists
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["run", "depth"]
    assert re.findall(r"<td>(.*?)</td>", table) == ["3", "50"]


def test_a_line_has_no_more_points_than_can_be_seen(tmp_path):
    (run,) = runs_of(tmp_path, make_line(epochs=100))
    assert len(run.steps) == 1000
    page = curves_part([(run, name_runs([run])[0])], task_of(run.spec), [])
    charts = [json.loads(html.unescape(found)) for found in re.findall(r'data-read="([^"]*)"', page)]
    points = [line["points"] for chart in charts if chart["x"] == "step" for line in chart["lines"]]
    assert [len(line) for line in points] == [200, 200]
    assert {(line[0][0], line[-1][0]) for line in points} == {(1, 1000)}, "the first and the last are among them"


def test_accuracies_that_rise_from_chance_have_a_linear_axis_and_losses_a_logarithmic_one(tmp_path):
    line = make_line("point_cloud@shapes", value=0.9)
    for n, row in enumerate(line["epochs"]):
        row |= {"test_accuracy": 0.9 if n else 0.01, "test_cross_entropy": 0.01 if n else 9.0}
    (run,) = runs_of(tmp_path, line)
    page = str(curves_part([(run, name_runs([run])[0])], task_of(run.spec), []))
    captions = {title: "Logarithmic scale." in rest for title, rest in re.findall(r"<b>(.*?)\.</b>(.*?)</figcaption>", page)}
    assert (captions["Test accuracy"], captions["Test cross entropy"]) == (False, True)


def test_gradients_that_nobody_looked_at_have_no_verdict(tmp_path):
    line = make_line()
    line["layers"] = None
    assert judge_run(runs_of(tmp_path, line)[0]) is None


def test_gradients_are_judged_before_training_and_over_time(tmp_path):
    (run,) = runs_of(tmp_path, make_line(slope=-6))
    first, whole = judge_run(run)
    assert first.verdict == "healthy"
    assert whole.verdict == "vanishing"
