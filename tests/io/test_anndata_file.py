"""AnnData files: cells by a column of obs, X or a layer, and what is wrong with a file, in one line."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from elsewhere import ELSEWHERE

from orderless.io import DataError, open_samples


def make(tmp_path, **changes):
    obs = pd.DataFrame(
        {"donor": ["b", "a", "b"], "age": [30.0, np.nan, 30.0], "type": ["x", "y", "z"], "sick": [True, False, True]},
        index=["c0", "c1", "c2"],
    )
    parts = {"X": np.arange(6.0).reshape(3, 2), "obs": obs, "var": pd.DataFrame({"unit": ["mV", ""]}, index=["g1", "g2"])}
    anndata.AnnData(**{**parts, **changes}).write_h5ad(tmp_path / "a.h5ad")
    return tmp_path / "a.h5ad"


def test_sets_and_what_is_known_of_them_come_from_obs(tmp_path):
    samples = open_samples(make(tmp_path), set_id="donor", cache_dir=tmp_path)
    assert samples.ids == ("a", "b")
    assert samples.features == ("g1", "g2")
    assert samples.units == ("mV", "")
    assert samples[1].tolist() == [[0, 1], [4, 5]]
    np.testing.assert_array_equal(samples.columns["age"], [np.nan, 30])
    assert samples.columns["sick"].tolist() == [False, True]
    assert set(samples.columns) == {"age", "sick"}
    assert "columns of obs that differ within sets are not used: type." in samples.notes
    assert samples.varying["type"].where == "set b ('x', and 'z' in row 3)"


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix], ids=["dense", "csr", "csc"])
def test_layers_and_some_variables_can_be_read(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("orderless.io.anndata_file._BLOCK", 2)  # a cell at a time
    path = make(tmp_path, layers={"counts": kind(np.arange(6.0).reshape(3, 2) * 10)})
    samples = open_samples(path, set_id="donor", layer="counts", features=["g2", "g1"], cache_dir=tmp_path)
    assert samples[1].tolist() == [[10, 0], [50, 40]]
    assert open_samples(path, set_id="donor", ignore=["g1", "age"], cache_dir=tmp_path).features == ("g2",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "found none given, and columns donor, age, type, sick. Perhaps set_id='donor'"),
        ({"set_id": "dono"}, "Did you mean 'donor'"),
        ({"set_id": "age"}, "expected a set in column 'age' of every cell, found none in 1 cells"),
        ({"set_id": "donor", "layer": "raw"}, "expected a layer 'raw', found no layer"),
        ({"set_id": "donor", "features": ["g3"]}, r"expected a column 'g3' \(features=\), found columns g1, g2"),
        ({"set_id": "donor", "ignore": ["g1", "g2"]}, "expected at least one variable, found none"),
    ],
    ids=["no set id", "unknown set id", "cells without a set", "layer", "feature", "nothing left"],
)
def test_what_the_file_does_not_have_is_told(tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        open_samples(make(tmp_path), cache_dir=tmp_path, **options)


def test_files_that_are_no_anndata_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["x"] = np.zeros(3)
    with pytest.raises(DataError, match=r"expected an AnnData file \(.h5ad\) with 'obs', found only x"):
        open_samples(tmp_path / "a.h5ad", set_id="donor")
    (tmp_path / "a.h5ad").write_bytes(b"nothing")
    with pytest.raises(DataError, match="found a damaged one or none"):
        open_samples(tmp_path / "a.h5ad", set_id="donor")


def test_tables_of_before_anndata_07_are_refused_with_what_to_do(tmp_path):
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        file["X"] = np.zeros((2, 1), np.float32)
        file["obs"] = np.array([(b"c0", 0), (b"c1", 0)], dtype=[("index", "S2"), ("sample", "i1")])
        file["var"] = np.array([(b"g0",)], dtype=[("index", "S2")])
    with pytest.raises(DataError, match=r"expected 'obs' as a table, found an array, as of anndata before 0\.7\. Write it again"):
        open_samples(tmp_path / "old.h5ad", set_id="sample", cache_dir=tmp_path / "cache")


def test_cut_files_are_refused(tmp_path):
    path = make(tmp_path)
    raw = path.read_bytes()
    for size in range(0, len(raw), len(raw) // 15):
        path.write_bytes(raw[:size])
        with pytest.raises(DataError, match=r"a\.h5ad: expected an AnnData file") as raised:
            open_samples(path, set_id="donor", cache_dir=tmp_path)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix], ids=["csr", "csc"])
def test_places_outside_of_a_sparse_matrix_are_refused(tmp_path, kind):
    path = make(tmp_path, X=kind(np.ones((3, 2))))
    with h5py.File(path, "a") as file:
        file["X/indices"][0] = 10**6
    with pytest.raises(DataError, match=r"expected an AnnData file.*found a damaged one"):
        open_samples(path, set_id="donor", cache_dir=tmp_path)


def test_rows_of_a_sparse_matrix_that_end_before_they_begin_are_refused(tmp_path):
    path = make(tmp_path, X=scipy.sparse.csr_matrix(np.ones((3, 2))))
    with h5py.File(path, "a") as file:
        file["X/indptr"][-1] = 0  # nothing is stored, says the end: numbers would be read from outside of memory
    with pytest.raises(DataError, match=r"expected an AnnData file.*found a damaged one"):
        open_samples(path, set_id="donor", cache_dir=tmp_path)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix], ids=["dense", "csr", "csc"])
def test_complex_numbers_are_refused_as_their_imaginary_parts_would_be_lost(tmp_path, kind):
    path = make(tmp_path, X=kind(np.arange(6.0).reshape(3, 2) * 1j))
    with pytest.raises(DataError, match=r"expected real numbers in X, found complex128\. Keep real numbers"):
        open_samples(path, set_id="donor", cache_dir=tmp_path)


def test_words_in_the_matrix_are_refused(tmp_path):
    path = make(tmp_path, layers={"words": np.array([["a", "b"]] * 3)})
    with pytest.raises(DataError, match=r"expected real numbers in layers/words, found object\."):
        open_samples(path, set_id="donor", layer="words", cache_dir=tmp_path)


def test_variables_of_one_name_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="not unique"):
        path = make(tmp_path, var=pd.DataFrame(index=["g", "g"]))
    with pytest.raises(DataError, match=r"Make them so with var_names_make_unique\(\)"):
        open_samples(path, set_id="donor", cache_dir=tmp_path)


def test_a_file_without_a_matrix_names_its_layers(tmp_path):
    path = make(tmp_path, X=None, layers={"counts": np.ones((3, 2))})
    with h5py.File(path, "a") as file:
        file.pop("X", None)
    with pytest.raises(DataError, match=r"expected a matrix X, found none. Name a layer: counts\."):
        open_samples(path, set_id="donor", cache_dir=tmp_path)


@pytest.mark.parametrize("place", ["X", "obs/age", "uns/notes"])
@pytest.mark.parametrize("refer", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_arrays_in_other_files_are_refused(tmp_path, refer, place):
    path = make(tmp_path)
    with h5py.File(path, "a") as file:
        array, attributes = (file[place][...], dict(file[place].attrs)) if place in file else (np.zeros(3), {})
        file.pop(place, None)
        refer(file, place, array)
        file[place].attrs.update(attributes)
    with pytest.raises(DataError, match=rf"a\.h5ad: expected '{place}' in the file itself, found .*\. Copy what it refers to"):
        open_samples(path, set_id="donor", cache_dir=tmp_path)
