"""MNIST Var: targets of the digits that are shown, images drawn uniformly, the released split (`mnist_var.py`)."""

import numpy as np
import pytest
from publishers import idx_bytes, write_mnist

from orderless import tasks
from orderless.io.errors import DataError
from orderless.tasks.mnist_var import released_split, summarize
from orderless.tasks.sources.digits import read_digits


def load(name, tmp_path, **options):
    return tasks.load_task(name, source="digits", cache_dir=tmp_path, **{"num_train": 300, "num_test": 60} | options)


STATISTICS = {
    "mnist_var": lambda digits: np.std(digits) ** 2,
    "mnist_var_6_10": lambda digits: np.std(digits) ** 2,
    "mnist_mean": np.mean,
    "mnist_median": np.median,
    "mnist_count": lambda digits: len(set(digits.tolist())),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_the_target_is_the_statistic_of_the_digits_shown(name, tmp_path):
    data = load(name, tmp_path)
    digits = data.store.pool.columns["digit"]
    for dataset in (data.train, data.test):
        for i in range(len(dataset)):
            shown = digits[dataset.stored.pool_rows([i])]
            assert dataset.target[i].item() == pytest.approx(STATISTICS[name](shown.astype(float)), rel=1e-6, abs=1e-7)


def test_images_are_those_of_the_digits(tmp_path):
    data = load("mnist_var", tmp_path)
    columns = data.store.pool.columns
    from sklearn.datasets import load_digits

    bunch = load_digits()
    np.testing.assert_array_equal(bunch.target[columns["row"]], columns["digit"])
    x, _ = data.train[7]
    rows = columns["row"][data.train.stored.pool_rows([7])]
    np.testing.assert_array_equal(x.numpy(), bunch.data[rows])


def test_sizes_vary_where_they_should(tmp_path):
    data = load("mnist_var_6_10", tmp_path)
    assert set(data.train.sizes.tolist()) == {6, 7, 8, 9, 10}
    assert set(load("mnist_var", tmp_path).train.sizes.tolist()) == {10}
    batch = data.train[:20].sets
    assert batch.sizes.tolist() == data.train.sizes[:20].tolist()  # all images of a set, none of another


def test_images_are_drawn_uniformly_and_may_repeat(tmp_path):
    data = load("mnist_var", tmp_path, num_train=20_000, num_test=1)
    rows = data.train.stored.pool_rows(range(20_000))
    counts = np.bincount(rows, minlength=len(read_digits().train_labels))[: len(read_digits().train_labels)]
    expected = 200_000 / len(counts)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi2 - len(counts)) < 5 * np.sqrt(2 * len(counts))
    assert any(len(set(rows[i : i + 10].tolist())) < 10 for i in range(0, 200_000, 10))


def test_digits_split_keeps_equal_images_on_one_side():
    read = read_digits()
    train = {image.tobytes() for image in read.train_images}
    assert not train & {image.tobytes() for image in read.test_images}
    assert len(read.train_ids) + len(read.test_ids) == 1797
    assert 0.19 < len(read.test_ids) / 1797 < 0.21


def test_the_released_split_takes_the_last_thousand_of_each_digit_by_file_name():
    digits = np.repeat(np.arange(10), 1200)
    train, test = released_split(digits)
    assert len(train) == 2000
    assert len(test) == 10_000
    assert not set(train) & set(test)
    of_zero = sorted(f"{i}.png" for i in range(1200))[-1000:]
    assert {f"{row}.png" for row in test if digits[row] == 0} == set(of_zero)
    assert np.bincount(digits[test]).tolist() == [1000] * 10


def test_the_stand_in_for_the_released_split_is_split_the_same_way(tmp_path):
    data = load("mnist_var_released", tmp_path, num_train=2000, num_test=2000)
    pool = data.store.pool.columns
    test_rows = set(pool["row"][data.test.source_rows()].tolist())
    from sklearn.datasets import load_digits

    assert test_rows == set(released_split(load_digits().target, 35)[1].tolist())
    assert not test_rows & set(pool["row"][data.train.source_rows()].tolist())


def test_other_images_under_mnists_names_are_not_called_mnist(tmp_path):
    write_mnist(tmp_path / "mnist")
    data = tasks.load_task("mnist_var@mnist", data_dir=tmp_path, cache_dir=tmp_path, num_train=20, num_test=10)
    assert data.title == "MNIST Var (MNIST, but not the publisher's images)"


def test_test_images_that_are_training_images_are_left_out(tmp_path):
    arrays = write_mnist(tmp_path / "mnist", packed=False)
    folder = tmp_path / "mnist"
    images, labels = arrays[0], arrays[1]
    mixed = np.concatenate([images[:3], arrays[2]])
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(mixed))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.concatenate([labels[:3], arrays[3]])))
    data = tasks.load_task("mnist_var@mnist", data_dir=tmp_path, cache_dir=tmp_path / "a", num_train=200, num_test=200)
    pool = data.store.pool
    train, test = ({pool.take(np.array([row])).tobytes() for row in d.source_rows()} for d in (data.train, data.test))
    assert len(test) == len(arrays[2])
    assert not train & test
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(images))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    with pytest.raises(DataError, match="expected test images that are no training images"):
        tasks.load_task("mnist_var@mnist", data_dir=tmp_path, cache_dir=tmp_path / "b", num_train=20, num_test=20)


def test_too_few_images_for_the_released_split_are_an_error():
    with pytest.raises(ValueError, match="1000 test images of each digit; there are 5 of 0"):
        released_split(np.repeat(np.arange(10), 5))


def test_a_set_of_one_has_no_variance():
    assert summarize(np.array([3, 4, 4]), np.array([1, 2]), "variance").tolist() == [0, 0]


def test_a_damaged_file_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{name}-ubyte").write_bytes(b"\0\0\x08\x01")
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        tasks.load_task("mnist_var@mnist", data_dir=tmp_path, cache_dir=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache" / "tasks").iterdir() if path.is_dir()]
