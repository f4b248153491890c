"""Curves: their areas are the metrics, their counts are the sets."""

import numpy as np
import pytest
from evaluate.grouped_sets import draw_patients, evaluate_numbers, evaluate_patients

from orderless.evaluate import cross_validate
from orderless.evaluate.curves import confusion, error_by_size, mean_prediction, precision_recall_curve, reliability, roc_curve


@pytest.fixture(scope="module")
def two():
    return evaluate_patients(num_repeats=2)


@pytest.fixture(scope="module")
def three():
    sets, _, patient = draw_patients(18, shift=1.5)
    y = np.array(["a", "b", "c"])[patient % 3]
    return cross_validate({}, sets, y, objective="classification", groups=patient, num_folds=3, num_bootstrap=5)


@pytest.mark.parametrize("name", ["constant", "moments", "moments_boosted", "mean_embedding"])
@pytest.mark.parametrize("which", ["two", "three"])
def test_the_area_under_a_curve_is_the_metric(which, name, request):
    found = request.getfixturevalue(which)
    metrics = found.models[name].metrics
    # 500 steps, in each of which a curve of a few dozen sets may jump
    curve = roc_curve(found, name)
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(metrics["roc_auc"].value, abs=5e-3)
    assert (np.diff(curve.y) >= -1e-12).all()
    assert [curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]] == pytest.approx([0, 0, 1, 1])
    curve = precision_recall_curve(found, name)
    assert curve.y.mean() == pytest.approx(metrics["average_precision"].value, abs=5e-3)


def test_calibration_counts_every_set_and_its_gaps_are_the_metric(two):
    found = reliability(two, "mean")
    assert found.count.sum() == pytest.approx(24)
    assert ((found.low <= found.share) & (found.share <= found.high)).all()
    assert (found.high - found.low > 0).all()  # even where all sets of a bin are of one class
    constant = reliability(two, "constant")
    assert constant.share == pytest.approx([0.5])


def test_confusion_counts_every_set_once_on_average(two, three):
    counts = confusion(two, "mean")
    assert counts.sum(1).tolist() == [12, 12]
    assert np.trace(counts) / 24 == pytest.approx(two.models["mean"].metrics["accuracy"].value)
    assert confusion(three, "moments").shape == (3, 3)


def test_errors_by_size_average_to_the_metric():
    found = evaluate_numbers()
    effect = error_by_size(found, "mean")
    assert effect.count.sum() == 24
    mean = (effect.error * effect.count).sum() / 24
    assert mean == pytest.approx(found.models["mean"].metrics["mae"].value)
    assert (np.diff(effect.size) > 0).all()
    np.testing.assert_allclose(mean_prediction(found, "mean"), found.models["mean"].output[0])


def test_a_model_that_is_not_there_is_refused(two):
    with pytest.raises(ValueError, match=r"the model must be one of mean, constant.*got 'deep'"):
        roc_curve(two, "deep")
