"""Scoring baselines: each beats the constant where it must, none sees test sets while it is fitted, none costs the others."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluate.drawn_tasks import DRAW, LEARNERS, OBJECTIVES, Dataset, draw_classes, draw_outliers, draw_regression, make_data

from orderless.evaluate import BASELINES, MomentSummary, evaluate_baselines, make_baseline, paired_difference, scoring
from orderless.tasks.anemia import ANEMIA
from orderless.tasks.hematocrit import HEMATOCRIT
from orderless.tasks.normal_var import NORMAL_VAR


def by_name(results):
    return {result.name: result for result in results}


def evaluate(objective, *, names=None, **options):
    draw = DRAW[objective]
    return by_name(
        evaluate_baselines(make_data(objective, draw(150, 0), draw(80, 1), num_classes=3), names, num_bootstrap=200, **options)
    )


# ----------------------------------------------------------------------------------------------- do they do their work


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_learner_beats_the_constant_where_there_is_something_to_learn(objective):
    results = evaluate(objective)
    assert list(results) == list(BASELINES)
    for name in LEARNERS:
        assert results[name].gain_low > 0, results[name]
        assert results[name].low <= results[name].value <= results[name].high
        assert results[name].metric == OBJECTIVES[objective]
        assert (results[name].num_train, results[name].num_test) == (150, 80)
        assert results[name].seconds > 0
    constant = results["constant"]
    assert constant.gain == constant.gain_low == constant.gain_high == 0


def test_normal_var_is_solved_by_the_second_moment(tmp_path):
    data = NORMAL_VAR.load(num_train=300, num_test=100, set_size=200, cache_dir=tmp_path)
    results = by_name(evaluate_baselines(data, ["constant", "moments", "moments_boosted"], num_bootstrap=200))
    y = data.train.target.double()
    wanted = (data.test.target.double() - y.mean()).square().mean().item()
    assert results["constant"].value == pytest.approx(wanted, rel=1e-9)  # float64 throughout
    for name in ("moments", "moments_boosted"):
        assert results[name].value < 0.1 * wanted
        assert results[name].gain == pytest.approx(wanted - results[name].value, rel=1e-9)


def test_the_constant_is_the_most_frequent_class():
    train, test = draw_classes(90, 0), draw_classes(60, 1)
    train.target[:50] = 2
    (constant,) = evaluate_baselines(make_data("classification", train, test, num_classes=3), ["constant"])
    assert constant.value == pytest.approx((test.target == 2).double().mean().item())


def test_a_blind_guess_is_right_once_in_as_many_times_as_there_are_elements():
    test = draw_outliers(40, 1)
    (constant,) = evaluate_baselines(make_data("element_choice", draw_outliers(30, 0), test), ["constant"])
    assert constant.value == pytest.approx((1 / test.sizes).mean(), rel=1e-6)  # the objective shares ties in float32
    assert constant.title == "Blind guess: looks at no set"


def test_a_far_outlier_is_always_found():
    train, test = draw_outliers(100, 0, distance=40.0), draw_outliers(50, 1, distance=40.0)
    for result in evaluate_baselines(make_data("element_choice", train, test), ["moments", "moments_boosted"]):
        assert result.value == 1.0


def test_a_class_that_no_training_set_has_is_never_predicted():
    train, test = draw_classes(90, 0), draw_classes(60, 1)
    kept = train.target.numpy() != 1
    train = Dataset([x for x, k in zip(train.all, kept, strict=True) if k], train.target[kept])
    data = make_data("classification", train, test, num_classes=3)
    (result,) = evaluate_baselines(data, ["moments"])
    assert result.value <= (test.target != 1).double().mean().item()


def test_cross_entropy_can_be_the_metric():
    data = make_data("classification", draw_classes(90, 0), draw_classes(60, 1), num_classes=3)
    data.task = replace(data.task, metric="cross_entropy")
    constant, moments = evaluate_baselines(data, ["constant", "moments"])
    shares = torch.bincount(data.train.target) / 90
    assert constant.value == pytest.approx(-shares.log()[data.test.target].mean().item(), rel=1e-5)  # float32 here
    assert moments.gain_low > 0  # lower is better, a gain is still above 0


def test_several_targets_are_fitted_one_by_one():
    train, test = draw_regression(60, 0), draw_regression(40, 1)
    singles = evaluate_baselines(make_data("regression", train, test), [*LEARNERS])
    for data in (train, test):
        data.target = data.target.repeat(1, 2)
    doubles = evaluate_baselines(make_data("regression", train, test), [*LEARNERS])
    for single, double in zip(singles, doubles, strict=True):
        assert double.value == pytest.approx(single.value, rel=1e-9)  # the same target twice: the mean of equal errors


# ------------------------------------------------------------------------------------------------------ RDW and oracle


def test_rdw_is_skipped_with_a_reason_where_there_are_no_volumes():
    rdw = evaluate("regression", names=["rdw"])["rdw"]
    assert "no volume of red cells" in rdw.skipped
    assert math.isnan(rdw.value)
    assert math.isnan(rdw.gain)
    assert "which element" in evaluate("element_choice", names=["rdw"])["rdw"].skipped


def test_rdw_is_skipped_where_volumes_were_standardised():
    train, test = draw_regression(40, 0), draw_regression(20, 1)
    train.all = [x - 50 for x in train.all]
    data = make_data("regression", train, test, units=("volume (fL)", "hemoglobin (pg)"))
    (rdw,) = evaluate_baselines(data, ["rdw"])
    assert "own units" in rdw.skipped


def test_simulated_blood_has_rdw_and_a_ceiling(tmp_path):
    data = HEMATOCRIT.load(source="simulated", num_train=400, num_test=300, set_size=100, cache_dir=tmp_path)
    results = by_name(evaluate_baselines(data, num_bootstrap=200))
    assert list(results) == [*BASELINES, "oracle"]
    assert all(result.skipped is None for result in results.values())
    oracle = results["oracle"]
    error = (data.test.target[:, 0].double().numpy() - data.test.columns["oracle"].astype(np.float64)) ** 2
    assert oracle.value == pytest.approx(error.mean(), rel=1e-9)
    assert "ceiling" in oracle.title
    assert oracle.num_train == 0
    assert oracle.gain > max(results[name].gain for name in BASELINES)
    volumes = data.train.raw[:].sets.x[:, 0].reshape(400, 100).double().numpy()
    rdw = 100 * volumes.std(1) / volumes.mean(1)
    slope, intercept = np.polyfit(rdw, data.train.target[:, 0].double().numpy(), 1)
    volumes = data.test.raw[:].sets.x[:, 0].reshape(300, 100).double().numpy()
    wanted = (data.test.target[:, 0].double().numpy() - slope * 100 * volumes.std(1) / volumes.mean(1) - intercept) ** 2
    assert results["rdw"].value == pytest.approx(wanted.mean(), rel=1e-8)  # least squares, solved in another way


def test_the_oracle_of_two_classes_takes_the_likelier_one(tmp_path):
    data = ANEMIA.load(source="simulated", num_train=300, num_test=200, set_size=50, cache_dir=tmp_path)
    results = by_name(evaluate_baselines(data, ["constant", "rdw", "oracle"], num_bootstrap=200))
    likelier = (data.test.columns["oracle"] > 0.5) == data.test.columns["target"]
    assert results["oracle"].value == pytest.approx(likelier.mean())
    assert results["rdw"].skipped is None


def test_an_oracle_that_is_asked_for_in_vain_says_so():
    assert "simulated" in evaluate("regression", names=["oracle"])["oracle"].skipped
    test = draw_classes(20, 1)
    test.columns["oracle"] = np.full(20, 0.5)
    (oracle,) = evaluate_baselines(make_data("classification", draw_classes(30, 0), test, num_classes=3), ["oracle"])
    assert "two classes" in oracle.skipped


# -------------------------------------------------------------------------------------------------------- how they run


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_seed_decides_everything(objective):
    first, second = (evaluate(objective, seed=3, max_train=60) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", LEARNERS)
def test_test_sets_do_not_touch_what_is_fitted(objective, name):
    draw = DRAW[objective]
    train, test, other = draw(60, 0), draw(20, 1), draw(20, 2)
    for x in other.all:
        x *= 100.0
    model = make_baseline(name, objective).fit(train.all, train.target.numpy().ravel())
    first = model.predict(test.all)
    model.predict(other.all)
    np.testing.assert_array_equal(model.predict(test.all), first)
    # and in an evaluation: a set's score is the same whatever other sets are in the test split
    half = Dataset(test.all[:10], test.target[:10])
    both = Dataset([*half.all, *other.all], torch.cat([half.target, other.target]))
    scores = [scoring._Run(make_data(objective, train, d, num_classes=3), 0, None, [name]).scores(name)[0] for d in (half, both)]
    # sums in batches of other sizes, float32 in the embedding: 1e-5 of a logit moves no choice here
    np.testing.assert_allclose(scores[1][:10], scores[0], rtol=1e-3, atol=1e-5)


def test_rows_are_made_once_for_baselines_that_share_them(monkeypatch):
    made = []
    original = MomentSummary._rows
    fitted = MomentSummary.fit_transform
    monkeypatch.setattr(MomentSummary, "_rows", lambda self, sets: (made.append("rows"), original(self, sets))[1])
    monkeypatch.setattr(MomentSummary, "fit_transform", lambda self, sets: (made.append("fit"), fitted(self, sets))[1])
    results = evaluate("regression", names=["moments", "mean_embedding", "moments_boosted"])
    assert made == ["fit", "rows"]
    assert all(result.seconds > 0 for result in results.values())


def test_rows_are_let_go_when_nobody_needs_them_any_more():
    data = make_data("regression", draw_regression(30, 0), draw_regression(20, 1))
    run = scoring._Run(data, 0, None, ["moments", "moments_boosted"])
    run.scores("moments")
    assert len(run._rows) == 1
    run.scores("moments_boosted")
    assert not run._rows


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_fewer_training_sets_may_be_used(objective):
    results = evaluate(objective, names=["constant", "moments"], max_train=40)
    assert results["moments"].num_train == 40
    assert evaluate(objective, names=["moments"], max_train=10_000)["moments"].num_train == 150


def test_a_dataset_on_disk_may_be_cut_too(tmp_path):
    data = NORMAL_VAR.load(num_train=60, num_test=20, set_size=30, cache_dir=tmp_path)
    (result,) = evaluate_baselines(data, ["moments"], max_train=40)
    assert result.num_train == 40


def test_test_sets_that_belong_together_are_drawn_together():
    data = make_data("regression", draw_regression(60, 0), draw_regression(20, 1))
    data.test.all, data.test.target = data.test.all * 4, data.test.target.repeat(4, 1)
    data.test.sizes, data.test.columns = np.tile(data.test.sizes, 4), {"patient": np.tile(np.arange(20), 4)}
    (alone,) = evaluate_baselines(data, ["constant"])
    (grouped,) = evaluate_baselines(data, ["constant"], groups="patient")
    # each of 20 patients counted 4 times: half the standard error that there is, unless patients are drawn
    assert (grouped.high - grouped.low) / (alone.high - alone.low) == pytest.approx(2, rel=0.15)


def test_progress_is_told_of_each_baseline():
    told = []
    evaluate("regression", names=["constant", "moments"], progress=lambda *said: told.append(said))
    assert told == [("Constant: looks at no set", 1, 2), ("Moments and quantiles, linear", 2, 2)]


def test_a_baseline_that_is_named_twice_runs_once():
    told = []
    results = evaluate("regression", names=["moments", "constant", "moments"], progress=lambda *said: told.append(said))
    assert list(results) == ["moments", "constant"]
    assert [said[1:] for said in told] == [(1, 2), (2, 2)]


# ------------------------------------------------------------------------------------------------- what a result holds


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scores_are_those_of_each_test_set_and_can_be_paired(objective):
    results = evaluate(objective)
    ours, constant = results["moments"], results["constant"]
    assert ours.scores.shape == (80,)
    assert ours.scores.mean() == pytest.approx(ours.value)
    better, worse = (constant, ours) if ours.metric == "mse" else (ours, constant)
    difference = paired_difference(better.scores, worse.scores, num_samples=200)
    assert (difference.value, difference.low, difference.high) == (ours.gain, ours.gain_low, ours.gain_high)


def test_scores_follow_the_order_of_the_test_sets():
    train, test = draw_regression(60, 0), draw_regression(20, 1)
    order = np.random.default_rng(0).permutation(20)
    turned = Dataset([test.all[i] for i in order], test.target[order])
    first, second = (evaluate_baselines(make_data("regression", train, d), ["moments"])[0].scores for d in (test, turned))
    np.testing.assert_allclose(second, first[order], rtol=1e-9)  # linear models in float64


def test_scores_are_neither_compared_nor_shown():
    result = evaluate("regression", names=["moments"])["moments"]
    other = replace(result, scores=result.scores + 1)
    assert other == result
    assert hash(other) == hash(result)
    assert "scores" not in repr(result)


def test_a_result_goes_into_json():
    results = evaluate("regression", names=["moments", "rdw"])
    moments, rdw = (json.loads(json.dumps(result.as_json(), allow_nan=False)) for result in results.values())
    assert moments["value"] == results["moments"].value
    assert moments["skipped"] is None
    assert moments["num_test"] == 80
    assert rdw["value"] is rdw["gain_high"] is None
    assert rdw["skipped"] == results["rdw"].skipped
    assert "scores" not in moments
    assert results["rdw"].scores is None


# -------------------------------------------------------------------------------------------- too little to learn from


VOLUMES = {"units": ("volume (fL)", "hemoglobin (pg)")}
ONE_CLASS, ONE_SET = "all training sets are of one class", "one training set"
ONE_ELEMENT, NO_ELEMENT = "every training set has one element", "no training set has an element"


def sets_of(sizes, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    return [50 + rng.normal(size=(n, dim)) for n in sizes]


def same_sets(count, seed=0, dim=2):
    """One set again and again, its elements in another order."""
    (x,) = sets_of([150], 7, dim)
    return [x[np.random.default_rng([seed, n]).permutation(150)] for n in range(count)]


def label(objective, sets, seed=0):
    rng = np.random.default_rng(seed)
    if objective == "regression":
        return torch.tensor(rng.normal(size=(len(sets), 1)), dtype=torch.float32)
    if objective == "classification":
        return np.arange(len(sets)) % 3 % 2  # two of three are of class 0
    return np.array([rng.integers(max(len(x), 1)) for x in sets])


def run_all(objective, train, test, target=None):
    """Every baseline gives a number or a reason. Warnings are errors here."""
    data = make_data(
        objective,
        Dataset(train, label(objective, train) if target is None else target),
        Dataset(test, label(objective, test, 1)),
        **VOLUMES,
    )
    results = evaluate_baselines(data, num_bootstrap=20)
    assert list(by_name(results)) == list(BASELINES)
    for result in results:
        assert (result.skipped is None) == math.isfinite(result.value)
        assert result.skipped is None or not result.skipped.endswith(".")
    return by_name(results)


def reasons(results):
    """Of the learners, and of RDW where it is one."""
    return [results[name].skipped for name in ("rdw", *LEARNERS) if "which element" not in (results[name].skipped or "")]


@pytest.mark.parametrize(
    ("objective", "sizes", "reason"),
    [
        ("regression", [9], ONE_SET),
        ("classification", [9], ONE_CLASS),
        ("element_choice", [1], ONE_ELEMENT),
        ("element_choice", [1, 1, 1, 0], ONE_ELEMENT),
        ("regression", [0, 0, 0], NO_ELEMENT),
        ("classification", [0, 0, 0], NO_ELEMENT),
    ],
)
def test_what_cannot_be_learnt_is_skipped_with_a_reason_and_the_constant_stays(objective, sizes, reason):
    results = run_all(objective, sets_of(sizes), sets_of([5, 6, 7], 1))
    assert results["constant"].skipped is None
    assert all(skipped.startswith(reason) for skipped in reasons(results))


def test_a_baseline_that_is_skipped_is_skipped_alone_too():
    train, test = Dataset(sets_of([9]), label("regression", [None])), Dataset(sets_of([5, 6], 1), label("regression", [None] * 2))
    (moments,) = evaluate_baselines(make_data("regression", train, test), ["moments"])
    assert moments.skipped.startswith(ONE_SET)
    assert moments.num_train == 0


def test_one_class_among_many_training_sets_is_one_class():
    train, test = sets_of([5] * 12), sets_of([5, 6, 7], 1)
    results = run_all("classification", train, test, np.ones(12, dtype=np.int64))
    assert results["constant"].value == pytest.approx((label("classification", test) == 1).mean())
    assert all(skipped.startswith(ONE_CLASS) for skipped in reasons(results))


def test_one_target_of_all_training_sets_is_predicted():
    results = run_all("regression", sets_of([5] * 30), sets_of([5, 6, 7], 1), torch.ones(30, 1))
    for name in BASELINES:
        assert results[name].value == pytest.approx(results["constant"].value)


ENOUGH = {
    "two sets": ([9, 8], [5, 6, 7]),
    "fewer sets than columns": ([9, 8, 4, 6], [5, 6, 7]),
    "one test set": ([9] * 12, [5]),
    "one element for testing": ([9] * 12, [1, 1]),
    "one element for some": ([9, 1] * 6, [4, 1, 3]),
    "empty sets": ([5, 0] * 6, [4, 1, 3]),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dim", [2, 101], ids=["features", "components"])
@pytest.mark.parametrize(("train", "test"), ENOUGH.values(), ids=ENOUGH.keys())
def test_little_is_enough(objective, dim, train, test):
    results = run_all(objective, sets_of(train, dim=dim), sets_of(test, 1, dim))
    assert not any(reasons(results))
    assert results["moments"].num_train == (np.count_nonzero(train) if objective == "element_choice" else len(train))


@pytest.mark.parametrize("objective", ["regression", "classification"])
@pytest.mark.parametrize("train", [[1] * 12, [5] * 12], ids=["one element", "five"])
def test_sets_of_one_element_and_empty_test_sets_are_sets(objective, train):
    results = run_all(objective, sets_of(train), sets_of([4, 0, 1], 1))
    assert not any(reasons(results))


@pytest.mark.parametrize("objective", ["regression", "classification"])
def test_linear_models_predict_for_empty_sets_what_they_predict_on_average(objective):
    results = run_all(objective, sets_of([5] * 12), sets_of([0, 0, 0], 1))
    for name in ("rdw", "moments", "mean_embedding"):
        assert results[name].value == pytest.approx(results["constant"].value)


def test_no_element_can_be_chosen_from_an_empty_test_set():
    results = run_all("element_choice", sets_of([5] * 12), sets_of([4, 0, 3], 1))
    for name in ("constant", *LEARNERS):
        assert results[name].skipped.startswith("1 test set is empty")
    assert run_all("element_choice", sets_of([5] * 12), sets_of([0, 0], 1))["constant"].skipped.startswith("2 test sets are")


def test_no_element_can_be_learnt_from_empty_training_sets():
    results = run_all("element_choice", sets_of([0] * 4), sets_of([4, 3], 1))
    assert {results[name].skipped for name in ("constant", *LEARNERS)} == {NO_ELEMENT}


@pytest.mark.parametrize("metric", ["cross_entropy", "mse"])
@pytest.mark.parametrize("dim", [2, 101], ids=["features", "components"])
@pytest.mark.parametrize("test", [same_sets, lambda count, seed, dim: sets_of([20] * count, seed, dim)], ids=["same", "other"])
def test_sets_that_do_not_differ_teach_no_more_than_a_constant(metric, dim, test):
    objective = "regression" if metric == "mse" else "classification"
    train = same_sets(20, 0, dim)
    data = make_data(objective, Dataset(train, label(objective, train)), None, **VOLUMES)
    data.test = Dataset(test(6, 1, dim), label(objective, [None] * 6, 1))
    data.task = replace(data.task, metric=metric)
    for result in evaluate_baselines(data, num_bootstrap=20):
        # float32 sums in another order differ by 1e-8, of which a ridge of 1e-6 makes up to 1e-3
        assert result.gain == pytest.approx(0, abs=2e-3), result


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dim", [2, 101], ids=["features", "components"])
def test_features_that_never_vary_teach_no_more_than_a_constant(objective, dim):
    results = run_all(objective, [np.full((5, dim), 7.1)] * 12, sets_of([4, 1, 3], 1, dim))
    assert not any(reasons(results))
    if objective != "element_choice":
        for name in ("moments", "moments_boosted", "rdw"):
            assert results[name].gain == pytest.approx(0)


def test_elements_that_are_all_alike_are_chosen_between_by_chance():
    rng = np.random.default_rng(0)
    train, test = ([np.repeat(rng.normal(size=(1, 3)), n, 0) for n in (2, 5, 9, 30, 4)] for _ in range(2))
    results = run_all("element_choice", train, test)
    for name in ("constant", *LEARNERS):
        assert results[name].value == pytest.approx(np.mean([1 / len(x) for x in test]), rel=1e-6)  # shared in float32


# -------------------------------------------------------------------------------------------------------------- errors


def test_errors_say_what_was_expected():
    data = make_data("regression", draw_regression(20, 0), draw_regression(10, 1))
    with pytest.raises(ValueError, match="got 'momentum'"):
        evaluate_baselines(data, ["momentum"])
    with pytest.raises(ValueError, match=r"constant, rdw, moments, .* and oracle; got none"):
        evaluate_baselines(data, [])
    with pytest.raises(ValueError, match="max_train"):
        evaluate_baselines(data, max_train=0)
    with pytest.raises(ValueError, match="got 'patient'"):
        evaluate_baselines(data, groups="patient")
    none = Dataset([], torch.zeros(0, 1))
    with pytest.raises(ValueError, match="at least one test set"):
        evaluate_baselines(make_data("regression", data.train, none))
    with pytest.raises(ValueError, match="at least one training set"):
        evaluate_baselines(make_data("regression", none, data.test))
