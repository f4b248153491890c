"""CelebA, photographs of faces with 40 attributes: Liu et al. 2015. Aligned and cropped images, attributes and identities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orderless.io.download import RemoteFile, fetch, unpack
from orderless.io.errors import DataError, MissingDataError
from orderless.io.images import decode_images
from orderless.io.reading import read_lines, reading, shown

PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
IMAGES = RemoteFile("celeba/img_align_celeba.zip", None, PAGE, md5="00d2c5bc6d35e252742224ab0c1e8fcb")
ATTRIBUTES = RemoteFile("celeba/list_attr_celeba.txt", None, PAGE, md5="75e246fa4810816ffd6ee81facbd244c")
IDENTITIES = RemoteFile("celeba/identity_CelebA.txt", None, PAGE, md5="32bd1bd63d3c78cd57e08160ec5ed1e2")
FOLDERS = (".", "celeba", "celebA", "CelebA")
NUM_ATTRIBUTES = 40
_IMAGE_FOLDERS = ("img_align_celeba/img_align_celeba", "img_align_celeba", "Img/img_align_celeba")
_ATTRIBUTE_FILES = ("list_attr_celeba.txt", "list_attr_celeba.csv", "Anno/list_attr_celeba.txt")
_IDENTITY_FILES = ("identity_CelebA.txt", "Anno/identity_CelebA.txt")


@dataclass(frozen=True)
class CelebA:
    """What is known of each photograph, in the order of the attributes file. The photographs themselves stay in their files.

    Attributes:
        folder: Where the photographs are.
        filenames: Their names in it.
        attributes: (n, 40) bool, whether a photograph has an attribute.
        attribute_names: What the attributes are called.
        identities: (n,) int64, who it is.
    """

    folder: Path
    filenames: tuple[str, ...]
    attributes: NDArray[np.bool_]
    attribute_names: tuple[str, ...]
    identities: NDArray[np.int64]


def find(data_dir: str | Path) -> Path | None:
    """The folder with attributes, identities and images: the data folder itself or one of the usual names in it."""
    for name in FOLDERS:
        folder = Path(data_dir) / name
        if _first(folder, _ATTRIBUTE_FILES) and _first(folder, _IDENTITY_FILES) and _image_folder(folder):
            return folder
    return None


def fetch_all(data_dir: str | Path, *, progress: bool = True) -> Path:
    """The folder with everything in it. The publisher lets only people download; an archive of images put there is unpacked."""
    if (found := find(data_dir)) is not None:
        return found
    folder = Path(data_dir) / Path(IMAGES.path).parent
    if _first(folder, _ATTRIBUTE_FILES) is None:
        fetch(ATTRIBUTES, data_dir, progress=progress)
    if _first(folder, _IDENTITY_FILES) is None:
        fetch(IDENTITIES, data_dir, progress=progress)
    archive = fetch(IMAGES, data_dir, progress=progress)
    unpack(archive, folder, expected=["img_align_celeba/000001.jpg"])
    return folder


def files(found: str | Path) -> list[Path]:
    """The files that `read_celeba` reads: attributes and identities. The photographs are read by `read_celeba_images`."""
    folder = Path(found)
    return [_needed(folder, _ATTRIBUTE_FILES, ATTRIBUTES), _needed(folder, _IDENTITY_FILES, IDENTITIES)]


def read_celeba(folder: str | Path) -> CelebA:
    """Reads attributes and identities, joined by file name, and checks that each photograph is there.

    Raises:
        DataError: If a file is missing or damaged, or the files do not speak of the same photographs.
    """
    folder = Path(folder)
    attribute_path, identity_path = files(folder)
    image_folder = _image_folder(folder)
    if image_folder is None:
        raise MissingDataError(
            folder / _IMAGE_FOLDERS[1], expected="the folder of images", found="no such folder", fix=f"See {PAGE}."
        )
    names, filenames, attributes = read_attributes(attribute_path)
    identities = read_identities(identity_path)
    _check_same(identity_path, filenames, identities, f"a row for each photograph of {attribute_path.name}")
    _check_same(attribute_path, identities, filenames, f"a row for each photograph of {identity_path.name}")
    with reading(image_folder, "the folder of images"):
        # one look at the folder: 200,000 questions to the disk take minutes on some
        there = {item.name for item in image_folder.iterdir()}
    _check_same(image_folder, filenames, there, f"a file for each photograph of {attribute_path.name}")
    numbers = np.array([identities[name] for name in filenames], np.int64)
    return CelebA(image_folder, filenames, attributes, names, numbers)


def read_celeba_images(paths: Sequence[str | Path], *, size: int = 64) -> NDArray[np.uint8]:
    """Reads photographs, each squashed whole to a square with bicubic interpolation, as the authors of the paper do.

    Args:
        paths: The files.
        size: Height and width of the result.

    Returns:
        (n, 3, size, size) numbers from 0 to 255.

    Raises:
        DataError: If a photograph is missing, damaged or truncated. It names the file.
        ImportError: If Pillow is not installed.
    """
    return decode_images([Path(path) for path in paths], size=size, resize=True)


def read_attributes(path: str | Path) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.bool_]]:
    """Reads the attributes file, in the publisher's form or as comma-separated values.

    The publisher's form has the number of photographs, the names of the attributes, then a file name and 1 or -1 for each
    attribute on each line. The other form has a line of column names instead of the first two.

    Returns:
        The names of the attributes, the names of the photographs, and (n, 40) whether a photograph has an attribute.
    """
    path = Path(path)
    lines = read_lines(path, "a list of attributes")
    is_csv = bool(lines) and "," in lines[0]
    count = None
    if is_csv:
        names = tuple(cell.strip() for cell in lines[0].split(","))[1:]
        rows = lines[1:]
    else:
        if len(lines) < 2 or not _is_number(lines[0].strip()):
            raise DataError(
                path, expected="the number of photographs on the first line", found=shown(lines[0]) if lines else "nothing"
            )
        count = int(lines[0])
        names = tuple(lines[1].split())
        rows = lines[2:]
    if len(names) != NUM_ATTRIBUTES or len(set(names)) != NUM_ATTRIBUTES or not all(names):
        raise DataError(
            path, expected=f"the names of {NUM_ATTRIBUTES} attributes", found=f"{len(names)} names, {len(set(names))} different"
        )
    first = 2 if is_csv else 3  # line number of the first row
    if not rows or (count is not None and count != len(rows)):
        expected = f"{count} photographs, as the first line says" if count else "at least one photograph"
        raise DataError(path, expected=expected, found=str(len(rows)), fix="Get the file again.")
    filenames: dict[str, None] = {}
    attributes = np.empty((len(rows), NUM_ATTRIBUTES), np.bool_)
    for i, row in enumerate(rows):
        name, *cells = [cell.strip() for cell in row.split(",")] if is_csv else row.split() or [""]
        if len(cells) != NUM_ATTRIBUTES or not _VALUES.issuperset(cells):
            raise DataError(
                path, expected=f"a file name and {NUM_ATTRIBUTES} times 1 or -1", found=f"{shown(row)} on line {first + i}"
            )
        _check_name(path, name, first + i, filenames)
        filenames[name] = None
        attributes[i] = [cell == "1" for cell in cells]
    return names, tuple(filenames), attributes


def read_identities(path: str | Path) -> dict[str, int]:
    """Reads the identities file: a file name and a number on each line."""
    path = Path(path)
    identities: dict[str, int] = {}
    for i, line in enumerate(read_lines(path, "a list of identities")):
        cells = line.split()
        if len(cells) != 2 or not _is_number(cells[1]):
            raise DataError(path, expected="a file name and a number", found=f"{shown(line)} on line {i + 1}")
        _check_name(path, cells[0], i + 1, identities)
        identities[cells[0]] = int(cells[1])
    if not identities:
        raise DataError(path, expected="a file name and a number on each line", found="an empty file")
    return identities


_VALUES = frozenset(("1", "-1"))


def _is_number(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= 18  # fits an int64


def _check_name(path: Path, name: str, line: int, seen: dict[str, None] | dict[str, int]) -> None:
    if name in ("", ".", "..") or not name.isprintable() or any(sign in name for sign in "/\\:"):
        raise DataError(path, expected="a file name", found=f"{shown(name)} on line {line}")
    if name in seen:
        raise DataError(path, expected="one row for each photograph", found=f"{shown(name)} again on line {line}")


def _check_same(path: Path, wanted: Sequence[str] | dict[str, int], there: Iterable[str], expected: str) -> None:
    names = set(there)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(path, expected=expected, found=f"none for {len(missing)} of {len(wanted)}, the first {shown(missing[0])}")


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((path for name in names if (path := folder / name).is_file()), None)


def _image_folder(folder: Path) -> Path | None:
    return next((path for name in _IMAGE_FOLDERS if (path := folder / name).is_dir()), None)


def _needed(folder: Path, names: Sequence[str], remote: RemoteFile) -> Path:
    path = _first(folder, names)
    if path is None:
        raise MissingDataError(folder / names[0], expected="a file of CelebA", found="no such file", fix=f"See {remote.page}.")
    return path
