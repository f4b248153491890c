"""Every form in which sets may come, as one: sets to gather from, their names, and the names of their features.

Letters: N sets, T elements in all sets, n_i elements of set i, D features.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orderless.io.memory_sets import ChosenSets, Indices, Sets
from orderless.io.missing import is_gap
from orderless.io.samples import by_set_name, is_samples, listed
from orderless.sets import SetBatch

Numbers = NDArray[np.int64]
Array = NDArray[Any]
LARGEST = np.finfo(np.float32).max  # networks compute in float32

_FORMS = (
    "a list of (n_i, D) arrays, a one-dimensional object array or a Series of them, an array (N, M, D), a SetBatch, a long "
    "DataFrame with set_id=, or Samples of orderless.io"
)


class PackedSets:
    """Sets in memory, laid end to end in their own precision: float64 keeps its digits until the mean is subtracted.

    Args:
        x: (T, D) elements.
        sizes: (N,) how many each set has.
    """

    def __init__(self, x: Array, sizes: Numbers) -> None:
        self.x, self.sizes = x, sizes
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])  # (N + 1,)
        self.element_shape: tuple[int, ...] = x.shape[1:]
        self.columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def gather(self, indices: Indices) -> Array:
        """A copy of the elements of these sets, laid end to end."""
        return np.concatenate([self.x[:0], *(self.x[self.offsets[i] : self.offsets[i + 1]] for i in indices)])

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Array]:
        """The elements of one set in their order, `size` at a time."""
        start, stop = int(self.offsets[index]), int(self.offsets[index + 1])
        return (self.x[first : min(first + size, stop)] for first in range(start, stop, size))

    def take(self, index: int, rows: Indices) -> Array:
        """A copy of some elements of one set."""
        return self.x[self.offsets[index] + np.asarray(rows)]


@dataclass(frozen=True)
class GivenSets:
    """What was given, in one form.

    Attributes:
        stored: The elements.
        num_features: D.
        features: Names of the features, where they have some.
        names: Names of the sets for messages, where they have some.
        table: The long table that they come from, where it is one: it knows columns of sets.
        framed: Whether they come from DataFrames, in which columns of sets, an outcome say, may stand beside features.
    """

    stored: Sets
    num_features: int
    features: tuple[str, ...] | None = None
    names: Sequence[Any] | None = None
    table: LongTable | None = None
    framed: bool = False

    @property
    def sizes(self) -> Numbers:
        """(N,) how many elements each set has."""
        return self.stored.sizes

    def __len__(self) -> int:
        return len(self.stored)

    def name(self, index: int) -> str:
        """How a message calls a set."""
        name = index if self.names is None else self.names[index]
        return f"set {name!r}" if isinstance(name, str) else f"set {name}"

    def feature(self, index: int) -> str:
        """How a message calls a feature."""
        return f"feature {index}" if self.features is None else f"feature {self.features[index]!r}"

    def choose(self, numbers: Numbers) -> GivenSets:
        """Some of the sets, under the names that they had."""
        names = [i if self.names is None else self.names[i] for i in numbers.tolist()]
        return GivenSets(ChosenSets(self.stored, numbers), self.num_features, self.features, names)

    def check_finite(self, x: Array, numbers: Sequence[int] | Numbers, start: int = 0) -> None:
        """Fails where elements of these sets are NaN, infinite or beyond float32; `start`: where in its set the first one is."""
        fine = np.abs(x) <= LARGEST
        if fine.all():
            return
        row, column = np.argwhere(~fine)[0]
        ends = np.cumsum(self.sizes[np.asarray(numbers)]) if start == 0 else np.asarray([len(x)])
        which = int(np.searchsorted(ends, row, side="right"))
        place = start + int(row) - (int(ends[which - 1]) if which else 0)
        found = "NaN" if np.isnan(x[row, column]) else f"{x[row, column]:g}"
        raise ValueError(
            f"elements must be finite and at most {LARGEST:.2g} in size, but {self.feature(int(column))} of element {place} of "
            f"{self.name(int(numbers[which]))} is {found}. Leave out such elements, or fill in what is missing."
        )


def refuse_masked(values: Any, what: str) -> None:
    """Fails where one of the values of sets, (N, ...), is masked, and says of which set."""
    if np.ma.is_masked(values):
        number = int(np.argwhere(np.ma.getmaskarray(values))[0, 0])
        raise ValueError(f"{what} must not be masked: that of set {number} is. Leave out such sets, or fill in what is missing.")


def from_torch(values: Any) -> Any:
    """A tensor, wherever it is, as an array of the same numbers; anything else as it is."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy does not have bfloat16


def refuse_dates(values: Array, what: str) -> None:
    """Fails where values of sets, (N, ...), are dates or durations: as numbers they would count nanoseconds, or whatever unit.

    Args:
        values: Of any dtype.
        what: How the message calls them.
    """
    found = {"M": "dates", "m": "durations"}.get(values.dtype.kind)
    if values.dtype == object:
        found = next(filter(None, map(_kind_of_time, values.ravel())), None)
    if found is not None:
        days = "x / np.timedelta64(1, 'D')" if found == "durations" else "(x - x.min()) / np.timedelta64(1, 'D')"
        raise ValueError(f"{what} must be numbers, but they are {found} (dtype {values.dtype}). Give them in days, as in {days}.")


def _kind_of_time(value: Any) -> str | None:
    if is_gap(value):
        return None
    if isinstance(value, datetime.date | np.datetime64) or type(value).__name__ == "Period":
        return "dates"
    return "durations" if isinstance(value, datetime.timedelta | np.timedelta64) else None


def read_sets(
    X: Any,
    *,
    set_id: str | None = None,
    wanted: Sequence[str] | None = None,
    not_features: Sequence[str] = (),
    num_features: int | None = None,
) -> GivenSets:
    """Sets in any form, as one.

    Args:
        X: The sets.
        set_id: The column that says which set a row belongs to: of a long table, or of each DataFrame in a list, where it is
            no feature.
        wanted: Names of the features to take, in this order, where the sets have names; None takes all.
        not_features: Columns of a long table that are something else.
        num_features: D where it is known: a list of empty lists does not tell it.
    """
    if is_samples(X):
        return _from_samples(X, wanted)
    if hasattr(X, "columns") and hasattr(X, "groupby"):
        return _from_table(X, set_id, wanted, not_features)
    if hasattr(X, "iloc"):  # a Series
        X = list(X)
    if set_id is not None and not isinstance(X, list | tuple | np.ndarray | Tensor | SetBatch):
        raise TypeError(f"set_id={set_id!r} is for a long DataFrame, got {type(X).__name__}.")
    if isinstance(X, SetBatch):
        return _packed(_as_numbers(from_torch(X.x), "the elements"), from_torch(X.sizes))
    X = from_torch(X)
    if isinstance(X, np.ndarray) and X.dtype != object:
        return _from_dense(X)
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return _from_dense(_as_numbers(X, "the elements"))
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1):
        return _from_list(list(X), wanted, num_features, set_id)
    if isinstance(X, np.ndarray):
        return _from_dense(X)  # which says what shape it should have
    raise TypeError(f"sets come as {_FORMS}; got {type(X).__name__}.")


def _packed(x: Array, sizes: Numbers, **known: Any) -> GivenSets:
    if len(sizes) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: there is no set.")
    if x.shape[1] == 0:
        raise ValueError(f"0 feature(s) (shape={x.shape}) while a minimum of 1 is required.")
    return GivenSets(PackedSets(x, sizes.astype(np.int64)), x.shape[1], **known)


def _from_dense(X: Array) -> GivenSets:
    if X.ndim != 3:
        raise ValueError(
            f"Expected sets in one array of shape (N, M, D), N sets of M elements of D features, got shape {X.shape}. "
            "Reshape your data: N sets of one element each are `x[:, None, :]`, one set alone is `x[None]`, sets of single "
            "numbers are `x[..., None]`."
        )
    if np.ma.is_masked(X):
        return _from_list(list(X), None, None)  # which says where
    num_sets, size, num_features = X.shape
    x = _as_numbers(np.asarray(X), "the elements").reshape(num_sets * size, num_features)
    return _packed(x, np.full(num_sets, size))


def _from_list(X: list[Any], wanted: Sequence[str] | None, num_features: int | None, set_id: str | None = None) -> GivenSets:
    features: tuple[str, ...] | None = None
    frames = [hasattr(one, "columns") for one in X]
    if any(frames):  # DataFrames, one per set
        names = _names(X[frames.index(True)].columns)
        apart = () if set_id is None else (str(set_id),)
        features = tuple(wanted) if wanted is not None else tuple(name for name in names if name not in apart)
        for i, one in enumerate(X):
            if frames[i] and set_id in one.columns and len(found := one[set_id].unique()) > 1:
                raise ValueError(
                    f"set {i} has rows of {len(found)} sets by its column {set_id!r}: {listed(found, 3)}. In a list every set is "
                    "a DataFrame of its own; rows of many sets are one long table: `pd.concat(X)`."
                )
        for i, one in enumerate(X):
            if not frames[i] and len(one):
                raise TypeError(
                    f"set {i} is {type(one).__name__}, but set {frames.index(True)} is a DataFrame: columns are found by name, "
                    "so give all sets as DataFrames."
                )
        if wanted is None:
            _refuse_more_columns(X, frames, (*features, *apart))
        X = [_columns_of(one, features, f"set {i}") if frames[i] else [] for i, one in enumerate(X)]
    arrays = [_as_one_set(one, i) for i, one in enumerate(X)]
    with_rows = [a for a in arrays if a.ndim == 2]  # an empty list has no features to speak of
    if not with_rows:
        if X and num_features is None:
            raise ValueError(
                f"Found {len(X)} sets and not one array of shape (n_i, D): the number of features is unknown. "
                "An empty set is an array of shape (0, D)."
            )
        with_rows = [np.zeros((0, num_features or 0))]
    num_features = with_rows[0].shape[1]
    for i, a in enumerate(arrays):
        if a.ndim == 2 and a.shape[1] != num_features:
            first = next(k for k, b in enumerate(arrays) if b.ndim == 2)
            raise ValueError(f"every set must have the same features: set {first} has {num_features}, set {i} has {a.shape[1]}.")
    return _packed(np.concatenate(with_rows), np.array([len(a) for a in arrays]), features=features, framed=any(frames))


def _refuse_more_columns(X: list[Any], frames: list[bool], known: Sequence[str]) -> None:
    """Raises where a set has a column that the first lacks: a feature is one of all sets, and none is dropped in silence."""
    for i, one in enumerate(X):
        if frames[i] and (more := [name for name in _names(one.columns) if name not in known]):
            raise ValueError(
                f"set {i} has the column {listed([repr(name) for name in more], 3)}, which set {frames.index(True)} lacks. All "
                "sets must have the same columns: fill it in for the others, or leave it out."
            )


def _as_one_set(one: Any, index: int) -> Array:
    """(n, D), or (0,) for an empty list."""
    one = from_torch(one)
    if hasattr(one, "toarray"):
        raise TypeError(f"set {index} is a sparse matrix: pass `x.toarray()`, or read it with orderless.io.open_samples.")
    try:
        array = np.asarray(one)
    except ValueError as error:
        raise ValueError(f"set {index} must be an array (n, D) of numbers: {error}.") from None
    if array.ndim == 1 and array.size == 0:
        return array.astype(np.float64)
    if array.ndim != 2:
        raise ValueError(
            f"Expected set {index} to be an array of shape (n, D), n elements of D features, got shape {array.shape}. "
            "Reshape your data: elements that are single numbers are `x[:, None]`."
        )
    if np.ma.is_masked(one):
        row, column = np.argwhere(np.ma.getmaskarray(one))[0]
        raise ValueError(
            f"elements must not be masked, but feature {column} of element {row} of set {index} is. Leave out such elements, or "
            "fill in what is missing."
        )
    return _as_numbers(array, f"set {index}")


def _as_numbers(x: Array, what: str) -> Array:
    """float32 or float64: what is exact in float32 stays as small as it is."""
    if x.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} must hold real numbers. Pass real and imaginary parts as features.")
    if x.dtype.kind == "O":
        try:
            return _as_floats(x)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{what} must hold numbers: {error}.") from None
    if x.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold numbers, got dtype {x.dtype}.")
    if x.dtype in (np.float32, np.float64):
        return x
    return x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)


def _as_floats(x: Array) -> Array:
    """Objects as float64, gaps as NaN: whoever looks for those can say in which set and feature they are."""
    try:
        return x.astype(np.float64)
    except TypeError:  # pd.NA does not become a float by itself
        return np.where(np.frompyfunc(is_gap, 1, 1)(x).astype(bool), np.nan, x).astype(np.float64)


def _from_samples(X: Any, wanted: Sequence[str] | None) -> GivenSets:
    features = tuple(map(str, X.features))
    if len(X.ids) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: there is no set.")
    stored: Any = X.sets
    if wanted is not None and tuple(wanted) != features:
        stored = _InOrder(stored, _places(wanted, features, "the samples"))
        features = tuple(wanted)
    return GivenSets(stored, len(features), features=features, names=X.ids)


class _InOrder:
    """Sets with their features in another order, or fewer of them."""

    def __init__(self, stored: Sets, columns: list[int]) -> None:
        self._stored, self._columns = stored, columns
        self.sizes, self.columns = stored.sizes, stored.columns
        self.element_shape: tuple[int, ...] = (len(columns),)

    def __len__(self) -> int:
        return len(self.sizes)

    def gather(self, indices: Indices) -> Array:
        return self._stored.gather(indices)[:, self._columns]

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Array]:
        return (block[:, self._columns] for block in self._stored.blocks(index, size))

    def take(self, index: int, rows: Indices) -> Array:
        return self._stored.take(index, rows)[:, self._columns]


# --------------------------------------------------------------------------------------------------------- long tables


class LongTable:
    """A DataFrame with a row per element, and a column that says of which set. Sets come in the order in which they appear.

    Attributes:
        ids: (N,) values of the column, one per set.
        codes: (T,) the set of each row.
        rows: (T,) numbers of rows, set after set.
    """

    def __init__(self, frame: Any, set_id: str) -> None:
        self.frame, self.set_id = frame, set_id
        column = frame[set_id]
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise ValueError(f"every row needs a set: {set_id!r} is missing in row {row}.")
        self.ids, self.codes = self._numbered(column)
        self.rows = np.argsort(self.codes, kind="stable")

    @staticmethod
    def _numbered(column: Any) -> tuple[Array, Numbers]:
        codes, ids = column.factorize()  # in the order of first appearance
        return np.asarray(ids), codes.astype(np.int64)

    def per_set(self, values: Any, what: str) -> Any:
        """One value per set: from a column's name, a Series with a value per row that is constant in a set, or one per set.

        What has an index with names of sets goes by name: every set has to be there once, and nothing else. Anything else is in
        the order of the sets.
        """
        if isinstance(values, str):
            if values not in self.frame.columns:
                raise ValueError(f"{what}={values!r} is no column of the table, which has {listed(self.frame.columns)}.")
            return self._constant(self.frame[values], what)
        if not hasattr(values, "iloc"):
            return values
        if hasattr(values, "factorize") and values.index.equals(self.frame.index):
            return self._constant(values, what)
        return by_set_name(values, self.ids.tolist(), what)

    def first_rows(self) -> Numbers:
        """(N,) the first row of each set."""
        first = np.zeros(len(self.ids), dtype=np.int64)
        first[self.codes[::-1]] = np.arange(len(self.codes))[::-1]
        return first

    def _constant(self, column: Any, what: str) -> Array:
        codes, distinct = column.factorize(use_na_sentinel=False)
        first = self.first_rows()
        differs = codes != codes[first[self.codes]]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            raise ValueError(
                f"{what} must be the same in all rows of a set, but set {self.ids[self.codes[row]]} has "
                f"{distinct[codes[first[self.codes[row]]]]} and {distinct[codes[row]]}."
            )
        return np.asarray(column)[first]


def _from_table(frame: Any, set_id: str | None, wanted: Sequence[str] | None, not_features: Sequence[str]) -> GivenSets:
    if set_id is None:
        raise ValueError(
            "a DataFrame with a row per element needs set_id=, the column that says which set a row belongs to; it has "
            f"{listed(frame.columns)}."
        )
    if set_id not in frame.columns:
        raise ValueError(f"set_id={set_id!r} is no column of the table, which has {listed(frame.columns)}.")
    table = LongTable(frame, set_id)
    apart = {str(set_id), *not_features}  # names of features are text, those of columns may be numbers
    features = tuple(wanted) if wanted is not None else tuple(name for name in _names(frame.columns) if name not in apart)
    x = _columns_of(frame, features, "the table")
    sizes = np.bincount(table.codes, minlength=len(table.ids))
    return _packed(x[table.rows], sizes, features=features, names=table.ids, table=table, framed=True)


def _columns_of(frame: Any, features: Sequence[str], what: str) -> Array:
    """(rows, D) the columns of these names."""
    twice = [name for name in features if list(_names(frame.columns)).count(name) > 1]
    if twice:
        raise ValueError(f"{what} has more than one column of the name {listed([*dict.fromkeys(twice)])}: names must differ.")
    places = _places(features, _names(frame.columns), what)
    chosen = frame.iloc[:, places]
    for name in chosen.columns:
        if chosen[name].dtype.kind not in "biuf":
            raise ValueError(
                f"features must be numbers, but column {name!r} of {what} is {chosen[name].dtype}. Leave it out, or make "
                "numbers of it."
            )
    return _as_numbers(np.asarray(chosen), what)


def _places(wanted: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"{what} lacks the features {listed(missing)} that the estimator was fitted on; it has {listed(names)}.")
    return [list(names).index(name) for name in wanted]


def _names(columns: Any) -> tuple[str, ...]:
    return tuple(map(str, columns))
