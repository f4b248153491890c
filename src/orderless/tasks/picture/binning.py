"""Bins in which numbers are counted.

Letters: B bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray


def edges_of(numbers: Sequence[NDArray[Any]], count: int, *, most_outside: float = 2.0) -> NDArray[np.float64]:
    """Edges of about `count` bins; whole numbers get bins of equally many.

    The most extreme 0.1 % on either side are cut off where they make the range `most_outside` times as wide, or wider.
    """
    pooled = np.concatenate([finite(part) for part in numbers])
    if not pooled.size:
        return np.linspace(0.0, 1.0, count + 1)
    low, high = pooled.min(), pooled.max()
    inner_low, inner_high = np.quantile(pooled, [0.001, 0.999])
    if high - low > most_outside * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    if high - low < 1000 and (pooled == np.round(pooled)).all():
        low, high = np.floor(low), np.ceil(high)
        span = int(high - low) + 1
        about = ceil(span / count) if span > 2 * count else 1
        # of the steps near that, the one whose last bin hangs over least: a bin half outside would look half empty
        step = min(range(ceil(about * 0.75), about + about // 2 + 1), key=lambda wide: (-span % wide) / wide)
        return np.arange(low - 0.5, high + step, step)
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):  # all but the same number
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, count + 1)


def finite(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """All numbers in a row, but for NaN and infinite ones."""
    flat = numbers.reshape(-1).astype(np.float64)
    return flat[np.isfinite(flat)]


def smoothed(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Averages neighbours along the first axis."""
    padded = np.pad(counts, ((2, 2), (0, 0)))
    weights = (1, 4, 6, 4, 1)
    return sum((w * padded[n : n + len(counts)] for n, w in enumerate(weights)), np.zeros_like(counts)) / 16
