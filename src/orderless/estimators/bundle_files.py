"""The files of a bundle: written aside and put in place whole, and read only when every byte is what was written.

folder/
  bundle.json             what the estimator is, and size and SHA-256 of every other file and of itself
  member-0.safetensors    weights of the first network of the ensemble, as `save_model` writes them; then member-1, ...
  README.txt              for whoever finds the folder
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orderless.files import remove_folder, replace_folder, sync_folder, write_bytes
from orderless.io.errors import DataError, MissingDataError, WrongPathError
from orderless.io.reading import describe, reading, shown
from orderless.io.store_files import describe_file, sha256_of

FORMAT, VERSION = "orderless.bundle", 1
DESCRIPTION, README, COVARIATES = "bundle.json", "README.txt", "covariates.safetensors"
ENTRIES = ("versions", "kind", "parameters", "schema", "classes", "preprocessing", "members", "summary", "files")
LARGEST_DESCRIPTION = 64 * 2**20  # bytes: names of a million features
MOST_MEMBERS = 1000
AGAIN = "Save the bundle again, or fetch another copy."
_NO_CHECKSUM = "0" * 64
_MEMBER = re.compile(r"member-(0|[1-9]\d{0,2})\.safetensors")


def member_name(number: int) -> str:
    """The file of one network of the ensemble."""
    return f"member-{number}.safetensors"


# --------------------------------------------------------------------------------------------------------- writing


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Gives a folder beside `folder` to write a bundle to, which takes its place when the block ends.

    After an error what was at `folder` before is still there. After a kill at any moment it is there, or is put back by
    `recover`; what else the kill left is removed by the next who saves. Only a bundle or an empty folder is replaced. Nobody else
    may be saving to the same folder.
    """
    folder = folder.resolve()  # where it is a link, what it leads to is replaced
    recover(folder)
    _check_replaceable(folder)
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        beside.mkdir()
        yield beside
        read_description(beside)  # what is read back may take its place
        sync_folder(beside)
        replace_folder(beside, folder, beside.with_name(f"{beside.name}.former"))
    finally:
        remove_folder(beside)
    for leftover in _leftovers(folder):
        remove_folder(leftover)


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Writes `bundle.json`, the last of the files, with sizes and checksums of the others and of itself."""
    files = {path.name: describe_file(path) for path in sorted(folder.iterdir())}
    whole = {"format": FORMAT, "version": VERSION, **description, "files": files, "checksum": _NO_CHECKSUM}
    content = (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()
    write_bytes(folder / DESCRIPTION, _with_checksum(content, hashlib.sha256(content).hexdigest()))


def _check_replaceable(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist. Create it first.")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, and a bundle is a folder. Choose another name.")
    names = {path.name for path in folder.iterdir()}
    foreign = sorted(name for name in names if name not in (DESCRIPTION, README, COVARIATES) and not _MEMBER.fullmatch(name))
    if foreign or (names and DESCRIPTION not in names):
        holds = f"it holds {foreign[0]!r}" if foreign else f"it has no {DESCRIPTION}"
        raise FileExistsError(f"{folder} is not a bundle that could be replaced: {holds}. Choose another name, or move it away.")


def recover(folder: Path) -> None:
    """Puts a bundle back that was renamed for another one, where the process was killed before that took its place."""
    folder = folder.resolve()
    if folder.exists():
        return
    for former in _leftovers(folder, r"\.former"):
        with suppress(DataError, OSError):  # it is not whole, or may not be renamed: whoever wants to read it is told
            read_description(former)
            former.rename(folder)
            warnings.warn(f"a save to {folder} was killed: the bundle that was there before it is there again.", stacklevel=3)
            return


def _leftovers(folder: Path, ending: str = r"(\.former)?") -> list[Path]:
    """What killed processes left beside a bundle, the latest first."""
    ours = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}{ending}")
    found = [path for path in folder.parent.glob(".*") if ours.fullmatch(path.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


# --------------------------------------------------------------------------------------------------------- reading


def read_description(folder: Path) -> dict[str, Any]:
    """What a bundle says of itself, once every file is found to be what was written.

    Nothing is run and no network is built here. Sizes are compared before anything is read.
    """
    path = folder / DESCRIPTION
    if not folder.is_dir():
        former = [] if folder.exists() else _leftovers(folder.resolve(), r"\.former")
        expected = "a bundle, the folder that save_bundle wrote"
        if former:  # which `recover` could not put back
            found = f"one that was moved to {former[0].name} when a save was killed"
            raise MissingDataError(folder, expected=expected, found=found, fix="Rename it, if it is whole.")
        found = "a file" if folder.exists() else "nothing"
        raise WrongPathError(folder, expected=expected, found=found, fix="Check the path.")
    with reading(path, "the description of a bundle"):
        _check_present(path)
        if path.stat().st_size > LARGEST_DESCRIPTION:
            raise DataError(
                path, expected=f"at most {LARGEST_DESCRIPTION} bytes", found=f"{path.stat().st_size} bytes", fix=AGAIN
            )
        content = path.read_bytes()
    described = _parse(path, content)
    _check_version(path, described)
    stated = described.pop("checksum", None)
    if not isinstance(stated, str) or not re.fullmatch("[0-9a-f]{64}", stated) or stated != _checksum(content, stated):
        raise DataError(path, expected="what was written there", found="a description that was changed since", fix=AGAIN)
    described = {key: value for key, value in described.items() if key not in ("format", "version")}
    if described.keys() != set(ENTRIES):
        unknown, missing = (sorted(keys) for keys in (described.keys() - set(ENTRIES), set(ENTRIES) - described.keys()))
        found = f"the unknown {shown(unknown[0])}" if unknown else f"no {shown(missing[0])}"
        raise DataError(path, expected=f"the entries of a bundle of version {VERSION}", found=found, fix=AGAIN)
    _check_files(folder, described["files"], described["members"])
    return described


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("an entry stands there twice")
        return dict(pairs)

    def never(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        described = json.loads(content, object_pairs_hook=once, parse_constant=never)
    except (ValueError, RecursionError) as error:
        raise DataError(path, expected="JSON", found=f"something else ({describe(error)})", fix=AGAIN) from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        found = shown(str(described.get("format"))) if isinstance(described, dict) else f"a {type(described).__name__}"
        raise DataError(path, expected=f"format {FORMAT!r}", found=found, fix="Give the folder that save_bundle wrote.")
    return described


def _check_version(path: Path, described: Mapping[str, Any]) -> None:
    version = described.get("version")
    if version == VERSION and type(version) is int:
        return
    versions = described.get("versions")
    wrote = shown(str(versions.get("orderless"))) if isinstance(versions, dict) else "unknown"
    newer = type(version) is int and version > VERSION
    raise DataError(
        path,
        expected=f"version {VERSION} of the format",
        found=f"version {shown(str(version))}, written by orderless {wrote}",
        fix="Install that version of orderless, or a newer one." if newer else AGAIN,
    )


def _check_files(folder: Path, files: Any, members: Any) -> None:
    path = folder / DESCRIPTION
    if type(members) is not int or not 1 <= members <= MOST_MEMBERS:
        raise DataError(path, expected=f"1 to {MOST_MEMBERS} members", found=shown(str(members)), fix=AGAIN)
    names = {README, *map(member_name, range(members))}
    if isinstance(files, dict) and COVARIATES in files:
        names.add(COVARIATES)
    if not isinstance(files, dict) or files.keys() != names:  # so no name leads out of the folder
        found = (
            next((shown(name) for name in sorted(files) if name not in names), "too few") if isinstance(files, dict) else "none"
        )
        raise DataError(path, expected=f"checksums of {README} and {members} members", found=found, fix=AGAIN)
    for name, said in files.items():
        _check_file(folder / name, said)


def _check_file(path: Path, said: Any) -> None:
    if not isinstance(said, dict) or said.keys() != {"bytes", "sha256"} or type(said["bytes"]) is not int:
        raise DataError(path, expected=f"its size and checksum in {DESCRIPTION}", found=shown(str(said)), fix=AGAIN)
    with reading(path, "a file of the bundle"):
        _check_present(path)
        if path.stat().st_size != said["bytes"]:
            raise DataError(path, expected=f"{shown(str(said['bytes']))} bytes", found=f"{path.stat().st_size}", fix=AGAIN)
        found = sha256_of(path)
    if found != said["sha256"]:
        raise DataError(path, expected="what save_bundle wrote", found="a file that was changed since", fix=AGAIN)


def _check_present(path: Path) -> None:
    if not path.is_file():  # a pipe or a device would never end
        found = "something that is no file" if path.exists() else "no such file"
        raise MissingDataError(path, expected="a file of the bundle", found=found, fix=AGAIN)


def _checksum(content: bytes, stated: str) -> str:
    """Of all bytes, the checksum's own place filled with zeros."""
    return hashlib.sha256(_with_checksum(content, _NO_CHECKSUM, stated)).hexdigest()


def _with_checksum(content: bytes, checksum: str, before: str = _NO_CHECKSUM) -> bytes:
    head, place, tail = content.rpartition(f'"checksum": "{before}"'.encode())
    return head + place.replace(before.encode(), checksum.encode()) + tail
