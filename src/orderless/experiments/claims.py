"""Who is at a run: one process at a time, and nobody any more once that process has ended, however it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orderless.io.extras import require

_LOCK = ".lock"


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Whether this process may do the run of this folder; nobody else may until it leaves."""
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
    """Whether a process is at the run of this folder. Nothing is made where there is none."""
    if not (folder / _LOCK).is_file():
        return False
    filelock = require("filelock", "io")
    lock = filelock.FileLock(folder / _LOCK)
    try:
        with lock.acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # a folder that may only be read: whoever is at it could not be told
        return False
