"""What is known of sets rather than of elements: columns of a long table that do not change within any set.

Letters: n rows of a batch, k sets in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
            codes[i] = self.names.setdefault(set_name(values[i]), len(self.names))
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


class ConstantColumns:
    """Follows columns for as long as they are constant within every set.

    Attributes:
        values: By column, by the number of a set: its value there. Columns that vary within a set are not in it any more.
        varying: Those.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.values: dict[str, dict[int, Any]] = {name: {} for name in columns}
        self.varying: set[str] = set()

    def see(self, name: str, column: Any, groups: Groups) -> None:
        """Looks at the values of a column in a batch."""
        if name in self.varying:
            return
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)  # (n,)
        there = groups.first >= 0
        of_set = np.full(len(groups.codes), -1)
        of_set[there] = indices[groups.first[there]]
        is_constant = bool((indices == of_set[groups.local]).all())
        known = self.values[name]
        if is_constant:
            choices = [plain(value) for value in encoded.dictionary.to_pylist()] + [None]  # -1 is the last: missing
            for code, index in zip(groups.codes[there].tolist(), of_set[there].tolist(), strict=True):
                if known.setdefault(code, choices[index]) != choices[index]:
                    is_constant = False
                    break
        if not is_constant:
            self.varying.add(name)
            del self.values[name]


def plain(value: Any) -> Any:
    """A value of a set as str, int, float, bool or None; NaN is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if isinstance(value, Decimal) else str(value)


def set_name(value: Any) -> str:
    """The name of a set as text: a whole number has no decimals, whatever type it was stored in."""
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
