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

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.reading import reading

FORMAT = 1
MANIFEST, VERIFIED, POOL = "manifest.json", "verified.json", "pool"
ELEMENTS = "elements"
_SOURCE = "a file that the task is made from"
_BLOCK_BYTES = 256 * 2**20  # blocks are joined up to this size: few large ones are faster to gather from


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
        self.manifest = _read_manifest(self.folder)
        _verify_files(self.folder, self.manifest)
        self.splits = tuple(self.manifest["splits"])
        shape = tuple(self.manifest["element_shape"])
        pool_path = self.folder / f"{POOL}.arrow"
        self.pool = StoredPool(pool_path, shape) if pool_path.name in self.manifest["files"] else None
        self._sets = {name: StoredSets(self.folder / f"{name}.arrow", shape, self.pool) for name in self.splits}

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
        batches = _open_batches(path)
        self._elements = _Rows([_flat(batch.column(ELEMENTS)).reshape(batch.num_rows, *element_shape) for batch in batches])
        self.columns = _columns(batches)

    def __len__(self) -> int:
        return len(self._elements)

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of these rows, (len(rows), *element)."""
        return self._elements.take(rows)


class StoredSets:
    """The sets of one split.

    Attributes:
        sizes: (N,) int64, how many elements each set has.
        element_shape: Shape of one element.
        columns: (N,) or (N, K) values by name, such as `target` and `id`.
        pool: What the elements are rows of, or None where they are stored with their sets.
    """

    def __init__(self, path: Path, element_shape: tuple[int, ...], pool: StoredPool | None) -> None:
        batches = _open_batches(path)
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

    def pool_rows(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Rows of the pool that these sets are made of, laid end to end."""
        if self.pool is None:
            raise ValueError("these sets have no pool: their elements are stored with them.")
        return self._gather(indices)

    def _gather(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[Any]:
        chosen = np.asarray(indices, dtype=np.int64)
        if self._equal is not None:
            return self._equal.take(chosen, axis=0).reshape(-1, *self._equal.shape[2:])
        return self._elements.spans(list(zip(self._starts[chosen].tolist(), self.sizes[chosen].tolist(), strict=True)))


class StoreWriter:
    """Writes a store aside and, when it is whole, puts it in its place.

    Used through `open_or_build`, which hands it to a function that calls `add_pool` and `add_sets` as often as it likes:
    each call writes one block, so what is written may be larger than memory.

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
        self._stamps: dict[str, list[int]] = {}

    def made_from(self, files: Iterable[Path]) -> None:
        """Notes the files that the sets are made from, with their checksums: should they change, the store is stale."""
        for label, path in _by_label(files).items():
            with reading(path, _SOURCE):
                self._stamps[f"source {path}"] = _stamp(path)
                self._sources[label] = _describe(path)

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
        with _writing(self.folder):
            self._finish(manifest)

    def _finish(self, manifest: Mapping[str, Any]) -> None:
        for file in self._files.values():
            file.close()
        files = {path.name: _describe(path) for path in sorted(self.folder.glob("*.arrow"))}
        stated = {
            "format": FORMAT,
            "element_shape": list(self.element_shape),
            "splits": self._splits,
            "sources": self._sources,
            "files": files,
        }
        whole = {**manifest, **stated}
        _write_json(self.folder / MANIFEST, {**whole, "checksum": _checksum(whole)})
        _write_json(self.folder / VERIFIED, {name: _stamp(self.folder / name) for name in files} | self._stamps)

    def abandon(self) -> None:
        """Closes the files of a store that will not be finished."""
        for file in self._files.values():
            with contextlib.suppress(OSError, require("pyarrow", "io").ArrowException):
                file.close()

    def _append(self, name: str, columns: dict[str, Any]) -> None:
        if name not in self._files:
            self._files[name] = _ArrowFile(self.folder / f"{name}.arrow")
        with _writing(self.folder):
            self._files[name].write(columns)

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


def open_or_build(
    folder: str | Path,
    build: Callable[[StoreWriter], Mapping[str, Any]],
    *,
    key: Mapping[str, Any],
    element_shape: tuple[int, ...],
    sources: Sequence[Path] = (),
    rebuild: bool = False,
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
        progress: Called with the number of sets or pool elements just written.
    """
    folder = Path(folder)
    key = json.loads(json.dumps(key))
    if not rebuild and (store := open_if_good(folder, key, sources)) is not None:
        return store
    filelock = require("filelock", "io")
    lock = filelock.FileLock(folder.parent / f".{folder.name}.lock")
    with _writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            warnings.warn(f"{folder} is being prepared by another process: waiting for it.", stacklevel=3)
            lock.acquire()
    try:
        # another process may have finished it while this one waited; only the one that holds the lock says why it builds
        if not rebuild and (store := open_if_good(folder, key, sources, explain=True)) is not None:
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
    try:
        store = SetStore(folder)
        if store.manifest["key"] != key:
            raise DataError(folder, expected="a task prepared with the settings asked for", found="other settings")
        _verify_sources(store, sources)
    except DataError as error:
        if explain:
            warnings.warn(f"{error} It is prepared again.", stacklevel=4)
        return None
    return store


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ------------------------------------------------------------------------------------------------------ building


def _build(
    folder: Path,
    build: Callable[[StoreWriter], Mapping[str, Any]],
    key: Mapping[str, Any],
    element_shape: tuple[int, ...],
    progress: Callable[[int], None] | None,
) -> None:
    """Runs under the lock of this folder, so whatever lies aside is what a killed process left."""
    aside, old = folder.parent / f".{folder.name}.aside", folder.parent / f".{folder.name}.old"
    with _writing(folder):
        for leftover in (aside, old):
            _remove(leftover)
        aside.mkdir()
    writer = StoreWriter(aside, element_shape, progress)
    try:
        writer.finish({**build(writer), "key": key})
        SetStore(aside)  # reads back what was written before it may take its place
        with _writing(folder):
            if folder.exists():
                folder.rename(old)
            aside.rename(folder)
            _sync_folder(folder.parent)
    except BaseException:
        writer.abandon()
        _remove(aside)
        raise
    _remove(old)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turns the disk's failures into an error that says what to do."""
    try:
        yield
    except OSError as error:
        room = "room and permission to write a prepared task"
        fix = "Free some space, or name another folder with --cache-dir or the variable ORDERLESS_CACHE."
        raise DataError(folder, expected=room, found=error.strerror or str(error), fix=fix) from error


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


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

    def close(self) -> None:
        if self._writer is not None and not self._sink.closed:
            self._write_block()
            self._writer.close()
            self._sink.flush()
            os.fsync(self._sink.fileno())
            self._sink.close()


def _fixed_lists(pa: Any, elements: NDArray[Any]) -> Any:
    width = int(np.prod(elements.shape[1:], dtype=np.int64))
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(elements).reshape(-1)), width)


def _arrow_columns(columns: Mapping[str, NDArray[Any]], length: int) -> dict[str, Any]:
    pa = require("pyarrow", "io")
    for name, values in columns.items():
        if len(values) != length:
            raise ValueError(f"column {name!r} must have {length} values, got {len(values)}.")
    return {name: _fixed_lists(pa, values) if np.ndim(values) == 2 else pa.array(values) for name, values in columns.items()}


# ------------------------------------------------------------------------------------------------------- reading


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
        views = []
        for (start, length), b in zip(spans, which.tolist(), strict=True):
            first = start - (int(self._ends[b - 1]) if b else 0)
            views.append(self._blocks[b][first : first + length])
        return np.concatenate(views)


def _open_batches(path: Path) -> list[Any]:
    pa = require("pyarrow", "io")
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
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


# ------------------------------------------------------------------------------------------- is it what it claims


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise DataError(folder, expected=f"a prepared task with its {MANIFEST}", found="none") from error
    except (OSError, ValueError) as error:
        raise DataError(path, expected="JSON", found=str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise DataError(path, expected=f"format {FORMAT}", found=str(found))
    stated = manifest.pop("checksum", None)
    if stated != _checksum(manifest):
        raise DataError(path, expected="what was written there", found="a manifest that was changed since")
    return manifest


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _verify_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Checksums are computed only for files whose size or time changed since they were last seen to be right."""
    stamps = _read_stamps(folder)
    fresh = dict(stamps)
    for name, said in manifest["files"].items():
        path = folder / name
        with reading(path, "a file of the prepared task"):  # another process may be replacing the folder just now
            stamp = _stamp(path)
            if stamp[0] != said["bytes"]:
                raise DataError(path, expected=f"{said['bytes']} bytes", found=f"{stamp[0]}")
            if stamps.get(name) == stamp:
                continue
            found = sha256_of(path)
        if found != said["sha256"]:
            raise DataError(path, expected=f"SHA-256 {said['sha256']}", found=found)
        fresh[name] = stamp
    _keep_stamps(folder, stamps, fresh)


def _verify_sources(store: SetStore, sources: Sequence[Path]) -> None:
    said, present = store.manifest["sources"], _by_label(sources)
    if present and set(present) != set(said):
        names, others = (", ".join(sorted(labels)) for labels in (present, said))
        raise DataError(store.folder, expected=f"a task made from {names}", found=f"one made from {others}")
    stamps = _read_stamps(store.folder)
    fresh = dict(stamps)
    for label, path in present.items():
        name = f"source {path}"
        with reading(path, _SOURCE):
            if stamps.get(name) == (stamp := _stamp(path)):
                continue
            found = sha256_of(path)
        if found != said[label]["sha256"]:
            expected = f"a task made from the present {path} (SHA-256 {found})"
            raise DataError(store.folder, expected=expected, found=f"one made from SHA-256 {said[label]['sha256']}")
        fresh[name] = stamp
    _keep_stamps(store.folder, stamps, fresh)


def _by_label(files: Iterable[Path]) -> dict[str, Path]:
    """Files by their path within the folder that holds them all: names alone need not differ, and the folder may move."""
    paths = [Path(path) for path in files]
    root = os.path.commonpath([path.parent.absolute() for path in paths]) if paths else ""
    return {path.absolute().relative_to(root).as_posix(): path for path in paths}


def _read_stamps(folder: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((folder / VERIFIED).read_text())
    except (OSError, ValueError):
        return {}  # without stamps the checksums are computed, nothing more
    return stamps if isinstance(stamps, dict) else {}


def _keep_stamps(folder: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    if before != after:
        with contextlib.suppress(OSError):  # a read-only cache computes its checksums each time
            _write_json(folder / VERIFIED, after)


def _stamp(path: Path) -> list[int]:
    """Changes whenever the file does: the last number also where somebody set the time of change back."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _describe(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Aside, then renamed, so that a reader never sees half of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def iterate_blocks(count: int, size: int) -> Iterator[range]:
    """Ranges of at most `size` that cover 0..count."""
    for start in range(0, count, size):
        yield range(start, min(start + size, count))
