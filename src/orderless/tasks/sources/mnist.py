"""MNIST, handwritten digits: LeCun, Cortes, Burges. Four idx files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orderless.io.download import RemoteFile, fetch
from orderless.io.errors import DataError, MissingDataError
from orderless.io.idx import read_idx

PAGE = "http://yann.lecun.com/exdb/mnist/"
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # the publisher's own server often refuses downloads
_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
_SHA256 = {  # of the unpacked files
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
FILES = tuple(RemoteFile(f"mnist/{name}.gz", f"{_MIRROR}{name}.gz", PAGE, md5=md5) for name, md5 in _MD5.items())
FOLDERS = (".", "mnist", "MNIST", "MNIST/raw", "mnist/raw", "mnist/MNIST/raw")


@dataclass(frozen=True)
class Mnist:
    """The digits. Images are (n, 28, 28) from 0 to 255, labels (n,) from 0 to 9, both uint8."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]

    def is_original(self) -> bool:
        """Whether these are the publisher's images and labels, to the last pixel: other data sets go by the same file names."""
        arrays = (self.train_images, self.train_labels, self.test_images, self.test_labels)
        return all(_idx_sha256(array) == sum_ for array, sum_ in zip(arrays, _SHA256.values(), strict=True))


def find(data_dir: str | Path) -> Path | None:
    """The folder with the four files, packed or not: the data folder itself or one of the usual names in it."""
    for name in FOLDERS:
        folder = Path(data_dir) / name
        if all(_locate(folder, stem) for stem in _MD5):
            return folder
    return None


def fetch_all(data_dir: str | Path, *, progress: bool = True) -> Path:
    """The folder with the four files, downloaded where they are missing."""
    if (found := find(data_dir)) is not None:
        return found
    paths = [fetch(remote, data_dir, progress=progress) for remote in FILES]
    return paths[0].parent


def files(found: str | Path) -> list[Path]:
    """The files that `read_mnist` reads from a folder: images and labels for training, then for testing."""
    folder = Path(found)
    paths = []
    for stem in _MD5:
        path = _locate(folder, stem)
        if path is None:
            raise MissingDataError(folder / f"{stem}.gz", expected="a file of MNIST", found="no such file, packed or not")
        paths.append(path)
    return paths


def read_mnist(folder: str | Path) -> Mnist:
    """Reads the digits and checks that images and labels fit together.

    Raises:
        DataError: If a file is missing, damaged, or is not what its name says.
    """
    train_images, train_labels, test_images, test_labels = files(folder)
    return Mnist(*_read_pair(train_images, train_labels), *_read_pair(test_images, test_labels))


def _read_pair(image_path: Path, label_path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != (28, 28) or not len(images):
        raise DataError(image_path, expected="bytes of shape (n, 28, 28)", found=f"{images.dtype} of shape {images.shape}")
    if labels.dtype != np.uint8 or labels.ndim != 1:
        raise DataError(label_path, expected="bytes of shape (n,)", found=f"{labels.dtype} of shape {labels.shape}")
    if len(images) != len(labels):
        raise DataError(
            label_path, expected=f"{len(images)} labels, as many as {image_path.name} has images", found=str(len(labels))
        )
    if labels.max() > 9:
        row = int(np.argmax(labels > 9))
        raise DataError(label_path, expected="labels from 0 to 9", found=f"{labels[row]} in row {row}")
    return images, labels


def _locate(folder: Path, stem: str) -> Path | None:
    dotted = stem.replace("-idx", ".idx")  # as some unpackers name them
    return next((path for name in (f"{stem}.gz", stem, dotted, f"{dotted}.gz") if (path := folder / name).is_file()), None)


def _idx_sha256(array: NDArray[np.uint8]) -> str:
    """The checksum that the array has as an unpacked idx file."""
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    return hashlib.sha256(header + array.tobytes()).hexdigest()
