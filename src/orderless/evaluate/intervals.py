"""Bootstrap intervals of a mean over sets: how far a reported figure may be from what other test sets would have given.

Letters: N sets, G groups, B bootstrap samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Values = NDArray[Any] | Tensor | Sequence[float]

_BLOCK_DRAWS = 1_000_000  # draws held at once: 8 MB


@dataclass(frozen=True)
class Interval:
    """A mean, and the ends of its confidence interval."""

    low: float
    high: float
    value: float


def bootstrap_mean(
    values: Values,
    *,
    groups: NDArray[Any] | Tensor | Sequence[Any] | None = None,
    num_samples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The mean of `values` with its percentile bootstrap interval.

    The bootstrap draws N sets with replacement from the N that there are, B times, and takes the mean each time; the interval
    holds the middle `confidence` of those means. With groups it draws whole groups instead: two samples of one patient tell less
    than samples of two patients, so the interval must be wider. The mean stays that over sets. The interval speaks of the choice
    of test sets alone: what another training run would change is not in it. With one set or one group it is a single point,
    which says that nothing is known, not that all is.

    Args:
        values: (N,) one finite number for each set, such as its squared error.
        groups: (N,) who each set belongs to: numbers or names.
        num_samples: Bootstrap samples B.
        confidence: Share of the bootstrap means that the interval holds.
        seed: Of the draws: the same seed gives the same interval.
    """
    numbers = _as_values(values, "values")
    if num_samples < 1:
        raise ValueError(f"num_samples must be 1 or more, got {num_samples}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95, got {confidence}.")
    sums, counts = numbers, None
    if groups is not None:
        sums, counts = _by_group(numbers, np.asarray(groups))
    means = _bootstrap_means(sums, counts, num_samples, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), float(numbers.mean()))


def paired_difference(
    a: Values,
    b: Values,
    *,
    groups: NDArray[Any] | Tensor | Sequence[Any] | None = None,
    num_samples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The mean of `a - b` over sets, with its bootstrap interval.

    Both numbers of a set are drawn together. What makes a set hard for one method mostly makes it hard for the other, and
    cancels; so this interval is narrower than the two single ones suggest, and is the one to compare methods by.

    Args:
        a: (N,) one number for each set.
        b: (N,) another number for each of the same sets, in the same order.
        groups: As in `bootstrap_mean`, like all that follows.
        num_samples: Bootstrap samples.
        confidence: Share of the bootstrap means that the interval holds.
        seed: Of the draws.
    """
    first, second = _as_values(a, "a"), _as_values(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b must have numbers for the same sets, got {len(first)} and {len(second)}.")
    return bootstrap_mean(first - second, groups=groups, num_samples=num_samples, confidence=confidence, seed=seed)


def _bootstrap_means(
    sums: NDArray[np.float64], counts: NDArray[np.int64] | None, num_samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(B,) means over sets of groups drawn with replacement, from each group's sum (G,) and number of sets (G,)."""
    G = len(sums)
    means = np.empty(num_samples)
    step = max(1, _BLOCK_DRAWS // G)
    for start in range(0, num_samples, step):
        drawn = rng.integers(G, size=(min(step, num_samples - start), G))
        means[start : start + step] = sums[drawn].sum(1) / (G if counts is None else counts[drawn].sum(1))
    return means


def _by_group(values: NDArray[np.float64], groups: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if groups.shape != values.shape:
        raise ValueError(f"groups must name a group for each of the {len(values)} values, got shape {groups.shape}.")
    _, number = np.unique(groups, return_inverse=True)
    return np.bincount(number, values).astype(np.float64), np.bincount(number).astype(np.int64)


def _as_values(values: Values, name: str) -> NDArray[np.float64]:
    tensor = isinstance(values, Tensor)
    numbers = np.asarray(values.detach().cpu() if tensor else values, dtype=np.float64)  # type: ignore[union-attr]
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be one number for each set, shape (N,), got shape {numbers.shape}.")
    if len(numbers) == 0:
        raise ValueError(f"{name} must hold at least one number: there is no mean over no sets.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(numbers)).sum())} that are NaN or infinite.")
    return numbers
