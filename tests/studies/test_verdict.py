"""What a cross-validation says of a model (`verdict.py`)."""

from types import SimpleNamespace

import numpy as np
import pytest

from orderless.evaluate import Interval
from orderless.evaluate.evaluation import MetricScore
from orderless.evaluate.splits import Fold
from orderless.studies.verdict import compare_gain, say_verdict

UP, DOWN, LEVEL = Interval(0.1, 0.3, 0.2), Interval(-0.3, -0.1, -0.2), Interval(-0.1, 0.2, 0.05)


HALF = np.array([0, 1] * 10)


def evaluation(over_constant, over_best, best="moments", classes=("no", "yes"), target=HALF, **others):
    scores = {"accuracy": MetricScore(0.8, Interval(0.7, 0.9, 0.8), None, over_constant, over_best)}
    scores |= {name: MetricScore(value, UP, None, gain, None) for name, (value, gain) in others.items()}
    models = {"net": SimpleNamespace(metrics=scores, title="net", is_baseline=False)}
    models |= {name: SimpleNamespace(title="Moments: of features", is_baseline=True) for name in ("constant", "moments")}
    return SimpleNamespace(
        objective="classification",
        models=models,
        best_baseline={"accuracy": best},
        classes=classes,
        target=target,
        folds=[Fold(np.delete(np.arange(len(target)), i), np.array([i])) for i in range(len(target))],
        groups=None,
    )


CASES = {
    "better than both": (UP, UP, "is better than a constant in accuracy, and is better than the best simple model (Moments)."),
    "worse than the best": (
        LEVEL,
        DOWN,
        "net is not shown to be better than a constant in accuracy, and is worse than the best simple model (Moments). docs/base",
    ),
    "level with both": (LEVEL, LEVEL, "not shown to be better than a constant in accuracy, and cannot be told from the best"),
    "no gain known": (None, None, "could not be told"),
}


@pytest.mark.parametrize(("over_constant", "over_best", "says"), CASES.values(), ids=CASES.keys())
def test_the_verdict_follows_the_intervals(over_constant, over_best, says):
    assert says in say_verdict(evaluation(over_constant, over_best), "net")


def test_where_the_constant_is_best_that_is_said():
    assert "no simple model is better" in say_verdict(evaluation(LEVEL, LEVEL, best="constant"), "net")


DISTRUST = "its classes can be used, but its probabilities should not be trusted"


@pytest.mark.parametrize(
    ("gain", "says"), [(DOWN, "Its log loss is above that of"), (LEVEL, "is not shown to be below that of"), (UP, "")]
)
def test_good_classes_with_bad_probabilities_are_told_of(gain, says):
    said = say_verdict(evaluation(UP, UP, log_loss=(0.9, gain)), "net")
    assert says in said
    assert (DISTRUST in said) == bool(says)
    assert DISTRUST not in say_verdict(evaluation(LEVEL, LEVEL, log_loss=(0.9, gain)), "net"), "its classes are no use either"


def test_a_model_that_ranks_well_but_calls_badly_is_told_of():
    assert say_verdict(evaluation(LEVEL, LEVEL, roc_auc=(0.91, UP)), "net").endswith(
        "It ranks sets well (ROC AUC 0.91), but its threshold is off: set one of your own."
    )
    several = evaluation(LEVEL, LEVEL, roc_auc=(0.91, UP), classes=("a", "b", "c"))
    assert "the most probable class is often wrong" in say_verdict(several, "net")
    for other in (evaluation(LEVEL, LEVEL, roc_auc=(0.6, UP)), evaluation(UP, LEVEL, roc_auc=(0.91, UP))):
        assert "ranks" not in say_verdict(other, "net")


def test_the_threshold_is_not_blamed_where_a_rare_class_is_found():
    rare = {"roc_auc": (1.0, UP), "balanced_accuracy": (1.0, UP)}
    said = say_verdict(evaluation(LEVEL, LEVEL, **rare), "net")
    assert said.endswith("It ranks sets well (ROC AUC 1.00), and finds every class: its balanced accuracy is 1.00.")
    assert DISTRUST in say_verdict(evaluation(LEVEL, LEVEL, **rare, log_loss=(0.9, DOWN)), "net")
    for balanced in ((0.6, UP), (0.8, LEVEL)):
        missed = evaluation(LEVEL, LEVEL, **(rare | {"balanced_accuracy": balanced}))
        assert "its threshold is off" in say_verdict(missed, "net")


def test_five_groups_cannot_tell_whatever_the_interval():
    """A bootstrap of two sites has three different samples: where the model is ahead in both, no interval holds 0."""
    few = evaluation(UP, UP, log_loss=(0.9, DOWN))
    few.groups = np.array(["north", "south"] * 10)
    assert say_verdict(few, "net") == (
        "2 groups cannot tell whether net is better than a constant in accuracy: that all of so few agree happens by chance in 1 "
        "of 2 cases."
    )
    few.groups = np.array(list("abcde") * 4)
    assert say_verdict(few, "net").endswith("happens by chance in 1 of 16 cases.")
    few.groups = np.array([*"abcdef", *"aaaaaaabbbbbbb"])
    assert "net is better than a constant" in say_verdict(few, "net")
    few.folds = few.folds[:5]  # of a split by hand, one part of it is tested
    assert say_verdict(few, "net").startswith("5 groups cannot tell")


def test_an_interval_that_touches_zero_shows_nothing():
    assert compare_gain(Interval(0.0, 0.4, 0.2)) == "level"
    nan = float("nan")
    assert compare_gain(Interval(nan, nan, nan)) is None


def test_a_gain_without_an_interval_is_not_known():
    """As one test set has it, which says nothing of others."""
    assert compare_gain(Interval(float("nan"), float("nan"), 0.5)) is None


def test_a_constant_that_is_wrong_by_construction_is_no_match():
    """Where single sets are left out, the most frequent class of the others is that of fewer; who guesses is right more often."""
    mostly_ill = np.array([0, 1, 1, 1] * 5)  # 0.75 of them
    said = say_verdict(evaluation(UP, UP, target=mostly_ill), "net")  # which has 0.7 to 0.9
    assert "net is not shown to be better than a constant in accuracy" in said
