"""Metrics of predictions, each for many weightings of the sets at once, so that a bootstrap costs little more than one value.

A bootstrap sample is a weighting: a set that was drawn twice counts twice, one that was not drawn counts 0. So every metric here
takes (B, N) weights and gives (B,) values; with weights of 1 it is the metric as scikit-learn defines it. It is NaN where it has
no meaning, such as ROC AUC of one class.

ROC AUC alone is taken within folds: a set is compared with sets of its own fold only. Scores of two folds come from two models,
which need not agree on what is high. Even a constant, whose level differs a little between folds, would be ranked by it: against
the classes, since a fold with more of a class leaves fewer of it to train on.

Letters: N sets, B weightings, C classes, K targets, U different scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.chooser import LEAST_PROBABILITY

Array = NDArray[np.float64]

NUM_BINS = 10  # of probabilities, for calibration


@dataclass(frozen=True)
class Predicted:
    """What was predicted of some sets, beside what is true.

    Attributes:
        target: (N,) classes as numbers from 0, or (N, K) numbers.
        output: (N, C) probabilities, or (N, K) numbers.
        fold: (N,) the fold in which each set was tested: sets of one fold were predicted by one model.
    """

    target: NDArray[Any]
    output: Array
    fold: NDArray[np.int64]


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        title: For people.
        higher_is_better: Whether a model with a higher value is better.
        of: From predictions and (B, N) weights to (B,) values.
        needs_probabilities: Means nothing for a classifier that gives classes only.
    """

    title: str
    higher_is_better: bool
    of: Callable[[Predicted, Array], Array]
    needs_probabilities: bool = False


def accuracy(p: Predicted, weights: Array) -> Array:
    """Share of sets whose most probable class is the right one."""
    return _mean(_hits(p), weights)


def balanced_accuracy(p: Predicted, weights: Array) -> Array:
    """Share of right answers within each class, averaged over the classes that there are."""
    totals, right = _by_class(p, np.ones(len(p.target)), weights), _by_class(p, _hits(p), weights)  # (B, C)
    found = (totals > 0).sum(1)
    share = np.divide(right, totals, out=np.zeros_like(right), where=totals > 0)
    return _over(share.sum(1), found, found > 1)


def roc_auc(p: Predicted, weights: Array) -> Array:
    """Probability that of two sets of a fold the one of the class has the higher score; ties count one half.

    With several classes each against the rest, averaged over classes.
    """
    return _one_against_rest(_auc, p, weights)


def average_precision(p: Predicted, weights: Array) -> Array:
    """Mean precision over the sets of the class, from the highest score down. With several classes as for ROC AUC."""
    return _one_against_rest(_average_precision, p, weights)


def log_loss(p: Predicted, weights: Array) -> Array:
    """Mean of minus the logarithm of the probability of the right class."""
    right = p.output[np.arange(len(p.target)), p.target]
    return _mean(-np.log(right.clip(LEAST_PROBABILITY, 1)), weights)


def brier(p: Predicted, weights: Array) -> Array:
    """Mean squared error of the second class's probability; with several classes, summed over them."""
    errors = (p.output - np.eye(p.output.shape[1])[p.target]) ** 2  # (N, C)
    return _mean(errors[:, 1] if errors.shape[1] == 2 else errors.sum(1), weights)


def calibration_error(p: Predicted, weights: Array) -> Array:
    """Expected calibration error: how far shares lie from probabilities in ten bins, averaged over sets.

    Of two classes, the probability of the second. Of several, that of the most probable.
    """
    probability, happened = calibrated_event(p)
    bins = bin_of(probability)
    gaps = [abs(weights[:, bins == b] @ (probability - happened)[bins == b]) for b in np.unique(bins)]
    return _over(np.sum(gaps, axis=0), weights.sum(1))


def mse(p: Predicted, weights: Array) -> Array:
    """Mean squared error; the mean over targets where there are several, as for all that follow."""
    return _mean(((p.output - p.target) ** 2).mean(1), weights)


def rmse(p: Predicted, weights: Array) -> Array:
    """Root of the mean squared error of each target."""
    roots = [np.sqrt(_mean(squared, weights)) for squared in ((p.output - p.target) ** 2).T]
    return np.mean(roots, axis=0)


def mae(p: Predicted, weights: Array) -> Array:
    """Mean absolute error."""
    return _mean(abs(p.output - p.target).mean(1), weights)


def r2(p: Predicted, weights: Array) -> Array:
    """Share of the targets' variance that is explained: 1 is perfect, 0 what their mean would score, and it may be below."""
    values = []
    for y, predicted in zip(p.target.T, p.output.T, strict=True):
        near = y - y.mean()  # so that squares of a large mean do not cost digits
        squares = weights @ near**2
        spread = squares - _over((weights @ near) ** 2, weights.sum(1))
        values.append(1 - _over(weights @ (y - predicted) ** 2, spread, spread > 1e-12 * squares))
    return np.mean(values, axis=0)


def pearson(p: Predicted, weights: Array) -> Array:
    """Linear correlation of predictions and targets. NaN for predictions that differ only between folds, as a constant's do."""
    return _correlate(p, weights, ranked=False)


def spearman(p: Predicted, weights: Array) -> Array:
    """Correlation of their ranks."""
    return _correlate(p, weights, ranked=True)


METRICS: dict[str, dict[str, Metric]] = {
    "classification": {
        "accuracy": Metric("accuracy", True, accuracy),
        "balanced_accuracy": Metric("balanced accuracy", True, balanced_accuracy),
        "roc_auc": Metric("ROC AUC", True, roc_auc, needs_probabilities=True),
        "average_precision": Metric("average precision", True, average_precision, needs_probabilities=True),
        "log_loss": Metric("log loss", False, log_loss, needs_probabilities=True),
        "brier": Metric("Brier score", False, brier, needs_probabilities=True),
        "calibration_error": Metric("calibration error", False, calibration_error, needs_probabilities=True),
    },
    "regression": {
        "mse": Metric("MSE", False, mse),
        "rmse": Metric("RMSE", False, rmse),
        "mae": Metric("MAE", False, mae),
        "r2": Metric("R²", True, r2),
        "pearson": Metric("Pearson r", True, pearson),
        "spearman": Metric("Spearman r", True, spearman),
    },
}


def calibrated_event(p: Predicted) -> tuple[Array, Array]:
    """(N,) probability of an event, and (N,) 1 where it happened: the second of two classes, or that the answer is right."""
    if p.output.shape[1] == 2:
        return p.output[:, 1], (p.target == 1).astype(np.float64)
    return p.output.max(1), _hits(p)


def bin_of(probability: Array) -> NDArray[np.int64]:
    """(N,) the bin of each probability, ten of equal width."""
    return (probability * NUM_BINS).astype(np.int64).clip(0, NUM_BINS - 1)


# ------------------------------------------------------------------------------------------------------- parts


def _hits(p: Predicted) -> Array:
    return (p.output.argmax(1) == p.target).astype(np.float64)


def _mean(values: Array, weights: Array) -> Array:
    return _over(weights @ values, weights.sum(1))


def _over(top: Array, bottom: NDArray[Any], where: NDArray[np.bool_] | None = None) -> Array:
    """A ratio, NaN where it has no meaning."""
    full = np.full(np.broadcast_shapes(top.shape, bottom.shape), np.nan)
    return np.divide(top, bottom, out=full, where=bottom > 0 if where is None else where)


def _by_class(p: Predicted, values: Array, weights: Array) -> Array:
    """(B, C) weighted sums over the sets of each class."""
    return weights @ (np.eye(p.output.shape[1])[p.target] * values[:, None])


def _one_against_rest(
    of: Callable[[NDArray[np.bool_], Array, NDArray[np.int64], Array], Array], p: Predicted, weights: Array
) -> Array:
    if p.output.shape[1] == 2:
        return of(p.target == 1, p.output[:, 1], p.fold, weights)
    values = np.stack([of(p.target == c, p.output[:, c], p.fold, weights) for c in range(p.output.shape[1])])  # (C, B)
    known = ~np.isnan(values)
    return _over(np.where(known, values, 0).sum(0), known.sum(0))


def _without_rounding(score: Array) -> Array:
    """Scores to twelve digits: what rounding makes of equal sets is a tie, however small the scores are."""
    digits = 10.0 ** (11 - np.floor(np.log10(np.maximum(np.abs(score), 1e-290))))
    return np.where(np.abs(score) < 1e-290, 0.0, np.round(score * digits) / digits)


def _auc(positive: NDArray[np.bool_], score: Array, fold: NDArray[np.int64], weights: Array) -> Array:
    score = _without_rounding(score)
    order = np.lexsort((score, fold))
    score, fold = score[order], fold[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(score) != 0) | (np.diff(fold) != 0)])  # (U,) of each score of a fold
    weights = weights[:, order]
    high = np.add.reduceat(np.where(positive[order], weights, 0), starts, axis=1)  # (B, U)
    low = np.add.reduceat(np.where(positive[order], 0, weights), starts, axis=1)
    firsts = np.flatnonzero(np.r_[True, np.diff(fold[starts]) != 0])  # of each fold
    of_fold = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(starts)]))  # (U,)
    before = low.cumsum(1) - low
    before -= before[:, firsts][:, of_fold]  # sets of other folds are not compared with
    won = (high * (before + low / 2)).sum(1)
    pairs = (np.add.reduceat(high, firsts, axis=1) * np.add.reduceat(low, firsts, axis=1)).sum(1)
    return _over(won, pairs)


def _average_precision(positive: NDArray[np.bool_], score: Array, fold: NDArray[np.int64], weights: Array) -> Array:
    score = _without_rounding(score)
    order = np.argsort(-score, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(score[order]) != 0])
    weights = weights[:, order]
    found = np.add.reduceat(np.where(positive[order], weights, 0), starts, axis=1)  # (B, U)
    called = np.add.reduceat(weights, starts, axis=1).cumsum(1)
    precision = np.divide(found.cumsum(1), called, out=np.zeros_like(found), where=called > 0)
    return _over((found * precision).sum(1), found.sum(1))


def _correlate(p: Predicted, weights: Array, *, ranked: bool) -> Array:
    values = []
    for y, predicted in zip(p.target.T, p.output.T, strict=True):
        a, b = (_ranks(y, weights), _ranks(predicted, weights)) if ranked else (y[None], predicted[None])  # (B or 1, N)
        total = weights.sum(1, keepdims=True)
        a, b = (v - _over((weights * v).sum(1, keepdims=True), total) for v in (a, b))
        spread = (weights * a**2).sum(1) * (weights * b**2).sum(1)
        varies = any(np.ptp(predicted[p.fold == fold]) > 0 for fold in np.unique(p.fold))
        values.append(_over((weights * a * b).sum(1), np.sqrt(spread), (spread > 0) & varies))
    return np.mean(values, axis=0)


def _ranks(values: Array, weights: Array) -> Array:
    """(B, N) ranks within each weighting, where a set of weight 2 is two sets; equal ones share the middle of their ranks."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(values[order]) != 0])
    held = np.add.reduceat(weights[:, order], starts, axis=1)  # (B, U)
    middle = held.cumsum(1) - held / 2
    ranks = np.empty_like(weights)
    ranks[:, order] = np.repeat(middle, np.diff(np.r_[starts, len(values)]), axis=1)
    return ranks
