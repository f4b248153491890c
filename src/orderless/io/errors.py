"""Errors about files: which file, what was expected, what was found, what to do."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """A file is not what it should be: truncated, damaged, or of another kind.

    Args:
        path: The file or folder.
        expected: What should be there.
        found: What is there.
        fix: What to do about it, as a sentence.
    """

    def __init__(self, path: str | Path, *, expected: str, found: str, fix: str = "") -> None:
        self.path, self.expected, self.found, self.fix = Path(path), expected, found, fix
        super().__init__(f"{path}: expected {expected}, found {found}.{' ' + fix if fix else ''}")

    def __reduce__(self) -> tuple[object, ...]:  # keyword arguments: pickle's own way would call with the message alone
        return (_rebuild, (type(self), self.path, self.expected, self.found, self.fix))


class MissingDataError(DataError):
    """A file is not there and could not be fetched."""


class MachineError(RuntimeError):
    """The machine failed, not what was computed on it: the same again may do better."""


def _rebuild(kind: type[DataError], path: Path, expected: str, found: str, fix: str) -> DataError:
    return kind(path, expected=expected, found=found, fix=fix)
