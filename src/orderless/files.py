"""Files and folders that appear whole or not at all: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # a disk that is full, or a user's share of it
_Read = TypeVar("_Read")
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}")


class WriteError(OSError):
    """A file could not be written; whatever was there before still is. It has the number and the words of the system's error."""

    def __str__(self) -> str:
        fix = "Free some space, or write it elsewhere." if self.errno in NO_ROOM else "Write it elsewhere."
        return f"{self.filename} could not be written: {self.strerror}. {fix} What was there before is kept."


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Gives a name beside `path` to write to; what was written there takes the place of `path` in the end.

    After an error, or a kill at any moment, what was at `path` before is still there.

    Raises:
        WriteError: If the system fails, as on a full disk.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # its own, whatever thread or machine writes here, too
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except WriteError:
        raise
    except OSError as error:
        said = str(error) if error.errno is None else os.strerror(error.errno)  # libraries add their own words
        raise WriteError(error.errno, said, str(path)) from error
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


# --------------------------------------------------------------------------------------------------------- folders


def replace_folder(new: Path, folder: Path, former: Path) -> None:
    """Renames the folder `new` to `folder`, and removes what was there: at once where the system can, otherwise in two steps.

    After an error what was there is there again. After a kill it is there, too, or, between the two steps, at `former`: whoever
    finds nothing at `folder` looks there.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        new.rename(folder)  # which takes the place of an empty folder, too
    elif not _exchange(new, folder):
        try:
            folder.rename(former)
            new.rename(folder)
        except BaseException:
            if former.exists() and not folder.exists():
                former.rename(folder)
            raise
    sync_folder(folder.parent)
    for old in (new, former):
        remove_folder(old)


def read_as_one(mark: Path, read: Callable[[], _Read]) -> _Read:
    """What is read from the files of a folder, all of them of the same one: where another took its place meanwhile, once more.

    Args:
        mark: A file of the folder that is written once, with each folder that takes the place.
        read: Reads the files.
    """
    while True:
        before = _identity(mark)
        try:
            found = read()
        except Exception:
            if _identity(mark) == before:
                raise
        else:
            if _identity(mark) == before:
                return found


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:  # whoever reads it is told
        return None
    return stat.st_ino, stat.st_ctime_ns  # numbers are given anew, but not at the same time


def remove_folder(path: Path) -> None:
    """Removes a folder with all that is in it, or the file or link that is in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two names in one step, so that both are there at every moment. False where that is not to be had."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    current, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(current, os.fsencode(first), current, os.fsencode(second), exchange) == 0
