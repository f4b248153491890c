"""Elements are stored as float32, which has about seven digits: enough for what is measured, too few for large offsets.

Letters: n rows of a block, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LostDigits:
    """Finds features of which float32 takes different numbers for one, more than half of them in some block.

    Args:
        features: D names.
    """

    def __init__(self, features: Sequence[str]) -> None:
        self._features = list(features)
        self._examples: dict[int, tuple[float, float]] = {}  # by column: two numbers that become one

    def see(self, rows: NDArray[Any]) -> None:
        """Looks at a block (n, D), as it was read."""
        if np.can_cast(rows.dtype, np.float32) or not len(rows):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            least, most = rows.min(0).astype(np.float64), rows.max(0).astype(np.float64)  # (D,)
            gaps = np.flatnonzero(np.isnan(least))  # few columns: passing over NaN takes several times as long
            least[gaps], most[gaps] = np.fmin.reduce(rows[:, gaps]), np.fmax.reduce(rows[:, gaps])
            spacing = np.spacing(np.maximum(np.abs(least), np.abs(most)).astype(np.float32))
            # only where float32 has few numbers for so many rows are they worth sorting
            is_crowded = (most > least) & ((most - least) / spacing < 4.0 * len(rows))
        for column in np.flatnonzero(is_crowded).tolist():
            if column not in self._examples:
                self._look(column, rows[:, column])

    def _look(self, column: int, values: NDArray[Any]) -> None:
        distinct = np.unique(values[np.isfinite(values)])
        merged = np.flatnonzero(np.diff(distinct.astype(np.float32)) == 0)
        if 2 * len(merged) > len(distinct):
            first = int(merged[0])
            self._examples[column] = (float(distinct[first]), float(distinct[first + 1]))

    def notes(self) -> list[str]:
        """What to tell, after the last block."""
        return [
            f"feature {self._features[column]!r} loses digits: numbers are stored as float32, in which {one:.17g} and "
            f"{other:.17g} are the same. Subtract what all of them have in common."
            for column, (one, other) in sorted(self._examples.items())
        ]
