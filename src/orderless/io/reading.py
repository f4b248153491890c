"""What all readers of files share: every failure to read is a `DataError` that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orderless.io.errors import DataError, MissingDataError

# No common method packs tighter: deflate's longest match is 258 bytes for two bits. More than this is a damaged header or a bomb.
MAX_RATIO = 1040


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turns the operating system's errors inside the block into a `DataError` about this file.

    Args:
        path: The file being read.
        expected: What it should be, for the message.
    """
    try:
        yield
    except FileNotFoundError:
        raise MissingDataError(path, expected=expected, found="no such file") from None
    except OSError as error:
        raise DataError(
            path,
            expected=expected,
            found=f"something that cannot be read ({describe(error)})",
            fix="Check the file and its rights.",
        ) from error


def read_lines(path: Path, expected: str) -> list[str]:
    """The lines of a text file in UTF-8, without line ends and without empty lines at the end.

    Only line feeds end a line (with or without a carriage return): Python's own idea of a line also ends at control characters,
    which a damaged file is full of.

    Args:
        path: The file.
        expected: What it should be, for the message.
    """
    with reading(path, expected):
        raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(path, expected=expected, found=f"bytes that are no text, at {error.start}") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def describe(error: BaseException, path: Path | None = None) -> str:
    """An exception in one line of bounded length: its kind and what it says.

    Args:
        error: The exception.
        path: A file that the message around it names, so that what the exception says need not begin with it.
    """
    text = getattr(error, "strerror", None) or str(error)
    said = " ".join(text.removeprefix(f"{path} is damaged: ").split())
    name = type(error).__name__
    if not said:
        return name
    return f"{name}: {said[:200]}{'...' if len(said) > 200 else ''}"


def shown(text: str) -> str:
    """A piece of a file for a message: quoted, on one line, of bounded length."""
    return repr(text if len(text) <= 40 else text[:40] + "...")
