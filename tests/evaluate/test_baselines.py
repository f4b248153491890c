"""Baselines: each beats the constant where it must, none sees test sets while it is fitted, and each row says what it is."""

import math
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from orderless import SetBatch
from orderless.evaluate import BASELINES, ElementChooser, baselines, evaluate_baselines, make_baseline
from orderless.evaluate.summaries import MomentSummary
from orderless.tasks.anemia import ANEMIA
from orderless.tasks.base import variant
from orderless.tasks.dataset import LabelledSets
from orderless.tasks.hematocrit import HEMATOCRIT
from orderless.tasks.normal_var import NORMAL_VAR

OBJECTIVES = {"regression": "mse", "classification": "accuracy", "element_choice": "accuracy"}
LEARNERS = ["moments", "moments_boosted", "mean_embedding"]


class Dataset:
    """What evaluation needs of a `SetDataset`, in memory."""

    def __init__(self, sets, target, columns=None):
        self.all, self.target, self.columns = list(sets), torch.as_tensor(target), columns or {}
        self.sizes = np.array([len(x) for x in self.all])
        self.passes = 0

    @property
    def raw(self):
        return self

    def __len__(self):
        return len(self.all)

    def __getitem__(self, key):
        rows = np.arange(len(self))[key]
        return LabelledSets(SetBatch.from_list([self.all[i] for i in rows]), self.target[rows])

    def batches(self, batch_size):
        self.passes += 1
        return (self[start : start + batch_size] for start in range(0, len(self), batch_size))


def make_data(objective, train, test, *, num_classes=2, **changes):
    task = variant(NORMAL_VAR, objective=objective, metric=OBJECTIVES[objective], **changes)
    return SimpleNamespace(task=task, train=train, test=test, out_features=num_classes)


def draw_regression(count, seed, *, dim=2):
    """Ragged sets whose target is their spread, and some noise."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(1, 3, count)
    sets = [50 + s * rng.normal(size=(rng.integers(60, 120), dim)) for s in spread]
    return Dataset(sets, torch.tensor(spread[:, None] + 0.05 * rng.normal(size=(count, 1)), dtype=torch.float32))


def draw_classes(count, seed):
    """Ragged sets of class 0, 1 or 2, which differ in shape: normal, uniform or two clusters, all of variance 1."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=count)
    draws = [lambda n: rng.normal(size=n), lambda n: rng.uniform(-(3**0.5), 3**0.5, n), lambda n: rng.choice([-1.0, 1.0], n)]
    return Dataset([draws[k](rng.integers(80, 120))[:, None] for k in kinds], kinds)


def draw_outliers(count, seed, *, dim=3, distance=6.0):
    """Ragged sets around centres of their own, one element of each pushed away in a random direction."""
    rng = np.random.default_rng(seed)
    sets, places = [], []
    for _ in range(count):
        x = 3 * rng.normal(size=dim) + rng.normal(size=(rng.integers(5, 12), dim))
        places.append(rng.integers(len(x)))
        direction = rng.normal(size=dim)
        x[places[-1]] += distance * direction / np.linalg.norm(direction)
        sets.append(x)
    return Dataset(sets, np.array(places))


DRAW = {"regression": draw_regression, "classification": draw_classes, "element_choice": draw_outliers}


def by_name(results):
    return {result.name: result for result in results}


def evaluate(objective, *, names=None, **options):
    draw = DRAW[objective]
    return by_name(
        evaluate_baselines(make_data(objective, draw(150, 0), draw(80, 1), num_classes=3), names, num_bootstrap=200, **options)
    )


# ------------------------------------------------------------------------------------------------ do they do their work


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


# ------------------------------------------------------------------------------------------------------- RDW and oracle


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
    scores = [
        baselines._Run(make_data(objective, train, d, num_classes=3), 0, None, [name]).scores(name)[0] for d in (half, both)
    ]
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
    run = baselines._Run(data, 0, None, ["moments", "moments_boosted"])
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
    assert told == [("Constant: looks at no set", 0, 2), ("Moments and quantiles, linear", 1, 2)]


# ------------------------------------------------------------------------------------------------ as plain estimators


@pytest.mark.parametrize("name", ["moments", "moments_boosted", "mean_embedding", "constant", "rdw"])
def test_a_baseline_goes_into_cross_validation_with_a_list_of_ragged_arrays(name):
    numbers, classes = draw_regression(90, 0), draw_classes(90, 0)
    r2 = cross_val_score(make_baseline(name, "regression"), numbers.all, numbers.target.numpy().ravel(), cv=3)
    positive = [x + 10 for x in classes.all]
    accuracy = cross_val_score(make_baseline(name, "classification"), positive, classes.target.numpy(), cv=3)
    if name == "constant":
        assert (r2 <= 0).all()
        assert (accuracy < 0.6).all()
    else:
        assert (r2 > 0.5).all()
        assert name == "rdw" or (accuracy > 0.8).all()  # the three shapes have one variance, so RDW cannot tell them


@pytest.mark.parametrize("name", ["moments", "moments_boosted", "mean_embedding", "constant"])
def test_an_element_chooser_goes_into_cross_validation(name):
    data = draw_outliers(120, 0, distance=10.0)
    accuracy = cross_val_score(make_baseline(name, "element_choice"), data.all, data.target.numpy(), cv=3)
    assert (accuracy > 0.8).all() if name != "constant" else (accuracy < 0.5).all()


@pytest.mark.parametrize("name", ["moments", "moments_boosted", "mean_embedding", "constant"])
def test_classes_have_probabilities(name):
    data = draw_classes(60, 0)
    model = make_baseline(name, "classification").fit(data.all, data.target.numpy())
    assert model.predict(data.all).shape == (60,)
    np.testing.assert_allclose(model.predict_proba(data.all).sum(1), 1, rtol=1e-9)
    assert make_baseline(name, "regression").fit(data.all, np.arange(60.0)).predict(data.all).shape == (60,)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["constant", *LEARNERS])
def test_estimators_can_be_cloned_and_pickled(name, objective):
    data = DRAW[objective](40, 0)
    y = data.target.numpy().ravel()
    model = clone(make_baseline(name, objective, random_state=5)).fit(data.all, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(data.all), model.predict(data.all))


def test_level_elements_are_chosen_by_chance_and_not_by_place():
    sets = [np.zeros((4, 1))] * 400
    guesses = make_baseline("constant", "element_choice").fit(sets, np.zeros(400, int)).predict(sets)
    # 400 guesses among 4 places: 100 each, standard deviation 8.7
    assert (abs(np.bincount(guesses, minlength=4) - 100) < 5 * 8.7).all()


# ------------------------------------------------------------------------------------------------------------- errors


def test_errors_say_what_was_expected():
    data = make_data("regression", draw_regression(20, 0), draw_regression(10, 1))
    with pytest.raises(ValueError, match="constant, rdw, moments"):
        make_baseline("momentum", "regression")
    with pytest.raises(ValueError, match="objective must be"):
        make_baseline("moments", "ranking")
    with pytest.raises(ValueError, match="which element is meant"):
        make_baseline("rdw", "element_choice")
    with pytest.raises(ValueError, match="got 'momentum'"):
        evaluate_baselines(data, ["momentum"])
    with pytest.raises(ValueError, match="max_train"):
        evaluate_baselines(data, max_train=0)
    with pytest.raises(ValueError, match="got 'patient'"):
        evaluate_baselines(data, groups="patient")


def test_an_empty_set_has_no_element_to_choose():
    chooser = make_baseline("moments", "element_choice")
    assert isinstance(chooser, ElementChooser)
    data = draw_outliers(20, 0)
    with pytest.raises(ValueError, match="1 empty set"):
        chooser.fit([*data.all, np.zeros((0, 3))], [*data.target.tolist(), 0])
    with pytest.raises(ValueError, match="1 empty set"):
        chooser.fit(data.all, data.target.numpy()).predict([data.all[0], np.zeros((0, 3))])
    with pytest.raises(ValueError, match="position within each"):
        chooser.fit(data.all, data.sizes)
