"""What is known of sets rather than of elements: columns of a long table that do not change within any set, but for slips.

Letters: n rows of a batch, k sets in it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.extras import require
from orderless.io.reading import shown
from orderless.io.samples import Varies

_ENOUGH = 10  # sets that are seen before a column is said to vary within most
_SETS_PER_SLIP = 10  # at least: a column that varies within more sets is no constant with slips


class SetNumbers:
    """Numbers sets in the order in which their names appear, and counts their rows."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._sizes = np.zeros(1024, np.int64)

    def add(self, names: Sequence[str]) -> None:
        """Sets that are there even if no row is of them."""
        for name in names:
            self.names.setdefault(name, len(self.names))
        while len(self._sizes) < len(self.names):
            self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])

    def number(self, column: Any) -> Groups:
        """The rows of a batch by set.

        Args:
            column: (n,) Arrow array: what each row says of its set. None of it may be missing.
        """
        encoded = column.dictionary_encode() if not hasattr(column, "dictionary") else column
        local = encoded.indices.to_numpy(zero_copy_only=False)  # (n,)
        values = encoded.dictionary.to_pylist()
        counts = np.bincount(local, minlength=len(values))
        codes = np.full(len(values), -1, np.int64)
        for i in np.flatnonzero(counts).tolist():  # a dictionary may have names that no row has: they are no sets
            codes[i] = self.names.setdefault(text_of(values[i]), len(self.names))
        self.add(())
        np.add.at(self._sizes, codes[counts > 0], counts[counts > 0])  # two values may be one name: 1 and 1.0
        return Groups(local, codes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(N,) rows of each set so far."""
        return self._sizes[: len(self.names)]


class Groups:
    """The rows of a batch by set.

    Attributes:
        local: (n,) number of each row's set within the batch.
        codes: (k,) numbers of these sets among all, -1 for a name that no row has.
        first: (k,) a row of each, the first, or -1.
    """

    def __init__(self, local: NDArray[Any], codes: NDArray[np.int64]) -> None:
        self.local, self.codes = local, codes
        self.first = np.full(len(codes), -1)
        self.first[local[::-1]] = np.arange(len(local))[::-1]


@dataclass(frozen=True)
class Difference:
    """Where a column differs within a set for the first time.

    Attributes:
        code: Number of the set.
        row: The row that differs from those of its set before it, from 1.
        file: Name of its file, '' where there is only one.
        values: What the rows before it have, and what it has.
    """

    code: int
    row: int
    file: str
    values: tuple[Any, Any]

    def describe(self, names: Sequence[str]) -> str:
        """In words, with the names of sets by number: `set s1 ('no', and 'yes' in row 6)`."""
        before, after = map(_in_words, self.values)
        return f"set {names[self.code]} ({before}, and {after} in row {self.row}{f' of {self.file}' if self.file else ''})"


class ConstantColumns:
    """Follows columns of sets to learn which are constant within every set, and where others are not.

    A column that varies within most sets is not followed to the end: it is no constant with slips.

    Attributes:
        varying: By column, by the number of a set within which it varies: where. Of a column that is not followed any more, the
            first set alone.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._first: dict[str, dict[int, Any]] = {name: {} for name in columns}  # the first value of each set
        self.varying: dict[str, dict[int, Difference]] = {}

    @property
    def followed(self) -> list[str]:
        """Columns that are still looked at."""
        return list(self._first)

    @property
    def values(self) -> dict[str, dict[int, Any]]:
        """By column that varies within no set, by the number of a set: its value there."""
        return {name: values for name, values in self._first.items() if name not in self.varying}

    def see(self, name: str, column: Any, groups: Groups, *, first_row: int = 1, file: str = "") -> None:
        """Looks at the values of a column in a batch, whose first row is `first_row` of a file."""
        if name not in self._first:
            return
        there = np.flatnonzero(groups.first >= 0)  # (k,)
        rows = groups.first[there]
        usual = [plain(value) for value in column.take(rows).to_pylist()]
        known, found = self._first[name], self.varying.get(name, {})
        for code, row, value in zip(groups.codes[there].tolist(), rows.tolist(), usual, strict=True):
            if known.setdefault(code, value) != value and code not in found:
                found[code] = Difference(code, first_row + row, file, (known[code], value))
        differing = _differing(column, groups)
        local, at = np.unique(groups.local[differing], return_index=True)
        for code, row in zip(groups.codes[local].tolist(), differing[at].tolist(), strict=True):
            if code not in found:
                found[code] = Difference(code, first_row + row, file, (known[code], plain(column[row].as_py())))
        if found:
            self.varying[name] = found
        if len(known) >= _ENOUGH and 2 * len(found) > len(known):
            del self._first[name]
            self.varying[name] = dict(list(found.items())[:1])

    def slips(self, name: str, sizes: NDArray[np.int64]) -> list[Difference]:
        """Where a column varies that is constant within nearly all sets, given (N,) rows of each; none of any other column."""
        if name not in self._first or name not in self.varying:
            return []
        found = self.varying[name]
        constant = [value for code, value in self._first[name].items() if code not in found and sizes[code] > 1]
        return list(found.values()) if is_nearly_constant(constant, len(found)) else []

    def describe_varying(self, names: Sequence[str], sizes: NDArray[np.int64]) -> dict[str, Varies]:
        """Columns that vary within sets and where, given (N,) names and rows of each."""
        return {
            name: Varies(next(iter(found.values())).describe(names), bool(self.slips(name, sizes)))
            for name, found in self.varying.items()
        }


def is_nearly_constant(values: Sequence[Any], num_varying: int) -> bool:
    """Whether a column is something known of sets, an outcome say, with a few slips in it.

    That is so if it is constant within nine of ten sets, and differs between them: in at least as many sets as it varies within
    it has another value than the usual one. A feature that is 0 but for some elements of a few sets is 0 in all other sets.

    Args:
        values: Its value in each set of several rows within which it is constant.
        num_varying: Number of sets within which it varies.
    """
    if num_varying == 0 or _SETS_PER_SLIP * num_varying > len(values) + num_varying:
        return False
    return len(values) - max(Counter(values).values()) >= num_varying


def _differing(column: Any, groups: Groups) -> NDArray[np.int64]:
    """Rows whose value is not that of the first row of their set."""
    types = require("pyarrow", "io").types
    if types.is_floating(column.type) or (types.is_integer(column.type) and not column.null_count):
        values = column.to_numpy(zero_copy_only=False)  # (n,), NaN where missing
    else:
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        values = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    usual = values[groups.first[groups.local]]
    return np.flatnonzero((values != usual) & ((values == values) | (usual == usual)))


def _in_words(value: Any) -> str:
    if value is None:
        return "nothing"
    return shown(value) if isinstance(value, str) else str(value)


def plain(value: Any) -> Any:
    """A value of a set as str, int, float, bool or None; NaN is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if isinstance(value, Decimal) else str(value)


def text_of(value: Any) -> str:
    """A name as text, of a set, a group or a class: a whole number has no decimals, whatever type it was stored in."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def name_words(name: str) -> list[str]:
    """Words of a column's name, without capitals and plurals: sample_ids, SampleID and `Sample id` are the same."""
    found = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return [word[:-1] if word.endswith("s") and word != "fcs" else word for word in found]


def natural_order(names: Sequence[str]) -> list[int]:
    """Positions of names in the order that a person would give them: numbers by value, also within text (`s2` before `s10`)."""

    def key(position: int) -> tuple[list[Any], str]:
        parts: list[Any] = re.split(r"(\d+)", names[position])
        parts[1::2] = [(len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2]]  # by value, however long
        return parts, names[position]

    if all(re.fullmatch(r"-?\d+(\.\d+)?", name) for name in names):
        return sorted(range(len(names)), key=lambda i: (float(names[i]), names[i]))
    return sorted(range(len(names)), key=key)
