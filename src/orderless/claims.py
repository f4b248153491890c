"""Claims on folders: one process works on a run or a fit at a time, and its claim ends with the process, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orderless.io.extras import require

_LOCK = ".lock"


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Whether this process may work in this folder; no other may until the block ends."""
    filelock = require("filelock", "io")
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def is_claimed(folder: Path) -> bool:
    """Whether a process is working in this folder. Nothing is created where there is no folder."""
    if not (folder / _LOCK).is_file():
        return False
    filelock = require("filelock", "io")
    lock = filelock.FileLock(folder / _LOCK)
    try:
        with lock.acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # a read-only folder, where nobody could be found out
        return False
