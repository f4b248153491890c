"""Sets in HDF5 files by the names of arrays; other layouts are refused with what is there."""

import h5py
import numpy as np
import pytest
from elsewhere import ELSEWHERE

from orderless.io import DataError, open_samples

X = np.arange(10.0).reshape(5, 2)


def read(tmp_path, arrays, **options):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return open_samples(tmp_path / "a.h5", cache_dir=tmp_path / "cache", **options)


def test_equal_sets_are_counted_and_features_numbered(tmp_path):
    samples = read(tmp_path, {"data": np.arange(12).reshape(2, 3, 2), "labels": [[5], [6]], "other": np.zeros(7)})
    assert samples.ids == ("0", "1")
    assert samples.features == ("f0", "f1")
    assert samples[1].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert samples.columns["labels"].tolist() == [5, 6]
    assert "left out, because they have not one value for each set: other." in samples.notes


def test_groups_of_arrays_are_said_to_be_left_out(tmp_path):
    arrays = {"data": np.arange(12).reshape(2, 3, 2), "meta/age": [5, 6]}
    assert read(tmp_path, arrays).notes == ("left out, because they have not one value for each set: meta.",)
    assert read(tmp_path, arrays, ignore=["meta"]).notes == ()


def test_sizes_do_as_well_as_offsets_and_may_be_zero(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.hdf5_sets._BLOCK", 4)  # two elements at a time
    for arrays in ({"sizes": [0, 2, 0, 3]}, {"offsets": [0, 0, 2, 2, 5]}):
        samples = read(tmp_path, {"x": X, "target": ["p", "q", "r", "s"], **arrays})
        assert samples.sizes.tolist() == [0, 2, 0, 3]
        assert samples[3].tolist() == X[2:].tolist()
        assert samples.columns["target"].tolist() == ["p", "q", "r", "s"]
        assert samples.empty == ("0", "2")


def test_padding_is_told_by_a_mask_or_by_lengths_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.hdf5_sets._BLOCK", 4)  # one set at a time
    data = np.arange(12.0).reshape(2, 3, 2)
    masked = read(tmp_path, {"x": data, "mask": [[False, True, True], [False, False, True]], "age": [5, 6]})
    assert [one.tolist() for one in (masked[0], masked[1])] == [data[0, 1:].tolist(), data[1, 2:].tolist()]
    assert list(masked.columns) == ["age"]
    assert masked.notes == ()
    for lengths in ({"lengths": [3, 1]}, {"lengths": [7, 9], "sizes": [3, 1]}, {"lengths": [7.5, 9.5], "sizes": [3, 1]}):
        samples = read(tmp_path, {"x": data, **lengths})
        assert samples.sizes.tolist() == [3, 1]
        assert ("lengths" in samples.columns) == ("sizes" in lengths)
    assert read(tmp_path, {"x": X, "lengths": [2, 3]}).sizes.tolist() == [2, 3]


def test_sets_that_end_in_zeros_are_told_where_nothing_says_what_is_padding(tmp_path):
    data = np.arange(1, 13.0).reshape(3, 2, 2)
    data[1, 1] = 0
    (note,) = read(tmp_path, {"x": data}).notes
    assert note.startswith(
        "1 of 3 sets end in an element of zeros alone, which is read as an element. If it is padding, give the"
    )
    assert read(tmp_path, {"x": data, "sizes": [2, 1, 2]}).notes == ()
    data[:, 1] = 0  # as the corners of all pictures are
    assert read(tmp_path, {"x": data}).notes == ()


def test_truth_values_of_elements_that_are_no_mask_are_in_nobodys_way(tmp_path):
    labelled = read(tmp_path, {"x": X[None], "is_odd": [[True, False, True, False, True]]})
    assert labelled.sizes.tolist() == [5]
    assert labelled.notes == ("left out, because they have not one value for each set: is_odd.",)
    single = read(tmp_path, {"x": X[:, None], "ill": [[True], [False], [True], [False], [True]]})  # sets of one element
    assert single.sizes.tolist() == [1] * 5
    assert single.columns["ill"].tolist() == [True, False, True, False, True]


def test_features_can_be_chosen_by_name(tmp_path):
    arrays = {"x": X, "sizes": [5], "features": ["u", "v"], "site": [1]}
    assert read(tmp_path, arrays, features=["v"])[0].tolist() == X[:, 1:].tolist()
    assert read(tmp_path, arrays, ignore=["u", "site"]).columns == {}
    with pytest.raises(DataError, match=r"a column 'w' \(features=\), found columns u, v"):
        read(tmp_path, arrays, features=["w"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"train": X}, r"expected 'data' or 'x' of shape \(N, M, D\).*found train \(5, 2\). Rename its arrays"),
        ({}, "found no array"),
        ({"x": X}, r"found x \(5, 2\)"),
        ({"x": X, "data": X}, r"found data \(5, 2\), x \(5, 2\)"),
        ({"x": X, "offsets": [0, 6]}, "expected sets that cover the 5 elements of 'x' in their order, found bounds 0, 6"),
        ({"x": X, "offsets": [0, 4, 2, 5]}, "found bounds 0, 4, 2, 5"),
        ({"x": X, "sizes": [2**62, 2**62, 2**62, 2**62 + 5]}, "found bounds 0, 4611686018427387904"),
        ({"x": X, "sizes": [2.5, 2.5]}, "expected whole numbers in 'sizes', found float64"),
        ({"data": X[None], "sizes": [6]}, "expected 1 size of 0 to 5 in 'sizes', found 6"),
        ({"data": X[None], "lengths": [6]}, "expected 1 size of 0 to 5 in 'lengths', found 6"),
        ({"data": X[None], "padding_mask": [[False] * 5]}, r"expected padding told by 'mask' of truth values, \(1, 5\), True at"),
        ({"data": X[None], "mask": [[1, 1, 1, 0, 0]]}, "or by 'sizes' .N,., found mask of int64"),
        ({"x": X, "sizes": [2, 3], "ids": ["a", "a"]}, "expected 2 different 'ids', found 2, 1"),
        ({"x": X, "sizes": [5], "features": ["a"]}, "expected 2 different names in 'features', found a"),
        ({"x": [["a"]], "sizes": [1]}, "expected numbers in 'x'"),
        ({"x": np.zeros((2, 0)), "sizes": [2]}, "expected at least one feature"),
    ],
)  # fmt: skip
def test_other_layouts_are_refused_with_what_is_there(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, arrays)


def test_a_missing_number_in_a_padded_set_can_be_dropped(tmp_path):
    data = np.array([[[1.0], [np.nan]], [[2.0], [3.0]]])
    assert read(tmp_path, {"data": data}, missing="drop").sizes.tolist() == [1, 2]


@pytest.mark.parametrize("place", ["x", "extra/notes"])
@pytest.mark.parametrize("refer", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_arrays_in_other_files_are_refused(tmp_path, refer, place):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if place != "x":
            file["x"] = X
        file["sizes"] = [2, 3]
        refer(file, place, X)
    with pytest.raises(DataError, match=rf"a\.h5: expected '{place}' in the file itself, found .*\. Copy what it refers to"):
        open_samples(tmp_path / "a.h5", cache_dir=tmp_path / "cache")


def test_links_within_the_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/elements"], file["sizes"] = X, [2, 3]
        file["x"] = h5py.SoftLink("/deep/elements")
    assert open_samples(tmp_path / "a.h5", cache_dir=tmp_path / "cache")[1].tolist() == X[2:].tolist()
