"""Metrics of out-of-fold predictions with bootstrap intervals over sets and over groups, and paired gains between models.

All models and metrics see the same bootstrap samples, so a gain is a difference sample by sample: what makes a draw of sets hard
for both cancels. Repeats of the cross-validation are averaged within each sample; they are not further sets.

Letters: N sets, G groups, B bootstrap samples, R repeats, C classes, K targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.intervals import Interval
from orderless.evaluate.metrics import METRICS, Metric, Predicted
from orderless.evaluate.splits import Goal

Array = NDArray[np.float64]

_BLOCK_NUMBERS = 1_000_000  # weights held at once: 8 MB
_KEPT_NUMBERS = 20_000_000  # of draws kept: 40 MB


@dataclass(frozen=True)
class Draws:
    """Values of a metric.

    Attributes:
        value: Of the sets as they are.
        over_sets: (B,) of bootstrap samples of sets; NaN where it had no meaning.
        over_groups: (B,) of bootstrap samples of groups; None where there are no groups.
    """

    value: float
    over_sets: Array
    over_groups: Array | None

    def minus(self, other: Draws, sign: int) -> Draws:
        """How much higher than another's, sample by sample; with sign -1, how much lower."""
        groups = None
        if self.over_groups is not None and other.over_groups is not None:
            groups = sign * (self.over_groups - other.over_groups)
        return Draws(sign * (self.value - other.value), sign * (self.over_sets - other.over_sets), groups)


class Resampler:
    """Values of metrics over bootstrap samples.

    Args:
        objective: What is predicted.
        target: (N,) classes as numbers from 0, or (N, K) numbers.
        fold: (R, N) the fold in which each set was tested in each repeat, -1 where it was not.
        members: (N,) number of each set's group; None where every set stands for itself.
        num_samples: Bootstrap samples B.
        seed: Of the draws.
    """

    def __init__(
        self,
        objective: Goal,
        target: NDArray[Any],
        fold: NDArray[np.int64],
        members: NDArray[np.int64] | None,
        num_samples: int,
        seed: int,
    ) -> None:
        self.metrics = METRICS[objective]
        self.target, self.fold, self.members = target, fold, members
        self.num_samples, self.seed = num_samples, seed
        self._kept: dict[bool, list[NDArray[np.uint16]]] = {}
        self.tested = (fold >= 0).any(0)  # (N,)

    def draw(self, metric: Metric, output: Array, known: NDArray[np.bool_]) -> Draws:
        """A metric of the predictions (R, N, C or K) of one model, where they are known (R, N)."""
        once = self._values(metric, output, known, np.ones((1, len(self.target))))[0]
        groups = None if self.members is None else self._resampled(metric, output, known, self.members)
        return Draws(float(once), self._resampled(metric, output, known, np.arange(len(self.target))), groups)

    def _resampled(self, metric: Metric, output: Array, known: NDArray[np.bool_], members: NDArray[np.int64]) -> Array:
        """(B,) values of samples that are drawn by these units. One unit says nothing of how much units differ: NaN."""
        if len(np.unique(members[self.tested])) < 2:
            return np.full(self.num_samples, np.nan)
        return np.concatenate([self._values(metric, output, known, weights) for weights in self._weights(members)])

    def _values(self, metric: Metric, output: Array, known: NDArray[np.bool_], weights: Array) -> Array:
        """(b,) values, averaged over the repeats in which they have a meaning."""
        total, count = np.zeros(len(weights)), np.zeros(len(weights))
        for fold, of_repeat, mask in zip(self.fold, output, known & (self.fold >= 0), strict=True):
            if not mask.any():
                continue
            values = metric.of(Predicted(self.target[mask], of_repeat[mask], fold[mask]), weights[:, mask])
            good = ~np.isnan(values)
            total[good] += values[good]
            count += good
        return np.divide(total, count, out=np.full(len(weights), np.nan), where=count > 0)

    def _weights(self, members: NDArray[np.int64]) -> Iterator[Array]:
        """(b, N) how often each set is drawn, block by block: the same for all models and metrics."""
        N = len(self.target)
        places = np.flatnonzero(self.tested)
        units, which = np.unique(members[places], return_inverse=True)
        step = max(1, _BLOCK_NUMBERS // N)
        for drawn in self._drawn(len(units), step, grouped=members is self.members):
            weights = np.zeros((len(drawn), N))
            weights[:, places] = drawn[:, which]
            yield weights

    def _drawn(self, count: int, step: int, *, grouped: bool) -> Iterator[NDArray[np.uint16]]:
        """(b, count) how often each unit is drawn. Kept where that is not much: every model and metric asks again."""
        if grouped in self._kept:
            yield from self._kept[grouped]
            return
        rng = np.random.default_rng(self.seed)
        kept = []
        for start in range(0, self.num_samples, step):
            size = min(step, self.num_samples - start)
            drawn = rng.multinomial(count, np.full(count, 1 / count), size=size).astype(np.uint16)
            if self.num_samples * count <= _KEPT_NUMBERS:
                kept.append(drawn)
            yield drawn
        if kept:
            self._kept[grouped] = kept


def interval_of(value: float, draws: Array | None, confidence: float) -> Interval | None:
    """The percentile interval, over the samples in which the metric had a meaning; None where there are no draws."""
    if draws is None:
        return None
    good = draws[~np.isnan(draws)]
    if not len(good) or np.isnan(value):
        return Interval(np.nan, np.nan, value)
    low, high = np.quantile(good, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), value)
