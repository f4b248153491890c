"""The same sets from every kind of file, and an answer of one line to everything that cannot be read."""

import gzip
import importlib
import pickle
import sys

import anndata
import flowio
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from orderless.io import DataError, MissingDataError, join_labels, open_samples, sample_store

open_samples_module = importlib.import_module("orderless.io.open_samples")  # whose name in the package is that of its function
IDS = ("s1", "s2", "s10", "s11")
SIZES = (4, 1, 7, 3)
FEATURES = ("a", "b", "c")


def make_sets():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 3)).astype(np.float32) for size in SIZES]


def make_frame(sets, *, shuffled=False):
    frame = pd.DataFrame(np.concatenate(sets), columns=list(FEATURES))
    frame.insert(0, "donor", np.repeat(IDS, SIZES))
    frame["label"] = np.repeat([0, 1, 1, 0], SIZES)
    if shuffled:  # a stable mixture: the rows of each set keep their order, as a set on its own would
        frame = frame.loc[np.random.default_rng(1).permutation(len(frame))]
        frame["turn"] = frame.index
        places = frame.groupby("donor").cumcount()
        frame = frame.assign(turn=frame.groupby("donor")["turn"].transform(sorted), place=places)
        whole = make_frame(sets)
        frame[list(FEATURES)] = whole.loc[frame["turn"], list(FEATURES)].to_numpy()
        frame = frame.drop(columns=["turn", "place"])
    return frame


def write_csv(folder, sets):
    make_frame(sets).to_csv(folder / "cells.csv", index=False)
    return folder / "cells.csv"


def write_scattered_csv(folder, sets):
    make_frame(sets, shuffled=True).to_csv(folder / "cells.tsv", index=False, sep="\t")
    return folder / "cells.tsv"


def write_gzip_csv(folder, sets):
    (folder / "cells.csv.gz").write_bytes(gzip.compress(make_frame(sets).to_csv(index=False, sep=";", decimal=",").encode()))
    return folder / "cells.csv.gz"


def write_parquet(folder, sets):
    make_frame(sets).to_parquet(folder / "cells.parquet", index=False)
    return folder / "cells.parquet"


def write_scattered_parts(folder, sets):
    frame = make_frame(sets, shuffled=True)
    frame["donor"] = frame["donor"].astype(pd.CategoricalDtype([*IDS, "nobody"]))
    (folder / "parts").mkdir()
    for part in range(3):
        frame.iloc[part * 5 : part * 5 + 5].to_parquet(folder / "parts" / f"{part}.parquet", index=False)
    return folder / "parts"


def as_anndata(sets, kind, **options):
    frame = make_frame(sets, shuffled=True).reset_index(drop=True)
    frame.index = frame.index.astype(str)
    obs = frame[["donor", "label"]].assign(donor=frame["donor"].astype("category"), barcode=frame.index)
    return anndata.AnnData(X=kind(frame[list(FEATURES)].to_numpy()), obs=obs, var=pd.DataFrame(index=list(FEATURES)), **options)


def write_h5ad(kind):
    def write(folder, sets):
        as_anndata(sets, kind).write_h5ad(folder / "cells.h5ad")
        return folder / "cells.h5ad"

    return write


def write_ragged_hdf5(folder, sets):
    with h5py.File(folder / "cells.h5", "w") as file:
        file["x"] = np.concatenate(sets)
        file["offsets"] = np.concatenate([[0], np.cumsum(SIZES)])
        file["ids"], file["features"] = list(IDS), list(FEATURES)
        file["label"] = np.array([[0], [1], [1], [0]])
    return folder / "cells.h5"


def write_padded_hdf5(folder, sets):
    data = np.full((4, 7, 3), np.nan)
    for row, elements in zip(data, sets, strict=True):
        row[: len(elements)] = elements
    with h5py.File(folder / "cells.hdf5", "w") as file:
        file["data"], file["sizes"], file["label"] = data, np.array(SIZES), [0, 1, 1, 0]
        file["ids"], file["features"] = list(IDS), list(FEATURES)
    return folder / "cells.hdf5"


def write_fcs(path, elements, names=FEATURES, channels=None, **keywords):
    with path.open("wb") as file:
        markers = list(names)
        flowio.create_fcs(file, np.ravel(elements).tolist(), channels or [f"D{i}" for i in range(len(names))], markers, keywords)


def write_fcs_folder(folder, sets):
    for name, elements in zip(IDS, sets, strict=True):
        write_fcs(folder / f"{name}.fcs", elements)
    return folder


def write_in_capitals(write):
    def write_renamed(folder, sets):
        path = write(folder, sets)
        return path.rename(path.with_name(path.name.upper()))

    return write_renamed


WRITERS = {
    "CSV": write_csv,
    "scattered TSV": write_scattered_csv,
    "CSV with decimal commas in gzip": write_gzip_csv,
    "Parquet": write_parquet,
    "Parquet in capitals": write_in_capitals(write_parquet),
    "gzip in capitals": write_in_capitals(write_gzip_csv),
    "scattered parts": write_scattered_parts,
    "dense AnnData": write_h5ad(np.asarray),
    "sparse AnnData by rows": write_h5ad(scipy.sparse.csr_matrix),
    "sparse AnnData by columns": write_h5ad(scipy.sparse.csc_matrix),
    "ragged HDF5": write_ragged_hdf5,
    "padded HDF5": write_padded_hdf5,
    "FCS": write_fcs_folder,
}
NEEDS_NO_SET_ID = ("ragged HDF5", "padded HDF5", "FCS")


@pytest.mark.parametrize("bucket_bytes", [1, 100, 2**26], ids=["a bucket a set", "small buckets", "one bucket"])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_sets(tmp_path, kind, bucket_bytes, monkeypatch):
    monkeypatch.setattr("orderless.io.regroup.BUCKET_BYTES", bucket_bytes)
    sets = make_sets()
    (tmp_path / "files").mkdir()
    path = WRITERS[kind](tmp_path / "files", sets)
    told = []
    options = {} if kind in NEEDS_NO_SET_ID else {"set_id": "donor"}
    samples = open_samples(path, cache_dir=tmp_path / "cache", progress=told.append, **options)
    assert samples.ids == IDS  # numbers within names are ordered by value
    assert samples.features == FEATURES
    assert samples.sizes.tolist() == list(SIZES)
    for i, elements in enumerate(sets):
        np.testing.assert_array_equal(samples[i], elements)
    if kind != "FCS":
        assert samples.columns["label"].tolist() == [0, 1, 1, 0]
        assert samples.columns["label"].dtype == np.int64
    assert told == sorted(told)
    assert told[-1] == 1.0
    again = open_samples(path, cache_dir=tmp_path / "cache", **options)
    assert again.notes == samples.notes
    assert not list((tmp_path / "cache").rglob("scratch"))
    # the options that are kept make the same features again
    same = open_samples(path, cache_dir=tmp_path / "cache", **samples.origin["options"])
    np.testing.assert_array_equal(same[2], sets[2])


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_ignored_is_ignored_in_other_files_too_which_need_not_have_it(tmp_path, kind):
    (tmp_path / "files").mkdir()
    path, options = WRITERS[kind](tmp_path / "files", make_sets()), {} if kind in NEEDS_NO_SET_ID else {"set_id": "donor"}
    samples = open_samples(path, cache_dir=tmp_path / "cache", ignore=[FEATURES[1]], **options)
    assert samples.features == (FEATURES[0], FEATURES[2])
    kept = samples.origin["options"]
    assert kept["ignore"] == [FEATURES[1]]
    same = open_samples(path, cache_dir=tmp_path / "cache", **{**kept, "ignore": [FEATURES[1], "elsewhere"]})
    assert same.features == samples.features
    with pytest.raises(DataError, match=r"'elsewhere' \(ignore=\)"):
        open_samples(path, cache_dir=tmp_path / "cache", ignore=["elsewhere"], **options)


@pytest.mark.parametrize("kind", ["CSV", "Parquet", "dense AnnData", "ragged HDF5"])
def test_channels_that_are_not_of_cells_are_noted_where_files_do_not_say_that_they_are_of_cytometry(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "FEATURES", ("Time", "CD3", "BC1"))
    (tmp_path / "files").mkdir()
    path, options = WRITERS[kind](tmp_path / "files", make_sets()), {} if kind in NEEDS_NO_SET_ID else {"set_id": "donor"}
    samples = open_samples(path, cache_dir=tmp_path / "cache", **options)
    assert samples.features == ("Time", "CD3", "BC1"), "in a series of events time may be what matters"
    told = (
        "features whose names are of the measurement rather than of cells, if this is cytometry: ignore=['Time', 'BC1'] leaves "
        "them out, as is done with FCS files."
    )
    assert told in samples.notes
    fewer = open_samples(path, cache_dir=tmp_path / "cache", ignore=["Time", "BC1"], **options)
    named = open_samples(path, cache_dir=tmp_path / "cache", features=["Time", "CD3"], **options)
    assert not [note for note in (*fewer.notes, *named.notes) if "cytometry" in note]


def test_a_second_call_does_not_read_the_file(tmp_path, monkeypatch):
    path = write_parquet(tmp_path, make_sets())
    open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")
    monkeypatch.setattr("orderless.io.long_table.Tables", None)
    assert open_samples(path, set_id="donor", cache_dir=tmp_path / "cache").ids == IDS


def test_a_file_that_changed_is_read_again(tmp_path):
    sets = make_sets()
    path = write_csv(tmp_path, sets)
    open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")
    write_csv(tmp_path, [elements + 1 for elements in sets])
    changed = open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")
    np.testing.assert_allclose(changed[0], sets[0] + 1, rtol=1e-6)  # once rounded on the way through text


@pytest.fixture
def after_looking(monkeypatch):
    """Takes a function that is called once, when a table was looked at and its elements were not yet read."""
    look = open_samples_module.read_long_table

    def prepare(happens):
        left = [happens]

        def look_first(*arguments, **options):
            found = look(*arguments, **options)
            if left:
                left.pop()()
            return found

        monkeypatch.setattr(open_samples_module, "read_long_table", look_first)

    return prepare


@pytest.mark.parametrize("is_stale", [False, True], ids=["no store", "a stale store"])
def test_who_reads_while_another_finishes_takes_what_the_other_made(tmp_path, monkeypatch, after_looking, is_stale):
    sets, builds = make_sets(), []
    path = write_csv(tmp_path, sets)

    def read():
        return open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")

    if is_stale:
        read()
        sets = [elements + 1 for elements in sets]
        write_csv(tmp_path, sets)
    write = sample_store._write
    monkeypatch.setattr(sample_store, "_write", lambda *arguments: builds.append(None) or write(*arguments))
    after_looking(read)
    np.testing.assert_allclose(read()[0], sets[0], rtol=1e-6)  # once rounded on the way through text
    assert len(builds) == 1


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, after_looking):
    sets = make_sets()
    path = write_csv(tmp_path, sets)
    after_looking(lambda: write_csv(tmp_path, [elements + 1 for elements in sets]))
    with pytest.raises(
        DataError, match=r"cells\.csv: expected a file that stays as it is while it is read, found one that changed"
    ):
        open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))
    again = open_samples(path, set_id="donor", cache_dir=tmp_path / "cache")
    np.testing.assert_allclose(again[0], sets[0] + 1, rtol=1e-6)


def test_samples_travel_to_other_processes(tmp_path):
    samples = open_samples(write_csv(tmp_path, make_sets()), set_id="donor", cache_dir=tmp_path / "cache").select([2, 0])
    there = pickle.loads(pickle.dumps(samples))
    assert there.ids == ("s10", "s1")
    np.testing.assert_array_equal(there[0], samples[0])


def test_what_is_of_no_use_for_a_kind_of_file_is_refused(tmp_path):
    sets = make_sets()
    folder = tmp_path / "fcs"
    folder.mkdir()
    with pytest.raises(ValueError, match="set_id is for CSV, Parquet, AnnData files"):
        open_samples(write_fcs_folder(folder, sets), set_id="donor", cache_dir=tmp_path)
    for option, value in (("layer", "counts"), ("transform", "arcsinh"), ("cofactor", 150), ("compensate", False)):
        with pytest.raises(ValueError, match=f"{option} is for .* leave it out"):
            open_samples(write_csv(tmp_path, sets), set_id="donor", cache_dir=tmp_path, **{option: value})
    with pytest.raises(ValueError, match="missing must be one of error, drop, indicator; got 'skip'"):
        open_samples(write_csv(tmp_path, sets), set_id="donor", missing="skip")
    with pytest.raises(ValueError, match="features must be a list of names, got the text 'a'"):
        open_samples(write_csv(tmp_path, sets), set_id="donor", features="a")


def test_what_is_to_be_read_cannot_be_ignored(tmp_path):
    table = write_csv(tmp_path, make_sets())
    with pytest.raises(ValueError, match="a is named by features= and by ignore= as well: leave it out of one of them"):
        open_samples(table, set_id="donor", features=["a", "b"], ignore=["a"], cache_dir=tmp_path)
    with pytest.raises(ValueError, match="donor is named by set_id= and by ignore= as well"):
        open_samples(table, set_id="donor", ignore=["donor"], cache_dir=tmp_path)


def test_folders_hold_one_kind(tmp_path):
    sets = make_sets()
    with pytest.raises(DataError, match=r"found none\. What can be read: long tables"):
        open_samples(tmp_path)
    (tmp_path / "fcs").mkdir()
    write_fcs_folder(tmp_path / "fcs", sets)
    with pytest.raises(DataError, match=r"Name the folder of the files itself: .*fcs\."):
        open_samples(tmp_path)
    write_csv(tmp_path / "fcs", sets)
    beside = open_samples(tmp_path / "fcs", cache_dir=tmp_path / "cache")
    assert len(beside) == 4
    assert "tables beside the .fcs files are not read as data: cells.csv." in beside.notes
    (tmp_path / "mixed").mkdir()
    write_csv(tmp_path / "mixed", sets)
    write_parquet(tmp_path / "mixed", sets)
    with pytest.raises(DataError, match=r"expected files of one kind.*found 1 of CSV, 1 of Parquet"):
        open_samples(tmp_path / "mixed")


def test_tables_in_folders_of_a_folder_are_named_and_not_read(tmp_path):
    for place in ("ill", "well"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "p1.csv").write_text("a,b\n1,2\n3,4\n")
    says = r"found \.csv files in folders below it: ill, well\. Put them into one folder, under names that differ, or name one of"
    with pytest.raises(DataError, match=says):
        open_samples(tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_folder_with_a_file_for_each_set_needs_no_column_of_sets(tmp_path, suffix):
    sets = make_sets()
    folder = tmp_path / "files"
    folder.mkdir()
    for name, elements in zip(IDS, sets, strict=True):
        frame = pd.DataFrame(elements, columns=list(FEATURES)).assign(label=int(name == "s2"), cell_id=range(len(elements)))
        write = frame.to_parquet if suffix == "parquet" else frame.to_csv
        write(folder / f"{name}.{suffix}", index=False)
    samples = open_samples(folder, cache_dir=tmp_path / "cache", ignore=["cell_id"])
    assert samples.ids == IDS
    assert samples.features == FEATURES
    for i, elements in enumerate(sets):
        np.testing.assert_allclose(samples[i], elements, rtol=1e-6)
    assert samples.columns["label"].tolist() == [0, 1, 0, 0]
    assert "each of 4 files is one set, called by its name: no column looks like names of sets." in samples.notes
    assert samples.origin["options"]["ignore"] == ["cell_id"]
    again = open_samples(folder, cache_dir=tmp_path / "cache", **samples.origin["options"])
    assert (again.ids, again.features, set(again.columns)) == (IDS, FEATURES, {"label"})
    pd.DataFrame({"file": [f"{name}.{suffix}" for name in IDS], "y": range(4)}).to_csv(tmp_path / "labels.csv", index=False)
    assert join_labels(samples, tmp_path / "labels.csv").columns["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("named", ["new", "new/d9.csv"], ids=["its folder", "the file"])
def test_one_table_is_one_set_where_features_are_known(tmp_path, named):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "d9.csv").write_text("x,y\n1.5,2\n2.5,3\n")
    samples = open_samples(tmp_path / named, features=["y", "x"], cache_dir=tmp_path / "cache")
    assert samples.ids == ("d9",)
    assert samples[0].tolist() == [[2.0, 1.5], [3.0, 2.5]]
    assert "the file is one set, called by its name: no column looks like names of sets." in samples.notes
    with pytest.raises(DataError, match="expected set_id= to name the column"):
        open_samples(tmp_path / named, cache_dir=tmp_path / "cache")


def test_one_table_with_a_column_that_may_say_sets_is_no_set_though_features_are_known(tmp_path):
    (tmp_path / "d9.csv").write_text("patient,x\n1,0.5\n2,1.5\n")
    with pytest.raises(DataError, match=r"Perhaps set_id='patient'"):
        open_samples(tmp_path / "d9.csv", features=["x"], cache_dir=tmp_path / "cache")


def test_files_without_rows_are_empty_sets(tmp_path):
    for name, rows in (("a", ""), ("b", "1.5,2\n"), ("c", "")):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}")
    samples = open_samples(tmp_path, features=["y", "x"], cache_dir=tmp_path / "cache")
    assert samples.ids == ("a", "b", "c")
    assert samples.sizes.tolist() == [0, 1, 0]
    assert samples[1].tolist() == [[2.0, 1.5]]


def test_files_with_a_column_that_may_say_sets_are_no_sets_unless_it_is_left_out(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("patient,x\n1,0.5\n1,1.5\n")
    with pytest.raises(DataError, match=r"Perhaps set_id='patient'\. Each file is a set if ignore=\['patient'\] leaves it out"):
        open_samples(tmp_path, cache_dir=tmp_path / "cache")
    assert open_samples(tmp_path, ignore=["patient"], cache_dir=tmp_path / "cache").ids == ("a", "b")
    assert open_samples(tmp_path, set_id="patient", cache_dir=tmp_path / "cache").ids == ("1",)


def test_the_patient_is_known_of_files_that_are_sets_because_it_is_left_out(tmp_path):
    folder = tmp_path / "visits"
    folder.mkdir()
    for name, patient in (("a", 7), ("b", 7), ("c", 8)):
        (folder / f"{name}.csv").write_text(f"patient,tube,x\n{patient},1,0.5\n{patient},2,1.5\n")
    samples = open_samples(folder, ignore=["patient", "tube"], cache_dir=tmp_path / "cache")
    assert samples.columns["patient"].tolist() == [7, 7, 8]
    assert samples.features == ("x",)  # and not the tube, which differs within sets
    assert "constant within every set, so known per set and no feature: patient." in samples.notes
    said = "each of 3 files is one set, called by its name: no other column than patient, tube looks like names of sets."
    assert said in samples.notes
    named = open_samples(folder, ignore=["patient", "tube"], features=["x"], cache_dir=tmp_path / "cache")
    assert named.columns["patient"].tolist() == [7, 7, 8]


def test_what_cannot_be_read_is_told_with_what_can(tmp_path):
    (tmp_path / "cells.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"found the suffix '.xlsx'. What can be read: .*\.parquet.*\.fcs.*\.h5ad.*\.hdf5"):
        open_samples(tmp_path / "cells.xlsx")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "cells.txt").write_text("sample,a\ns1,1\n")
    for path in (tmp_path / "texts", tmp_path / "texts" / "cells.txt"):
        with pytest.raises(DataError, match=r"\.txt.*\. If it is a table, rename it to \.csv, or to \.tsv"):
            open_samples(path)
    with pytest.raises(MissingDataError, match="found no such file"):
        open_samples(tmp_path / "nowhere.csv")


def test_parts_that_differ_are_named_on_both_sides(tmp_path):
    pq.write_table(pa.table({"donor": ["a"], "x": [1.0]}), tmp_path / "0.parquet")
    for part in (1, 2):
        pq.write_table(pa.table({"donor": ["a"], "x": [1.0], "y": [1.0]}), tmp_path / f"{part}.parquet")
    found = r"found a column 'y' in 1\.parquet, 2\.parquet, and none in 0\.parquet\. Put tables of another kind elsewhere"
    with pytest.raises(DataError, match=f"expected the same columns in all files of the folder, {found}"):
        open_samples(tmp_path, set_id="donor")


@pytest.mark.parametrize("extra", [0, 1], ids=["in the first file", "in another"])
def test_columns_that_nobody_asks_for_may_be_in_some_parts_only(tmp_path, extra):
    for part in (0, 1):
        more = {"y": ["a", "b"]} if part == extra else {}
        pq.write_table(pa.table({"donor": [f"d{part}"] * 2, **more, "x": [1.0, 2.0]}), tmp_path / f"{part}.parquet")
    samples = open_samples(tmp_path, set_id="donor", features=["x"], cache_dir=tmp_path / "cache")
    assert samples.ids == ("d0", "d1")
    assert [samples[i].tolist() for i in (0, 1)] == [[[1], [2]]] * 2
    assert "left out, because only some of the files have them: y." in samples.notes


def test_a_feature_that_some_parts_lack_is_an_error_that_names_them(tmp_path):
    (tmp_path / "0.csv").write_text("donor,y\na,1\n")
    (tmp_path / "1.csv").write_text("donor,x,y\na,1,2\n")
    with pytest.raises(DataError, match=r"found a column 'x' in 1\.csv, and none in 0\.csv\. Add it there"):
        open_samples(tmp_path, set_id="donor", features=["x"])
