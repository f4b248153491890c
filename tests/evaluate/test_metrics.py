"""Metrics agree with scikit-learn and scipy, and a weight is so many sets."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as theirs

from orderless.evaluate.metrics import METRICS, Predicted, bin_of


def draw_classes(num_classes, seed=0, n=60):
    rng = np.random.default_rng(seed)
    target = rng.integers(num_classes, size=n)
    output = rng.dirichlet(np.ones(num_classes), size=n).round(1) + 0.02  # with ties
    return Predicted(target, output / output.sum(1, keepdims=True), np.zeros(n, dtype=np.int64))


def draw_numbers(seed=0, n=60, columns=2):
    rng = np.random.default_rng(seed)
    target = rng.normal(100, 1, (n, columns)).round(1)
    return Predicted(target, target + rng.normal(size=target.shape).round(1), np.zeros(n, dtype=np.int64))


def value_of(objective, name, p, weights=None):
    return METRICS[objective][name].of(p, np.ones((1, len(p.target))) if weights is None else weights)


def one_against_rest(score):
    return lambda y, p: np.mean([score(y == c, p[:, c].round(12)) for c in range(p.shape[1])])


THEIRS = {
    "accuracy": lambda y, p: theirs.accuracy_score(y, p.argmax(1)),
    "balanced_accuracy": lambda y, p: theirs.balanced_accuracy_score(y, p.argmax(1)),
    "log_loss": theirs.log_loss,
}
TWO = {
    **THEIRS,
    "roc_auc": lambda y, p: theirs.roc_auc_score(y, p[:, 1].round(12)),  # what rounding parted is a tie
    "average_precision": lambda y, p: theirs.average_precision_score(y, p[:, 1].round(12)),
    "brier": lambda y, p: theirs.brier_score_loss(y, p[:, 1]),
}
SEVERAL = {
    **THEIRS,
    "roc_auc": one_against_rest(theirs.roc_auc_score),
    "average_precision": one_against_rest(theirs.average_precision_score),
    "brier": lambda y, p: ((p - np.eye(p.shape[1])[y]) ** 2).sum(1).mean(),
}
NUMBERS = {
    "mse": theirs.mean_squared_error,
    "rmse": theirs.root_mean_squared_error,
    "mae": theirs.mean_absolute_error,
    "r2": theirs.r2_score,
    "pearson": lambda y, p: np.mean([stats.pearsonr(a, b)[0] for a, b in zip(y.T, p.T, strict=True)]),
    "spearman": lambda y, p: np.mean([stats.spearmanr(a, b)[0] for a, b in zip(y.T, p.T, strict=True)]),
}
CASES = [
    *(("classification", 2, name, of) for name, of in TWO.items()),
    *(("classification", 4, name, of) for name, of in SEVERAL.items()),
    *(("regression", 0, name, of) for name, of in NUMBERS.items()),
]


@pytest.mark.parametrize(("objective", "classes", "name", "of"), CASES, ids=[f"{c[2]}-{c[1]}" for c in CASES])
def test_metrics_are_what_scikit_learn_says_for_any_resample(objective, classes, name, of):
    p = draw_classes(classes) if classes else draw_numbers()
    # the same sums in another order: a few of 16 digits; the correlation of numbers near 100 loses two more
    close = {"rel": 1e-9}
    assert value_of(objective, name, p)[0] == pytest.approx(of(p.target, p.output), **close)
    rng = np.random.default_rng(3)
    draws = rng.integers(60, size=(5, 60))
    weights = np.stack([np.bincount(draw, minlength=60) for draw in draws]).astype(float)
    for draw, found in zip(draws, value_of(objective, name, p, weights), strict=True):
        assert found == pytest.approx(of(p.target[draw], p.output[draw]), **close)


def test_the_area_under_the_curve_compares_sets_of_one_fold_only():
    rng = np.random.default_rng(0)
    y, fold = np.tile([0, 1, 1], 20), np.repeat(np.arange(4), 15)
    score = rng.uniform(size=60)
    p = Predicted(y, np.stack([1 - score, score], 1), fold)
    pairs = [(i, j) for i in range(60) for j in range(60) if y[i] == 1 and y[j] == 0 and fold[i] == fold[j]]
    wanted = np.mean([score[i] > score[j] for i, j in pairs])
    assert value_of("classification", "roc_auc", p)[0] == pytest.approx(wanted)


def test_a_constant_that_differs_between_folds_is_not_ranked_by_it():
    y, fold = np.array([0, 1, 1, 0, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    level = np.where(fold == 0, 1 / 3, 2 / 3)  # what a prior of the other fold would say
    p = Predicted(y, np.stack([1 - level, level], 1), fold)
    assert theirs.roc_auc_score(y, level) < 0.4  # the trap
    assert value_of("classification", "roc_auc", p)[0] == 0.5
    numbers = Predicted(np.arange(6.0)[:, None], level[:, None], fold)
    assert np.isnan(value_of("regression", "pearson", numbers)[0])
    assert np.isnan(value_of("regression", "spearman", numbers)[0])


def test_what_has_no_meaning_is_nan():
    p = draw_classes(2)
    one_class = (p.target == 1).astype(float)[None]
    for name in ("roc_auc", "balanced_accuracy"):
        assert np.isnan(value_of("classification", name, p, one_class)[0])
    assert np.isnan(value_of("classification", "average_precision", p, 1 - one_class)[0])
    same = Predicted(np.ones((5, 1)), np.arange(5.0)[:, None], np.zeros(5, dtype=np.int64))
    assert np.isnan(value_of("regression", "r2", same)[0])


def test_calibration_error_is_the_mean_gap_between_shares_and_probabilities():
    probability = np.array([0.15] * 10 + [0.85] * 30)
    y = np.array([0] * 9 + [1] + [1] * 15 + [0] * 15)
    p = Predicted(y, np.stack([1 - probability, probability], 1), np.zeros(40, dtype=np.int64))
    assert value_of("classification", "calibration_error", p)[0] == pytest.approx(0.25 * 0.05 + 0.75 * 0.35)
    assert bin_of(np.array([0.0, 0.99, 1.0])).tolist() == [0, 9, 9]
    several = Predicted(np.array([0, 1]), np.array([[0.7, 0.2, 0.1], [0.75, 0.2, 0.05]]), np.zeros(2, dtype=np.int64))
    assert value_of("classification", "calibration_error", several)[0] == pytest.approx(abs(0.7 + 0.75 - 1) / 2)


def test_a_class_that_was_held_impossible_costs_much_but_not_everything():
    p = Predicted(np.array([1]), np.array([[1.0, 0.0]]), np.zeros(1, dtype=np.int64))
    assert value_of("classification", "log_loss", p)[0] == pytest.approx(-np.log(1e-12))


def test_tiny_scores_in_order_are_no_ties():
    p = np.array([1e-14, 2e-14, 3e-14, 4e-14])
    found = value_of(
        "classification", "roc_auc", Predicted(np.array([0, 0, 1, 1]), np.stack([1 - p, p], 1), np.zeros(4, np.int64))
    )
    assert found == 1
