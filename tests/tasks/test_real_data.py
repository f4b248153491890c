"""Tasks made from the publishers' files, in a folder that the variable ORDERLESS_DATA names."""

import os
from pathlib import Path

import numpy as np
import pytest

from orderless import tasks


def folder(*parts):
    root = os.environ.get("ORDERLESS_DATA")
    if not root:
        pytest.skip("ORDERLESS_DATA does not name a folder with the publishers' files")
    if not Path(root, *parts).exists():
        pytest.skip(f"{Path(root, *parts)} is not there")
    return Path(root)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def point_cloud(cache):
    return tasks.load_task("point_cloud@modelnet40", data_dir=folder("modelnet40_ply_hdf5_2048"), cache_dir=cache)


@pytest.fixture(scope="module")
def mnist_var(cache):
    return tasks.load_task("mnist_var@mnist", data_dir=folder("mnist"), cache_dir=cache)


@pytest.fixture(scope="module")
def anomaly(cache):
    data_dir = folder("cifar10")
    return tasks.load_task("set_anomaly@cifar10", data_dir=data_dir, cache_dir=cache, num_train=1500, num_test=1500)


def test_modelnet40_has_its_objects(point_cloud):
    assert (len(point_cloud.train), len(point_cloud.test)) == (9843, 2468)
    assert len(point_cloud.class_names) == 40
    assert point_cloud.class_names[0] == "airplane"
    assert point_cloud.class_names[-1] == "xbox"
    train, test = (np.bincount(d.target.numpy(), minlength=40) for d in (point_cloud.train, point_cloud.test))
    assert (train[0], test[0]) == (626, 100)  # airplanes, as published
    assert (train[8], test[8]) == (889, 100)  # chairs
    assert train.min() > 0
    assert test.min() == 20
    assert set(point_cloud.train.sizes.tolist()) == {1000}
    assert point_cloud.title.startswith("Point Cloud (ModelNet40")


def test_clouds_are_the_files_points_standardised(cache):
    import h5py

    data_dir = folder("modelnet40_ply_hdf5_2048")
    with h5py.File(data_dir / "modelnet40_ply_hdf5_2048" / "ply_data_train0.h5") as file:
        points, labels = file["data"][:].astype(np.float64), file["label"][:].ravel()
    options = {"data_dir": data_dir, "cache_dir": cache, "set_size": points.shape[1]}  # all points, so nothing is left to chance
    by_object, by_axis = (tasks.load_task(f"{name}@modelnet40", **options) for name in ("point_cloud", "point_cloud_paper"))
    assert by_object.train.target[: len(labels)].tolist() == labels.tolist()
    for i in (0, 7, len(points) - 1):
        cloud = points[i]
        for data, expected in (
            (by_object, (cloud - cloud.mean()) / (cloud - cloud.mean()).std()),
            (by_axis, (cloud - cloud.mean(0)) / cloud.std(0)),
        ):
            got = data.train[i][0].double().numpy()
            np.testing.assert_allclose(np.sort(got, axis=0), np.sort(expected, axis=0), atol=1e-6)


def test_no_object_is_for_training_and_testing(point_cloud):
    from orderless.tasks.sources.copies import find_copy
    from orderless.tasks.sources.modelnet40 import read_modelnet40

    read = read_modelnet40(folder("modelnet40_ply_hdf5_2048") / "modelnet40_ply_hdf5_2048")
    assert find_copy(read.train_points, read.test_points) is None
    assert find_copy(read.train_points, read.train_points[:10, ::-1]) is not None  # it would have been found
    assert not set(point_cloud.train.columns["id"]) & set(point_cloud.test.columns["id"])


def test_mnist_var_has_the_papers_sizes_and_spread(mnist_var):
    assert (len(mnist_var.train), len(mnist_var.test)) == (50_000, 1_000)
    assert mnist_var.element_shape == (784,)
    # ten uniform digits: mean of the variance 8.25 * 9/10; a constant scores their variance, published as 5.555
    assert mnist_var.train.target.mean().item() == pytest.approx(7.425, abs=0.15)  # digits are not quite equally frequent
    assert mnist_var.test.target.var().item() == pytest.approx(5.5, abs=0.8)
    x, _ = mnist_var.train[0]
    assert x.min() == 0
    assert x.max() == 255


def test_mnist_vars_images_are_the_files(mnist_var):
    from orderless.io.idx import read_idx

    images = read_idx(folder("mnist") / "mnist" / "train-images-idx3-ubyte.gz").reshape(-1, 784)
    labels = read_idx(folder("mnist") / "mnist" / "train-labels-idx1-ubyte.gz")
    pool = mnist_var.store.pool.columns
    for i in (0, 1, 49_999):
        x, target = mnist_var.train[i]
        rows = pool["row"][mnist_var.train.stored.pool_rows([i])]
        np.testing.assert_array_equal(x.numpy(), images[rows])
        assert target.item() == pytest.approx(labels[rows].astype(float).var(), rel=1e-6)


def test_mnist_vars_test_images_are_not_training_images(mnist_var, cache):
    released = tasks.load_task("mnist_var_released@mnist", data_dir=folder("mnist"), cache_dir=cache)
    for data in (mnist_var, released):
        pool = data.store.pool
        train, test = data.train.source_rows(), data.test.source_rows()
        names = [{(pool.columns["file"][r], pool.columns["row"][r]) for r in rows} for rows in (train, test)]
        assert not names[0] & names[1]
        pixels = {image.tobytes() for image in pool.take(train)}
        assert not pixels & {image.tobytes() for image in pool.take(test)}
    assert set(released.store.pool.columns["file"]) == {"train"}
    assert len(released.store.pool) == 60_000


def test_cifar10_sets_have_nine_of_one_class(anomaly):
    assert anomaly.element_shape == (3, 64, 64)
    assert "substituted" in anomaly.title
    labels = anomaly.store.pool.columns["label"]
    for dataset in (anomaly.train, anomaly.test):
        rows = dataset.stored.pool_rows(range(len(dataset))).reshape(-1, 10)
        target = dataset.target.numpy()
        for shown, odd in zip(labels[rows], target, strict=True):
            common = np.delete(shown, odd)
            assert len(set(common.tolist())) == 1
            assert shown[odd] != common[0]


def test_cifar10_test_images_are_not_training_images(anomaly):
    files = anomaly.store.pool.columns["file"]
    assert set(files[anomaly.train.source_rows()]) == {"train"}
    assert set(files[anomaly.test.source_rows()]) == {"test"}
    x, _ = anomaly.train[0]
    assert x.min() >= 0
    assert 100 < x.max() <= 255
