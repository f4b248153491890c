"""Curves of out-of-fold predictions, as numbers: ROC, precision and recall, calibration, confusion, error against set size.

Letters: N sets, R repeats, C classes, K targets, P points of a curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.evaluation import Evaluation, ModelScores
from orderless.evaluate.metrics import NUM_BINS, Predicted, bin_of, calibrated_event

Array = NDArray[np.float64]

_NUM_POINTS = 501
_SIZE_BINS = 6


@dataclass(frozen=True)
class Curve:
    """Points (P,) of a curve."""

    x: Array
    y: Array


@dataclass(frozen=True)
class Reliability:
    """Calibration in bins that have sets.

    Attributes:
        probability: (P,) mean probability.
        share: (P,) how often it happened.
        low: (P,) lower end of the 95 % Wilson interval of the share, over sets.
        high: (P,) upper end.
        count: (P,) sets, averaged over repeats.
    """

    probability: Array
    share: Array
    low: Array
    high: Array
    count: Array


@dataclass(frozen=True)
class SizeEffect:
    """Error in bins of set size: mean size (P,), mean error (P,), its standard error (P,), sets (P,)."""

    size: Array
    error: Array
    standard_error: Array
    count: Array


def roc_curve(evaluation: Evaluation, name: str) -> Curve:
    """False positive rates and true positive rates, averaged over folds and repeats, and over classes where there are several.

    Folds weigh by their pairs of a set of the class and one not of it, so that the area is the metric `roc_auc`.
    """
    grid = np.linspace(0, 1, _NUM_POINTS)
    curves = []
    for p in _repeats(evaluation, name):
        for positive, score in _against_rest(p):
            total, weight = np.zeros_like(grid), 0.0
            for fold in np.unique(p.fold):
                of_fold = p.fold == fold
                y, s = positive[of_fold], score[of_fold]
                pairs = float(y.sum() * (~y).sum())
                if pairs:
                    total += pairs * _roc_of(y, s, grid)
                    weight += pairs
            if weight:
                curves.append(total / weight)
    if not curves:
        return Curve(grid[:0], grid[:0])
    return Curve(np.r_[0, grid], np.r_[0, np.mean(curves, axis=0)])


def precision_recall_curve(evaluation: Evaluation, name: str) -> Curve:
    """Recall and precision over all folds, averaged over repeats, and over classes where there are several."""
    grid = np.linspace(0, 1, _NUM_POINTS)[1:]
    curves = []
    for p in _repeats(evaluation, name):
        for positive, score in _against_rest(p):
            if not positive.any():
                continue
            order = np.argsort(-score, kind="stable")
            ends = np.flatnonzero(np.r_[np.diff(score[order].round(12)) != 0, True])  # the last set of each score
            found = positive[order].cumsum()[ends]
            place = np.searchsorted(found / found[-1], grid - 1e-12)  # the first threshold that finds so many
            curves.append((found / (ends + 1))[place.clip(max=len(ends) - 1)])
    return Curve(grid, np.mean(curves, axis=0)) if curves else Curve(grid[:0], grid[:0])


def reliability(evaluation: Evaluation, name: str) -> Reliability:
    """How often it happened, against the probability that was given: of the second class, or of the most probable of several."""
    sums = np.zeros((4, NUM_BINS))  # sets, probabilities, events
    repeats = list(_repeats(evaluation, name))
    for p in repeats:
        probability, happened = calibrated_event(p)
        for row, values in enumerate((np.ones_like(happened), probability, happened)):
            sums[row] += np.bincount(bin_of(probability), values, minlength=NUM_BINS)
    some = sums[0] > 0
    count = sums[0, some] / max(len(repeats), 1)
    share = sums[2, some] / sums[0, some]
    # Wilson's: a bin with three sets, all of the class, does not show a share of 1
    z = 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return Reliability(sums[1, some] / sums[0, some], share, middle - half, middle + half, count)


def confusion(evaluation: Evaluation, name: str) -> Array:
    """(C, C) sets of each class (rows) that were given each class (columns), averaged over repeats."""
    assert evaluation.classes is not None
    counts = np.zeros((len(evaluation.classes),) * 2)
    repeats = list(_repeats(evaluation, name))
    for p in repeats:
        np.add.at(counts, (p.target, p.output.argmax(1)), 1)
    return counts / max(len(repeats), 1)


def mean_prediction(evaluation: Evaluation, name: str) -> Array:
    """(N, K or C) out-of-fold predictions, averaged over repeats; NaN where there is none."""
    output = model_of(evaluation, name).output
    known = np.isfinite(output)
    count = known.sum(0)
    return np.divide(np.where(known, output, 0).sum(0), count, out=np.full(count.shape, np.nan), where=count > 0)


def error_by_size(evaluation: Evaluation, name: str) -> SizeEffect:
    """Mean error against set size, in bins with as many sets each: share of wrong answers, or absolute error."""
    errors, count = np.zeros(len(evaluation.sizes)), np.zeros(len(evaluation.sizes))
    for known, p in _known_repeats(evaluation, name):
        wrong = p.output.argmax(1) != p.target if evaluation.classes is not None else abs(p.output - p.target).mean(1)
        errors[known] += wrong
        count[known] += 1
    some = np.flatnonzero(count)
    errors, sizes = errors[some] / count[some], evaluation.sizes[some]
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, _SIZE_BINS + 1))) if len(some) else np.zeros(0)
    bins = np.searchsorted(edges[1:-1], sizes, side="right")
    numbers = np.unique(bins)
    parts = [errors[bins == b] for b in numbers]
    return SizeEffect(
        np.array([sizes[bins == b].mean() for b in numbers]),
        np.array([part.mean() for part in parts]),
        np.array([part.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else np.nan for part in parts]),
        np.array([float(len(part)) for part in parts]),
    )


def model_of(evaluation: Evaluation, name: str) -> ModelScores:
    """A model by name, or an error that lists the names."""
    if name not in evaluation.models:
        raise ValueError(f"the model must be one of {', '.join(evaluation.models)}; got {name!r}.")
    return evaluation.models[name]


def _known_repeats(evaluation: Evaluation, name: str) -> Iterator[tuple[NDArray[np.bool_], Predicted]]:
    """For each repeat, which sets were predicted (N,), and the predictions of these."""
    output = model_of(evaluation, name).output
    for fold, of_repeat in zip(evaluation.fold_numbers, output, strict=True):
        known: NDArray[Any] = np.logical_and(fold >= 0, np.isfinite(of_repeat).all(1))
        if known.any():
            yield known, Predicted(evaluation.target[known], of_repeat[known], fold[known])


def _repeats(evaluation: Evaluation, name: str) -> Iterator[Predicted]:
    return (p for _, p in _known_repeats(evaluation, name))


def _against_rest(p: Predicted) -> Iterator[tuple[NDArray[np.bool_], Array]]:
    """Whether each set is of a class, and its score: of the second of two classes, or of each of several."""
    C = p.output.shape[1]
    for c in [1] if C == 2 else range(C):
        yield p.target == c, p.output[:, c]


def _roc_of(positive: NDArray[np.bool_], score: Array, grid: Array) -> Array:
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.r_[np.diff(score[order].round(12)) != 0, True])
    true = np.r_[0, positive[order].cumsum()[ends]] / positive.sum()
    false = np.r_[0, (~positive)[order].cumsum()[ends]] / (~positive).sum()
    # where the curve goes straight up, its upper end counts
    last = np.r_[np.diff(false) != 0, True]
    upper = np.interp(grid, false[last], true[last])
    first = np.r_[True, np.diff(false) != 0]
    # between two rates it rises from the upper end of one to the lower end of the next
    place = np.searchsorted(false[last], grid, side="right").clip(1, last.sum() - 1) if last.sum() > 1 else None
    if place is None:
        return upper
    x, high, low = false[last], true[last], true[first]
    left, right = x[place - 1], x[place]
    part = (grid - left) / (right - left)
    return np.where(part >= 1, high[place], high[place - 1] + part * (low[place] - high[place - 1]))
