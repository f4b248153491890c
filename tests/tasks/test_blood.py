"""Hematocrit and Anemia: simulated patients and the authors' files (`blood.py`, `hematocrit.py`, `anemia.py`)."""

import numpy as np
import pytest

from orderless import tasks
from orderless.io.errors import DataError

h5py = pytest.importorskip("h5py")

FLOAT32_CELLS = 2**-17  # numbers of about 100 in float32, whose spread is about 10: some roundings of 2**-21 each


def write_file(path, *, num_train=40, num_test=20, cells=30, classes=False, **changes):
    rng = np.random.default_rng(0)
    content = {}
    for split, count in (("train", num_train), ("test", num_test)):
        content[f"{split}_data"] = rng.normal((90, 30), (12, 4), (count, cells, 2))
        content[f"{split}_labels"] = rng.integers(0, 2, count) if classes else rng.normal(40, 5, (count, 1))
    with h5py.File(path, "w") as file:
        for name, value in (content | changes).items():
            file[name] = value
    return content


def test_cells_are_standardised_with_training_statistics(tmp_path):
    data = tasks.load_task("hematocrit", cache_dir=tmp_path, source="simulated", num_train=64, num_test=64, set_size=100)
    train = np.concatenate([x.double().numpy() for x, _ in data.train])
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(train.std(0), 1, rtol=1e-5)
    raw = np.concatenate([x.double().numpy() for x, _ in data.train.raw])
    assert 80 < raw[:, 0].mean() < 100
    assert 25 < raw[:, 1].mean() < 35
    test = np.concatenate([x.double().numpy() for x, _ in data.test])
    raw_test = np.concatenate([x.double().numpy() for x, _ in data.test.raw])
    np.testing.assert_allclose(test, (raw_test - raw.mean(0)) / raw.std(0), rtol=0, atol=FLOAT32_CELLS)


def test_the_authors_file_is_read(tmp_path):
    content = write_file(tmp_path / "hematocrit.h5")
    data = tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
    assert data.name == "hematocrit@flow_rbc"
    assert (len(data.train), len(data.test)) == (40, 20)
    np.testing.assert_allclose(data.train.raw[5][0], content["train_data"][5], rtol=1e-6)
    np.testing.assert_allclose(data.test.target, content["test_labels"], rtol=1e-6)
    assert not set(data.train.columns["id"]) & set(data.test.columns["id"])
    assert list(data.store.manifest["sources"]) == ["hematocrit.h5"]


def test_a_subset_of_the_authors_patients_is_chosen_at_random(tmp_path):
    content = write_file(tmp_path / "hematocrit.h5")
    data = tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=10, num_train=8, num_test=5)
    ids = data.train.columns["id"].tolist()
    assert len(ids) == 8
    assert ids != list(range(8))
    for dataset, split, first in ((data.train, "train", 0), (data.test, "test", 40)):
        for i, patient in enumerate(dataset.columns["id"] - first):
            np.testing.assert_allclose(dataset.raw[i][0], content[f"{split}_data"][patient, :10], rtol=1e-6)
            assert dataset.target[i].item() == pytest.approx(content[f"{split}_labels"][patient].item(), rel=1e-6)


def test_the_authors_cells_are_standardised_with_training_statistics(tmp_path):
    shifted = np.random.default_rng(1).normal((200, 80), (30, 9), (20, 30, 2))  # test cells that would move them
    content = write_file(tmp_path / "hematocrit.h5", test_data=shifted)
    data = tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
    train = content["train_data"].reshape(-1, 2)
    np.testing.assert_allclose(data.test[3][0], (shifted[3] - train.mean(0)) / train.std(0), rtol=0, atol=FLOAT32_CELLS)


def test_a_changed_file_is_prepared_again(tmp_path):
    write_file(tmp_path / "hematocrit.h5")
    tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
    write_file(tmp_path / "hematocrit.h5", train_labels=np.full(40, 33.0))
    with pytest.warns(UserWarning, match=r"made from the present .*hematocrit\.h5"):
        data = tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
    assert set(data.train.target.flatten().tolist()) == {33.0}


def test_more_cells_than_the_file_has_are_an_error(tmp_path):
    write_file(tmp_path / "hematocrit.h5")
    with pytest.raises(DataError, match=r"expected 1000 cells a patient or more, found 30\. Ask for 30 or fewer"):
        tasks.load_task("hematocrit", data_dir=tmp_path, cache_dir=tmp_path)


def test_anemia_labels_are_classes(tmp_path):
    content = write_file(tmp_path / "Anemia.h5", classes=True)
    data = tasks.load_task("anemia", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
    assert data.train.target.tolist() == content["train_labels"].tolist()
    assert data.class_names == ("not anemic", "anemic")
    assert data.out_features == 2


def test_anemia_labels_that_are_no_classes_are_an_error(tmp_path):
    write_file(tmp_path / "Anemia.h5", classes=True, train_labels=np.full(40, 2))
    with pytest.raises(DataError, match=r"Anemia\.h5: expected labels 0 to 1 in 'train_labels', found 2"):
        tasks.load_task("anemia", data_dir=tmp_path, cache_dir=tmp_path, set_size=30)
