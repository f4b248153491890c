"""ModelNet40, point clouds of 40 kinds of objects: Wu et al. 2015, sampled by Qi et al. 2017. Two published layouts are read.

`hdf5`: `ply_data_{train,test}<i>.h5` with `data` (n, points, 3) and `label` (n, 1), lists of these files, and `shape_names.txt`.
`text`: a folder per class with a text file per object, `x,y,z,nx,ny,nz` on each of its 10,000 lines, and lists of the objects.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orderless.io.download import RemoteFile, fetch, unpack
from orderless.io.errors import DataError, MissingDataError
from orderless.io.hdf5 import Array, read_hdf5
from orderless.io.reading import describe, read_lines, reading, shown
from orderless.tasks.sources.copies import find_copy

Layout = Literal["hdf5", "text"]
Split = Literal["train", "test"]

PAGE = "https://modelnet.cs.princeton.edu"
_MEDIA = "https://shapenet.cs.stanford.edu/media/"
FOLDERS: dict[Layout, str] = {"hdf5": "modelnet40_ply_hdf5_2048", "text": "modelnet40_normal_resampled"}
ARCHIVES: dict[Layout, RemoteFile] = {
    layout: RemoteFile(f"{folder}.zip", f"{_MEDIA}{folder}.zip", PAGE) for layout, folder in FOLDERS.items()
}
_MD5 = {
    "ply_data_train0.h5": "3176385ffc31a7b6b5af22191fd920d1",
    "ply_data_train1.h5": "e3f613fb500559403b34925112754dc4",
    "ply_data_train2.h5": "0c56e233a090ff87c3049d4ce08e7d8b",
    "ply_data_train3.h5": "9d2af465adfa33a3285c369f3ca66c45",
    "ply_data_train4.h5": "dff38de489b2c41bfaeded86c2208984",
    "ply_data_test0.h5": "e9732e6d83b09e79e9a7617df058adee",
    "ply_data_test1.h5": "aba4b12a67c34391cc3c015a6f08ed4b",
}
_NAMES: dict[Layout, str] = {"hdf5": "shape_names.txt", "text": "modelnet40_shape_names.txt"}
_LISTS: dict[Layout, str] = {"hdf5": "{}_files.txt", "text": "modelnet40_{}.txt"}
_ARRAYS = {
    "data": Array(shapes=((None, None, 3),), kinds="f", dtype="float32"),
    "label": Array(shapes=((None, 1), (None,)), kinds="iu", dtype="int64"),
}


@dataclass(frozen=True)
class ModelNet40:
    """The objects. Points are (n, points, 3) float32, labels (n,) int64, `class_names[label]` what it is."""

    train_points: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_points: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]


def find(data_dir: str | Path, *, layout: Layout | None = None) -> Path | None:
    """The folder in one of the published layouts: the data folder itself or one of the usual names in it.

    Args:
        data_dir: The data folder.
        layout: The layout to look for. By default either, `hdf5` first.
    """
    for wanted in (layout,) if layout else FOLDERS:
        for name in (".", FOLDERS[wanted], f"modelnet40/{FOLDERS[wanted]}", "modelnet40", "ModelNet40"):
            if layout_of(folder := Path(data_dir) / name) == wanted:
                return folder
    return None


def fetch_all(data_dir: str | Path, *, progress: bool = True, layout: Layout = "hdf5") -> Path:
    """The folder in that layout, downloaded and unpacked if it is not there. HDF5 files must have the known checksums."""
    if (found := find(data_dir, layout=layout)) is not None:
        return found
    archive = fetch(ARCHIVES[layout], data_dir, progress=progress)
    folder = FOLDERS[layout]
    needed = [_NAMES[layout], *(_LISTS[layout].format(split) for split in ("train", "test"))]
    md5 = _MD5 if layout == "hdf5" else {}
    expected = [f"{folder}/{name}" for name in (*needed, *md5)]
    return unpack(archive, data_dir, expected=expected, md5={f"{folder}/{name}": sum_ for name, sum_ in md5.items()})


def files(found: str | Path) -> list[Path]:
    """The files that `read_modelnet40` reads from a folder. In the text layout these are thousands."""
    folder = Path(found)
    layout = _needed_layout(folder)
    lists = [path for split in ("train", "test") if (path := folder / _LISTS[layout].format(split)).is_file()]
    data: Iterable[Path]
    if layout == "hdf5":
        data = [path for split in ("train", "test") for path in _hdf5_files(folder, split)]
    else:
        names = _class_names(folder / _NAMES[layout])
        data = [path for split in ("train", "test") for path, _ in _text_files(folder, split, names)]
    return [folder / _NAMES[layout], *lists, *data]


def read_modelnet40(
    folder: str | Path, *, num_points: int | None = None, progress: Callable[[int, int], None] | None = None
) -> ModelNet40:
    """Reads the objects from a folder in either layout.

    Args:
        folder: The folder.
        num_points: How many points of each object to keep, the first ones: the published files have them in random order. By
            default all. Of text files no more than that is read, which saves most of the time.
        progress: Called with the number of files read and of all files.

    Raises:
        DataError: If a file is missing, damaged, or is not what it should be, and if an object is for training and testing.
        ImportError: If the layout is `hdf5` and h5py is not installed.
    """
    folder = Path(folder)
    if num_points is not None and num_points < 1:
        raise ValueError(f"num_points must be at least 1; got {num_points}.")
    layout = _needed_layout(folder)
    names = _class_names(folder / _NAMES[layout])
    read = _read_hdf5_layout if layout == "hdf5" else _read_text_layout
    objects = ModelNet40(*read(folder, names, num_points, progress or (lambda done, total: None)), class_names=names)
    if (copy := find_copy(objects.train_points, objects.test_points)) is not None:
        found = f"the points of training object {copy[0]} again in test object {copy[1]}"
        raise DataError(folder, expected="different objects for training and testing", found=found)
    return objects


Arrays = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]


def _read_hdf5_layout(
    folder: Path, names: tuple[str, ...], num_points: int | None, progress: Callable[[int, int], None]
) -> Arrays:
    lists = {split: _hdf5_files(folder, split) for split in _splits()}
    _check_apart(folder, lists["train"], lists["test"])
    total = sum(map(len, lists.values()))
    done = 0
    width: int | None = None  # points of an object: the same in all files
    read: dict[Split, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
    for split, paths in lists.items():
        points, labels = [], []
        for path in paths:
            arrays = read_hdf5(path, _ARRAYS, aligned=[("data", "label")])
            data, label = arrays["data"], arrays["label"].reshape(-1)
            if width is not None and data.shape[1] != width:
                raise DataError(path, expected=f"{width} points an object, as in the other files", found=str(data.shape[1]))
            width = data.shape[1]
            _check_width(path, width, num_points)
            _check_finite(path, data)
            if label.min() < 0 or label.max() >= len(names):
                row = int(np.argmax((label < 0) | (label >= len(names))))
                raise DataError(path, expected=f"labels from 0 to {len(names) - 1}", found=f"{label[row]} in row {row}")
            points.append(np.ascontiguousarray(data[:, :num_points]))
            labels.append(label)
            progress(done := done + 1, total)
        read[split] = (np.concatenate(points), np.concatenate(labels))
    return (*read["train"], *read["test"])


def _read_text_layout(
    folder: Path, names: tuple[str, ...], num_points: int | None, progress: Callable[[int, int], None]
) -> Arrays:
    lists = {split: _text_files(folder, split, names) for split in _splits()}
    _check_apart(folder, *([path for path, _ in objects] for objects in lists.values()))
    total = sum(map(len, lists.values()))
    done = 0
    width = num_points
    read: dict[Split, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
    for split, objects in lists.items():
        points: NDArray[np.float32] | None = None
        for i, (path, _) in enumerate(objects):
            cloud = _read_cloud(path, num_points)
            width = width or len(cloud)
            if len(cloud) != width:
                raise DataError(path, expected=f"{width} points", found=str(len(cloud)))
            if points is None:  # the first file's size is a real one, so this is no absurd size
                points = np.empty((len(objects), width, 3), np.float32)
            points[i] = cloud
            progress(done := done + 1, total)
        assert points is not None, "a list without objects was refused"
        read[split] = (points, np.array([label for _, label in objects], np.int64))
    return (*read["train"], *read["test"])


def _read_cloud(path: Path, num_points: int | None) -> NDArray[np.float32]:
    """The coordinates in a text file: (points, 3)."""
    expected = "lines of six numbers x,y,z,nx,ny,nz"
    with reading(path, expected), path.open("rb") as file:
        raw = list(itertools.islice(file, num_points))
    try:
        lines = b"".join(raw).decode("ascii").splitlines()
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            raise DataError(path, expected=expected, found="an empty file")
        if not all(lines):
            raise DataError(path, expected=expected, found=f"an empty line {lines.index('') + 1}")
        table = np.loadtxt(lines, dtype=np.float32, delimiter=",", comments=None, ndmin=2)  # (points, 6)
    except DataError:
        raise
    except Exception as error:  # not numbers, not ASCII, lines of different length
        raise DataError(path, expected=expected, found=f"something else ({describe(error)})") from None
    if table.shape[1] != 6:
        raise DataError(path, expected=expected, found=f"{table.shape[1]} numbers a line")
    _check_finite(path, table)
    return np.ascontiguousarray(table[:, :3])


def _hdf5_files(folder: Path, split: str) -> list[Path]:
    """The files of a split in their listed order; without a list, by number."""
    path = folder / _LISTS["hdf5"].format(split)
    if not path.is_file():
        numbered = [
            (int(found[1]), item) for item in folder.glob(f"ply_data_{split}*.h5") if (found := _NUMBER.search(item.name))
        ]
        if not numbered:
            raise MissingDataError(folder / f"ply_data_{split}0.h5", expected="a file of ModelNet40", found="no such file")
        return [item for _, item in sorted(numbered)]
    # entries are often paths from where the publisher ran his code: only the name counts
    entries = [line.strip().replace("\\", "/") for line in read_lines(path, "a list of files") if line.strip()]
    names = [PurePosixPath(entry).name for entry in entries]
    for name in names:
        if not re.fullmatch(r"[\w.-]+\.(h5|hdf5)", name):
            raise DataError(path, expected="names of .h5 files", found=shown(name))
    _check_list(path, names)
    return [folder / name for name in names]


_NUMBER = re.compile(r"(\d+)\.h5$", re.ASCII)


def _text_files(folder: Path, split: str, names: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The files of a split with their labels. An object's name is its class, which may have underscores, and a number."""
    path = folder / _LISTS["text"].format(split)
    objects = [line.strip() for line in read_lines(path, "a list of objects")]
    _check_list(path, objects)
    labels = {name: label for label, name in enumerate(names)}
    found = []
    for name in objects:
        kind, _, number = name.rpartition("_")
        if kind not in labels or not (number.isascii() and number.isdigit()):
            raise DataError(path, expected="names such as airplane_0001 of the listed classes", found=shown(name))
        found.append((folder / kind / f"{name}.txt", labels[kind]))
    return found


def _class_names(path: Path) -> tuple[str, ...]:
    names = tuple(line.strip() for line in read_lines(path, "a list of class names"))
    _check_list(path, names)
    for name in names:
        if not re.fullmatch(r"\w[\w -]*", name, re.ASCII):  # also a folder's name: nothing that leads elsewhere
            raise DataError(path, expected="names of classes", found=shown(name))
    return names


def _check_list(path: Path, entries: Iterable[str]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry in seen:
            raise DataError(path, expected="each entry once", found=f"{shown(entry)} twice")
        seen.add(entry)
    if not seen:
        raise DataError(path, expected="at least one entry", found="an empty file")


def _check_apart(folder: Path, train: list[Path], test: list[Path]) -> None:
    if both := set(train) & set(test):
        raise DataError(folder, expected="different objects for training and testing", found=f"{min(both).name} in both lists")


def _check_width(path: Path, width: int, num_points: int | None) -> None:
    if num_points is not None and width < num_points:
        raise DataError(path, expected=f"at least {num_points} points", found=str(width), fix="Ask for fewer points.")


def _check_finite(path: Path, numbers: NDArray[np.float32]) -> None:
    if bad := int(numbers.size - np.isfinite(numbers).sum()):
        raise DataError(path, expected="finite coordinates", found=f"{bad} that are not")


def layout_of(folder: Path) -> Layout | None:
    """Which of the two layouts a folder has, if one."""
    if (folder / _NAMES["text"]).is_file() and (folder / _LISTS["text"].format("train")).is_file():
        return "text"
    if (folder / _NAMES["hdf5"]).is_file() and next(folder.glob("ply_data_train*.h5"), None):
        return "hdf5"
    return None


def _needed_layout(folder: Path) -> Layout:
    layout = layout_of(folder)
    if layout is None:
        expected = (
            f"ModelNet40: {_NAMES['hdf5']} and ply_data_train*.h5, or {_NAMES['text']} and {_LISTS['text'].format('train')}"
        )
        raise MissingDataError(folder, expected=expected, found="neither", fix=f"See {PAGE}.")
    return layout


def _splits() -> tuple[Split, Split]:
    return ("train", "test")
