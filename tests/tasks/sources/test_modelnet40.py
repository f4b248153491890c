"""ModelNet40 in both published layouts."""

import zipfile

import h5py
import numpy as np
import pytest
from publishers import CLASS_NAMES, clouds, real_data, write_hdf5, write_modelnet40_hdf5, write_modelnet40_text

from orderless.io.errors import DataError, MissingDataError
from orderless.tasks.sources import modelnet40
from orderless.tasks.sources.modelnet40 import read_modelnet40

HDF5, TEXT = "modelnet40_ply_hdf5_2048", "modelnet40_normal_resampled"


def assert_reads(read, wanted):
    for array, name in zip(wanted, ("train_points", "train_labels", "test_points", "test_labels"), strict=True):
        np.testing.assert_array_equal(getattr(read, name), array, strict=True)
    assert read.class_names == CLASS_NAMES


@pytest.mark.parametrize("flat_labels", [False, True], ids=["label (n, 1)", "label (n,)"])
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "no lists"])
def test_hdf5_files_read_back(tmp_path, lists, flat_labels):
    wanted = write_modelnet40_hdf5(tmp_path, lists=lists, flat_labels=flat_labels)
    seen = []
    assert_reads(read_modelnet40(tmp_path, progress=lambda *at: seen.append(at)), wanted)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_without_lists_files_are_read_by_number(tmp_path):
    write_modelnet40_hdf5(tmp_path, lists=False)
    (tmp_path / "ply_data_train1.h5").rename(tmp_path / "ply_data_train10.h5")
    write_hdf5(tmp_path / "ply_data_train2.h5", dict(zip(("data", "label"), clouds(2, seed=9), strict=True)))
    names = [path.name for path in modelnet40.files(tmp_path)]
    assert names == ["shape_names.txt", "ply_data_train0.h5", "ply_data_train2.h5", "ply_data_train10.h5", "ply_data_test0.h5"]


def test_the_first_points_are_kept_in_both_layouts(tmp_path):
    train, _, test, _ = write_modelnet40_hdf5(tmp_path / "a")
    read = read_modelnet40(tmp_path / "a", num_points=3)
    np.testing.assert_array_equal(read.train_points, train[:, :3])
    np.testing.assert_array_equal(read.test_points, test[:, :3])
    written = write_modelnet40_text(tmp_path / "b")
    np.testing.assert_array_equal(read_modelnet40(tmp_path / "b", num_points=3).train_points[1], written["airplane_0002"][:3, :3])


def test_text_files_read_back_without_normals(tmp_path):
    written = write_modelnet40_text(tmp_path)
    read = read_modelnet40(tmp_path)
    assert read.class_names == CLASS_NAMES
    assert read.train_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert read.test_labels.tolist() == [0, 1, 2]
    assert read.train_points.dtype == np.float32
    np.testing.assert_array_equal(read.train_points[2], written["flower_pot_0001"][:, :3])
    np.testing.assert_array_equal(read.test_points[2], written["night_stand_0003"][:, :3])
    assert len(modelnet40.files(tmp_path)) == 3 + 9


def test_lines_after_those_asked_for_are_not_read(tmp_path):
    write_modelnet40_text(tmp_path)
    path = tmp_path / "airplane" / "airplane_0001.txt"
    path.write_bytes(path.read_bytes() + b"\xff not numbers\n")
    assert read_modelnet40(tmp_path, num_points=8).train_points.shape == (6, 8, 3)
    with pytest.raises(DataError, match=r"airplane_0001\.txt: expected lines of six numbers"):
        read_modelnet40(tmp_path)


@pytest.mark.parametrize("write", [write_modelnet40_hdf5, write_modelnet40_text], ids=["hdf5", "text"])
def test_more_points_than_there_are_is_an_error(tmp_path, write):
    write(tmp_path)
    with pytest.raises(DataError, match=r"9 points, found 8"):
        read_modelnet40(tmp_path, num_points=9)
    with pytest.raises(ValueError, match="num_points must be at least 1; got 0"):
        read_modelnet40(tmp_path, num_points=0)


@pytest.mark.parametrize(("layout", "name"), [("hdf5", HDF5), ("text", TEXT), ("hdf5", "."), ("text", "ModelNet40")])
def test_folders_are_found_under_their_usual_names(tmp_path, layout, name):
    assert modelnet40.find(tmp_path) is None
    {"hdf5": write_modelnet40_hdf5, "text": write_modelnet40_text}[layout](tmp_path / name)
    assert modelnet40.find(tmp_path).samefile(tmp_path / name)
    assert modelnet40.find(tmp_path, layout=layout).samefile(tmp_path / name)
    assert modelnet40.find(tmp_path, layout="text" if layout == "hdf5" else "hdf5") is None
    assert modelnet40.fetch_all(tmp_path, layout=layout).samefile(tmp_path / name)


def test_an_archive_that_is_there_is_unpacked(tmp_path):
    write_modelnet40_text(tmp_path / "made" / TEXT)
    with zipfile.ZipFile(tmp_path / f"{TEXT}.zip", "w") as archive:
        for path in sorted((tmp_path / "made").rglob("*.txt")):
            archive.write(path, path.relative_to(tmp_path / "made"))
    assert modelnet40.fetch_all(tmp_path, layout="text") == tmp_path / TEXT
    assert len(read_modelnet40(tmp_path / TEXT).train_labels) == 6


def test_an_archive_with_other_files_than_the_published_ones_is_refused(tmp_path):
    write_modelnet40_hdf5(tmp_path / "made" / HDF5)
    for name in ("train2", "train3", "train4", "test1"):
        (tmp_path / "made" / HDF5 / f"ply_data_{name}.h5").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / f"{HDF5}.zip", "w") as archive:
        for path in sorted((tmp_path / "made" / HDF5).iterdir()):
            archive.write(path, f"{HDF5}/{path.name}")
    with pytest.raises(DataError, match=r"ply_data_train0\.h5 with md5 3176385ffc31a7b6b5af22191fd920d1, found md5"):
        modelnet40.fetch_all(tmp_path)
    assert modelnet40.find(tmp_path) is None


def test_a_folder_without_either_layout_is_an_error(tmp_path):
    with pytest.raises(MissingDataError, match="found neither"):
        read_modelnet40(tmp_path)


def change_points(folder, points=None, labels=None, name="ply_data_train1.h5"):
    good_points, good_labels = clouds(5, seed=2)
    points, labels = good_points if points is None else points, good_labels if labels is None else labels
    write_hdf5(folder / name, {"data": points, "label": labels})


def with_nan(count=2):
    points, _ = clouds(5)
    points[3, :count, 0] = np.nan
    return points


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: change_points(f, points=with_nan()), "finite coordinates, found 2 that are not"),
        (lambda f: change_points(f, points=clouds(5, num_points=7)[0]), "8 points an object, as in the other files, found 7"),
        (lambda f: change_points(f, labels=np.array([[0], [1], [3], [0], [0]])), "labels from 0 to 2, found 3 in row 2"),
        (lambda f: change_points(f, labels=np.array([0, -1, 1, 1, 1])), "labels from 0 to 2, found -1 in row 1"),
        (lambda f: change_points(f, labels=np.zeros((4, 1), np.uint8)), "equally many rows"),
        (lambda f: (f / "ply_data_train1.h5").unlink(), r"ply_data_train1\.h5: expected an HDF5 file, found no such file"),
        (lambda f: (f / "shape_names.txt").write_text(""), "at least one entry"),
        (lambda f: (f / "shape_names.txt").write_text("a\nb\na\n"), "'a' twice"),
        (lambda f: (f / "shape_names.txt").write_text("a\n../b\nc\n"), "names of classes, found '../b'"),
        (lambda f: (f / "train_files.txt").write_text("\n"), "at least one entry"),
        (lambda f: (f / "train_files.txt").write_text("ply_data_train0.h5\nx/ply_data_train0.h5\n"), "twice"),
        (lambda f: (f / "train_files.txt").write_text("../..\n"), r"names of \.h5 files, found '\.\.'"),
        (lambda f: (f / "test_files.txt").write_text("ply_data_train0.h5\n"), r"ply_data_train0\.h5 in both lists"),
    ],
    ids=[
        "nan", "points", "label", "negative label", "rows", "missing", "no names", "name twice", "name of a path", "empty list",
        "file twice", "not a file", "same for training and testing",
    ],
)  # fmt: skip
def test_wrong_hdf5_files_are_errors(tmp_path, change, message):
    write_modelnet40_hdf5(tmp_path)
    change(tmp_path)
    with pytest.raises(DataError, match=message):
        read_modelnet40(tmp_path)


def test_a_split_without_any_file_is_an_error(tmp_path):
    write_modelnet40_hdf5(tmp_path, lists=False)
    (tmp_path / "ply_data_test0.h5").unlink()
    with pytest.raises(MissingDataError, match=r"ply_data_test0\.h5"):
        read_modelnet40(tmp_path)


def write_cloud(text):
    return lambda folder: (folder / "flower_pot" / "flower_pot_0001.txt").write_text(text)


def write_list(split, text):
    return lambda folder: (folder / f"modelnet40_{split}.txt").write_text(text)


LINE = "0,0,0,0,0,1\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write_cloud(""), r"flower_pot_0001\.txt: .*found an empty file"),
        (write_cloud("\n\n"), "found an empty file"),
        (write_cloud(LINE * 7), "expected 8 points, found 7"),
        (write_cloud(LINE * 3 + "\n" + LINE * 5), "an empty line 4"),
        (write_cloud(LINE * 7 + "0,0,0\n"), "something else"),
        (write_cloud("0,0,0\n" * 8), "found 3 numbers a line"),
        (write_cloud(LINE * 7 + "0,0,zero,0,0,1\n"), "something else"),
        (write_cloud(LINE * 7 + "0,0,nan,0,0,1\n"), "finite coordinates, found 1"),
        (write_cloud(LINE * 7 + "0,0,1e99,0,0,1\n"), "finite coordinates, found 1"),
        (lambda f: (f / "flower_pot" / "flower_pot_0001.txt").unlink(), "no such file"),
        (write_list("train", ""), "at least one entry"),
        (write_list("train", "airplane_0001\nairplane_0001\n"), "'airplane_0001' twice"),
        (write_list("train", "banana_0001\n"), "listed classes, found 'banana_0001'"),
        (write_list("train", "airplane\n"), "found 'airplane'"),
        (write_list("train", "airplane_x\n"), "found 'airplane_x'"),
        (write_list("test", "airplane_0001\n"), r"airplane_0001\.txt in both lists"),
    ],
    ids=[
        "empty", "blank", "fewer points", "gap", "ragged", "no normals", "word", "nan", "overflow", "missing", "empty list",
        "twice", "unknown class", "no number", "number", "same for training and testing",
    ],
)  # fmt: skip
def test_wrong_text_files_are_errors(tmp_path, change, message):
    write_modelnet40_text(tmp_path)
    change(tmp_path)
    with pytest.raises(DataError, match=message):
        read_modelnet40(tmp_path)


def test_the_published_files_read_to_the_known_objects():
    folder = modelnet40.find(real_data(HDF5), layout="hdf5")
    read = read_modelnet40(folder)
    assert len(read.train_points) == len(read.train_labels) == 9843
    assert len(read.test_points) == len(read.test_labels) == 2468
    assert len(read.class_names) == 40
    assert read.class_names[:3] == ("airplane", "bathtub", "bed")
    assert np.bincount(read.train_labels)[:5].tolist() == [626, 106, 515, 173, 572]
    assert np.bincount(read.test_labels)[:5].tolist() == [100, 50, 100, 20, 100]
    assert read.train_points.shape[1] in (1024, 2048)
    farthest = np.linalg.norm(read.train_points, axis=2).max(1)
    assert abs(farthest - 1).max() < 0.01  # unit spheres; coordinates may be rounded to 0.001
    with h5py.File(folder / "ply_data_train0.h5") as first, h5py.File(folder / "ply_data_test1.h5") as last:
        np.testing.assert_array_equal(read.train_points[:3], first["data"][:3])
        np.testing.assert_array_equal(read.train_labels[:3], first["label"][:3, 0])
        np.testing.assert_array_equal(read.test_points[-1], last["data"][-1])
        assert read.test_labels[-1] == last["label"][-1, 0]
