"""Errors about files: which file, what was expected, what was found, what to do; and whether the file is at fault or the call."""

from __future__ import annotations

from pathlib import Path


class ContentError(ValueError):
    """What a file holds will not do; it was named rightly."""


class OptionError(ValueError):
    """What was asked for will not do: a name that is not there, or options that do not go together. The files may be well."""


class DataError(ContentError):
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


class WrongNameError(DataError, OptionError):
    """What was named is not there, or has to be named: a column, a layer, a file by its suffix."""


class WrongPathError(MissingDataError, WrongNameError):
    """The caller named a file or folder that is not there."""


class MachineError(RuntimeError):
    """The machine failed, not what was computed on it: the same again may do better."""


def _rebuild(kind: type[DataError], path: Path, expected: str, found: str, fix: str) -> DataError:
    return kind(path, expected=expected, found=found, fix=fix)
