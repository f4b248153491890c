"""Columns that number rows: an index that was saved with the table, and nothing that was measured.

Where rows are sorted by set, such a column tells sets apart perfectly, and means nothing in other files.

Letters: n rows of a batch, N sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.per_set import Groups

_ENOUGH = 10  # rows that are counted before it is no accident
_ENOUGH_SETS, _ENOUGH_IN_THEM = 5, 20  # sets of several rows, and rows in these, before it is no accident that none meets another
_EXACT = 2.0**53  # from here on floats are not all whole numbers: adding 1 may change nothing
_INDEX = re.compile(
    r"unnamed: ?\d+|index|idx|level_0|(?:row|cell|event|object)[ _.]?(?:id|index|idx|name|no|nr|num|number)s?", re.I
)

# why a column is taken for an index, as `they ...`
COUNTS, RISES, IS_CALLED = "count the rows one by one", "go up with every row", "are called as an index is"
APART = "are whole numbers of which every set has a range of its own, as an index has"


class RowCounters:
    """Follows columns for as long as they number rows.

    They count them one by one, through the whole table or from the same start in every set; or they are whole numbers that go up
    with every row of a file, as an index does of which rows were left out; or they are whole numbers under the name of an index;
    or whole numbers of which every set has a range of its own, with room for as many as it has rows: an index of a table that was
    sorted by set, and then sorted otherwise or shuffled.

    Args:
        columns: Names of columns of numbers.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._through: dict[str, tuple[int, int] | None] = dict.fromkeys(columns)  # its first number, and the next to come
        self._within: dict[str, int | None] = dict.fromkeys(columns)  # its first number
        self._rising: dict[str, Any] = dict.fromkeys(columns, -np.inf)  # its last number
        self._called = {name: None for name in columns if _INDEX.fullmatch(name)}
        # lowest and highest of each set
        self._ranges: dict[str, tuple[NDArray[Any], NDArray[Any]] | None] = dict.fromkeys(columns)
        self._rows, self._in_file, self._largest_file = 0, 0, 0

    def see(self, column: Callable[[str], NDArray[Any]], groups: Groups, sizes: NDArray[np.int64], *, is_new_file: bool) -> None:
        """Looks at a batch.

        Args:
            column: Gives the numbers (n,) of a column: int64 or uint64 where their type is whole, as large ones are others as
                floats.
            groups: The rows by set.
            sizes: (N,) rows of each set up to here, these included.
            is_new_file: Whether these are the first rows of a file, where an index may begin again.
        """
        self._rows += len(groups.local)
        self._in_file = len(groups.local) + (0 if is_new_file else self._in_file)
        self._largest_file = max(self._largest_file, self._in_file)
        places = _places(groups, sizes) if self._within else None  # one sort; few columns are followed beyond the first batch
        for name in dict.fromkeys([*self._through, *self._within, *self._rising, *self._called, *self._ranges]):
            values = column(name)
            values = values if values.dtype.kind in "iu" else values.astype(np.float64, copy=False)
            if name in self._through and not self._goes_on(name, values, is_new_file):
                del self._through[name]
            if places is not None and name in self._within and not self._begins_anew(name, values, places):
                del self._within[name]
            if name in self._rising and not self._goes_up(name, values, is_new_file):
                del self._rising[name]
            if name in self._called and not _are_whole(values):
                del self._called[name]
            if name in self._ranges and not self._stays_apart(name, values, groups, len(sizes)):
                del self._ranges[name]

    def _goes_on(self, name: str, values: NDArray[Any], is_new_file: bool) -> bool:
        if not _can_count(values):
            return False
        first = int(values[0])
        start, expected = self._through[name] or (first, first)
        if is_new_file and first == start:
            expected = start
        self._through[name] = (start, expected + len(values))
        return first == expected and bool((np.diff(values) == 1).all())

    def _begins_anew(self, name: str, values: NDArray[Any], places: NDArray[np.int64]) -> bool:
        if not _can_count(values):
            return False
        before = self._within[name]
        start = int(values[0]) - int(places[0]) if before is None else before
        self._within[name] = start
        return bool((values - places.astype(values.dtype) == start).all())

    def _goes_up(self, name: str, values: NDArray[Any], is_new_file: bool) -> bool:
        last = -np.inf if is_new_file else self._rising[name]
        self._rising[name] = values[-1]
        return bool(values[0] > last and (values[1:] > values[:-1]).all()) and _are_whole(values)

    def _stays_apart(self, name: str, values: NDArray[Any], groups: Groups, num_sets: int) -> bool:
        if not _are_whole(values):
            return False
        known = self._ranges[name] or (values[:0], values[:0])
        dtype = np.result_type(known[0], values)
        least, most = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        low, high = np.full(num_sets, most, dtype), np.full(num_sets, least, dtype)
        for before, now in zip(known, (low, high), strict=True):
            now[: len(before)] = before
        codes = groups.codes[groups.local]  # (n,)
        np.minimum.at(low, codes, values)
        np.maximum.at(high, codes, values)
        self._ranges[name] = low, high
        seen = np.flatnonzero(low <= high)
        order = seen[np.argsort(low[seen])]
        return bool((high[order[:-1]] < low[order[1:]]).all())

    def _are_ranges(self, name: str, sizes: NDArray[np.int64]) -> bool:
        low, high = self._ranges[name] or (sizes[:0], sizes[:0])
        several = sizes > 1
        enough = several.sum() >= _ENOUGH_SETS and sizes[several].sum() >= _ENOUGH_IN_THEM
        full = sizes > 0
        width = high[full] - low[full]  # negative where it is beyond the largest number
        return bool(enough and ((width >= sizes[full].astype(width.dtype) - 1) | (width < 0)).all())

    def found(self, sizes: NDArray[np.int64]) -> dict[str, str]:
        """Columns that numbered rows to the end, given (N,) rows of each set, and why they are taken for that."""
        through = self._through if self._rows >= _ENOUGH else {}
        within = self._within if sizes.max(initial=0) >= _ENOUGH else {}
        rising = self._rising if self._largest_file >= _ENOUGH else {}
        return {
            **dict.fromkeys((name for name in self._ranges if self._are_ranges(name, sizes)), APART),
            **dict.fromkeys(self._called, IS_CALLED),
            **dict.fromkeys(rising, RISES),
            **dict.fromkeys([*through, *within], COUNTS),
        }


def _can_count(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or bool((np.abs(values) < _EXACT).all() and float(values[0]).is_integer())


def _are_whole(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or bool((np.isfinite(values) & (values == np.floor(values))).all())


def _places(groups: Groups, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how many rows of its set came before each row, in this batch and those before."""
    codes = groups.codes[groups.local]  # (n,)
    counts = np.bincount(codes, minlength=len(sizes))  # (N,)
    order = np.argsort(codes, kind="stable")
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places + (sizes - counts)[codes]
