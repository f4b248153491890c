"""Sets on disk: a folder of Arrow files that is memory-mapped, so that it opens at once and processes share it without copies.

    folder/
      manifest.json   what this is, of which parameters and sources it was made, and a checksum of every file
      verified.json   sizes and times of the files when their checksums were last seen to be right
      <split>.arrow   one row per set: `elements` (a list of elements, or of rows of the pool), and further columns
      pool.arrow      optional: one row per element, where sets draw from a common pool, such as images used in many sets

Any Arrow reader can open the files. A folder is written aside and renamed when it is whole, so it is there or it is not.

Letters: N sets, T elements.
"""

from __future__ import annotations

import json
import mmap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.files import read_as_one, remove_folder, replace_folder
from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.store_files import ELEMENTS, MANIFEST, POOL, read_manifest, verify_files, verify_sources
from orderless.io.store_writer import StoreWriter, writing

_KEPT_BYTES = 512 * 2**20  # a store of this size may stay in memory once it was read


class SetStore:
    """A folder of sets, opened for reading.

    Args:
        folder: Where the store is. It is checked on opening: whole, readable, and unchanged since it was written.

    Attributes:
        folder: As given.
        manifest: What the folder says of itself.
        splits: Names of the splits, such as `train` and `test`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest, self.pool, self._sets = read_as_one(self.folder / MANIFEST, self._open)
        self.splits = tuple(self._sets)

    def _open(self) -> tuple[dict[str, Any], StoredPool | None, dict[str, StoredSets]]:
        manifest = read_manifest(self.folder)
        verify_files(self.folder, manifest)
        shape = tuple(manifest["element_shape"])
        pool_path = self.folder / f"{POOL}.arrow"
        pool = StoredPool(pool_path, shape) if pool_path.name in manifest["files"] else None
        return manifest, pool, {name: StoredSets(self.folder / f"{name}.arrow", shape, pool) for name in manifest["splits"]}

    def __getitem__(self, split: str) -> StoredSets:
        if split not in self._sets:
            raise ValueError(f"split must be one of {', '.join(self.splits)}; got {split!r}.")
        return self._sets[split]

    def __reduce__(self) -> tuple[object, ...]:  # another process maps the same files instead of receiving their content
        return (SetStore, (self.folder,))


def _open_split(folder: Path, split: str) -> StoredSets:
    return SetStore(folder)[split]


class StoredPool:
    """Elements that sets refer to by row, and what is known of each (`columns`)."""

    def __init__(self, path: Path, element_shape: tuple[int, ...]) -> None:
        batches, self._map = _open_batches(path)
        self._elements = _Rows([_flat(batch.column(ELEMENTS)).reshape(batch.num_rows, *element_shape) for batch in batches])
        self.columns = _columns(batches)

    def __len__(self) -> int:
        return len(self._elements)

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of these rows, (len(rows), *element)."""
        return self._map.copied(self._elements.take(rows), scattered=len(rows))


class StoredSets:
    """The sets of one split.

    Attributes:
        sizes: (N,) int64, how many elements each set has.
        element_shape: Shape of one element.
        columns: (N,) or (N, K) values by name, such as `target` and `id`.
        pool: What the elements are rows of, or None where they are stored with their sets.
    """

    def __init__(self, path: Path, element_shape: tuple[int, ...], pool: StoredPool | None) -> None:
        batches, self._map = _open_batches(path)
        self.path, self.element_shape, self.pool = path, element_shape, pool
        stored_shape = () if pool else element_shape
        parts, starts, stops = [], [], []
        before = 0
        for batch in batches:
            column = batch.column(ELEMENTS)
            offsets = column.offsets.to_numpy()  # (n + 1,)
            elements = _flat(column.values).reshape(-1, *stored_shape)
            parts.append(elements)
            starts.append(offsets[:-1] + before)
            stops.append(offsets[1:] + before)
            before += len(elements)
        self._elements = _Rows(parts)
        self._starts = np.concatenate(starts) if starts else np.zeros(0, np.int64)
        self.sizes: NDArray[np.int64] = (np.concatenate(stops) if stops else np.zeros(0, np.int64)) - self._starts
        self.columns = _columns(batches)
        # sets of one size in one block are a plain array (N, M, ...), and a batch of them is one copy
        self._equal = _as_equal_sets(parts, self.sizes)

    def __reduce__(self) -> tuple[object, ...]:
        return (_open_split, (self.path.parent, self.path.stem))

    def __len__(self) -> int:
        return len(self.sizes)

    def gather(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of the elements of these sets, laid end to end: (sum of their sizes, *element)."""
        elements = self._gather(indices)
        return self.pool.take(elements) if self.pool else elements

    def blocks(self, index: int, size: int = 2**18) -> Iterator[NDArray[Any]]:
        """The elements of one set in their order, copied `size` at a time: for a set that is too large to be copied at once."""
        start = int(self._starts[index])
        for block in iterate_blocks(int(self.sizes[index]), size):
            rows = self._map.copied(self._elements.spans([(start + block.start, len(block))]))
            yield self.pool.take(rows) if self.pool else rows

    def take(self, index: int, rows: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of some elements of one set, (len(rows), *element): the others are not read."""
        whole = self._elements.view(int(self._starts[index]), int(self.sizes[index]))
        chosen = self._map.copied(whole.take(np.asarray(rows, dtype=np.int64), axis=0), scattered=len(rows), within=whole.nbytes)
        return self.pool.take(chosen) if self.pool else chosen

    def pool_rows(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Rows of the pool that these sets are made of, laid end to end."""
        if self.pool is None:
            raise ValueError("these sets have no pool: their elements are stored with them.")
        return self._gather(indices)

    def _gather(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[Any]:
        chosen = np.asarray(indices, dtype=np.int64)
        if self._equal is not None:
            return self._map.copied(self._equal.take(chosen, axis=0).reshape(-1, *self._equal.shape[2:]))
        spans = list(zip(self._starts[chosen].tolist(), self.sizes[chosen].tolist(), strict=True))
        return self._map.copied(self._elements.spans(spans))


def open_or_build(
    folder: str | Path,
    build: Callable[[StoreWriter], Mapping[str, Any]],
    *,
    key: Mapping[str, Any],
    element_shape: tuple[int, ...],
    sources: Sequence[Path] = (),
    rebuild: bool = False,
    explain: bool = True,
    progress: Callable[[int], None] | None = None,
) -> SetStore:
    """Opens a store, or makes it first where it is missing, damaged, or made of other things than asked for.

    One process builds, others wait for it. A build that is interrupted leaves nothing that looks finished.

    Args:
        folder: Where the store is or shall be.
        build: Fills the writer and returns what else the manifest shall say.
        key: What the store is made of: a store with another key is built again. JSON values.
        element_shape: Shape of one element.
        sources: Files that the store should be made from, where they are at hand. One that changed since
            `StoreWriter.made_from` makes the store stale.
        rebuild: Build even if the store is good.
        explain: Warn, with the reason, where there is a store that will not do.
        progress: Called with the number of sets or pool elements just written.
    """
    folder = Path(folder)
    key = json.loads(json.dumps(key))
    if not rebuild and (store := open_if_good(folder, key, sources)) is not None:
        return store
    filelock = require("filelock", "io")
    lock = filelock.FileLock(folder.parent / f".{folder.name}.lock")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            warnings.warn(f"{folder} is being prepared by another process: waiting for it.", stacklevel=3)
            lock.acquire()
    try:
        with writing(folder):
            _put_back(folder)
        # another process may have finished it while this one waited; only the one that holds the lock says why it builds
        if not rebuild and (store := open_if_good(folder, key, sources, explain=explain)) is not None:
            return store
        _build(folder, build, key, element_shape, progress)
        return SetStore(folder)
    finally:
        lock.release()


def open_if_good(
    folder: str | Path, key: Mapping[str, Any], sources: Sequence[Path] = (), *, explain: bool = False
) -> SetStore | None:
    """The store, if it is there, whole, and made of what is asked for.

    Args:
        folder: Where it would be.
        key: As for `open_or_build`.
        sources: As for `open_or_build`.
        explain: Warn, with the reason, where there is one that will not do.
    """
    folder = Path(folder)
    if not folder.exists():
        return None

    def open_asked_for() -> SetStore:
        store = SetStore(folder)
        if store.manifest["key"] != key:
            raise DataError(folder, expected="a task prepared with the settings asked for", found="other settings")
        verify_sources(folder, store.manifest, sources)
        return store

    try:
        return read_as_one(folder / MANIFEST, open_asked_for)
    except DataError as error:
        if explain:
            warnings.warn(f"{error} It is prepared again.", stacklevel=4)
        return None


def _build(
    folder: Path,
    build: Callable[[StoreWriter], Mapping[str, Any]],
    key: Mapping[str, Any],
    element_shape: tuple[int, ...],
    progress: Callable[[int], None] | None,
) -> None:
    """Runs under the lock of this folder, so whatever lies aside is what a killed process left."""
    aside, old = folder.parent / f".{folder.name}.aside", _old(folder)
    with writing(folder):
        for leftover in (aside, old):
            remove_folder(leftover)
        aside.mkdir()
    writer = StoreWriter(aside, element_shape, progress)
    try:
        writer.finish({**build(writer), "key": key})
        SetStore(aside)  # reads back what was written before it may take its place
        with writing(folder):
            replace_folder(aside, folder, old)
    except BaseException:
        writer.abandon()
        remove_folder(aside)
        raise


def _put_back(folder: Path) -> None:
    """Where a process was killed while one store took the place of another, what was there before is there again."""
    if not folder.exists() and _old(folder).is_dir():
        _old(folder).rename(folder)


def _old(folder: Path) -> Path:
    """Where a store is while another takes its place, if the system cannot exchange the two in one step."""
    return folder.parent / f".{folder.name}.old"


def _as_equal_sets(parts: Sequence[NDArray[Any]], sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    if len(parts) != 1 or not len(sizes) or not (sizes == sizes[0]).all():
        return None
    return parts[0].reshape(len(sizes), int(sizes[0]), *parts[0].shape[1:])


class _Rows:
    """Rows in one or more blocks of memory, addressed as if they were one."""

    def __init__(self, blocks: Sequence[NDArray[Any]]) -> None:
        self._blocks = [block for block in blocks if len(block)] or list(blocks[:1])
        self._ends = np.cumsum([len(block) for block in self._blocks])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"there are {len(self)} rows, got {rows.min()}..{rows.max()}.")
        if len(self._blocks) == 1:
            return self._blocks[0].take(rows, axis=0)
        return self.spans([(int(row), 1) for row in rows])

    def spans(self, spans: Sequence[tuple[int, int]]) -> NDArray[Any]:
        """A copy of the rows start..start+length of each span, end to end. A span lies within one block."""
        if not spans:
            return self._blocks[0][:0].copy()
        if len(self._blocks) == 1:
            (block,) = self._blocks
            return np.concatenate([block[start : start + length] for start, length in spans])
        which = np.searchsorted(self._ends, [start for start, _ in spans], side="right").clip(max=len(self._blocks) - 1)
        return np.concatenate([self._within(b, *span) for span, b in zip(spans, which.tolist(), strict=True)])

    def view(self, start: int, length: int) -> NDArray[Any]:
        """The rows start..start+length, which lie within one block, without a copy."""
        return self._within(min(int(np.searchsorted(self._ends, start, side="right")), len(self._blocks) - 1), start, length)

    def _within(self, block: int, start: int, length: int) -> NDArray[Any]:
        first = start - (int(self._ends[block - 1]) if block else 0)
        return self._blocks[block][first : first + length]


class _Map:
    """A file in memory, of which what was read long ago is given back: a large store would else count as memory in use."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._since = 0
        self._can_give_back = hasattr(mmap, "MADV_DONTNEED") and len(self.content) > _KEPT_BYTES

    def copied(self, rows: NDArray[Any], *, scattered: int = 0, within: int | None = None) -> NDArray[Any]:
        """Takes note that these rows were copied out of the file.

        Args:
            rows: The copy.
            scattered: How many places it was read from, each of which brings a page into memory.
            within: Bytes of the stretch that all of them lie in.
        """
        if self._can_give_back:
            pages = min(scattered * mmap.PAGESIZE, len(self.content) if within is None else within + 2 * mmap.PAGESIZE)
            self._since += max(rows.nbytes, pages)
            if self._since > _KEPT_BYTES // 2:  # the pages stay in the system's cache, and are taken from there when asked for
                self.content.madvise(mmap.MADV_DONTNEED)
                self._since = 0
        return rows


def _open_batches(path: Path) -> tuple[list[Any], _Map]:
    pa = require("pyarrow", "io")
    try:
        mapped = _Map(path)
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped.content)))
        return [reader.get_batch(i) for i in range(reader.num_record_batches)], mapped
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: an empty file cannot be mapped
        raise DataError(path, expected="an Arrow file", found=f"{error}".splitlines()[0]) from error


def _flat(lists: Any) -> NDArray[Any]:
    """The numbers behind a column of fixed-size lists, or of plain numbers, without a copy."""
    values = lists.values if hasattr(lists, "values") else lists
    return values.to_numpy(zero_copy_only=True)


def _columns(batches: Sequence[Any]) -> dict[str, NDArray[Any]]:
    names = [name for name in (batches[0].schema.names if batches else []) if name != ELEMENTS]
    return {name: np.concatenate([_column(batch.column(name)) for batch in batches]) for name in names}


def _column(values: Any) -> NDArray[Any]:
    """(N,), or (N, K) where every set has several numbers."""
    if hasattr(values.type, "list_size"):
        return _flat(values).reshape(len(values), values.type.list_size)
    return values.to_numpy(zero_copy_only=False)


def iterate_blocks(count: int, size: int) -> Iterator[range]:
    """Ranges of at most `size` that cover 0..count."""
    for start in range(0, count, size):
        yield range(start, min(start + size, count))
