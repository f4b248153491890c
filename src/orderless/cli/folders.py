"""Folders that a user names to write to."""

import tempfile
from pathlib import Path

from orderless.cli.errors import FailedError, UsageError
from orderless.files import NO_ROOM


def check_room(folder: Path) -> None:
    """Says so if a folder cannot be made or written to, and makes none: before files are read, which may take long."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"nothing can be written to {folder}: {there} is a file. Choose another folder (--out).")
    check_writable(there)


def check_writable(folder: Path) -> None:
    """Makes the folder where it is not there, and says so if nothing can be written to it: now, and not after hours of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # of a name that nobody else has, who may be checking at the same moment
            pass
    except OSError as error:
        if error.errno in NO_ROOM:  # the folder is well, and so is the command
            raise FailedError(
                f"nothing can be written to {folder}: the disk is full. Free some space, or choose another folder."
            ) from error
        what = f"nothing can be written to {folder}: {error.strerror or error}"
        raise UsageError(f"{what}. Choose another folder (--out).") from error
