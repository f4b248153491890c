import numpy as np
import pytest

from orderless.estimators import guess_objective

CASES = {
    "words": (["a", "b", "a"], "classification"),
    "truth values": ([True, False], "classification"),
    "objects": (np.array([True, None, "x"], dtype=object), "classification"),
    "zero and one": ([0.0, 1.0, 1.0], "classification"),
    "two whole numbers": ([2, 9, 9], "classification"),
    "two numbers that are not whole": ([0.5, 1.5, 1.5], "regression"),
    "grades": ([1, 2, 3] * 5, "classification"),
    "grades as objects": (np.array([1, 2, 3] * 5, dtype=object), "classification"),
    "few of each": ([1, 2, 3, 4], "regression"),
    "gaps": ([1, 2, 300] * 5, "regression"),
    "ages": (list(range(20, 80)) * 3, "regression"),
    "measurements": ([0.1, 0.2, 0.31] * 5, "regression"),
    "several columns": (np.zeros((4, 2)), "regression"),
    "one column": (np.array([[0], [1]]), "classification"),
}


@pytest.mark.parametrize(("y", "expected"), CASES.values(), ids=CASES.keys())
def test_classes_and_numbers_are_told_apart_with_a_reason(y, expected):
    objective, reason = guess_objective(y)
    assert objective == expected
    assert reason


def test_missing_targets_are_not_guessed_about():
    with pytest.raises(ValueError, match="missing"):
        guess_objective([1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="no values"):
        guess_objective([])
