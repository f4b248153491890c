"""Who is at a run: one process at a time, and nobody any more once that process has ended, however it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orderless.io.extras import require


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Whether this process may do the run of this folder; nobody else may until it leaves."""
    filelock = require("filelock", "io")
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
