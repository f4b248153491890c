"""What a cross-validation says of a model (`verdict.py`)."""

from types import SimpleNamespace

import pytest

from orderless.evaluate import Interval
from orderless.evaluate.evaluation import MetricScore
from orderless.studies.verdict import compare_gain, say_verdict

UP, DOWN, LEVEL = Interval(0.1, 0.3, 0.2), Interval(-0.3, -0.1, -0.2), Interval(-0.1, 0.2, 0.05)


def evaluation(over_constant, over_best, best="moments"):
    scores = {"accuracy": MetricScore(0.8, UP, None, over_constant, over_best)}
    models = {"net": SimpleNamespace(metrics=scores, title="net"), best: SimpleNamespace(title="Moments: of features")}
    return SimpleNamespace(objective="classification", models=models, best_baseline={"accuracy": best})


CASES = {
    "better than both": (UP, UP, "is better than a constant in accuracy, and better than the best simple model (Moments)."),
    "worse than the best": (UP, DOWN, "and worse than the best simple model (Moments): use that"),
    "level with both": (LEVEL, LEVEL, "is not shown to be better than a constant in accuracy and cannot be told from the best"),
    "no gain known": (None, None, "could not be told"),
}


@pytest.mark.parametrize(("over_constant", "over_best", "says"), CASES.values(), ids=CASES.keys())
def test_the_verdict_follows_the_intervals(over_constant, over_best, says):
    assert says in say_verdict(evaluation(over_constant, over_best), "net")


def test_where_the_constant_is_best_that_is_said():
    assert "no simple model is better" in say_verdict(evaluation(LEVEL, LEVEL, best="constant"), "net")


def test_an_interval_that_touches_zero_shows_nothing():
    assert compare_gain(Interval(0.0, 0.4, 0.2)) == "level"
    nan = float("nan")
    assert compare_gain(Interval(nan, nan, nan)) is None
