"""Features with heavy tails, such as raw intensities: a few elements are so far out that all others look the same beside them.

Letters: T elements, D features.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orderless.estimators import defaults

Floats = NDArray[np.float64]

_QUARTERS = 1.349  # standard deviations of a normal distribution from its lower to its upper quartile


class Sample:
    """At most `defaults.TAIL_ELEMENTS` of all elements, every so many, gathered as they go by.

    Args:
        num_elements: T, all that will go by.
    """

    def __init__(self, num_elements: int) -> None:
        self._step = max(1, -(-num_elements // defaults.TAIL_ELEMENTS))
        self._seen = 0
        self._rows: list[Floats] = []
        self._weights: list[Floats] = []

    def add(self, x: Floats, weight: Floats | float) -> None:
        """The next elements, (n, D), and what each counts, (n,) or one number."""
        rows = slice((-self._seen) % self._step, None, self._step)
        self._seen += len(x)
        self._rows.append(x[rows].copy())
        self._weights.append(np.broadcast_to(weight, len(x))[rows])

    def tails(self, deviation: Floats) -> Tails:
        """Which features have heavy tails, of those with standard deviations (D,)."""
        if not self._rows:
            return Tails(np.zeros(len(deviation), bool), np.zeros_like(deviation), np.ones_like(deviation))
        x, weight = np.concatenate(self._rows), np.concatenate(self._weights)
        lower, middle, upper = _quantiles(x, weight, (0.25, 0.5, 0.75))
        spread = (upper - lower) / _QUARTERS
        return Tails((spread > 0) & (deviation > defaults.HEAVY_TAIL * spread), middle, spread)


@dataclass(frozen=True)
class Tails:
    """Where elements are, told by quartiles, which no wild element moves.

    Attributes:
        heavy: (D,) whether the standard deviation is far larger than quartiles would have it.
        median: (D,)
        spread: (D,) from quartile to quartile, as standard deviations of a normal distribution.
    """

    heavy: NDArray[np.bool_]
    median: Floats = field(repr=False)
    spread: Floats = field(repr=False)


def _quantiles(x: Floats, weight: Floats, shares: tuple[float, ...]) -> list[Floats]:
    """For each share (D,) the lowest value that has this share of all weight at or below it."""
    order = np.argsort(x, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)  # (T, D)
    places = [(below < share * below[-1]).sum(0) for share in shares]
    return [np.take_along_axis(x, np.take_along_axis(order, place[None], 0), 0)[0] for place in places]
