"""CIFAR-10, small photographs of ten kinds: Krizhevsky 2009. Read from the binary batches or from one npz file of JPEGs."""

from __future__ import annotations

import itertools
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.download import RemoteFile, fetch, unpack
from orderless.io.errors import DataError, MissingDataError
from orderless.io.images import decode_images
from orderless.io.reading import MAX_RATIO, describe, read_lines, reading

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
ARCHIVE = RemoteFile(
    "cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    PAGE,
    md5="c32a1d4ab5d03f1284b67883e8d87530",
)
CLASS_NAMES: tuple[str, ...] = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FOLDER = "cifar-10-batches-bin"
TRAIN_BATCHES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_BATCHES = ("test_batch.bin",)
JPEGS = "cifar10_jpeg.npz"
_RECORD = 1 + 3 * 32 * 32  # a label, then red, green and blue, row by row
_KINDS = {"jpeg_blob": "u", "offsets": "iu", "labels": "iu"}  # image i is the JPEG at blob[offsets[i]:offsets[i + 1]]
_AGAIN = "Get the file again."


@dataclass(frozen=True)
class Cifar10:
    """The photographs. Images are (n, 3, 32, 32) from 0 to 255, labels (n,) from 0 to 9, both uint8."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    class_names: tuple[str, ...]


def find(data_dir: str | Path) -> Path | None:
    """The folder of binary batches, or the npz file: in the data folder itself or under one of the usual names in it."""
    for name in (".", FOLDER, "cifar10", f"cifar10/{FOLDER}", "CIFAR10", f"CIFAR10/{FOLDER}"):
        folder = Path(data_dir) / name
        if all((folder / batch).is_file() for batch in TRAIN_BATCHES + TEST_BATCHES):
            return folder
        if (folder / JPEGS).is_file():
            return folder / JPEGS
    return None


def fetch_all(data_dir: str | Path, *, progress: bool = True) -> Path:
    """The folder of binary batches or the npz file; the batches are downloaded and unpacked if neither is there."""
    if (found := find(data_dir)) is not None:
        return found
    archive = fetch(ARCHIVE, data_dir, progress=progress)
    return unpack(archive, data_dir, expected=[f"{FOLDER}/{name}" for name in TRAIN_BATCHES + TEST_BATCHES])


def files(found: str | Path) -> list[Path]:
    """The files that `read_cifar10` reads."""
    path = Path(found)
    if not path.is_dir():
        return [path]
    if not (path / TRAIN_BATCHES[0]).is_file() and (path / JPEGS).is_file():
        return [path / JPEGS]
    names = path / "batches.meta.txt"
    return [path / name for name in TRAIN_BATCHES + TEST_BATCHES] + ([names] if names.is_file() else [])


def read_cifar10(path: str | Path) -> Cifar10:
    """Reads the photographs from the folder of binary batches, or from the npz file.

    Raises:
        DataError: If a file is missing, damaged, or is not what it should be.
        ImportError: If the images are JPEGs and Pillow is not installed.
    """
    path = Path(path)
    if not path.exists():
        raise MissingDataError(
            path, expected=f"the folder {FOLDER} or {JPEGS}", found="no such file or folder", fix=f"See {PAGE}."
        )
    source = files(path)[0]
    return _read_npz(source) if source.suffix == ".npz" else _read_batches(path)


def _read_batches(folder: Path) -> Cifar10:
    if not folder.is_dir():
        raise DataError(folder, expected=f"the folder {FOLDER} or an .npz file", found="another file")
    train = [_read_batch(folder / name) for name in TRAIN_BATCHES]
    test = [_read_batch(folder / name) for name in TEST_BATCHES]
    names = CLASS_NAMES
    meta = folder / "batches.meta.txt"
    if meta.is_file():
        names = tuple(line.strip() for line in read_lines(meta, "ten class names") if line.strip())
        _check_names(meta, names)
    train_images, train_labels, test_images, test_labels = map(
        np.concatenate, (*zip(*train, strict=True), *zip(*test, strict=True))
    )
    return Cifar10(train_images, train_labels, test_images, test_labels, names)


def _read_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    with reading(path, "a batch of CIFAR-10"):
        raw = np.fromfile(path, np.uint8)
    if not raw.size or raw.size % _RECORD:
        raise DataError(path, expected=f"whole records of {_RECORD} bytes", found=f"{raw.size} bytes", fix=_AGAIN)
    records = raw.reshape(-1, _RECORD)
    labels = records[:, 0].copy()
    _check_labels(path, labels)
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


def _read_npz(path: Path) -> Cifar10:
    arrays: dict[str, NDArray[Any]] = {}
    names = CLASS_NAMES
    try:
        with reading(path, "an npz file"), path.open("rb") as file, zipfile.ZipFile(file) as archive:
            for split, (key, kinds) in itertools.product(("train", "test"), _KINDS.items()):
                arrays[f"{split}_{key}"] = _read_member(path, archive, f"{split}_{key}", kinds)
            if "class_names.npy" in archive.namelist():
                names = tuple(str(name) for name in _read_member(path, archive, "class_names", "U"))
                _check_names(path, names)
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for damaged files
        raise DataError(path, expected="an npz file", found=f"a damaged one or none ({describe(error)})", fix=_AGAIN) from None
    train = _decode_split(path, arrays, "train")
    test = _decode_split(path, arrays, "test")
    return Cifar10(*train, *test, names)


def _read_member(path: Path, archive: zipfile.ZipFile, key: str, kinds: str) -> NDArray[Any]:
    """One flat array of an npz file. Its header may say anything, so it is held against the bytes before memory is taken."""
    try:
        member = archive.getinfo(f"{key}.npy")
    except KeyError:
        raise DataError(path, expected=f"an array {key!r}", found="none of that name") from None
    packed = min(member.compress_size, path.stat().st_size)
    if member.file_size > packed * MAX_RATIO:
        raise DataError(
            path, expected=f"an array {key!r}", found=f"{member.file_size} bytes said to be packed in {packed}", fix=_AGAIN
        )
    with archive.open(member) as stream:
        shape, dtype = _read_header(stream)
        if len(shape) != 1 or dtype.kind not in kinds:
            raise DataError(
                path, expected=f"{key!r} of shape (n,) and kind {' or '.join(kinds)}", found=f"{dtype} of shape {shape}"
            )
        body = stream.read()
    if len(body) != math.prod(shape) * dtype.itemsize:
        raise DataError(path, expected=f"{shape[0]} numbers in {key!r}", found=f"{len(body)} bytes", fix=_AGAIN)
    return np.frombuffer(body, dtype)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _decode_split(path: Path, arrays: dict[str, NDArray[Any]], split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    blob, offsets, labels = (arrays[f"{split}_{key}"] for key in ("jpeg_blob", "offsets", "labels"))
    if blob.dtype != np.uint8:
        raise DataError(path, expected=f"bytes in {split}_jpeg_blob", found=str(blob.dtype))
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(blob) or not (offsets[1:] > offsets[:-1]).all():
        expected = f"{split}_offsets that rise from 0 to {len(blob)}, the length of the blob"
        raise DataError(path, expected=expected, found="others", fix=_AGAIN)
    if len(labels) != len(offsets) - 1:
        raise DataError(path, expected=f"{len(offsets) - 1} numbers in {split}_labels", found=str(len(labels)))
    _check_labels(path, labels)
    data = memoryview(blob.tobytes())
    images = [data[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    decoded = decode_images(images, size=32, resize=False, name=lambda i: f"{path} ({split} image {i})")
    return decoded, labels.astype(np.uint8)


def _check_labels(path: Path, labels: NDArray[Any]) -> None:
    bad = (labels < 0) | (labels > 9)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(path, expected="labels from 0 to 9", found=f"{labels[row]} in row {row}")


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if len(set(names)) != 10 or len(names) != 10:
        raise DataError(path, expected="ten different class names", found=f"{len(names)}, {len(set(names))} of them different")
