"""The way in for people's own files: sets by what the files are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from orderless.io.errors import DataError, MissingDataError
from orderless.io.long_table import read_long_table
from orderless.io.missing import MissingPolicy, check_policy
from orderless.io.sample_store import Progress, Reading, open_or_read
from orderless.io.samples import Samples
from orderless.io.tables import SUFFIXES

TransformName = Literal["arcsinh", "logicle"]
_READS = "Long tables (.csv, .tsv, .parquet, or a folder of parts) can be read."


def open_samples(
    path: str | Path,
    *,
    set_id: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: MissingPolicy = "error",
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Reads sets from files. What was read is kept in a memory-mapped store, so that a second call opens at once.

    Args:
        path: A long table: `.csv`, `.tsv` or `.parquet`, or a folder of such parts.
        set_id: Column that says which set a row belongs to.
        features: What to take as features, in this order. Default: every column of numbers that varies within some set.
        ignore: Columns to leave out.
        missing: About NaN and infinity in elements. `error` refuses them, `drop` leaves such elements out, `indicator` puts 0 and
            adds a feature `<name> missing` for each feature that has some.
        cache_dir: Folder for what was read. Default: the variable `ORDERLESS_CACHE`, or `~/.cache/orderless`.
        progress: Called with how much of the reading is done, 0 to 1.

    Raises:
        DataError: If the files are not what they should be. It says which file, what was found and what to do.
    """
    policy = check_policy(missing)
    path = Path(path).expanduser()
    kind, files = find_files(path)
    options = {"set_id": set_id, "features": _strings(features), "ignore": _strings(ignore) or []}

    def read(tell: Progress) -> Reading:
        return read_long_table(path, files, set_id=set_id, features=features, ignore=ignore, missing=policy, progress=tell)

    return open_or_read(path, files, kind, options, read, missing=policy, cache_dir=cache_dir, progress=progress)


def find_files(path: Path) -> tuple[str, list[Path]]:
    """The kind of what the user named, and its files."""
    if path.is_dir():
        return _find_parts(path)
    if not path.exists():
        raise MissingDataError(path, expected="a file or folder of data", found="no such file")
    return _kind_of(path), [path]


def _find_parts(folder: Path) -> tuple[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith((".", "_")) and (kind := _SUFFIXES.get(_suffix(file))):
            found.setdefault(kind, []).append(file)
    if not found:
        raise DataError(folder, expected="a folder of files that can be read", found="none", fix=_READS)
    if len(found) > 1:
        counts = ", ".join(f"{len(files)} of {kind}" for kind, files in found.items())
        raise DataError(folder, expected="files of one kind", found=counts, fix="Name one file, or put the others elsewhere.")
    return next(iter(found.items()))


def _kind_of(path: Path) -> str:
    kind = _SUFFIXES.get(_suffix(path))
    if kind is None:
        raise DataError(path, expected="a file of a known kind", found=f"the suffix {path.suffix or 'nothing'!r}", fix=_READS)
    return kind


_SUFFIXES = {suffix: "Parquet" if suffix in (".parquet", ".pq") else "text" for suffix in SUFFIXES}


def _suffix(path: Path) -> str:
    ends = [suffix.lower() for suffix in path.suffixes]
    return "".join(ends[-2:]) if ends[-1:] == [".gz"] else "".join(ends[-1:])


def _strings(names: Sequence[str] | None) -> list[str] | None:
    if isinstance(names, str):
        raise ValueError(f"names must be a list, got the text {names!r}.")
    return None if names is None else [str(name) for name in names]
