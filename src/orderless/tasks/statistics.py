"""Mean and spread of features over elements that come in blocks.

Letters: D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
        mean = elements.mean(0, dtype=np.float64)
        squares = ((elements - mean) ** 2).sum(0)
        total = self.count + len(elements)
        gap = mean - self.mean
        self._squares += squares + gap**2 * (self.count * len(elements) / total)
        self.mean = self.mean + gap * (len(elements) / total)
        self.count = total

    @property
    def spread(self) -> NDArray[np.float64]:
        """(D,) standard deviations; 1 for a feature that does not vary, or by no more than rounding."""
        deviation = np.sqrt(self._squares / max(self.count, 1))
        return np.where(deviation > 1e-7 * np.abs(self.mean), deviation, 1.0)
