"""Models in a fold: they get what their fit takes, and baselines know the covariates too."""

import numpy as np
import pytest
from evaluate.grouped_sets import OF_THE_MACHINE, Hindered, MeanClassifier, MeanRegressor, draw_patients
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from orderless.evaluate import MomentSummary
from orderless.evaluate.fold_models import (
    FoldBaselines,
    choose_parameters,
    fit_model,
    fit_parameter,
    predict_model,
    spread_classes,
    takes_covariates,
)
from orderless.evaluate.material import check_material

SETS, CLASSES, PATIENT = draw_patients(shift=0.0)
HALF = np.arange(24) < 12


def materials(y=CLASSES, covariates=None, objective="classification", groups=PATIENT, weight=None):
    whole = check_material(SETS, y, objective, groups, covariates, weight)
    return whole.part(np.flatnonzero(HALF)), whole.part(np.flatnonzero(~HALF))


def test_parameters_of_fit_are_found_through_pipelines_and_searches():
    pipeline = make_pipeline(MomentSummary(), LogisticRegression())
    assert fit_parameter(MeanClassifier(), "covariates") == "covariates"
    assert fit_parameter(pipeline, "sample_weight") == "logisticregression__sample_weight"
    assert fit_parameter(pipeline, "groups") is None
    search = GridSearchCV(pipeline, {}, cv=2)
    assert fit_parameter(search, "groups") == "groups"
    assert fit_parameter(search, "sample_weight") == "logisticregression__sample_weight"
    assert fit_parameter(search, "covariates") is None
    assert fit_parameter(KNeighborsClassifier(), "sample_weight") is None
    assert takes_covariates(MeanClassifier())
    assert not takes_covariates(pipeline)


def test_random_states_that_are_open_are_set_and_others_left():
    train, _ = materials()
    MeanClassifier.seen.clear()
    fit_model(MeanClassifier(), train, 7)
    fit_model(MeanClassifier(random_state=3), train, 7)
    assert [seen["state"] for seen in MeanClassifier.seen] == [7, 3]


def test_covariates_reach_baselines_and_the_constant_ignores_them():
    told = (CLASSES == "ill").astype(float) * 100  # says everything, in large units
    train, test = materials(covariates=told)
    baselines = FoldBaselines(train, test, 0)
    blind = FoldBaselines(*materials(), 0)

    def share(of, name):
        return (of.predict(name).argmax(1) == test.encoded_target).mean()

    for name in ("moments", "moments_tuned", "moments_boosted", "mean_embedding"):
        assert share(baselines, name) > share(blind, name), name
    assert share(baselines, "covariates") == 1
    assert np.ptp(baselines.predict("constant"), axis=0).max() == 0


@pytest.mark.parametrize("name", ["constant", "moments", "moments_tuned", "moments_boosted", "mean_embedding"])
def test_weights_reach_baselines(name):
    weight = np.where(CLASSES == "ill", 1.0, 0.001)
    heavy = FoldBaselines(*materials(weight=weight), 0).predict(name)
    plain = FoldBaselines(*materials(), 0).predict(name)
    assert heavy[:, 0].mean() > plain[:, 0].mean()


@pytest.mark.parametrize("name", ["constant", "covariates", "moments", "moments_tuned", "moments_boosted", "mean_embedding"])
def test_several_numbers_are_predicted_each(name):
    y = np.stack([np.arange(24.0), -np.arange(24.0)], 1)
    output = FoldBaselines(*materials(y, covariates=np.arange(24), objective="regression"), 0).predict(name)
    assert output.shape == (12, 2)
    np.testing.assert_allclose(output[:, 0], -output[:, 1], atol=1e-6)


def test_classes_that_a_training_part_lacks_get_probability_zero():
    found = spread_classes(np.array([[0.25, 0.75]]), ["a", "c"], np.array(["a", "b", "c"]))
    assert found.tolist() == [[0.25, 0, 0.75]]
    with pytest.raises(ValueError, match="a column for each of the 2 classes"):
        spread_classes(np.ones((1, 3)), ["a", "c"], np.array(["a", "b", "c"]))


NO_PROBABILITIES = {
    "scores": ([[9.0, 9.0]], ["a", "c"], "must give probabilities from 0 to 1, got 9"),
    "below 0": ([[0.5, 0.5], [-1.0, 2.0]], ["a", "c"], "must give probabilities from 0 to 1, got -1"),
    "of independent classes": ([[0.5, 0.5], [0.75, 0.75]], ["a", "c"], r"rows that sum to 1, got a row that sums to 1\.5"),
    "not finite": ([[np.nan, 0.5]], ["a", "c"], "must be finite, got 1"),
    "an unknown class": ([[0.5, 0.5]], ["a", "d"], "classes_ must hold classes of the data, 'a', 'b', 'c', got 'd'"),
    "a class that begins as one does": ([[0.5, 0.5]], ["a", "bb"], "classes_ must hold classes of the data, .* got 'bb'"),
    "numbers for words": ([[0.5, 0.5]], [0, 1], "classes_ must hold classes of the data, 'a', 'b', 'c', got 0"),
    "a class twice": ([[0.5, 0.5]], ["a", "a"], "classes_ must hold each class once"),
}


@pytest.mark.parametrize(("given", "found", "message"), NO_PROBABILITIES.values(), ids=NO_PROBABILITIES.keys())
def test_what_is_no_probability_of_a_class_is_refused(given, found, message):
    with pytest.raises(ValueError, match=message):
        spread_classes(np.array(given), np.array(found), np.array(["a", "b", "c"]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rounded_probabilities_are_probabilities(dtype):
    given = np.random.default_rng(0).dirichlet(np.ones(40), size=50).astype(dtype)
    assert np.array_equal(spread_classes(given, np.arange(40.0), np.arange(40)), given)


@pytest.mark.parametrize(
    ("classes", "answer", "message"),
    [
        ([0, 1], "ill", "predict must give classes of the data, 0, 1, got 'ill'"),
        ([0, 1], "1", "predict must give classes of the data, 0, 1, got '1'"),
        ([0, 1], 7, "predict must give classes of the data, 0, 1, got 7"),
        (["no", "yes"], 1, "predict must give classes of the data, 'no', 'yes', got 1"),
        ([0, 1], np.nan, "predict must give classes of the data, 0, 1, got nan"),
        ([0, 1], [0, 1], r"one class for each set, got shape \(12, 2\)"),
    ],
)
def test_answers_that_are_no_classes_of_the_data_are_refused(classes, answer, message):
    class Sure:
        def predict(self, sets):
            return np.array([answer] * len(sets))

    _, test = materials(np.array(classes)[np.arange(24) % 2])
    with pytest.raises(ValueError, match=message):
        predict_model(Sure(), test)


@pytest.mark.parametrize(("classes", "answer"), [([0, 1], 1.0), ([False, True], 1), ([0, 1], [1]), (["no", "yes"], "yes")])
def test_a_class_of_another_type_that_is_equal_is_that_class(classes, answer):
    class Sure:
        def predict(self, sets):
            return np.array([answer] * len(sets), dtype=object)

    _, test = materials(np.array(classes)[np.arange(24) % 2])
    assert predict_model(Sure(), test)[0].tolist() == [[0.0, 1.0]] * 12


@pytest.mark.parametrize("count", [1, 11])
def test_another_number_of_answers_is_refused(count):
    class Short:
        classes_ = np.array(["ill", "well"])

        def predict(self, sets):
            return np.zeros(count)

        def predict_proba(self, sets):
            return np.full((count, 2), 0.5)

    with pytest.raises(ValueError, match=rf"predict_proba must give an answer for each of the 12 sets, got shape \({count}, 2\)"):
        predict_model(Short(), materials()[1])
    with pytest.raises(ValueError, match=rf"predict must give an answer for each of the 12 sets, got shape \({count},\)"):
        predict_model(Short(), materials(np.arange(24.0), objective="regression")[1])


def test_words_are_no_numbers():
    class Words:
        def predict(self, sets):
            return np.array(["many"] * len(sets))

    with pytest.raises(ValueError, match="predictions must be numbers, got"):
        predict_model(Words(), materials(np.arange(24.0), objective="regression")[1])


def test_classes_without_probabilities_are_told_apart_from_them():
    train, test = materials()
    output, probable = predict_model(fit_model(make_pipeline(MomentSummary(), LinearSVC()), train, 0), test)
    assert not probable
    assert set(output.ravel()) == {0.0, 1.0}
    assert (output.sum(1) == 1).all()


@pytest.mark.parametrize(("columns", "value", "message"), [(2, 1.0, "must have 1 columns, got 2"), (1, np.nan, "must be finite")])
def test_predictions_that_cannot_be_are_refused(columns, value, message):
    class Odd(MeanRegressor):
        def predict(self, sets):
            return super().predict(sets) * value

    _, test = materials(np.arange(24.0), objective="regression")
    with pytest.raises(ValueError, match=message):
        predict_model(Odd(columns).fit(None, None), test)


def test_parameters_are_chosen_by_held_out_groups_and_those_that_fail_are_passed_over():
    sets, y, patient = draw_patients(20, shift=2.0)
    train = check_material(sets, y, "classification", patient, None, None)
    grid = [{"slope": -5.0}, {"slope": 5.0}, {"slope": 0.0}]
    assert choose_parameters(MeanClassifier(), grid, train, 3, 0) == {"slope": 5.0}
    MeanClassifier.seen.clear()
    choose_parameters(MeanClassifier(), grid[:1], train, 3, 0)
    assert [len(set(seen["groups"].tolist())) for seen in MeanClassifier.seen] != [20] * 3  # some groups were held out
    assert choose_parameters(MeanClassifier(), [{"fail_without": 99}, {"slope": 1.0}], train, 3, 0) == {"slope": 1.0}
    with pytest.raises(ValueError, match="of the grid could be fitted; the last error was RuntimeError: lost its way"):
        choose_parameters(MeanClassifier(), [{"fail_without": 99}], train, 3, 0)


@pytest.mark.parametrize("error", OF_THE_MACHINE.values(), ids=OF_THE_MACHINE.keys())
def test_parameters_that_met_an_error_of_the_machine_are_not_passed_over(error):
    sets, y, patient = draw_patients()
    train = check_material(sets, y, "classification", patient, None, None)
    with pytest.raises(type(error)):
        choose_parameters(Hindered(error), [{"slope": 1.0}], train, 3, 0)
