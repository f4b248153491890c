"""Set anomaly: nine of a kind and one other, wherever the images come from (`set_anomaly.py`)."""

import numpy as np
import pytest
from publishers import write_celeba, write_cifar10_binary, write_cifar10_npz

from orderless import tasks
from orderless.io.errors import DataError
from orderless.tasks.set_anomaly import draw_by_attributes, draw_by_class, resize, split_identities
from orderless.tasks.sources.celeba import read_celeba, read_celeba_images

RNG = np.random.default_rng(0)
ATTRIBUTES = RNG.random((500, 40)) < RNG.uniform(0.02, 0.8, 40)


def test_one_image_of_a_set_is_of_another_class(tmp_path):
    data = tasks.load_task("set_anomaly", source="digits", cache_dir=tmp_path, num_train=200, num_test=100)
    labels = data.store.pool.columns["label"]
    for dataset in (data.train, data.test):
        for i in range(len(dataset)):
            rows = dataset.stored.pool_rows([i])
            assert len(set(rows.tolist())) == 10
            shown = labels[rows]
            odd = int(dataset.target[i])
            common = np.delete(shown, odd)
            assert len(set(common.tolist())) == 1
            assert shown[odd] != common[0]
            assert (common[0], shown[odd]) == (dataset.columns["common"][i], dataset.columns["odd"][i])


def test_the_odd_one_is_anywhere(tmp_path):
    data = tasks.load_task("set_anomaly", source="digits", cache_dir=tmp_path, num_train=2000, num_test=1)
    counts = np.bincount(data.train.target.numpy(), minlength=10)
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)


def test_nine_share_both_attributes_and_the_tenth_has_neither():
    sets = draw_by_attributes(ATTRIBUTES, 300, 10, np.random.default_rng(1))
    for rows, odd, (a, b) in zip(sets.rows, sets.odd_at, sets.kinds, strict=True):
        assert len(set(rows.tolist())) == 10
        common = np.delete(rows, odd)
        assert ATTRIBUTES[common][:, [a, b]].all()
        assert not ATTRIBUTES[rows[odd], [a, b]].any()


def test_every_usable_attribute_is_used():
    """The released script never used the last attribute and took file names for one."""
    rich = np.random.default_rng(2).random((400, 40)) < 0.5
    sets = draw_by_attributes(rich, 2000, 10, np.random.default_rng(1))
    assert set(sets.kinds.ravel().tolist()) == set(range(40))


def test_images_that_cannot_make_a_set_are_an_error():
    with pytest.raises(DataError, match=r"9 images of one class.*at most 1 .*--set-size"):
        draw_by_class(np.arange(10), 1, 10, np.random.default_rng(0))
    with pytest.raises(DataError, match="two attributes that 9 images share"):
        draw_by_attributes(np.ones((20, 40), bool), 1, 10, np.random.default_rng(0))


def test_of_two_images_none_is_the_odd_one():
    with pytest.raises(ValueError, match="set_size must be 3 or more"):
        draw_by_class(np.repeat(np.arange(10), 20), 1, 2, np.random.default_rng(0))


def test_people_are_split_in_halves():
    identities = np.random.default_rng(0).integers(0, 101, 1000)
    train, test = split_identities(identities, np.random.default_rng(1))
    assert len(train) + len(test) == 1000
    assert not set(identities[train]) & set(identities[test])
    assert len(set(identities[train])) == 50


ROUNDED = 0.05  # pixels: grey values are whole numbers, and those that round to 0 are missing at both ends alike


def test_images_are_resized_without_shifting():
    image = np.zeros((1, 1, 8, 8), np.uint8)
    image[0, 0, 2, 5] = 255
    large = resize(image)
    assert large.shape == (1, 1, 64, 64)
    rows, columns = np.nonzero(large[0, 0])
    weights = large[0, 0][rows, columns].astype(float)
    assert np.average(rows, weights=weights) == pytest.approx(2 * 8 + 3.5, abs=ROUNDED)
    assert np.average(columns, weights=weights) == pytest.approx(5 * 8 + 3.5, abs=ROUNDED)


def test_celebas_people_are_for_training_or_for_testing(tmp_path):
    """The released script drew its test sets from the training people."""
    write_celeba(tmp_path / "celeba", count=300, num_people=20)  # some fifteen photographs of each
    data = tasks.load_task("set_anomaly@celeba", data_dir=tmp_path, cache_dir=tmp_path, num_train=40, num_test=40, set_size=4)
    assert data.title == "Set anomaly (CelebA)"
    assert data.element_shape == (3, 64, 64)
    people = data.store.pool.columns["identity"]
    train, test = (set(people[dataset.source_rows()].tolist()) for dataset in (data.train, data.test))
    assert len(train) > 1
    assert len(test) > 1
    assert not train & test


def test_celebas_sets_follow_the_files_attributes(tmp_path):
    write_celeba(tmp_path / "celeba", count=300)
    read = read_celeba(tmp_path / "celeba")
    data = tasks.load_task("set_anomaly@celeba", data_dir=tmp_path, cache_dir=tmp_path, num_train=40, num_test=40, set_size=4)
    file_rows = data.store.pool.columns["row"]
    for dataset in (data.train, data.test):
        for i in range(len(dataset)):
            rows, odd = file_rows[dataset.stored.pool_rows([i])], int(dataset.target[i])
            a, b = dataset.columns["common"][i], dataset.columns["odd"][i]
            assert read.attributes[np.delete(rows, odd)][:, [a, b]].all()
            assert not read.attributes[rows[odd], [a, b]].any()
    x, _ = data.train[3]
    rows = file_rows[data.train.stored.pool_rows([3])]
    expected = read_celeba_images([read.folder / read.filenames[row] for row in rows])
    np.testing.assert_array_equal(x.numpy(), expected)


def test_test_images_that_are_training_images_are_left_out(tmp_path):
    folder = tmp_path / "cifar10"
    write_cifar10_binary(folder, per_batch=80)
    records = np.frombuffer((folder / "test_batch.bin").read_bytes(), np.uint8).copy().reshape(80, -1)
    records[:40] = np.frombuffer((folder / "data_batch_5.bin").read_bytes(), np.uint8).reshape(80, -1)[:40]
    (folder / "test_batch.bin").write_bytes(records.tobytes())
    data = tasks.load_task("set_anomaly@cifar10", data_dir=tmp_path, cache_dir=tmp_path, num_train=200, num_test=200, set_size=3)
    rows = data.store.pool.columns["row"][data.test.source_rows()]
    assert rows.min() >= 40


@pytest.mark.parametrize("write", [write_cifar10_binary, lambda folder: write_cifar10_npz(folder / "cifar10_jpeg.npz")])
def test_files_of_too_few_images_are_an_error(tmp_path, write):
    (tmp_path / "cifar10").mkdir()
    write(tmp_path / "cifar10")
    with pytest.raises(DataError, match=r"9 images of one class.*--set-size"):
        tasks.load_task("set_anomaly@cifar10", data_dir=tmp_path, cache_dir=tmp_path, num_train=4, num_test=4)
