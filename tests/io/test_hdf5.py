"""HDF5 files with known content: checked before they are read."""

import h5py
import numpy as np
import pytest
from elsewhere import ELSEWHERE
from publishers import write_hdf5

from orderless.io.errors import DataError, MissingDataError
from orderless.io.hdf5 import Array, read_hdf5

POINTS = Array(shapes=((None, None, 3),), kinds="f", dtype="float32")
LABELS = Array(shapes=((None, 1), (None,)), kinds="iu", dtype="int64")
BOTH = {"data": POINTS, "label": LABELS}
ALIGNED = [("data", "label")]


def arrays(rows=10, dtype="f4"):
    rng = np.random.default_rng(0)
    return {"data": rng.normal(size=(rows, 5, 3)).astype(dtype), "label": rng.integers(0, 9, (rows, 1)).astype(np.uint8)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.h5"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_arrays_read_back_in_the_type_asked_for(path, dtype):
    written = arrays(dtype=dtype)
    write_hdf5(path, written)
    read = read_hdf5(path, BOTH, aligned=ALIGNED)
    assert read["data"].dtype == np.float32
    assert read["label"].dtype == np.int64
    np.testing.assert_array_equal(read["data"], written["data"].astype(np.float32))
    np.testing.assert_array_equal(read["label"], written["label"])


def test_only_what_is_asked_for_is_read(path):
    write_hdf5(path, arrays() | {"normal": np.zeros(3)})
    assert set(read_hdf5(path, {"label": LABELS})) == {"label"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, "expected an array 'data', found only 'label'"),
        ({"data": np.zeros((10, 5), "f4")}, r"'data' of shape \(n, any, 3\), found \(10, 5\)"),
        ({"data": np.zeros((10, 5, 4), "f4")}, r"'data' of shape \(n, any, 3\), found \(10, 5, 4\)"),
        ({"data": np.zeros((10, 5, 3), "i4")}, "'data' of floating-point numbers, found int32"),
        ({"data": np.zeros((9, 5, 3), "f4")}, "equally many rows in 'data' and 'label', found 9 in 'data', 10 in 'label'"),
        ({"label": np.zeros((10, 2), "u1")}, r"'label' of shape \(n, 1\) or \(n\), found \(10, 2\)"),
        ({"label": np.zeros(10, "f4")}, "'label' of signed integer or unsigned integer numbers, found float32"),
        ({"label": np.zeros(10, "S3")}, "found |S3"),
        ({"label": np.zeros(0, "u1")}, r"found \(0\)"),
    ],
    ids=["missing", "rank", "last size", "kind", "rows", "label shape", "label kind", "text", "no rows"],
)
def test_an_array_that_is_not_as_expected_is_an_error(path, changes, message):
    written = arrays() | changes
    write_hdf5(path, {name: array for name, array in written.items() if array is not None})
    with pytest.raises(DataError, match=message):
        read_hdf5(path, BOTH, aligned=ALIGNED)


def test_an_empty_file_a_folder_and_a_group_are_errors(path):
    with h5py.File(path, "w") as file:
        with pytest.raises(DataError, match="HDF5 file, found"):
            read_hdf5(path.parent, BOTH)
        file.create_group("label")
    with pytest.raises(DataError, match="found a group of that name"):
        read_hdf5(path, {"label": LABELS})
    with h5py.File(path, "w"):
        pass
    with pytest.raises(DataError, match="an array 'label', found none"):
        read_hdf5(path, {"label": LABELS})


def test_a_missing_file_is_told_apart(path):
    with pytest.raises(MissingDataError, match="no such file"):
        read_hdf5(path, BOTH)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"\x89HDF\r\n\x1a\n" + bytes(500)], ids=["empty", "web page", "head only"])
def test_another_file_is_an_error_that_names_it(path, raw):
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"file\.h5: expected an HDF5 file, found a damaged one or none"):
        read_hdf5(path, BOTH)


def test_a_truncated_file_is_an_error(path):
    write_hdf5(path, arrays())
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(DataError, match="truncated"):
        read_hdf5(path, BOTH)


def test_an_absurd_size_is_refused_before_memory_is_taken(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("data", shape=(10**8, 10**5, 3), dtype="f4", chunks=(4, 5, 3), compression="gzip")
    with pytest.raises(DataError, match="120000000000000 bytes, found 0 in the file"):
        read_hdf5(path, {"data": POINTS})


def test_an_absurd_piece_is_refused_before_memory_is_taken(path):
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", shape=(4, 5, 3), dtype="f4", maxshape=(None, None, 3), chunks=(10**4, 10**4, 3))
        data.id.write_direct_chunk((0, 0, 0), b"too small")
    with pytest.raises(DataError, match="bytes, found 9 in the file"):
        read_hdf5(path, {"data": POINTS})


def test_pieces_of_another_rank_than_the_array_are_refused(path, monkeypatch):
    """A damaged header can say so. Some versions of the library read such a file forever, newer ones refuse it themselves."""
    write_hdf5(path, arrays())
    monkeypatch.setattr(h5py.Dataset, "chunks", (4, 5))
    with pytest.raises(DataError, match="'data' in pieces of its own rank"):
        read_hdf5(path, {"data": POINTS})


def test_a_missing_piece_is_not_read_as_zeros(path):
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", shape=(8, 5, 3), dtype="f4", chunks=(4, 5, 3), compression="gzip")
        data[:4] = np.random.default_rng(0).normal(size=(4, 5, 3))
    with pytest.raises(DataError, match="2 stored pieces of 'data', found 1"):
        read_hdf5(path, {"data": POINTS})


@pytest.mark.parametrize("place", ["data", "deep/down/data"])
@pytest.mark.parametrize("refer", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_numbers_in_other_files_are_not_followed(path, refer, place):
    array = arrays()["data"]
    write_hdf5(path, arrays())
    with h5py.File(path, "a") as file:
        del file["data"]
        refer(file, place, array)
        if place != "data":
            file["data"] = array  # what is asked for is there, but who knows what else the file is up to
    with pytest.raises(DataError, match=rf"file\.h5: expected '{place}' in the file itself, found .*\. Copy what it refers to"):
        read_hdf5(path, BOTH)
