"""Named sets as read from files: elements on disk or in memory, names of features, and what is known of each set.

Letters: N sets, D features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.memory_sets import ChosenSets, Indices, Sets
from orderless.words import counted


@dataclass(frozen=True)
class Varies:
    """Where a column of the files differs within sets: it is not known per set, then.

    Attributes:
        where: The first set of them, in words.
        is_slip: Whether it is the same in all rows of nearly every set, so that it is likely meant to be known per set.
    """

    where: str
    is_slip: bool = False


@dataclass(frozen=True, eq=False)
class Samples:
    """Sets with names, as `open_samples` reads them. `samples[i]` is one set, (n_i, D) float32.

    Attributes:
        sets: The elements: `sizes` (N,), `gather(indices)`, `blocks(i, size)`.
        ids: N names of sets, each once.
        features: D names of features.
        units: D units, '' where unknown.
        columns: What is known of each set, by name: (N,) numbers, or objects that are text or None.
        notes: What a user should know of how the files were read, one line each.
        varying: Columns of the files that differ within sets, by name, and where. Features may be among them.
        are_named: Whether the user named the features, rather than that they were found.
        origin: The kind of file (`kind`), and the options of `open_samples` that make the same features of other files
            (`options`); of FCS files also how many are `compensated`. JSON values.
    """

    sets: Sets
    ids: tuple[str, ...]
    features: tuple[str, ...]
    units: tuple[str, ...] = ()
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    varying: Mapping[str, Varies] = field(default_factory=dict)
    are_named: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", ("",) * len(self.features))
        counts = {"ids": len(self.ids), **{f"column {name!r}": len(values) for name, values in self.columns.items()}}
        for what, count in counts.items():
            if count != len(self.sets):
                raise ValueError(f"{what} must have one value for each of {len(self.sets)} sets, got {count}.")
        for what, names in (("features", self.features), ("units", self.units)):
            if (len(names),) != tuple(self.sets.element_shape):
                raise ValueError(f"{what} must name each of {self.sets.element_shape} features, got {len(names)}.")
        for what, names in (("ids", self.ids), ("features", self.features)):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what} must be unique, got {listed(twice)} more than once.")

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(N,), how many elements each set has."""
        return self.sets.sizes

    @property
    def empty(self) -> tuple[str, ...]:
        """Names of the sets that have no element."""
        return tuple(self.ids[i] for i in np.flatnonzero(self.sizes == 0).tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.sets.gather([range(len(self))[index]])  # a range knows negative numbers, and what is out of it

    def select(self, indices: Indices) -> Samples:
        """Some of the sets in the order asked for, without a copy of their elements."""
        chosen = np.asarray(indices, dtype=np.int64).reshape(-1)
        return replace(
            self,
            sets=ChosenSets(self.sets, chosen),
            ids=tuple(self.ids[i] for i in chosen.tolist()),
            columns={name: values[chosen] for name, values in self.columns.items()},
        )

    def __repr__(self) -> str:
        empty = f", {len(self.empty)} of them empty" if self.empty else ""
        sets, elements = counted(len(self), "set"), counted(int(self.sizes.sum()), "element")
        return f"Samples({sets}{empty}, {elements}, features {listed(self.features)})"


def is_samples(given: object) -> bool:
    """Whether these are sets with names, and features with names, as `open_samples` gives them."""
    return all(hasattr(given, name) for name in ("sets", "ids", "features"))


def by_set_name(values: Any, ids: Sequence[Any], what: str) -> Any:
    """Values in the order of the sets, where they have an index with names of sets: every set has to be there once, no other.

    Args:
        values: One for each set. What is no Series or DataFrame, or has an index of something else, is in the order of the sets.
        ids: (N,) names of the sets.
        what: The values are, for messages.
    """
    # rows may have no names, or not as sets have them
    if not hasattr(values, "iloc") or type(values.index).__name__ in ("RangeIndex", "MultiIndex"):
        return values
    places: dict[Any, int] = {}
    twice, names = [], list(values.index)
    if all(isinstance(name, str) for name in ids):  # samples have names, and a table may have read them as numbers
        names = [str(name) for name in names]
    known = set(ids)
    for place, name in enumerate(names):
        if name in places and name in known:
            twice.append(name)
        places.setdefault(name, place)
    if not known & places.keys():
        return values
    faults = {
        "values of no set": [name for name in places if name not in known],
        "more than one value of": list(dict.fromkeys(twice)),
        "no value of": [name for name in ids if name not in places],
    }
    if found := [f"{fault} ({listed(which)})" for fault, which in faults.items() if which]:
        raise ValueError(
            f"{what} has names of sets in its index and goes by name, but has {' and '.join(found)}. Correct the names, or "
            f"pass {what}.to_numpy() if its values are in the order of the sets."
        )
    return values.iloc[[places[name] for name in ids]]


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names in one line of bounded length: the first few, and how many more there are."""
    shown = [text if len(text) <= 60 else text[:60] + "..." for text in map(str, names[:most])]
    return ", ".join(map(visible, shown)) + (f" and {len(names) - most} more" if len(names) > most else "")


def visible(name: str) -> str:
    """A name for a message, on one line: as it is, or quoted where spaces at its ends or line breaks would not be seen."""
    return name if name and name == name.strip() and name.isprintable() else repr(name)
