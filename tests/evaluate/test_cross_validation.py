"""Cross-validation: same folds for all, nothing of a test group in training, failures told, the same seed the same figures.

Also what it is summed up by (`contenders.py`).
"""

import json

import numpy as np
import pytest
import torch
from evaluate.grouped_sets import (
    OF_THE_MACHINE,
    Hindered,
    MeanClassifier,
    MeanRegressor,
    draw_patients,
    evaluate_numbers,
    evaluate_patients,
)
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from orderless import SetBatch, SetClassifier
from orderless.evaluate import Fold, MomentSummary, cross_validate, folds_by_hand
from orderless.io import MemorySets, Samples

SETS, CLASSES, PATIENT = draw_patients()
BASELINES = ["constant", "moments", "moments_tuned", "moments_boosted", "mean_embedding"]


class Memory(ClassifierMixin, BaseEstimator):
    """Knows by heart every set that it was fitted to, and guesses for the others."""

    def fit(self, sets, y):
        self.classes_ = np.unique(y)
        self.known_ = {x.tobytes(): label for x, label in zip(sets, y, strict=True)}
        return self

    def predict_proba(self, sets):
        found = [self.known_.get(x.tobytes()) for x in sets]
        return np.array([[0.5, 0.5] if label is None else (self.classes_ == label).astype(float) for label in found])

    def predict(self, sets):
        return self.classes_[self.predict_proba(sets).argmax(1)]


def run(models, sets=SETS, y=CLASSES, **options):
    options = {"objective": "classification", "num_folds": 3, "num_bootstrap": 30, **options}
    return cross_validate(models, sets, y, **options)


def test_models_and_baselines_are_tested_on_the_same_folds_and_every_set_once():
    found = evaluate_patients(num_repeats=2)
    assert list(found.models) == ["mean", *BASELINES]
    assert found.fold_numbers.shape == (2, 24)
    for model in found.models.values():
        assert model.output.shape == (2, 24, 2)
        assert not model.failures
        np.testing.assert_allclose(model.output.sum(2), 1)
    assert found.models["mean"].metrics["accuracy"].value > 0.7
    assert found.models["constant"].metrics["roc_auc"].value == 0.5
    assert found.notes == ()


def test_no_model_is_tested_on_a_set_that_it_was_fitted_to():
    assert run({"memory": Memory()}).models["memory"].metrics["roc_auc"].value == 0.5


def test_a_model_sees_nothing_of_the_groups_it_is_tested_on():
    """A model that knows its groups' classes by heart would be perfect if a group straddled."""
    MeanClassifier.seen.clear()
    found = run({"mean": MeanClassifier()}, groups=PATIENT, covariates=np.arange(24), sample_weight=np.arange(24.0))
    for fold, seen in zip(found.folds, MeanClassifier.seen, strict=True):
        assert not set(seen["groups"].tolist()) & set(PATIENT[fold.test].tolist())
        np.testing.assert_array_equal(seen["groups"], PATIENT[fold.train])
        np.testing.assert_array_equal(seen["covariates"][:, 0], fold.train)
        np.testing.assert_array_equal(seen["weight"], fold.train)


def test_every_form_of_sets_gives_the_same_figures():
    dense = np.random.default_rng(0).normal(size=(24, 5, 2)).astype(np.float32) + (PATIENT % 2)[:, None, None]
    objects = np.empty(24, dtype=object)
    objects[:] = list(dense)
    forms = [
        objects,
        torch.from_numpy(dense),
        SetBatch.from_list(list(dense)),
        Samples(MemorySets(list(dense)), tuple(f"S{n}" for n in range(24)), ("a", "b")),
    ]
    model = {"logistic": make_pipeline(MomentSummary(), LogisticRegression())}
    wanted = run(model, dense, groups=PATIENT)
    for form in forms:
        found = run(model, form, groups=PATIENT)
        assert found.sizes.tolist() == [5] * 24
        for name in wanted.models:
            # float32 elements summed in other batches, then a few hundred steps of a solver
            np.testing.assert_allclose(found.models[name].output, wanted.models[name].output, atol=1e-4)


def test_the_same_seed_gives_the_same_figures_and_another_does_not():
    first, again, other = evaluate_patients(seed=1), evaluate_patients(seed=1), evaluate_patients(seed=2)

    def figures(found):
        return [{**model, "seconds": 0} for model in found.as_json(predictions=True)["models"]]

    assert figures(first) == figures(again)
    assert figures(first) != figures(other)


def test_a_model_that_fails_in_a_fold_is_told_and_the_others_go_on():
    found = run({"lost": MeanClassifier(fail_without=3), "mean": MeanClassifier()}, groups=PATIENT)
    lost = found.models["lost"]
    (failure,) = lost.failures
    assert failure.reason == "RuntimeError: lost its way"
    failed = found.folds[failure.fold]
    assert 3 in PATIENT[failed.test]
    assert np.isnan(lost.output[0, failed.test]).all()
    assert np.isfinite(lost.output[0, failed.train]).all()
    # on the sets that both predicted they are the same model
    assert lost.metrics["accuracy"].over_constant is not None
    mean = found.models["mean"].output[0, failed.train]
    np.testing.assert_array_equal(lost.output[0, failed.train], mean)
    assert "lost failed in 1 of 3 folds, so its figures are of the other sets alone: RuntimeError: lost its way" in found.table()


def test_a_gain_over_a_model_that_failed_somewhere_is_of_the_sets_both_predicted():
    found = run({"lost": MeanClassifier(fail_without=3)}, groups=PATIENT)
    known = np.isfinite(found.models["lost"].output[0]).all(1)
    right = {name: (found.models[name].output[0].argmax(1) == found.target)[known].mean() for name in ("lost", "constant")}
    gain = found.models["lost"].metrics["accuracy"].over_constant
    assert gain.value == pytest.approx(right["lost"] - right["constant"])


def test_a_baseline_that_failed_in_a_fold_is_not_the_best_one():
    rng = np.random.default_rng(5)
    ill = (np.arange(30) < 3).astype(int)  # of two folds, one has two ill sets, and its training part a single one
    sets = [rng.normal(one, 1, (6, 2)) for one in ill]
    found = cross_validate({}, sets, ill, objective="classification", num_folds=2)
    assert len(found.models["moments_tuned"].failures) == 1
    assert "moments_tuned" not in found.best_baseline.values()
    assert found.models["moments_tuned"].metrics["accuracy"].over_best is not None


def test_a_model_that_always_fails_has_no_figures_and_a_reason():
    found = run({"lost": MeanClassifier(fail_without=99)}, groups=PATIENT)
    assert np.isnan(found.models["lost"].metrics["accuracy"].value)
    assert len(found.models["lost"].failures) == 3
    assert "n/a" in found.table()
    json.dumps(found.as_json(predictions=True), allow_nan=False)


def test_an_interrupt_stops_everything():
    class Interrupted(MeanClassifier):
        def fit(self, sets, y):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run({"stop": Interrupted()})


@pytest.mark.parametrize("error", OF_THE_MACHINE.values(), ids=OF_THE_MACHINE.keys())
def test_an_error_of_the_machine_is_raised_and_is_no_failure_of_a_model(error):
    with pytest.raises(type(error)) as raised:
        run({"hindered": Hindered(error)})
    assert str(raised.value) == str(error)


def test_parameters_are_chosen_inside_each_fold_and_written_down():
    found = run({"mean": MeanClassifier()}, groups=PATIENT, grids={"mean": {"slope": [-3.0, 3.0]}}, inner_folds=2)
    assert [dict(chosen) for chosen in found.models["mean"].chosen] == [{"slope": 3.0}] * 3
    assert found.models["mean"].metrics["accuracy"].value > 0.7
    assert found.as_json()["models"][0]["chosen"] == [{"slope": 3.0}] * 3


def test_a_split_by_hand_tests_what_it_says_and_refuses_a_group_on_both_sides():
    column = np.where(PATIENT < 6, "train", "test")
    found = run({"mean": MeanClassifier()}, groups=PATIENT, folds=folds_by_hand(column))
    assert np.isnan(found.models["mean"].output[0, PATIENT < 6]).all()
    assert np.isfinite(found.models["mean"].output[0, PATIENT >= 6]).all()
    with pytest.raises(ValueError, match="group 0 is in both train and test"):
        run({}, groups=PATIENT, folds=folds_by_hand(np.where(np.arange(24) < 1, "train", "test")))


def test_numbers_are_predicted_one_or_several():
    one, two = evaluate_numbers(), evaluate_numbers(2)
    assert one.target.shape == (24, 1)
    assert one.models["mean"].metrics["r2"].value == pytest.approx(two.models["mean"].metrics["r2"].value)
    assert two.models["moments"].output.shape == (1, 24, 2)


def test_a_class_that_a_training_part_lacks_gets_probability_zero_and_a_note():
    y = CLASSES.astype(object)
    y[0] = "rare"
    found = run({"logistic": make_pipeline(MomentSummary(), LogisticRegression())}, y=y)
    assert found.classes.tolist() == ["ill", "rare", "well"]
    assert found.models["logistic"].output[0, 0, 1] == 0
    assert any("no set of class rare" in note for note in found.notes)


def test_fewer_folds_possible_leaks_and_deaf_models_are_noted():
    sets = [*SETS[:-1], SETS[0][::-1].copy()]
    svm = make_pipeline(MomentSummary(), LinearSVC())
    found = run({"svm": svm}, sets, groups=PATIENT // 3, covariates=np.arange(24), num_folds=5)
    assert found.notes[0].startswith("2 folds instead of 5") or found.notes[0].startswith("4 folds instead of 5")
    assert "Possible leak: sets with the same elements, in different groups: 0 and 23" in found.notes[1]
    assert len(found.models["svm"].notes) == 2
    assert np.isnan(found.models["svm"].metrics["roc_auc"].value)
    assert found.models["svm"].metrics["accuracy"].value > 0
    assert "covariates" in found.models


def test_a_model_that_gives_no_answers_fails_with_its_reason_and_has_no_figures():
    class Scores(MeanClassifier):
        def predict_proba(self, sets, covariates=None):
            return 9 * super().predict_proba(sets)

    class Words(LinearSVC):
        def predict(self, X):  # noqa: N803 - as scikit-learn calls it
            return np.array(["perhaps"] * len(X))

    found = run({"scores": Scores(), "words": make_pipeline(MomentSummary(), Words())})
    for name, reason in (("scores", "predict_proba must give prob"), ("words", "predict must give classes of the data, 'ill'")):
        model = found.models[name]
        assert len(model.failures) == 3
        assert model.failures[0].reason.startswith(f"ValueError: {reason}")
        assert all(np.isnan(score.value) for score in model.metrics.values())
    assert found.models["moments"].metrics["accuracy"].value > 0


def test_sets_and_groups_that_may_be_there_under_two_names_are_noted():
    names = [f"{'sS'[n % 2]}{n // 2}" for n in range(24)]
    samples = Samples(MemorySets(SETS), tuple(names), tuple(f"f{n}" for n in range(SETS[0].shape[1])))
    notes = run({}, samples, groups=None).notes
    assert any(note.startswith("Possible leak: 12 samples may be there under two names: 's0' and 'S0'") for note in notes)
    groups = [f"p{'-_'[n % 2]}{n // 2}" for n in range(24)]
    found = run({}, SETS, groups=groups)
    assert any(note.startswith("Possible leak: 12 groups may be there under two names: 'p-0'") for note in found.notes)
    assert found.notes[-1] in found.as_json()["notes"]


def test_progress_counts_every_fit():
    said = []
    evaluate_patients(progress=lambda *args: said.append(args))
    assert [(number, count) for _, number, count in said] == [(n, 18) for n in range(1, 19)]
    assert said[0][0] == "mean"


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"moments": MeanClassifier()}, {}, "moments is the name of a baseline"),
        ({"x": 3}, {}, "must be an estimator with fit, predict and get_params, got int"),
        ({"x": SetClassifier(work_dir="here")}, {}, "'x' has a work_dir, which holds one fit; cross-validation fits many"),
        ({"x": make_pipeline(SetClassifier(work_dir="here"))}, {}, "'x' has a work_dir"),
        ({}, {"grids": {"y": {"a": [1]}}}, "grids must be for the models"),
        ({"x": MeanClassifier()}, {"grids": {"x": {"width": [1]}}}, "x has no parameter width"),
        ({}, {"inner_folds": 3}, "choose parameters from grids, but there are none"),
        ({"x": MeanClassifier()}, {"grids": {"x": {"slope": [1]}}, "inner_folds": 1}, "inner_folds must be 2 or more"),
        ({}, {"num_bootstrap": 0}, "num_bootstrap must be 1 or more"),
        ({}, {"confidence": 95}, "confidence must lie between 0 and 1"),
        ({}, {"folds": []}, "at least one split"),
        ({}, {"folds": [Fold(np.arange(3), np.arange(30, 40))]}, "some of the sets 0 to 23"),
        ({}, {"folds": [Fold(np.arange(12), np.arange(12, 24))] * 2}, "tested twice in one repeat"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_fitted(models, options, message):
    with pytest.raises(ValueError, match=message):
        run(models, **options)


def test_regression_beside_the_baselines():
    found = evaluate_numbers(num_repeats=2)
    assert list(found.models) == ["mean", *BASELINES]
    assert found.best_baseline["r2"] in BASELINES
    assert isinstance(found.models["mean"].metrics["rmse"].value, float)
    assert MeanRegressor().fit(None, None).predict(SETS[:2]).shape == (2,)
