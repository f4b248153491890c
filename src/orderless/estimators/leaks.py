"""Outcomes among the features, columns of sets among those of elements, and sets paired with the wrong values: refused or told.

Letters: N sets, T elements in all sets, D features, K targets.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.sets_input import GivenSets, PackedSets
from orderless.io.per_set import Groups, is_nearly_constant
from orderless.io.row_counters import RowCounters
from orderless.io.samples import listed

Array = NDArray[Any]


def refuse_another_order(X: Any, **beside: Any) -> None:
    """Fails where a Series of sets and one beside it name the same sets in another order: they would go together by position."""
    if not hasattr(X, "iloc") or hasattr(X, "columns") or not all(isinstance(name, str) for name in X.index):
        return  # no Series, or one with row numbers for names
    for what, values in beside.items():
        if not hasattr(values, "iloc") or values.index.equals(X.index):
            continue
        if sorted(map(str, values.index)) == sorted(X.index):
            raise ValueError(
                f"{what} has the sets of X in another order: `{what}.loc[X.index]` has them in that of X, and "
                f"`{what}.to_numpy()` goes by position whatever they are called."
            )


def refuse_target_among_features(sets: GivenSets, y: Any) -> None:
    """Raises if a column of a DataFrame is the target, (N,) or (N, K), once more: a model would learn nothing else.

    Of features in another form it warns: sets of one and the same number, to be found by a model, are a fair exercise.
    """
    targets = np.asarray(y)
    if targets.dtype.kind not in "biuf" or len(targets) != len(sets):
        return
    targets = targets.reshape(len(targets), -1)[sets.sizes > 0]
    for name, values in _one_value_per_set(sets).items():
        if not (values[:, None] == targets).all(0).any():
            continue
        if sets.table is not None:
            raise ValueError(f"column {name!r} of the table is the target: name it, y={name!r}, or leave it out of the table.")
        if sets.framed:
            raise ValueError(f"column {name!r} of the sets is the target, y, in every row: leave it out of them.")
        if len(values) > 1 and (values != values[0]).any():
            warnings.warn(
                f"{name} is the target, y, in every element of every set: a model that gets it learns nothing else. Leave it "
                "out.",
                stacklevel=5,  # where `fit` was called
            )


def refuse_slips(sets: GivenSets) -> None:
    """Raises if a column of a DataFrame is the same in all rows of nearly every set: an outcome with slips tells the target."""
    if not sets.framed:
        return
    numbers_of_sets = np.flatnonzero(sets.sizes)
    sizes = sets.sizes[numbers_of_sets]
    first = np.cumsum(sizes) - sizes
    of_row = np.repeat(np.arange(len(sizes)), sizes)
    for name, column in _columns(sets).items():
        usual = column[first][of_row]
        differing = np.flatnonzero((column != usual) & ((column == column) | (usual == usual)))
        varying, at = np.unique(of_row[differing], return_index=True)
        is_constant = sizes > 1
        is_constant[varying] = False
        if not is_nearly_constant(column[first[is_constant]].tolist(), len(varying)):
            continue
        where = []
        for number, place in zip(varying.tolist(), differing[at].tolist(), strict=True):
            row = _row(sets, place, first[number])
            where.append(f"{sets.name(numbers_of_sets[number])} ({usual[place]:g}, and {column[place]:g} in row {row})")
        raise ValueError(
            f"column {name!r} of the {'sets' if sets.table is None else 'table'} is the same in all rows of nearly every set, "
            f"but varies within {len(where)} of {int((sizes > 1).sum())}: {listed(where, 3)}. An outcome with slips is such a "
            "column, and tells the target: correct these rows, or drop the column. If it is measured, pass a list of arrays, one "
            "for each set."
        )


def _row(sets: GivenSets, place: int, first: int) -> int:
    """How a user counts rows: through the table, or within a set of a list."""
    return place - first if sets.table is None else int(sets.table.rows[place])


def warn_of_features_of_sets(sets: GivenSets) -> None:
    """Warns of columns of a DataFrame that are constant within sets and differ between them: an outcome is such a column.

    Where every set has one row, nothing tells such a column from a feature of elements.
    """
    if not sets.framed or (sets.sizes <= 1).all():
        return
    names = [name for name, values in _one_value_per_set(sets).items() if (values != values[0]).any()]
    if names:
        where = "sets" if sets.table is None else "table"
        warnings.warn(
            f"features with one value per set: {listed(names, 30)}. They may tell the target, as an outcome beside it does. "
            f"Drop these columns from the {where}, or name them in covariates= if they are meant to be used.",
            stacklevel=5,  # where `fit` was called
        )


def warn_of_row_numbers(sets: GivenSets) -> None:
    """Warns of columns of a long table that number its rows: where rows are sorted, they tell sets apart."""
    if sets.table is None:
        return
    columns, codes = _columns(sets), sets.table.codes
    counters = RowCounters(list(columns))

    def column(name: str) -> Array:
        in_rows = np.empty(len(codes))
        in_rows[sets.table.rows] = columns[name]  # type: ignore[union-attr]
        return in_rows

    counters.see(column, Groups(codes, np.arange(len(sets))), sets.sizes, is_new_file=True)
    found = counters.found(sets.sizes)
    for reason in dict.fromkeys(found.values()):
        names = [name for name, why in found.items() if why == reason]
        warnings.warn(
            f"features that {reason}: {listed(names, 30)}. They are no measurements, and may tell the target where rows are "
            "sorted. Drop these columns from the table.",
            stacklevel=5,  # where `fit` was called
        )


def _one_value_per_set(sets: GivenSets) -> dict[str, Array]:
    """Features that do not change within any set: values of the sets that have elements, by name."""
    sizes = sets.sizes[sets.sizes > 0]
    first = np.cumsum(sizes) - sizes
    return {name: c[first] for name, c in _columns(sets).items() if (c == np.repeat(c[first], sizes)).all()}


def _columns(sets: GivenSets) -> dict[str, Array]:
    """Features by name, or by number: (T,) each, set after set; none of sets that stay in their file."""
    if not isinstance(sets.stored, PackedSets):
        return {}
    names = sets.features or tuple(f"feature {k}" for k in range(sets.num_features))
    return {name: sets.stored.x[:, k] for k, name in enumerate(names)}
