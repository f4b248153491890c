"""Baselines as plain estimators: they go into cross-validation, and nothing but training sets is learnt from."""

import pickle

import numpy as np
import pytest
from evaluate.drawn_tasks import DRAW, LEARNERS, OBJECTIVES, draw_classes, draw_regression
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from orderless.evaluate import make_baseline
from orderless.evaluate.baselines import Standardizer, _BoostedClassifier


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


def test_a_column_that_varies_by_rounding_is_not_blown_up():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(size=50), 0.1 + 1e-8 * rng.normal(size=50)], 1)
    z = clone(Standardizer(1e-7)).fit(rows).transform(rows)
    assert z[:, 0].std() == pytest.approx(1)
    assert z[:, 1].std() < 1e-7
    assert Standardizer().fit(rows).transform(rows)[:, 1].std() == pytest.approx(1)


def test_boosted_trees_learn_a_class_that_is_too_rare_to_be_held_out():
    rows = np.arange(10_001.0)[:, None]  # so many that scikit-learn would hold out a tenth, with some of each class
    classes = (rows[:, 0] > 5000).astype(int)
    classes[-1] = 2
    model = clone(_BoostedClassifier(max_iter=3)).fit(rows, classes)
    assert (model.predict(rows) == classes).mean() > 0.99  # 255 bins: the edge is found to 0.4 %
    assert model.early_stopping == "auto"
    assert not model.do_early_stopping_
    assert _BoostedClassifier(max_iter=3).fit(rows, np.minimum(classes, 1)).do_early_stopping_


def test_errors_say_what_was_expected():
    with pytest.raises(ValueError, match="constant, rdw, moments"):
        make_baseline("momentum", "regression")
    with pytest.raises(ValueError, match="objective must be"):
        make_baseline("moments", "ranking")
    with pytest.raises(ValueError, match="which element is meant"):
        make_baseline("rdw", "element_choice")
