"""Sets in an HDF5 file, by the names of its arrays.

    data or x     (N, M, D) sets of one size, or (T, D) elements of sets laid end to end
    offsets       (N + 1,) where each set begins; needed for (T, D), unless there are sizes
    sizes         (N,) elements of each set; with (N, M, D), the rest of each set is padding and is not read. Where there are
                  neither sizes nor offsets, whole numbers called lengths are the sizes
    mask          (N, M) with (N, M, D), instead of sizes: True at elements, False at padding
    ids           (N,) names of sets; otherwise they are counted from 0
    features      (D,) names of features; otherwise f0, f1, ...
    labels, target, or any other array (N,) or (N, 1): what is known of each set, under its own name

Letters: N sets, M elements of the largest, T elements in all, D features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.hdf5 import check_self_contained, check_stored
from orderless.io.missing import MissingPolicy, split_indicators
from orderless.io.per_set import plain, text_of
from orderless.io.reading import describe, reading
from orderless.io.sample_store import Progress, Reading
from orderless.io.samples import listed
from orderless.io.store import iterate_blocks
from orderless.io.tables import check_names
from orderless.words import counted

_BLOCK = 2**24  # numbers at a time
_ROLES = ("data", "x", "offsets", "ids", "features")


def read_hdf5_sets(
    path: Path, *, features: Sequence[str] | None, ignore: Sequence[str], missing: MissingPolicy, progress: Progress
) -> Reading:
    """Looks at an HDF5 file with sets.

    Args:
        path: The file.
        features: Features to take, by name. Default: all.
        ignore: Features, or other arrays, to leave out.
        missing: What will be done about missing numbers.
        progress: Told how far it is, 0 to 1.
    """
    with open_hdf5(path) as file:
        layout = _Layout(path, file)
        known, others = layout.columns(ignore)
        zeros = layout.count_zeros_at_the_end()
    asked, indicators = (layout.features, []) if features is None else split_indicators(features, layout.features, missing)
    for option, names in (("features=", asked), ("ignore=", ignore if features is None else [])):
        check_names(names, layout.features if option == "features=" else [*layout.features, *known, *others], option, path)
    chosen = [name for name in asked if features is not None or name not in ignore]
    columns = [layout.features.index(name) for name in chosen]
    progress(1.0)

    def blocks(tell: Progress) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        with open_hdf5(path) as file:
            for codes, rows, done in layout.read(file):
                yield codes, rows[:, columns]
                tell(done)

    left = [name for name in others if name not in ignore]
    notes = [f"left out, because they have not one value for each set: {listed(left)}."] if left else []
    if len(layout.sizes) < 100 * zeros < 100 * len(layout.sizes):  # a point at the origin may be last, but not in many sets
        notes.append(
            f"{zeros:,} of {len(layout.sizes):,} sets end in an element of zeros alone, which is read as an element. If it is "
            "padding, give the file 'sizes' (N,) or a 'mask' (N, M)."
        )
    return Reading(
        ids=layout.ids,
        features=chosen,
        sizes=layout.sizes,
        blocks=blocks,
        options={},
        units=[layout.units[c] for c in columns],
        columns={name: values for name, values in known.items() if name not in ignore},
        notes=notes,
        indicators=indicators,
    )


class _Layout:
    """Which array is what."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, file
        arrays = {name: file[name] for name in file if hasattr(file[name], "shape")}
        self._shapes = {name: array.shape for name, array in arrays.items()}
        self._groups = [name for name in file if name not in arrays]  # of arrays: what they are about nobody can tell
        names = [name for name in ("data", "x") if name in arrays]
        if len(names) != 1:
            raise self._unknown()
        self._name = names[0]
        elements = arrays[self._name]
        if elements.dtype.kind not in "fiub":
            raise DataError(path, expected=f"numbers in {self._name!r}", found=str(elements.dtype))
        self._is_padded = len(elements.shape) == 3
        self._sizes = self._name_of_sizes(arrays)
        self._mask = self._name_of_mask(arrays, elements) if self._is_padded else None
        self._bounds = self._find_bounds(arrays, elements)  # (N + 1,)
        self.sizes: NDArray[np.int64] = self._find_sizes(arrays, elements)
        if not elements.shape[-1]:
            raise DataError(path, expected="at least one feature", found=f"{self._name!r} of shape {elements.shape}")
        self.ids = self._find_ids(arrays)
        self.features = self._find_features(arrays, elements.shape[-1])
        units = elements.attrs.get("units", "")
        self.units = [str(units)] * elements.shape[-1] if isinstance(units, str) else [str(unit) for unit in units]
        if len(self.units) != elements.shape[-1]:
            self.units = [""] * elements.shape[-1]

    def read(self, file: Any) -> Iterator[tuple[NDArray[Any], NDArray[Any], float]]:
        """Elements of all sets: (codes (n,), rows (n, D), how much is done)."""
        elements = file[self._name]
        width = max(1, int(np.prod(elements.shape[1:], dtype=np.int64)))
        for block in iterate_blocks(elements.shape[0], max(1, _BLOCK // width)):
            rows = elements[block.start : block.stop]
            if self._is_padded:
                if self._mask is None:
                    there = np.arange(elements.shape[1]) < self.sizes[block.start : block.stop, None]  # (n, M)
                else:
                    there = file[self._mask][block.start : block.stop]
                codes = np.repeat(np.arange(block.start, block.stop, dtype=np.int32), self.sizes[block.start : block.stop])
                yield codes, rows[there], block.stop / elements.shape[0]
            else:
                numbers = np.searchsorted(self._bounds, np.arange(block.start, block.stop), side="right") - 1
                yield numbers, rows, block.stop / elements.shape[0]

    def columns(self, ignore: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
        """What is known of each set, and the names of arrays that say nothing of it."""
        known, others = {}, [name for name in self._groups if name not in ignore]
        for name, shape in self._shapes.items():
            if name in (*_ROLES, self._sizes, self._mask) or name in ignore:
                continue
            if shape in ((len(self.sizes),), (len(self.sizes), 1)) and self._file[name].dtype.kind in "fiubOS":
                known[name] = [plain(value) for value in _values(self._file[name])]
            else:
                others.append(name)
        return known, others + [name for name in ignore if name in {*self._shapes, *self._groups}]

    def count_zeros_at_the_end(self) -> int:
        """How many sets of (N, M, D) end in a row of zeros, where nothing says what is padding."""
        elements = self._file[self._name]
        if not self._is_padded or self._sizes is not None or self._mask is not None or not elements.shape[1]:
            return 0
        return int((elements[:, -1] == 0).all(1).sum())

    @staticmethod
    def _name_of_sizes(arrays: dict[str, Any]) -> str | None:
        """The array that says how large sets are. Lengths may be something else that is known of sets, such as that of fish."""
        if "sizes" in arrays:
            return "sizes"
        lengths = arrays.get("lengths")
        are_sizes = lengths is not None and lengths.dtype.kind in "iu" and not {"offsets", "mask"} & arrays.keys()
        return "lengths" if are_sizes else None

    def _name_of_mask(self, arrays: dict[str, Any], elements: Any) -> str | None:
        """The array that says which elements are real, unless there are sizes. Others may be labels of elements."""
        shape = elements.shape[:2]
        masks = [name for name, array in arrays.items() if array.shape == shape and re.search("mask|pad", name, re.I)]
        if not masks or self._sizes is not None:
            return None
        if masks != ["mask"] or arrays["mask"].dtype.kind != "b":
            expected = (
                f"padding told by 'mask' of truth values, {shape}, True at elements and False at padding, or by 'sizes' (N,)"
            )
            found = listed([f"{name} of {arrays[name].dtype}" for name in masks])
            raise DataError(self._path, expected=expected, found=found)
        return "mask"

    def _find_bounds(self, arrays: dict[str, Any], elements: Any) -> NDArray[np.int64]:
        if self._is_padded:
            return np.arange(elements.shape[0] + 1)
        if len(elements.shape) != 2 or ("offsets" in arrays) == (self._sizes is not None):
            raise self._unknown()
        if self._sizes is not None:
            sizes = self._whole(arrays[self._sizes], self._sizes)
            bounds = np.zeros(len(sizes) + 1, np.int64)
            np.cumsum(sizes, out=bounds[1:])
        else:
            bounds = self._whole(arrays["offsets"], "offsets")
        total = elements.shape[0]
        # each within the elements, too: differences of larger ones may turn over, and look as if they rose
        beyond = (bounds < 0) | (bounds > total)
        if not len(bounds) or bounds[0] != 0 or bounds[-1] != total or beyond.any() or (np.diff(bounds) < 0).any():
            expected = f"sets that cover the {total} elements of {self._name!r} in their order"
            found = f"bounds {listed(bounds.tolist(), 5)}"
            raise DataError(self._path, expected=expected, found=found)
        return bounds

    def _find_sizes(self, arrays: dict[str, Any], elements: Any) -> NDArray[np.int64]:
        if not self._is_padded:
            return np.diff(self._bounds)
        if "offsets" in arrays:
            raise self._unknown()
        if self._mask is not None:
            mask, width = arrays[self._mask], max(1, elements.shape[1])
            blocks = iterate_blocks(elements.shape[0], max(1, _BLOCK // width))
            counts = [np.count_nonzero(mask[block.start : block.stop], axis=1) for block in blocks]
            return np.concatenate([np.zeros(0, np.int64), *counts])
        if self._sizes is None:
            return np.full(elements.shape[0], elements.shape[1], np.int64)
        sizes = self._whole(arrays[self._sizes], self._sizes)
        if sizes.shape != elements.shape[:1] or (len(sizes) and not (sizes.min() >= 0 and sizes.max() <= elements.shape[1])):
            expected = f"{counted(elements.shape[0], 'size')} of 0 to {elements.shape[1]} in {self._sizes!r}"
            raise DataError(self._path, expected=expected, found=listed(sizes.tolist(), 5))
        return sizes

    def _whole(self, array: Any, name: str) -> NDArray[np.int64]:
        if array.dtype.kind not in "iu" or len(array.shape) != 1:
            raise DataError(self._path, expected=f"whole numbers in {name!r}", found=f"{array.dtype} of shape {array.shape}")
        return np.asarray(array[...], dtype=np.int64)

    def _find_ids(self, arrays: dict[str, Any]) -> list[str]:
        count = len(self.sizes)
        ids = [text_of(value) for value in _values(arrays["ids"])] if "ids" in arrays else [str(i) for i in range(count)]
        if len(ids) != count or len(set(ids)) != count:
            raise DataError(
                self._path, expected=f"{count} different 'ids'", found=f"{len(ids)}, {len(set(ids))} of them different"
            )
        return ids

    def _find_features(self, arrays: dict[str, Any], count: int) -> list[str]:
        names = [str(value) for value in _values(arrays["features"])] if "features" in arrays else [f"f{d}" for d in range(count)]
        if len(names) != count or len(set(names)) != count:
            raise DataError(self._path, expected=f"{count} different names in 'features'", found=listed(names))
        return names

    def _unknown(self) -> DataError:
        there = [f"{name} {shape}" for name, shape in self._shapes.items()]
        expected = "'data' or 'x' of shape (N, M, D), or (T, D) with 'offsets' (N + 1,) or 'sizes' (N,)"
        return DataError(self._path, expected=expected, found=listed(there, 20) or "no array", fix="Rename its arrays.")


@contextmanager
def open_hdf5(path: Path, what: str = "an HDF5 file with sets") -> Iterator[Any]:
    """The file, if its arrays are in it and can be what it says. Whatever the library raises is turned into a `DataError`."""
    h5py = require("h5py", "io")
    with reading(path, what):
        size = path.stat().st_size

    def check(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None and item.size:
            check_stored(item, name, path, size)

    try:
        with h5py.File(path, "r") as file:
            check_self_contained(file, path)
            file.visititems(check)
            yield file
    except DataError:
        raise
    except Exception as error:  # h5py turns the library's failures into almost every kind
        raise DataError(
            path, expected=what, found=f"a damaged one or none ({describe(error)})", fix="Get the file again."
        ) from error


def _values(array: Any) -> list[Any]:
    is_text = array.dtype.kind in "OS"
    return (array.asstr()[...] if is_text else array[...]).reshape(-1).tolist()
