"""HDF5 files with known content: everything is checked before it is read, and every failure is a `DataError`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.reading import MAX_RATIO, describe, reading, shown

_AGAIN = "Get the file again."
_KINDS = {"f": "floating-point", "i": "signed integer", "u": "unsigned integer"}


@dataclass(frozen=True)
class Array:
    """What an array in the file must look like.

    Attributes:
        shapes: The shapes that are right, None for any number of at least one.
        kinds: The kinds of number that are right, as numpy's letters: `f`, `i`, `u`.
        dtype: What to read it as.
    """

    shapes: tuple[tuple[int | None, ...], ...]
    kinds: str
    dtype: str


def read_hdf5(
    path: str | Path, expected: Mapping[str, Array], *, aligned: Iterable[Sequence[str]] = ()
) -> dict[str, NDArray[Any]]:
    """Reads arrays from an HDF5 file after checking that they are there, of the right kind and shape, and really stored in it.

    A damaged header can declare any size. So the declared size is held against the bytes in the file before memory is taken, and
    all chunks must be there: the library would fill those that are missing with zeros.

    Args:
        path: The file.
        expected: The arrays to read, by name.
        aligned: Groups of names that must have the same first size, such as the data and its labels.

    Returns:
        The arrays, by name.

    Raises:
        MissingDataError: If there is no such file.
        DataError: If anything is not as expected, or the library fails. Whatever it raises is turned into this.
        ImportError: If h5py is not installed.
    """
    h5py = require("h5py", "io")
    path = Path(path)
    with reading(path, "an HDF5 file"):
        with path.open("rb") as file:
            file.read(1)  # the system's own errors, which the library would word in its own way
        file_size = path.stat().st_size
    try:
        with h5py.File(path, "r") as file:
            check_self_contained(file, path)
            stored = {name: _find(h5py, file, name, path) for name in expected}
            for name, array in expected.items():
                _check(stored[name], name, array, path, file_size)
            for group in aligned:
                lengths = {name: stored[name].shape[0] for name in group}
                if len(set(lengths.values())) > 1:
                    found = ", ".join(f"{length} in {name!r}" for name, length in lengths.items())
                    raise DataError(path, expected=f"equally many rows in {' and '.join(map(repr, group))}", found=found)
            return {name: _read(stored[name], array) for name, array in expected.items()}
    except DataError:
        raise
    except Exception as error:  # h5py turns the library's failures into almost every kind
        found = f"a damaged one or none ({describe(error)})"
        raise DataError(path, expected="an HDF5 file", found=found, fix=_AGAIN) from error


def _find(h5py: Any, file: Any, name: str, path: Path) -> Any:
    try:
        item = file[name]
    except KeyError:
        there = [repr(key) for key in list(file)[:8]]
        raise DataError(path, expected=f"an array {name!r}", found=f"only {', '.join(there)}" if there else "none") from None
    if not isinstance(item, h5py.Dataset):
        raise DataError(path, expected=f"an array {name!r}", found=f"a {type(item).__name__.lower()} of that name")
    return item


def _check(stored: Any, name: str, array: Array, path: Path, file_size: int) -> None:
    shape: tuple[int, ...] | None = stored.shape
    wanted = " or ".join(_show(right) for right in array.shapes)
    if shape is None or not any(_fits(shape, right) for right in array.shapes):
        found = "an empty one" if shape is None else _show(shape)
        raise DataError(path, expected=f"{name!r} of shape {wanted}", found=found)
    if stored.dtype.kind not in array.kinds:
        kinds = " or ".join(_KINDS[kind] for kind in array.kinds)
        raise DataError(path, expected=f"{name!r} of {kinds} numbers", found=str(stored.dtype)[:80])
    check_stored(stored, name, path, file_size)


def check_self_contained(file: Any, path: Path) -> None:
    """That nothing in the file, however deep, leads to another one.

    Whoever made the file would else choose what else is read on this machine, and sizes of other files are not looked at.
    """
    h5py = require("h5py", "io")

    def leads_away(name: str, item: Any) -> tuple[str, str] | None:
        if isinstance(item, h5py.ExternalLink):
            return name, f"a link to the file {shown(item.filename)}"
        if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
            return name, "a reference to other files"
        return None

    # the first that is found ends the visit: an exception within it would come out of the library as another one
    found = file.visititems_links(leads_away) or file.visititems(leads_away)
    if found is not None:
        name, what = found
        fix = "Copy what it refers to into one file."
        raise DataError(path, expected=f"{shown(name)} in the file itself", found=what, fix=fix)


def check_stored(stored: Any, name: str, path: Path, file_size: int) -> None:
    """That the bytes in the file can be the array: a header alone may say anything."""
    if stored.chunks and len(stored.chunks) != len(stored.shape):  # libhdf5 1.14 reads such a file forever
        raise DataError(path, expected=f"{name!r} in pieces of its own rank", found=_show(stored.chunks), fix=_AGAIN)
    declared = math.prod(stored.shape) * stored.dtype.itemsize
    piece = math.prod(stored.chunks or ()) * stored.dtype.itemsize  # taken whole by the library, even if the array is smaller
    in_file = min(stored.id.get_storage_size(), file_size)
    if max(declared, piece) > in_file * (MAX_RATIO if stored.chunks else 1):
        found = f"{in_file} in the file"
        raise DataError(path, expected=f"{name!r} of shape {_show(stored.shape)}, {declared} bytes", found=found, fix=_AGAIN)
    if stored.chunks:
        num_chunks = math.prod(-(-size // chunk) for size, chunk in zip(stored.shape, stored.chunks, strict=True))
        num_there = stored.id.get_num_chunks()
        if num_there != num_chunks:
            raise DataError(path, expected=f"{num_chunks} stored pieces of {name!r}", found=str(num_there), fix=_AGAIN)


def _read(stored: Any, array: Array) -> NDArray[Any]:
    out = np.empty(stored.shape, array.dtype)
    stored.read_direct(out)  # converts on the way: no second copy in the file's own type
    return out


def _fits(shape: tuple[int, ...], right: tuple[int | None, ...]) -> bool:
    if len(shape) != len(right):
        return False
    return all(size == wanted if wanted is not None else size > 0 for size, wanted in zip(shape, right, strict=True))


def _show(shape: tuple[int | None, ...]) -> str:
    return (
        "("
        + ", ".join("n" if i == 0 and size is None else "any" if size is None else str(size) for i, size in enumerate(shape))
        + ")"
    )
