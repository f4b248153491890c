"""Predictions of a model that was fitted elsewhere (`external.py`)."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score, roc_auc_score

from orderless.evaluate import score_predictions

rng = np.random.default_rng(0)
SETS = [rng.normal(size=(n, 2)) for n in rng.integers(1, 6, 40)]
CLASSES = ["ill", "well"]
WELL = rng.random(40).round(6)
PROBABILITIES = np.stack([1 - WELL, WELL], 1)
NAMES = np.where(WELL + rng.normal(0, 0.3, 40) > 0.5, "well", "ill")


def score(output=PROBABILITIES, y=NAMES, **options):
    return score_predictions("net", output, SETS, y, objective="classification", **{"classes": CLASSES, **options})


def test_metrics_are_those_of_scikit_learn():
    found = score().models["net"].metrics
    assert found["accuracy"].value == pytest.approx(accuracy_score(NAMES, np.where(WELL > 0.5, "well", "ill")))
    assert found["roc_auc"].value == pytest.approx(roc_auc_score(NAMES == "well", WELL))
    assert found["log_loss"].value == pytest.approx(log_loss(NAMES, PROBABILITIES, labels=CLASSES))
    numbers = rng.normal(3, 1, 40)
    numeric = score_predictions("net", numbers + 0.1, SETS, numbers, objective="regression").models
    assert numeric["net"].metrics["mse"].value == pytest.approx(0.01)
    assert numeric["net"].metrics["r2"].value == pytest.approx(r2_score(numbers, numbers + 0.1))
    assert numeric["constant"].metrics["mse"].value == pytest.approx(mean_squared_error(numbers, np.full(40, numbers.mean())))


def test_classes_may_come_in_another_order():
    turned = score(PROBABILITIES[:, ::-1], classes=CLASSES[::-1])
    assert turned.models["net"].metrics["log_loss"].value == score().models["net"].metrics["log_loss"].value


def test_the_constant_is_the_best_for_these_sets():
    found = score().models
    share = max(np.mean(name == NAMES) for name in CLASSES)
    assert found["constant"].metrics["accuracy"].value == pytest.approx(share)
    gain = found["net"].metrics["accuracy"].over_constant.value
    assert gain == pytest.approx(found["net"].metrics["accuracy"].value - share)
    assert "over best baseline" not in score().table(), "the constant is the only one"


def test_a_class_of_which_no_set_is_there_is_no_error():
    three = np.column_stack([PROBABILITIES * 0.9, np.full(40, 0.1)])
    found = score(three, classes=[*CLASSES, "zzz"])
    assert found.models["net"].metrics["accuracy"].value == score().models["net"].metrics["accuracy"].value


def test_intervals_are_over_groups_where_there_are_groups():
    assert score().models["net"].metrics["accuracy"].over_groups is None
    alone = score(groups=np.arange(40)).models["net"].metrics["accuracy"]
    assert (alone.over_groups.low, alone.over_groups.high) == (alone.over_sets.low, alone.over_sets.high)
    assert "over groups" in score(groups=np.arange(40) // 4).table()


WRONG = {
    "another class": ({"y": np.where(np.arange(40), NAMES, "unwell")}, "classes that the model does not know: unwell"),
    "no classes": ({"classes": None}, "classes must name the 2 columns"),
    "too few": ({"output": PROBABILITIES[:-1]}, "a row for each of 40 sets, got 40 and 39"),
    "no prediction": ({"output": np.where(np.arange(40)[:, None] == 3, np.nan, PROBABILITIES)}, "leave out sets"),
}


@pytest.mark.parametrize(("changed", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_an_error(changed, says):
    with pytest.raises(ValueError, match=says):
        score(**changed)
