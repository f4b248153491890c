"""Rows of many sets in any order, brought together on disk, with memory for a part of them only.

Sets are dealt out to buckets, each a pair of files; rows are appended to the bucket of their set as they come. Then one bucket
after the other is put in order in memory and written to the store. Everything is read and written in sequence, and the memory
that is needed does not depend on the number of rows.

Letters: N sets, T rows, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.store_writer import StoreWriter, writing

BUCKET_BYTES = 64 * 2**20


class Regrouper:
    """Collects rows and writes them as sets.

    Args:
        folder: A new folder for the buckets; it is the caller's to remove.
        sizes: (N,) how many rows each set will have at most: buckets are laid out by it.
        num_features: D.
    """

    def __init__(self, folder: Path, sizes: NDArray[np.int64], num_features: int) -> None:
        self._folder, self._num_features = folder, num_features
        self._bounds = _deal(sizes, max(1, BUCKET_BYTES // (4 * num_features + 4)))  # (buckets + 1,) first set of each
        self._bucket_of = np.repeat(np.arange(len(self._bounds) - 1), np.diff(self._bounds))  # (N,)
        with writing(folder):
            folder.mkdir()

    def add(self, codes: NDArray[np.integer[Any]], rows: NDArray[np.float32]) -> None:
        """Adds rows (n, D), each of the set whose number `codes` (n,) gives. The order of a set's rows is kept."""
        buckets = self._bucket_of[codes]
        if not len(buckets):
            return
        if (buckets == buckets[0]).all():
            self._append(int(buckets[0]), codes, rows)
            return
        order = _order(buckets, len(self._bounds))
        codes, rows, buckets = codes[order], rows[order], buckets[order]
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(buckets)], strict=True):
            self._append(int(buckets[start]), codes[start:stop], rows[start:stop])

    def write(
        self,
        writer: StoreWriter,
        split: str,
        columns: Mapping[str, Any],
        finish: Callable[[NDArray[np.float32], NDArray[np.int64]], None] | None = None,
    ) -> None:
        """Writes all sets, in the order of their numbers, with (N,) further values of each, and removes the buckets.

        Args:
            writer: Of the store.
            split: Of the store.
            columns: (N,) each.
            finish: Called with some whole sets laid end to end and their sizes; it may change elements before they are written.
        """
        for bucket, (first, stop) in enumerate(zip(self._bounds[:-1], self._bounds[1:], strict=True)):
            elements, sizes = self._sorted(bucket, first, stop)
            if finish is not None:
                finish(elements, sizes)
            writer.add_sets(split, elements, sizes, **{name: values[first:stop] for name, values in columns.items()})
            for path in self._paths(bucket):
                path.unlink(missing_ok=True)

    def _sorted(self, bucket: int, first: int, stop: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        rows_path, codes_path = self._paths(bucket)
        if not rows_path.exists():
            return np.empty((0, self._num_features), np.float32), np.zeros(stop - first, np.int64)
        if stop - first == 1:  # one set, as large as it may be: in order already, and read by the writer from the disk
            rows = np.memmap(rows_path, np.float32, mode="r+").reshape(-1, self._num_features)
            return rows, np.array([len(rows)])
        rows = np.fromfile(rows_path, np.float32).reshape(-1, self._num_features)
        codes = np.fromfile(codes_path, np.int32) - first
        return rows[_order(codes, stop - first)], np.bincount(codes, minlength=stop - first)

    def _append(self, bucket: int, codes: NDArray[Any], rows: NDArray[np.float32]) -> None:
        for path, values in zip(self._paths(bucket), (rows, codes.astype(np.int32, copy=False)), strict=True):
            with writing(self._folder), path.open("ab") as file:
                file.write(np.ascontiguousarray(values).data)  # `tofile` loses the last page of a full disk without a word

    def _paths(self, bucket: int) -> tuple[Path, Path]:
        return self._folder / f"{bucket}.rows", self._folder / f"{bucket}.codes"


def _order(numbers: NDArray[np.integer[Any]], below: int) -> NDArray[np.int64]:
    """A stable order. Small numbers are sorted by their digits, which is several times faster."""
    return np.argsort(numbers.astype(np.uint16) if below <= 2**16 else numbers, kind="stable")


def _deal(sizes: NDArray[np.int64], most: int) -> list[int]:
    """Bounds of runs of sets that have `most` rows together at most; a set that is larger is alone."""
    bounds, filled = [0], 0
    for index, size in enumerate(sizes.tolist()):
        if filled + size > most and index > bounds[-1]:
            bounds.append(index)
            filled = 0
        filled += size
    return [*bounds, len(sizes)]
