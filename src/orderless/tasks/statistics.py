"""Mean and spread of features over elements that come in blocks.

Letters: D features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.store import iterate_blocks
from orderless.tasks.dataset import SetDataset

_NUMBERS_READ = 2**22  # at a time
_FEWEST_SETS = 64  # that stand for all


class FeatureStatistics:
    """Mean and standard deviation of each feature over elements that come in blocks, merged without loss (Chan et al. 1983).

    Attributes:
        count: Elements so far.
        mean: (D,) float64.
    """

    def __init__(self, num_features: int) -> None:
        self.count = 0
        self.mean, self._squares = np.zeros(num_features), np.zeros(num_features)

    def add(self, elements: NDArray[Any]) -> None:
        """Takes another block of elements (n, D)."""
        if not len(elements):
            return
        with np.errstate(invalid="ignore"):  # infinite elements have no mean, which is for others to tell
            mean = elements.mean(0, dtype=np.float64)
            squares = ((elements - mean) ** 2).sum(0)
            total = self.count + len(elements)
            gap = mean - self.mean
            self._squares += squares + gap**2 * (self.count * len(elements) / total)
            self.mean = self.mean + gap * (len(elements) / total)
            self.count = total

    @property
    def deviation(self) -> NDArray[np.float64]:
        """(D,) standard deviations; 0 for a feature that does not vary, or by no more than rounding."""
        deviation = np.sqrt(self._squares / max(self.count, 1))
        return np.where(deviation > 1e-7 * np.abs(self.mean), deviation, 0.0)

    @property
    def spread(self) -> NDArray[np.float64]:
        """(D,) what features may be divided by: standard deviations; 1 for a feature that does not vary."""
        return np.where(self.deviation > 0, self.deviation, 1.0)


def measure_features(sets: SetDataset, num_elements: int) -> FeatureStatistics:
    """Mean and spread of every feature of elements, laid flat, over about so many of them, of sets evenly spread over all.

    Raises:
        ValueError: If one of them holds NaN or an infinite number.
    """
    num_features = math.prod(sets.element_shape)
    found = FeatureStatistics(num_features)
    share = num_elements / max(int(sets.sizes.sum()), 1)
    count = min(len(sets), max(_FEWEST_SETS, int(share * len(sets))))
    chosen = np.linspace(0, len(sets) - 1, count).round().astype(np.int64)
    at_once = max(_NUMBERS_READ // num_features, 1)
    sets_at_once = at_once // max(int(sets.sizes[chosen].max(initial=1)), 1)
    if sets_at_once:
        for block in iterate_blocks(count, sets_at_once):
            found.add(sets[chosen[block.start : block.stop]].sets.x.reshape(-1, num_features).numpy())
    else:
        for number in chosen.tolist():
            for x in sets.blocks(number, at_once):
                found.add(x.reshape(-1, num_features).numpy())
    if not np.isfinite(found.mean).all():
        wrong = np.flatnonzero(~np.isfinite(found.mean)).tolist()
        raise ValueError(f"training elements hold NaN or infinite numbers, first in feature {wrong[0]}.")
    return found
