"""The way in for people's own files: sets by what the files are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from orderless.io.anndata_file import read_anndata
from orderless.io.errors import DataError, WrongNameError, WrongPathError
from orderless.io.fcs_folder import TransformName, read_fcs_folder
from orderless.io.hdf5_sets import read_hdf5_sets
from orderless.io.long_table import read_long_table
from orderless.io.missing import MissingPolicy, check_policy
from orderless.io.sample_store import Progress, Reading, open_or_read
from orderless.io.samples import Samples, listed
from orderless.io.tables import PLAIN_TEXT, RENAME, SUFFIXES

_KINDS = {
    **{suffix: "Parquet" if suffix in (".parquet", ".pq") else "CSV" for suffix in SUFFIXES},
    ".fcs": "FCS",
    ".h5ad": "AnnData",
    ".h5": "HDF5",
    ".hdf5": "HDF5",
}
_READS = (
    "What can be read: long tables (.csv, .tsv, .parquet, or a folder of such parts), a folder of .fcs files or one of them, "
    ".h5ad, .h5 and .hdf5."
)
# options that make sense for some kinds only: given for others they are an error, not ignored
_ONLY_FOR = {
    "set_id": ("CSV", "Parquet", "AnnData"),
    "layer": ("AnnData",),
    "transform": ("FCS",),
    "cofactor": ("FCS",),
    "compensate": ("FCS",),
}
_COFACTOR = 5.0


def open_samples(
    path: str | Path,
    *,
    set_id: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    layer: str | None = None,
    missing: MissingPolicy = "error",
    fill: Mapping[str, float] | None = None,
    transform: TransformName | None = None,
    cofactor: float | None = None,
    compensate: bool | None = None,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Reads sets from files. What was read is kept in a memory-mapped store, so that a second call opens at once.

    Args:
        path: A long table (`.csv`, `.tsv`, `.parquet`, or a folder of such parts) with one row per element, an AnnData file
            (`.h5ad`), a folder of `.fcs` files or one of them, or an HDF5 file (`.h5`, `.hdf5`).
        set_id: For tables and AnnData: the column that says which set an element belongs to. Without it, each of several tables
            in a folder is a set, if none of their columns has a name like those of sets; so is a single one where `features`
            are named, as a model names them.
        features: What to take as features, in this order. Default: in a table every column of numbers that varies within some
            set and does not just number rows; of FCS files the markers that all files have; else everything.
        ignore: Columns or features to leave out. With `features`, as of another data set, they need not be there.
        layer: For AnnData: a layer to read instead of X.
        missing: About NaN and infinity in elements. `error` refuses them, `drop` leaves such elements out, `indicator` puts the
            median of the set's other elements and adds a feature `<name> missing` for each feature that has some.
        fill: For `indicator`, from `Samples.origin` of training: by feature, what to put where a set has no number of it at all.
            A feature with gaps that is not named here is an error. Default: the means of these files.
        transform: For FCS: `arcsinh` or `logicle`. Default: events as they are.
        cofactor: For FCS: what events are divided by before arcsinh; 150 is common for fluorescence. Default: 5, for mass
            cytometry.
        compensate: For FCS: take out each file's spillover, where it has a matrix. Default: yes.
        cache_dir: Folder for what was read. Default: the variable `ORDERLESS_CACHE`, or `~/.cache/orderless`.
        progress: Called with how much of the reading is done, 0 to 1.

    Raises:
        DataError: If the files are not what they should be. It says which file, what was found and what to do.
        ValueError: If an option is not one that there is, or is of no use for this kind of file or with another option.
    """
    policy = check_policy(missing)
    if fill is not None and policy != "indicator":
        raise ValueError(f"fill is for missing='indicator', got missing={missing!r}: leave it out.")
    features, ignore = _names("features", features), _names("ignore", ignore) or []
    for option, names in (("features=", features or []), ("set_id=", [] if set_id is None else [set_id])):
        if both := [name for name in names if name in ignore]:
            raise ValueError(f"{listed(both)} is named by {option} and by ignore= as well: leave it out of one of them.")
    path = Path(path).expanduser()
    kind, files, notes = find_files(path)
    given = {"set_id": set_id, "layer": layer, "transform": transform, "cofactor": cofactor, "compensate": compensate}
    for name, kinds in _ONLY_FOR.items():
        if given[name] is not None and kind not in kinds:
            raise ValueError(f"{name} is for {', '.join(kinds)} files; {path.name} is {kind}: leave it out.")
    if cofactor is not None and transform in (None, "logicle"):
        raise ValueError(f"cofactor is of arcsinh: leave it out with transform={transform!r}.")
    common: dict[str, Any] = {"features": features, "ignore": ignore, "missing": policy}
    cytometry: dict[str, Any] = {
        "transform": transform,
        "cofactor": None if transform != "arcsinh" else _COFACTOR if cofactor is None else float(cofactor),
        "compensate": compensate is None or bool(compensate),
    }
    readers: dict[str, tuple[dict[str, Any], Callable[..., Reading]]] = {
        "CSV": ({"set_id": set_id}, lambda **given: read_long_table(path, files, **given)),
        "Parquet": ({"set_id": set_id}, lambda **given: read_long_table(path, files, **given)),
        "AnnData": ({"set_id": set_id, "layer": layer}, lambda **given: read_anndata(files[0], **given)),
        "FCS": (cytometry, lambda **given: read_fcs_folder(path, files, notes=notes, **given)),
        "HDF5": ({}, lambda **given: read_hdf5_sets(files[0], **given)),
    }
    special, reader = readers[kind]
    return open_or_read(
        path,
        files,
        kind,
        {**common, **special},
        lambda tell: reader(**common, **special, progress=tell),
        missing=policy,
        fill=None if fill is None else {str(name): float(value) for name, value in fill.items()},
        cache_dir=cache_dir,
        progress=progress,
    )


def find_files(path: Path) -> tuple[str, list[Path], list[str]]:
    """The kind of what the user named, its files, and what to tell of the choice."""
    if path.is_dir():
        return _find_parts(path)
    if not path.exists():
        raise WrongPathError(path, expected="a file or folder of data", found="no such file")
    kind = _KINDS.get(_suffix(path))
    if kind is None:
        found = f"the suffix {path.suffix!r}" if path.suffix else "a name without a suffix"
        fix = RENAME if _suffix(path) in PLAIN_TEXT else _READS
        raise WrongNameError(path, expected="a file of a known kind", found=found, fix=fix)
    return kind, [path], []


def _refuse_deeper(folder: Path, suffixes: Container[str]) -> None:
    """Files in folders of the folder are not read: which of them are of one table, or labelled by their folder, is not known."""
    deeper = [file for file in sorted(folder.glob("*/*")) if _suffix(file) in suffixes and not file.name.startswith(".")]
    if not deeper:
        return
    below = list(dict.fromkeys(file.parent.name for file in deeper))
    kinds = listed(sorted({_suffix(file) for file in deeper}))
    fix = f"Name the folder of the files itself: {folder / below[0]}."
    if len(below) > 1:
        fix = f"Put them into one folder, under names that differ, or name one of these: {folder / below[0]}."
    raise DataError(
        folder, expected="a folder of data files", found=f"{kinds} files in folders below it: {listed(below)}", fix=fix
    )


def _find_parts(folder: Path) -> tuple[str, list[Path], list[str]]:
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith((".", "_", "~$")) and (kind := _KINDS.get(_suffix(file))):
            found.setdefault(kind, []).append(file)
    if "FCS" not in found:
        _refuse_deeper(folder, _KINDS if not found else (".fcs",))
    tables = [file.name for kind in ("CSV", "Parquet") for file in found.get(kind, [])]
    if "FCS" in found and set(found) <= {"FCS", "CSV", "Parquet"}:  # labels often lie beside the files that they are of
        notes = [f"tables beside the .fcs files are not read as data: {listed(tables)}."] if tables else []
        return "FCS", found["FCS"], notes
    if not found:
        plain = [file.name for file in sorted(folder.iterdir()) if _suffix(file) in PLAIN_TEXT]
        what, fix = (f"text files: {listed(plain)}", RENAME) if plain else ("none", _READS)
        raise DataError(folder, expected="a folder of files that can be read", found=what, fix=fix)
    (kind, files), *others = found.items()
    if others or (kind in ("AnnData", "HDF5") and len(files) > 1):
        counts = ", ".join(f"{len(files)} of {kind}" for kind, files in found.items())
        fix = "Name one file, or put the others elsewhere."
        raise DataError(folder, expected="files of one kind: .fcs, or parts of one table", found=counts, fix=fix)
    return kind, files, []


def _suffix(path: Path) -> str:
    ends = [suffix.lower() for suffix in path.suffixes]
    return "".join(ends[-2:]) if ends[-1:] == [".gz"] else "".join(ends[-1:])


def _names(option: str, names: Sequence[str] | None) -> list[str] | None:
    if isinstance(names, str):
        raise ValueError(f"{option} must be a list of names, got the text {names!r}.")
    if names is None:
        return None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or (option == "features" and not len(names)):
        found = f"{twice[0]!r} more than once" if twice else "none"
        raise ValueError(f"{option} must be names that differ{', at least one' if not twice else ''}; got {found}.")
    return [str(name) for name in names]
