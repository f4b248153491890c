"""Flow-RBC and Anemia: patients of red blood cells."""

import numpy as np
import pytest
from publishers import flow_rbc_arrays, write_flow_rbc

from orderless.io.errors import DataError, MissingDataError
from orderless.tasks.sources.flow_rbc import ANEMIA, HEMATOCRIT, read_flow_rbc

GOOD = flow_rbc_arrays()


@pytest.mark.parametrize("column", [False, True], ids=["labels (n,)", "labels (n, 1)"])
def test_patients_read_back(tmp_path, column):
    labels = {f"{split}_labels": GOOD[f"{split}_labels"].reshape((-1, 1) if column else -1) for split in ("train", "test")}
    write_flow_rbc(tmp_path / "hematocrit.h5", **labels)
    read = read_flow_rbc(tmp_path / "hematocrit.h5")
    np.testing.assert_array_equal(read.train_cells, GOOD["train_data"], strict=True)
    np.testing.assert_array_equal(read.train_target, GOOD["train_labels"], strict=True)
    np.testing.assert_array_equal(read.test_cells, GOOD["test_data"], strict=True)
    np.testing.assert_array_equal(read.test_target, GOOD["test_labels"], strict=True)


def test_classes_are_targets_too(tmp_path):
    write_flow_rbc(tmp_path / "Anemia.h5", train_labels=np.array([0, 1, 0, 1, 1, 0], np.int64))
    assert read_flow_rbc(tmp_path / "Anemia.h5").train_target.tolist() == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(("which", "name"), [(HEMATOCRIT, "hematocrit.h5"), (ANEMIA, "Anemia.h5")], ids=["hematocrit", "anemia"])
@pytest.mark.parametrize("folder", [".", "flow_rbc"])
def test_files_are_found_under_their_usual_names(tmp_path, which, name, folder):
    assert which.find(tmp_path) is None
    write_flow_rbc(tmp_path / folder / name)
    found = which.find(tmp_path)
    assert found.samefile(tmp_path / folder / name)
    assert which.fetch_all(tmp_path) == found
    assert which.files(found) == [found]
    assert (HEMATOCRIT.find(tmp_path) is None) == (which is ANEMIA)


@pytest.mark.parametrize("which", [HEMATOCRIT, ANEMIA], ids=["hematocrit", "anemia"])
def test_a_missing_file_says_where_to_ask_and_where_to_put_it(tmp_path, which):
    with pytest.raises(
        MissingDataError, match=r"(cims\.nyu\.edu/~lhz209/flowrbc|never published).*by hand.*ORDERLESS_DATA or --data-dir"
    ) as caught:
        which.fetch_all(tmp_path)
    assert str(tmp_path / "flow_rbc") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_that_are_not_finite_are_counted(tmp_path):
    cells = GOOD["test_data"].copy()
    cells[1, :3, 0] = np.nan
    cells[2, 0, 1] = np.inf
    write_flow_rbc(tmp_path / "a.h5", test_data=cells)
    with pytest.raises(DataError, match="finite numbers in 'test_data', found 4 of 40 that are not"):
        read_flow_rbc(tmp_path / "a.h5")
    write_flow_rbc(tmp_path / "b.h5", train_labels=np.full(6, 1e300))
    with pytest.raises(DataError, match="finite numbers in 'train_labels', found 6 of 6"):
        read_flow_rbc(tmp_path / "b.h5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_labels": None}, "an array 'test_labels'"),
        ({"train_data": np.zeros((6, 5, 3), "f4")}, r"'train_data' of shape \(n, any, 2\), found \(6, 5, 3\)"),
        ({"train_labels": np.zeros(5, "f4")}, "equally many rows in 'train_data' and 'train_labels'"),
        ({"test_labels": np.zeros((4, 2), "f4")}, r"'test_labels' of shape \(n\) or \(n, 1\)"),
    ],
    ids=["missing", "features", "rows", "labels"],
)
def test_another_layout_is_an_error(tmp_path, changes, message):
    write_flow_rbc(tmp_path / "a.h5", **changes)
    with pytest.raises(DataError, match=message):
        read_flow_rbc(tmp_path / "a.h5")


def test_a_patient_for_training_and_testing_is_named_whatever_the_order_of_cells(tmp_path):
    cells = GOOD["test_data"].copy()
    cells[3] = GOOD["train_data"][2][[4, 2, 0, 1, 3]]
    write_flow_rbc(tmp_path / "a.h5", test_data=cells)
    with pytest.raises(DataError, match=r"found the cells of train_data\[2\] again in test_data\[3\]"):
        read_flow_rbc(tmp_path / "a.h5")


def test_a_patient_with_one_other_cell_is_another_patient(tmp_path):
    cells = GOOD["test_data"].copy()
    cells[3] = GOOD["train_data"][2]
    cells[3, 0, 0] = np.nextafter(cells[3, 0, 0], np.float32(np.inf))
    write_flow_rbc(tmp_path / "a.h5", test_data=cells)
    assert len(read_flow_rbc(tmp_path / "a.h5").test_target) == 4


def test_patients_with_other_numbers_of_cells_are_other_patients(tmp_path):
    write_flow_rbc(tmp_path / "a.h5", test_data=GOOD["train_data"][:4, :3])
    assert read_flow_rbc(tmp_path / "a.h5").test_cells.shape == (4, 3, 2)
