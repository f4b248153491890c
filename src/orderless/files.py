"""Files that appear whole or not at all: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Gives a name beside `path` to write to; what was written there takes the place of `path` in the end.

    After an error, or a kill at any moment, what was at `path` before is still there.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # its own, whatever thread or machine writes here, too
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def is_leftover(path: Path) -> bool:
    """Whether a file or folder has a name of those that are written aside: where nobody writes, a killed process left it."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Removes what killed processes were writing aside here. Nobody else may be writing to the folder."""
    for path in filter(is_leftover, folder.glob(".*")):
        if path.is_dir() and not path.is_symlink():  # a bundle is a folder
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all."""
    with written_aside(path) as beside:
        beside.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file, whole or not at all."""
    write_text(path, json.dumps(content, indent=1))


def sync_folder(folder: Path) -> None:
    """Writes a renaming through to the disk."""
    with suppress(OSError):  # not every system lets a folder be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
