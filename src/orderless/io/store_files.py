"""The files of a store: what the manifest says of them, and whether they are still what it says."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orderless.files import write_json
from orderless.io.errors import DataError
from orderless.io.reading import reading

FORMAT = 1
MANIFEST, VERIFIED, POOL = "manifest.json", "verified.json", "pool"
ELEMENTS = "elements"
SOURCE = "a file that the task is made from"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a store says of itself, if it is whole and was not changed."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise DataError(folder, expected=f"a prepared task with its {MANIFEST}", found="none") from error
    except (OSError, ValueError) as error:
        raise DataError(path, expected="JSON", found=str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise DataError(path, expected=f"format {FORMAT}", found=str(found))
    stated = manifest.pop("checksum", None)
    if stated != checksum(manifest):
        raise DataError(path, expected="what was written there", found="a manifest that was changed since")
    return manifest


def checksum(manifest: Mapping[str, Any]) -> str:
    """Of everything else that a manifest says."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def verify_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Checksums are computed only for files whose size or time changed since they were last seen to be right."""
    stamps = _read_stamps(folder)
    fresh = dict(stamps)
    for name, said in manifest["files"].items():
        path = folder / name
        with reading(path, "a file of the prepared task"):  # another process may be replacing the folder just now
            stamp = stamp_of(path)
            if stamp[0] != said["bytes"]:
                raise DataError(path, expected=f"{said['bytes']} bytes", found=f"{stamp[0]}")
            if stamps.get(name) == stamp:
                continue
            found = sha256_of(path)
        if found != said["sha256"]:
            raise DataError(path, expected=f"SHA-256 {said['sha256']}", found=found)
        fresh[name] = stamp
    _keep_stamps(folder, stamps, fresh)


def verify_sources(folder: Path, manifest: Mapping[str, Any], sources: Sequence[Path]) -> None:
    """Raises if the store was made from other files than these, or if one of them has changed since."""
    said, present = manifest["sources"], by_label(sources)
    if present and set(present) != set(said):
        names, others = (", ".join(sorted(labels)) for labels in (present, said))
        raise DataError(folder, expected=f"a task made from {names}", found=f"one made from {others}")
    stamps = _read_stamps(folder)
    fresh = dict(stamps)
    for label, path in present.items():
        name = f"source {path}"
        with reading(path, SOURCE):
            if stamps.get(name) == (stamp := stamp_of(path)):
                continue
            found = sha256_of(path)
        if found != said[label]["sha256"]:
            expected = f"a task made from the present {path} (SHA-256 {found})"
            raise DataError(folder, expected=expected, found=f"one made from SHA-256 {said[label]['sha256']}")
        fresh[name] = stamp
    _keep_stamps(folder, stamps, fresh)


def by_label(files: Iterable[Path]) -> dict[str, Path]:
    """Files by their path within the folder that holds them all: names alone need not differ, and the folder may move."""
    paths = [Path(path) for path in files]
    root = os.path.commonpath([path.parent.absolute() for path in paths]) if paths else ""
    return {path.absolute().relative_to(root).as_posix(): path for path in paths}


def _read_stamps(folder: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((folder / VERIFIED).read_text())
    except (OSError, ValueError):
        return {}  # without stamps the checksums are computed, nothing more
    return stamps if isinstance(stamps, dict) else {}


def _keep_stamps(folder: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    if before != after:
        with contextlib.suppress(OSError):  # a read-only cache computes its checksums each time
            write_json(folder / VERIFIED, after)


def stamp_of(path: Path) -> list[int]:
    """Changes whenever the file does: the last number also where somebody set the time of change back."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def stamps_of(files: Iterable[Path]) -> dict[Path, list[int]]:
    """The stamp of each file that a store is to be made from."""
    stamps = {}
    for path in files:
        with reading(path, SOURCE):
            stamps[path] = stamp_of(path)
    return stamps


def describe_file(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
