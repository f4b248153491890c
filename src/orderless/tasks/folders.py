"""Where publishers' files are."""

from __future__ import annotations

import os
from pathlib import Path

from orderless.io.errors import WrongPathError


def default_data_dir(cache_dir: Path) -> Path:
    """Where publishers' files are looked for and downloaded to: `ORDERLESS_DATA`, or a folder in the cache."""
    folder = os.environ.get("ORDERLESS_DATA")
    return existing_folder(folder, "the variable ORDERLESS_DATA") if folder else cache_dir / "raw"


def existing_folder(folder: str | Path, named_by: str = "--data-dir") -> Path:
    """The folder, which must be there."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        fix = f"Name a folder that is there with {named_by}."
        raise WrongPathError(folder, expected="a folder with publishers' files", found="no such folder", fix=fix)
    return path
