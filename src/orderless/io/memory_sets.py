"""Sets in memory, and a choice of other sets: both speak as `StoredSets` does.

Letters: N sets, D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orderless.io.store import iterate_blocks

Indices = Sequence[int] | NDArray[np.integer[Any]]


class Sets(Protocol):
    """What every source of sets can do, on disk or in memory.

    Attributes:
        sizes: (N,) int64, how many elements each set has.
        element_shape: Shape of one element.
        columns: (N,) values by name.
    """

    sizes: NDArray[np.int64]
    element_shape: tuple[int, ...]
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int: ...

    def gather(self, indices: Indices) -> NDArray[Any]:
        """A copy of the elements of these sets, laid end to end."""

    def blocks(self, index: int, size: int = 2**18) -> Iterator[NDArray[Any]]:
        """The elements of one set in their order, copied `size` at a time."""

    def take(self, index: int, rows: Indices) -> NDArray[Any]:
        """A copy of some elements of one set."""


class MemorySets:
    """Sets in memory, with the interface of `StoredSets`.

    Args:
        sets: Arrays (n_i, D) of numbers. Those that are float32 already are not copied.
        num_features: D, needed only where there is no set to tell it.
        columns: (N,) further values by name.

    Attributes:
        sizes: (N,) int64, how many elements each set has.
        element_shape: (D,).
        columns: As given.
    """

    def __init__(
        self,
        sets: Sequence[NDArray[Any]],
        *,
        num_features: int | None = None,
        columns: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self._sets = [np.asarray(elements, dtype=np.float32) for elements in sets]
        widths = sorted(
            {elements.shape[1:] for elements in self._sets} | ({(num_features,)} if num_features is not None else set())
        )
        if len(widths) != 1 or len(widths[0]) != 1:
            found = " and ".join(str(("n", *width)) for width in widths) if widths else "no set and no num_features"
            raise ValueError(f"sets must be arrays (n, D) with the same D, got {found}.".replace("'", ""))
        self.element_shape: tuple[int, ...] = widths[0]
        self.sizes: NDArray[np.int64] = np.array([len(elements) for elements in self._sets], dtype=np.int64)
        self.columns: dict[str, NDArray[Any]] = dict(columns or {})
        for name, values in self.columns.items():
            if len(values) != len(self._sets):
                raise ValueError(f"column {name!r} must have {len(self._sets)} values, got {len(values)}.")

    def __len__(self) -> int:
        return len(self._sets)

    def gather(self, indices: Indices) -> NDArray[Any]:
        """A copy of the elements of these sets, laid end to end: (sum of their sizes, D)."""
        chosen = [self._sets[i] for i in np.asarray(indices, dtype=np.int64).tolist()]
        return np.concatenate(chosen) if chosen else np.empty((0, *self.element_shape), np.float32)

    def blocks(self, index: int, size: int = 2**18) -> Iterator[NDArray[Any]]:
        """The elements of one set in their order, copied `size` at a time."""
        elements = self._sets[index]
        return (elements[block.start : block.stop].copy() for block in iterate_blocks(len(elements), size))

    def take(self, index: int, rows: Indices) -> NDArray[Any]:
        """A copy of some elements of one set, (len(rows), D)."""
        return self._sets[index].take(np.asarray(rows, dtype=np.int64), axis=0)


class ChosenSets:
    """Some of other sets, in the order asked for, without a copy of their elements."""

    def __init__(self, sets: Sets, indices: Indices) -> None:
        chosen = np.asarray(indices, dtype=np.int64).reshape(-1)
        if isinstance(sets, ChosenSets):  # a choice of a choice does not pile up
            chosen, sets = sets.indices[chosen], sets.whole
        self.whole: Sets = sets
        self.indices: NDArray[np.int64] = chosen
        self.element_shape: tuple[int, ...] = sets.element_shape
        self.sizes: NDArray[np.int64] = sets.sizes[chosen]
        self.columns: dict[str, NDArray[Any]] = {name: values[chosen] for name, values in sets.columns.items()}

    def __len__(self) -> int:
        return len(self.indices)

    def gather(self, indices: Indices) -> NDArray[Any]:
        """A copy of the elements of these sets, laid end to end."""
        return self.whole.gather(self.indices[np.asarray(indices, dtype=np.int64)])

    def blocks(self, index: int, size: int = 2**18) -> Iterator[NDArray[Any]]:
        """The elements of one set in their order, copied `size` at a time."""
        return self.whole.blocks(int(self.indices[index]), size)

    def take(self, index: int, rows: Indices) -> NDArray[Any]:
        """A copy of some elements of one set."""
        return self.whole.take(int(self.indices[index]), rows)
