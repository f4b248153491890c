"""Columns that count rows: an index that was saved with the table, and nothing that was measured.

Where rows are sorted by set, such a column tells sets apart perfectly, and means nothing in other files.

Letters: n rows of a batch, N sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.per_set import Groups

_ENOUGH = 10  # rows that are counted before it is no accident


class RowCounters:
    """Follows columns for as long as they count rows one by one: through the whole table, or from the same start in every set.

    Args:
        columns: Names of columns of numbers.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._through: dict[str, tuple[float, float] | None] = dict.fromkeys(columns)  # its first number, and the next to come
        self._within: dict[str, float | None] = dict.fromkeys(columns)  # its first number
        self._rows = 0

    def see(self, column: Callable[[str], NDArray[Any]], groups: Groups, sizes: NDArray[np.int64], *, is_new_file: bool) -> None:
        """Looks at a batch.

        Args:
            column: Gives the numbers (n,) of a column.
            groups: The rows by set.
            sizes: (N,) rows of each set up to here, these included.
            is_new_file: Whether these are the first rows of a file, where an index may begin again.
        """
        self._rows += len(groups.local)
        places = _places(groups, sizes) if self._within else None  # one sort; few columns are followed beyond the first batch
        for name in list(dict.fromkeys([*self._through, *self._within])):
            values = column(name).astype(np.float64, copy=False)
            if name in self._through and not self._goes_on(name, values, is_new_file):
                del self._through[name]
            if places is not None and name in self._within:
                start = self._within[name]
                start = values[0] - places[0] if start is None else start
                self._within[name] = start
                if not (start.is_integer() and (values == start + places).all()):
                    del self._within[name]

    def _goes_on(self, name: str, values: NDArray[Any], is_new_file: bool) -> bool:
        start, expected = self._through[name] or (values[0], values[0])
        if is_new_file and values[0] == start:
            expected = start
        self._through[name] = (start, expected + len(values))
        return bool(float(start).is_integer() and (values == expected + np.arange(len(values))).all())

    def found(self, sizes: NDArray[np.int64]) -> list[str]:
        """Columns that counted to the end, given (N,) rows of each set."""
        through = self._through if self._rows >= _ENOUGH else {}
        within = self._within if sizes.max(initial=0) >= _ENOUGH else {}
        return list(dict.fromkeys([*through, *within]))


def _places(groups: Groups, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how many rows of its set came before each row, in this batch and those before."""
    codes = groups.codes[groups.local]  # (n,)
    counts = np.bincount(codes, minlength=len(sizes))  # (N,)
    order = np.argsort(codes, kind="stable")
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places + (sizes - counts)[codes]
