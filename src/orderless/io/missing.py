"""What is not there: values of sets that are missing, and NaN or infinite elements with what is done about them.

Letters: N sets, T elements, D features, n rows of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.samples import listed
from orderless.words import counted

MissingPolicy = Literal["error", "drop", "indicator"]
INDICATOR = " missing"  # behind a feature's name: 1 where the feature was missing, 0 elsewhere


def is_gap(value: Any) -> bool:
    """Whether a value stands for one that is missing: None, NaN, or what pandas has for it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and bool(value != value)


def is_missing(value: Any) -> bool:
    """Whether a cell of a table is empty: a gap, or text without a letter."""
    return not value.strip() if isinstance(value, str) else is_gap(value)


class MissingValues:
    """Applies a policy to blocks of elements, and counts.

    Args:
        policy: `error` counts, and `finish` raises. `drop` leaves out elements in which a number is missing. `indicator` puts
            the median of the set's other elements for a missing number, and 1 into a feature of its own.
        features: D names.
        indicators: Features that have an indicator, in the order of the indicators.
        fill: By feature, what to put for the numbers of a set that has none of that feature at all.
    """

    def __init__(
        self,
        policy: MissingPolicy,
        features: Sequence[str],
        indicators: Sequence[str] = (),
        fill: Mapping[str, float] | None = None,
    ) -> None:
        self.policy, self._features = policy, list(features)
        self._flagged = [self._features.index(name) for name in indicators]
        self._fill = [0.0 if fill is None else fill.get(name, 0.0) for name in indicators]
        self._lacking: dict[str, int] = {}  # feature -> how many sets have no number of it
        self.counts = np.zeros(len(self._features), np.int64)
        self._num_too_large = 0  # of these
        self._first: dict[int, int] = {}  # column -> the set in which it was first seen to be missing
        self._dropped = 0

    def apply(self, codes: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Codes (n,) and rows (n, D + indicators) to be stored, float32: finite, or NaN for `fill` to replace."""
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
                codes, elements, good = codes[kept], elements[kept], good[kept]
            else:
                elements = np.where(good, elements, np.float32(np.nan))
        if self._flagged:
            elements = np.concatenate([elements, (~good[:, self._flagged]).astype(np.float32)], axis=1)
        return codes, elements

    def fill(self, elements: NDArray[np.float32], sizes: NDArray[np.int64]) -> None:
        """Replaces NaN in whole sets laid end to end, (T, D + indicators), with `sizes` (N,), in place.

        The median is of the set's own numbers. So a set is read alike whatever else is in the file, in training and later, no
        other set and no target has a say in it, and what a set has is not moved towards what others have.
        """
        for column, fallback in zip(self._flagged, self._fill, strict=True):
            missing = np.isnan(elements[:, column])
            if missing.any():
                middle = _medians(elements[:, column], sizes)
                lacking = np.isnan(middle)
                if count := int((lacking & (sizes > 0)).sum()):
                    name = self._features[column]
                    self._lacking[name] = self._lacking.get(name, 0) + count
                middle[lacking] = fallback
                elements[missing, column] = np.repeat(middle, sizes)[missing]

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
            fix = f"{begin} what to do: missing='drop' leaves such elements out, missing='indicator' fills in and marks it."
            raise DataError(path, expected="a finite number everywhere", found=f"{self._what()}: {where}{others}", fix=fix)
        told = listed([f"{self._features[c]} ({self.counts[c]:,})" for c in columns])
        if self.policy == "drop":
            return [f"{counted(self._dropped, 'element')} left out because of missing numbers: {told}."]
        return [f"missing numbers are the median of their set, and 1 in a feature '<name>{INDICATOR}': {told}."]

    def late_notes(self) -> list[str]:
        """What to tell after the last set was filled."""
        if not self._lacking:
            return []
        told = listed([f"{name} ({counted(count, 'set')})" for name, count in self._lacking.items()])
        return [f"sets that have no number of a feature at all get the mean of all elements of training: {told}."]

    def _what(self) -> str:
        """What was found that is no finite float32."""
        if not self._num_too_large:
            return "NaN or infinity"
        too_large = "numbers too large for float32 (largest about 3.4e38)"
        return too_large if self._num_too_large == self.counts.sum() else f"NaN, infinity or {too_large}"


class FeatureMeans:
    """The mean of each feature over all elements that have it, gathered as they go by.

    Args:
        num_features: D.
    """

    def __init__(self, num_features: int) -> None:
        self._sums, self._counts = np.zeros(num_features), np.zeros(num_features, np.int64)

    def see(self, rows: NDArray[Any]) -> None:
        """The next rows, (n, D)."""
        with np.errstate(over="ignore"):
            good = np.isfinite(rows.astype(np.float32, copy=False))
        self._sums += np.where(good, rows, 0).sum(0, dtype=np.float64)
        self._counts += good.sum(0)

    def means(self) -> NDArray[np.float64]:
        """(D,), 0 where a feature has no number at all."""
        means: NDArray[np.float64] = self._sums / np.maximum(self._counts, 1)
        return means


def _medians(values: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) medians of values (T,) of sets laid end to end, of those that are not NaN; NaN where a set has none."""
    if len(sizes) == 1:  # a set that may be as large as memory allows: no need to sort it
        present = values[~np.isnan(values)]
        return np.array([np.median(present) if len(present) else np.nan], dtype=np.float64)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    ordered = values[np.lexsort((values, numbers))].astype(np.float64)  # within each set, NaN last
    counts = np.bincount(numbers[~np.isnan(values)], minlength=len(sizes))
    middle = np.full(len(sizes), np.nan)
    some = counts > 0
    starts, counts = (np.cumsum(sizes) - sizes)[some], counts[some]
    middle[some] = (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2
    return middle


def check_policy(policy: str) -> MissingPolicy:
    """The policy, which must be one of those that there are."""
    if policy not in get_args(MissingPolicy):
        raise ValueError(f"missing must be one of {', '.join(get_args(MissingPolicy))}; got {policy!r}.")
    return policy  # type: ignore[return-value]


def split_indicators(asked: Sequence[str], known: Sequence[str], policy: MissingPolicy) -> tuple[list[str], list[str]]:
    """Names asked for: those that the file has, and features whose indicators are asked for by name, as `x missing`.

    Where elements with gaps are left out, indicators are there and 0: a model that was fitted with them can be asked.
    """
    indicators = []
    for name in asked:
        base = name.removesuffix(INDICATOR)
        if policy != "error" and name not in known and base != name and base in asked:
            indicators.append(base)
    return [name for name in asked if name in known or name.removesuffix(INDICATOR) not in indicators], indicators
