"""Results on disk: one JSON line for each finished run, in one file that all tables share.

    results/
      results.jsonl    the lines, in the order in which runs finished
      runs/KEY/        what each run keeps: configuration, history, checkpoints, weights
      tables/          renderings

In a line `epochs` and `steps` are columns, {name: [value, ...]}, which takes half the room of rows; in Python they are rows.

Several processes may write and read at once. A line is written under a lock, in one piece, and flushed to the disk. So a process
that is killed at any moment leaves whole lines and perhaps a torn one at the end, which readers skip and the next writer removes.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orderless.io.errors import DataError, WrongPathError
from orderless.io.extras import require

Line = dict[str, Any]
STATUSES = ("finished", "diverged")
_TABLES = ("epochs", "steps")
_LINE = "one JSON object with a key, a status and a spec, as `orderless table` writes it"


class ResultStore:
    """The results in a folder. The first line of a run counts; there is none after it.

    Args:
        folder: Made when the first line is written.
        also: Result files that are read as well and never written, such as those of another machine.
    """

    def __init__(self, folder: str | Path, also: Iterable[str | Path] = ()) -> None:
        self.folder = Path(folder)
        self._also: Sequence[Line] = [line for path in also for line in read_results(path)]
        self._lines: list[Line] = []
        self._read_to = 0  # bytes; lines are only ever added, so those before need not be read again

    @property
    def path(self) -> Path:
        """The file with the lines."""
        return self.folder / "results.jsonl"

    def run_folder(self, key: str) -> Path:
        """Where a run keeps what it needs to be resumed, and its results."""
        return self.folder / "runs" / key

    def lines(self) -> list[Line]:
        """Every line, each run once, the folder's own before those of other files.

        Raises:
            DataError: If a line before the last is no result line; it says which.
        """
        if self._refresh():  # perhaps somebody is just writing it
            with suppress(OSError), self._lock():  # a folder that is only to be read has no lock, and no writer
                pass
            if torn := self._refresh():
                warnings.warn(
                    f"{self.path}: the last line is cut off after {torn} bytes: a process was killed while writing it. "
                    "It is skipped, and its run is recorded again.",
                    stacklevel=2,
                )
        first: dict[str, Line] = {}
        for line in [*self._lines, *self._also]:
            first.setdefault(line["key"], line)
        return list(first.values())

    def by_key(self) -> dict[str, Line]:
        """The lines by the keys of their runs."""
        return {line["key"]: line for line in self.lines()}

    def add(self, line: Mapping[str, Any]) -> bool:
        """Writes a line, unless there is one of its run already.

        Returns:
            Whether it was written.
        """
        content = json.dumps(_plain(_in_columns(line)), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        _check_line(self.path, 0, line)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            self._repair()
            self._refresh()
            if line["key"] in {known["key"] for known in self._lines}:
                return False
            _append(self.path, content)
        return True

    def _lock(self) -> Any:
        return require("filelock", "io").FileLock(self.folder / "results.jsonl.lock")

    def _refresh(self) -> int:
        """Reads the lines that were added since the last time. Gives the bytes after the last whole line."""
        if not self.path.exists():
            self._lines, self._read_to = [], 0
            return 0
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._read_to:  # somebody took lines out
                self._lines, self._read_to = [], 0
            file.seek(self._read_to)
            added = file.read()
        if added.startswith(b"\n"):  # the end of a line that had none when it was read
            added, self._read_to = added[1:], self._read_to + 1
        if _is_whole(added[added.rfind(b"\n") + 1 :]):  # an editor left out the last line's end, nothing else is wrong
            added += b"\n"
        whole = added[: added.rfind(b"\n") + 1]
        self._lines += _parse(self.path, whole, first=len(self._lines) + 1)
        self._read_to = min(self._read_to + len(whole), self.path.stat().st_size)
        return len(added) - len(whole)

    def _repair(self) -> None:
        """Cuts off a torn last line. Its run has its result in its own folder, and is recorded again from there."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as file:
            content = file.read()
            if content and not content.endswith(b"\n"):
                if _is_whole(content[content.rfind(b"\n") + 1 :]):
                    file.write(b"\n")
                else:
                    file.truncate(content.rfind(b"\n") + 1)
                os.fsync(file.fileno())


def read_results(path: str | Path) -> list[Line]:
    """The lines of a result file that is only read, such as a committed one.

    Raises:
        DataError: If it is not there, or a line of it is no result line.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        fix = "Name a results.jsonl that is there."
        kind = WrongPathError if isinstance(error, FileNotFoundError) else DataError
        raise kind(path, expected="a file of result lines", found=error.strerror or str(error), fix=fix) from error
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return _parse(path, content, first=1)


def _is_whole(text: bytes) -> bool:
    """Whether a last line without its end is a result all the same."""
    try:
        return isinstance(json.loads(text), Mapping)
    except ValueError:
        return False


def _parse(path: Path, content: bytes, first: int) -> list[Line]:
    lines = []
    for number, text in enumerate(content.split(b"\n")[:-1], start=first):
        try:
            line = json.loads(text)
        except ValueError:
            raise _damaged(path, number, f"{len(text)} bytes that are no JSON") from None
        _check_line(path, number, line)
        lines.append(_in_rows(line))
    return lines


def _in_columns(line: Mapping[str, Any]) -> Line:
    """The line with its tables as columns. What a row does not have is None in it."""
    tables = {name: line[name] for name in _TABLES if line.get(name)}
    columns = {name: dict.fromkeys(column for row in rows for column in row) for name, rows in tables.items()}
    return {**line, **{name: {c: [row.get(c) for row in rows] for c in columns[name]} for name, rows in tables.items()}}


def _in_rows(line: Line) -> Line:
    """The line with its tables as rows, as `_in_columns` was given them."""
    tables = {name: line[name] for name in _TABLES if isinstance(line.get(name), Mapping)}
    rows = {name: [dict(zip(t, row, strict=True)) for row in zip(*t.values(), strict=True)] for name, t in tables.items()}
    return {**line, **rows}


def _check_line(path: Path, number: int, line: Any) -> None:
    if not isinstance(line, Mapping):
        raise _damaged(path, number, f"{type(line).__name__} instead of an object")
    missing = [name for name in ("key", "status", "spec", "metrics") if name not in line]
    if missing or line["status"] not in STATUSES:
        raise _damaged(path, number, f"no {', '.join(missing)}" if missing else f"the status {line['status']!r}")


def _damaged(path: Path, number: int, found: str) -> DataError:
    fix = (
        "Take that line out of the file, or put the file back; the run itself is in its folder and is recorded again from there."
    )
    return DataError(f"{path}, line {number}", expected=_LINE, found=found, fix=fix)


def _append(path: Path, content: bytes) -> None:
    """One write, flushed to the disk; a disk that is full leaves the file as it was."""
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            if file.write(content) != len(content):
                raise OSError(f"the disk is full: {path} could not be extended")
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
