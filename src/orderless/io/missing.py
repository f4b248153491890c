"""Numbers that are not there: NaN or infinite elements, and what is done about them.

Letters: T elements, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.samples import listed

MissingPolicy = Literal["error", "drop", "indicator"]
INDICATOR = " missing"  # behind a feature's name: 1 where the feature was missing, 0 elsewhere


class MissingValues:
    """Applies a policy to blocks of elements, and counts.

    Args:
        policy: `error` counts, and `finish` raises. `drop` leaves out elements in which a number is missing. `indicator` puts 0
            for a missing number, and 1 into a feature of its own.
        features: D names.
        indicators: Features that have an indicator, in the order of the indicators.
    """

    def __init__(self, policy: MissingPolicy, features: Sequence[str], indicators: Sequence[str] = ()) -> None:
        self.policy, self._features = policy, list(features)
        self._flagged = [self._features.index(name) for name in indicators]
        self.counts = np.zeros(len(self._features), np.int64)
        self._num_too_large = 0  # of these
        self._first: dict[int, int] = {}  # column -> the set in which it was first seen to be missing
        self._dropped = 0

    def apply(self, codes: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Codes (n,) and rows (n, D) as they are stored: float32 and finite."""
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and counted as such
            elements = rows.astype(np.float32, copy=False)
        good = np.isfinite(elements)
        if not good.all():
            bad = ~good
            self._count(codes, bad)
            self._num_too_large += int((bad & np.isfinite(rows)).sum())
            if self.policy == "drop":
                kept = good.all(1)
                self._dropped += int((~kept).sum())
                return codes[kept], elements[kept]
            elements = np.where(good, elements, np.float32(0))
        if self._flagged:
            elements = np.concatenate([elements, (~good[:, self._flagged]).astype(np.float32)], axis=1)
        return codes, elements

    def _count(self, codes: NDArray[Any], bad: NDArray[np.bool_]) -> None:
        self.counts += bad.sum(0)
        for column in np.flatnonzero(bad.any(0)).tolist():
            if column not in self._first:
                self._first[column] = int(codes[np.argmax(bad[:, column])])

    def affected(self) -> list[str]:
        """Features of which a number was missing."""
        return [self._features[column] for column in np.flatnonzero(self.counts).tolist()]

    def finish(self, path: Path, ids: Sequence[str]) -> list[str]:
        """What to tell, after the last block.

        Raises:
            DataError: If numbers are missing and the policy is `error`.
        """
        columns = np.flatnonzero(self.counts).tolist()
        if not columns:
            return []
        first = columns[0]
        if self.policy == "error":
            others = f", and more in {listed([self._features[c] for c in columns[1:]])}" if len(columns) > 1 else ""
            where = f"{self.counts[first]:,} in feature {self._features[first]!r} (first in set {ids[self._first[first]]!r})"
            begin = "Correct them, give them in another unit, or say" if self._num_too_large else "Say"
            fix = f"{begin} what to do: missing='drop' leaves such elements out, missing='indicator' puts 0 and marks it."
            raise DataError(path, expected="a finite number everywhere", found=f"{self._what()}: {where}{others}", fix=fix)
        told = listed([f"{self._features[c]} ({self.counts[c]:,})" for c in columns])
        if self.policy == "drop":
            return [f"{self._dropped:,} elements were left out because numbers are missing in them: {told}."]
        return [f"missing numbers are 0, and 1 in a feature '<name>{INDICATOR}': {told}."]

    def _what(self) -> str:
        """What was found that is no finite float32."""
        if not self._num_too_large:
            return "NaN or infinity"
        too_large = "numbers too large for float32 (largest about 3.4e38)"
        return too_large if self._num_too_large == self.counts.sum() else f"NaN, infinity or {too_large}"


def check_policy(policy: str) -> MissingPolicy:
    """The policy, which must be one of those that there are."""
    if policy not in get_args(MissingPolicy):
        raise ValueError(f"missing must be one of {', '.join(get_args(MissingPolicy))}; got {policy!r}.")
    return policy  # type: ignore[return-value]


def split_indicators(asked: Sequence[str], known: Sequence[str], policy: MissingPolicy) -> tuple[list[str], list[str]]:
    """Names asked for: those that the file has, and features whose indicators are asked for by name, as `x missing`."""
    indicators = []
    for name in asked:
        base = name.removesuffix(INDICATOR)
        if policy == "indicator" and name not in known and base != name and base in asked:
            indicators.append(base)
    return [name for name in asked if name in known or name.removesuffix(INDICATOR) not in indicators], indicators
