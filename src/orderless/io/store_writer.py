"""Writing a store: piece by piece, aside, and whole or not at all.

Letters: T elements, n sets, K numbers of a set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.files import write_json
from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.reading import reading
from orderless.io.store_files import (
    ELEMENTS,
    FORMAT,
    MANIFEST,
    POOL,
    SOURCE,
    VERIFIED,
    by_label,
    checksum,
    describe_file,
    stamp_of,
    stamps_of,
)

_BLOCK_BYTES = 256 * 2**20  # pieces are joined to blocks up to this size: few large ones are faster to gather from


class StoreWriter:
    """Writes a store aside and, when it is whole, puts it in its place.

    Used through `open_or_build`, which hands it to a function that calls `add_pool` and `add_sets` as often as it likes:
    what they are given is joined to blocks and written, so the whole may be larger than memory.

    Args:
        folder: The aside folder to write into.
        element_shape: Shape of one element.
        progress: Called with the number of sets or pool elements that were just written.
    """

    def __init__(self, folder: Path, element_shape: tuple[int, ...], progress: Callable[[int], None] | None = None) -> None:
        self.folder, self.element_shape = folder, tuple(element_shape)
        self._progress = progress or (lambda count: None)
        self._files: dict[str, _ArrowFile] = {}
        self._splits: dict[str, dict[str, int]] = {}
        self._pool_size: int | None = None
        self._sources: dict[str, dict[str, Any]] = {}
        self._stamps: dict[Path, list[int]] = {}

    def made_from(self, files: Iterable[Path], stamps: Mapping[Path, list[int]] | None = None) -> None:
        """Notes the files that the sets are made from, with their checksums: should they change, the store is stale.

        Should they change before the store is finished, that is an error: nobody knows what was read of which state.

        Args:
            files: The files.
            stamps: `stamps_of` them before they were first looked at. Default: that is still to come.
        """
        files = list(files)
        self._stamps |= stamps_of(files) if stamps is None else stamps
        for label, path in by_label(files).items():
            with reading(path, SOURCE):
                self._sources[label] = describe_file(path)

    def add_pool(self, elements: NDArray[Any], **columns: NDArray[Any]) -> None:
        """Appends elements (n, *element) to the pool. Sets added later may refer to them by row."""
        pa = require("pyarrow", "io")
        if self._pool_size is None and self._splits:
            raise ValueError("the pool must be added before the sets: those added so far have elements of their own.")
        self._check_shape(elements.shape[1:])
        self._append(POOL, {ELEMENTS: _fixed_lists(pa, elements)} | _arrow_columns(columns, len(elements)))
        self._pool_size = (self._pool_size or 0) + len(elements)
        self._progress(len(elements))

    def add_sets(self, split: str, elements: NDArray[Any], sizes: NDArray[np.integer[Any]], **columns: NDArray[Any]) -> None:
        """Appends sets to a split.

        Args:
            split: Name of the split.
            elements: (T, *element) elements of these sets laid end to end; or (T,) rows of the pool, if there is one.
            sizes: (n,) elements of each set.
            columns: (n,) or (n, K) further values of each set.
        """
        pa = require("pyarrow", "io")
        if split == POOL:
            raise ValueError(f"a split cannot be called {POOL!r}: that is the file of the pool.")
        self._check_sets(elements, sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        values = pa.array(elements.astype(np.int32)) if self._pool_size is not None else _fixed_lists(pa, elements)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), values)
        self._append(split, {ELEMENTS: lists} | _arrow_columns(columns, len(sizes)))
        seen = self._splits.setdefault(split, {"sets": 0, "elements": 0})
        seen["sets"] += len(sizes)
        seen["elements"] += len(elements)
        self._progress(len(sizes))

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Closes the files and writes the manifest last."""
        with writing(self.folder):
            self._finish(manifest)

    def _finish(self, manifest: Mapping[str, Any]) -> None:
        self._check_unchanged()
        for file in self._files.values():
            file.close()
        files = {path.name: describe_file(path) for path in sorted(self.folder.glob("*.arrow"))}
        stated = {
            "format": FORMAT,
            "element_shape": list(self.element_shape),
            "splits": self._splits,
            "sources": self._sources,
            "files": files,
        }
        whole = {**manifest, **stated}
        write_json(self.folder / MANIFEST, {**whole, "checksum": checksum(whole)})
        sources = {f"source {path}": stamp for path, stamp in self._stamps.items()}
        write_json(self.folder / VERIFIED, {name: stamp_of(self.folder / name) for name in files} | sources)

    def abandon(self) -> None:
        """Closes the files of a store that will not be finished."""
        for file in self._files.values():
            file.drop()

    def _append(self, name: str, columns: dict[str, Any]) -> None:
        if name not in self._files:
            self._files[name] = _ArrowFile(self.folder / f"{name}.arrow")
        with writing(self.folder):
            self._files[name].write(columns)

    def _check_unchanged(self) -> None:
        for path, now in stamps_of(self._stamps).items():
            if now != self._stamps[path]:
                fix = "Read it again when nobody writes to it."
                raise DataError(path, expected="a file that stays as it is while it is read", found="one that changed", fix=fix)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if tuple(shape) != self.element_shape:
            raise ValueError(f"elements must have shape {self.element_shape}, got {tuple(shape)}.")

    def _check_sets(self, elements: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> None:
        if int(np.sum(sizes)) != len(elements) or (len(sizes) and int(np.min(sizes)) < 0):
            raise ValueError(f"sizes must be 0 or more and sum to the number of elements {len(elements)}, got {np.sum(sizes)}.")
        if self._pool_size is None:
            self._check_shape(elements.shape[1:])
        elif not np.issubdtype(elements.dtype, np.integer) or elements.ndim != 1:
            raise ValueError(f"rows of the pool must be integers (T,), got {elements.dtype} of shape {elements.shape}.")
        elif len(elements) and not (elements.min() >= 0 and elements.max() < self._pool_size):
            raise ValueError(f"rows of the pool must lie in 0..{self._pool_size - 1}, got {elements.min()}..{elements.max()}.")


class _ArrowFile:
    """An Arrow IPC file that is written piece by piece, with pieces joined to blocks; its columns are those of the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._pieces: list[Any] = []
        self._bytes = 0

    def write(self, columns: dict[str, Any]) -> None:
        pa = require("pyarrow", "io")
        piece = pa.record_batch(columns)
        if self._writer is None:
            self._schema = piece.schema
            self._sink = self._path.open("wb")
            self._writer = pa.ipc.new_file(self._sink, piece.schema)
        elif piece.schema != self._schema:
            have, got = (", ".join(f"{field.name} {field.type}" for field in schema) for schema in (self._schema, piece.schema))
            raise ValueError(f"{self._path.stem} must have the columns that it began with, {have}; got {got}.")
        if self._bytes + piece.nbytes > _BLOCK_BYTES:
            self._write_block()
        self._pieces.append(piece)
        self._bytes += piece.nbytes

    def _write_block(self) -> None:
        if self._pieces:
            self._writer.write_table(require("pyarrow", "io").Table.from_batches(self._pieces).combine_chunks())
        self._pieces, self._bytes = [], 0

    def drop(self) -> None:
        """Closes the file without writing what is left: it will be removed."""
        if self._writer is not None:
            self._pieces = []
            with contextlib.suppress(OSError, require("pyarrow", "io").ArrowException):
                self.close()
            with contextlib.suppress(OSError):  # a full disk once more; the file is closed all the same
                self._sink.close()

    def close(self) -> None:
        if self._writer is not None and not self._sink.closed:
            self._write_block()
            self._writer.close()
            self._sink.flush()
            os.fsync(self._sink.fileno())
            self._sink.close()


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns the disk's failures into an error that says what to do."""
    try:
        yield
    except OSError as error:
        room = "room and permission to keep sets that were read"
        fix = "Free some space, or name another folder for the cache: cache_dir (--cache-dir), or the variable ORDERLESS_CACHE."
        raise DataError(folder, expected=room, found=error.strerror or str(error), fix=fix) from error


def _fixed_lists(pa: Any, elements: NDArray[Any]) -> Any:
    width = int(np.prod(elements.shape[1:], dtype=np.int64))
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(elements).reshape(-1)), width)


def _arrow_columns(columns: Mapping[str, NDArray[Any]], length: int) -> dict[str, Any]:
    pa = require("pyarrow", "io")
    for name, values in columns.items():
        if len(values) != length:
            raise ValueError(f"column {name!r} must have {length} values, got {len(values)}.")
    return {name: _fixed_lists(pa, values) if np.ndim(values) == 2 else pa.array(values) for name, values in columns.items()}
