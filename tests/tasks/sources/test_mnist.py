"""MNIST from its four idx files."""

import gzip
import hashlib

import numpy as np
import pytest
from publishers import MNIST_FILES, idx_bytes, mnist_arrays, real_data, write_mnist

from orderless.io.errors import DataError, MissingDataError
from orderless.tasks.sources import mnist


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_digits_read_back(tmp_path, packed):
    wanted = write_mnist(tmp_path, packed=packed)
    read = mnist.read_mnist(tmp_path)
    for array, name in zip(wanted, ("train_images", "train_labels", "test_images", "test_labels"), strict=True):
        np.testing.assert_array_equal(getattr(read, name), array, strict=True)


@pytest.mark.parametrize("name", [".", "mnist", "MNIST/raw"])
def test_the_folder_is_found_under_its_usual_names(tmp_path, name):
    assert mnist.find(tmp_path) is None
    write_mnist(tmp_path / name)
    assert mnist.find(tmp_path).samefile(tmp_path / name)
    assert mnist.fetch_all(tmp_path).samefile(tmp_path / name)
    assert [path.name for path in mnist.files(tmp_path / name)] == [f"{stem}.gz" for stem in MNIST_FILES]


def test_a_folder_that_lacks_a_file_is_not_found_and_the_file_is_named(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert mnist.find(tmp_path) is None
    with pytest.raises(MissingDataError, match=r"t10k-labels-idx1-ubyte\.gz"):
        mnist.read_mnist(tmp_path)


def test_names_with_a_dot_are_known(tmp_path):
    write_mnist(tmp_path, packed=False)
    for name in MNIST_FILES:
        (tmp_path / name).rename(tmp_path / name.replace("-idx", ".idx"))
    assert mnist.find(tmp_path) == tmp_path


def test_files_that_are_missing_are_fetched_from_the_mirror(tmp_path, monkeypatch):
    asked = []

    def fetch(remote, data_dir, *, progress):
        asked.append(remote)
        return data_dir / remote.path

    monkeypatch.setattr(mnist, "fetch", fetch)
    assert mnist.fetch_all(tmp_path, progress=False) == tmp_path / "mnist"
    assert [remote.path for remote in asked] == [f"mnist/{name}.gz" for name in MNIST_FILES]
    assert all(remote.url.startswith("https://") and remote.url.endswith(remote.path[6:]) and remote.md5 for remote in asked)


ARRAYS = mnist_arrays()


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (MNIST_FILES[0], np.zeros((12, 28, 27), np.uint8), r"\(n, 28, 28\), found uint8 of shape \(12, 28, 27\)"),
        (MNIST_FILES[0], np.zeros((12, 784), np.uint8), r"\(n, 28, 28\)"),
        (MNIST_FILES[0], np.zeros((12, 28, 28), np.int16), "found int16"),
        (MNIST_FILES[0], np.zeros((0, 28, 28), np.uint8), r"\(0, 28, 28\)"),
        (MNIST_FILES[1], ARRAYS[MNIST_FILES[0]], r"bytes of shape \(n,\)"),
        (MNIST_FILES[1], np.zeros(11, np.uint8), "12 labels, as many as train-images-idx3-ubyte.gz has images, found 11"),
        (MNIST_FILES[3], np.array([1, 2, 10, 3, 4], np.uint8), "labels from 0 to 9, found 10 in row 2"),
    ],
    ids=["width", "flat", "type", "no images", "images as labels", "count", "label"],
)
def test_files_that_do_not_fit_are_errors(tmp_path, name, array, message):
    write_mnist(tmp_path)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    with pytest.raises(DataError, match=message):
        mnist.read_mnist(tmp_path)


def test_the_published_files_read_to_the_known_digits():
    read = mnist.read_mnist(mnist.find(real_data("mnist")))
    assert read.train_images.shape == (60_000, 28, 28)
    assert read.test_images.shape == (10_000, 28, 28)
    assert read.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert read.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert np.bincount(read.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(read.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert int(read.train_images[0].sum()) == 27525
    assert round(float(read.train_images.mean() / 255), 4) == 0.1307  # the mean that everyone normalises with


# of the unpacked originals
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def test_the_published_files_read_to_the_original_bytes():
    read = mnist.read_mnist(mnist.find(real_data("mnist")))
    arrays = (read.train_images, read.train_labels, read.test_images, read.test_labels)
    for (name, wanted), array in zip(SHA256.items(), arrays, strict=True):
        assert hashlib.sha256(idx_bytes(array)).hexdigest() == wanted, name
