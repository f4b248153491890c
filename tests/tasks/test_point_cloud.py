"""Point Cloud: standardised as the released code or as the paper does, points chosen anew for each object (`point_cloud.py`)."""

import numpy as np
import pytest
import torch
from publishers import write_modelnet40_hdf5, write_modelnet40_text

from orderless import tasks
from orderless.io.errors import DataError
from orderless.tasks.point_cloud import _sample_points, standardize
from orderless.tasks.sources.modelnet40 import read_modelnet40

CLOUDS = np.random.default_rng(0).normal(3, (1, 2, 5), (4, 50, 3)).astype(np.float32)


def test_released_standardisation_keeps_proportions():
    got = standardize(CLOUDS, "released").astype(np.float64)
    np.testing.assert_allclose(got.mean((1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(got.std((1, 2)), 1, rtol=1e-6)
    ratio = CLOUDS.astype(np.float64).std(1) / got.std(1)
    np.testing.assert_allclose(ratio, ratio[:, :1].repeat(3, 1), rtol=1e-5)  # one factor for the whole object


def test_the_papers_standardisation_goes_axis_by_axis():
    got = standardize(CLOUDS, "paper").astype(np.float64)
    np.testing.assert_allclose(got.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(got.std(1), 1, rtol=1e-6)


@pytest.mark.parametrize("how", ["released", "paper"])
def test_a_cloud_without_extent_stays_finite(how):
    flat = CLOUDS.copy()
    flat[..., 2] = 7
    assert np.isfinite(standardize(flat, how)).all()
    assert (standardize(np.full((1, 5, 3), 2, np.float32), how) == 0).all()


@pytest.mark.parametrize("how", ["released", "paper"])
def test_far_and_small_clouds_are_standardised_as_well(how):
    far = (CLOUDS * 1e-3 + 100).astype(np.float32)
    exact = far.astype(np.float64)
    axes = (1, 2) if how == "released" else 1
    expected = (exact - exact.mean(axes, keepdims=True)) / exact.std(axes, keepdims=True)
    np.testing.assert_allclose(standardize(far, how), expected, rtol=1e-5, atol=1e-6)


def test_each_object_gets_its_own_choice_of_points():
    points = np.arange(3 * 20 * 3, dtype=np.float32).reshape(3, 20, 3)
    chosen = _sample_points(points, 8, np.random.default_rng(0))
    places = []
    for n in range(3):
        rows = {tuple(p) for p in points[n].tolist()}
        assert {tuple(p) for p in chosen[n].tolist()} <= rows
        assert len({tuple(p) for p in chosen[n].tolist()}) == 8
        places.append(((chosen[n, :, 0] - points[n, 0, 0]) / 3).tolist())
    assert places[0] != places[1] != places[2]


def test_files_of_the_publishers_layouts_make_the_task(tmp_path):
    for write, name in ((write_modelnet40_hdf5, "hdf5"), (write_modelnet40_text, "text")):
        write(tmp_path / name, **({"num_points": 2048} if name == "text" else {}))
        data = tasks.load_task(
            "point_cloud@modelnet40", data_dir=tmp_path / name, cache_dir=tmp_path / f"{name}_cache", set_size=6
        )
        assert set(data.train.sizes.tolist()) == {6}
        assert f"but {len(data.train)} + {len(data.test)} objects instead of 9,843 + 2,468" in data.title
        assert not set(data.train.columns["id"]) & set(data.test.columns["id"])


@pytest.mark.parametrize(("name", "how"), [("point_cloud", "released"), ("point_cloud_paper", "paper")])
def test_objects_keep_their_points_and_classes(tmp_path, name, how):
    write_modelnet40_hdf5(tmp_path)
    read = read_modelnet40(tmp_path)
    count = len(read.train_points) - 1
    data = tasks.load_task(f"{name}@modelnet40", data_dir=tmp_path, cache_dir=tmp_path, set_size=8, num_train=count, num_test=2)
    first = 0
    for dataset, points, labels in (
        (data.train, read.train_points, read.train_labels),
        (data.test, read.test_points, read.test_labels),
    ):
        for i, row in enumerate(dataset.columns["id"] - first):
            expected = standardize(points[row][None], how)[0]
            np.testing.assert_allclose(np.sort(dataset[i][0], axis=0), np.sort(expected, axis=0), atol=1e-6)
            assert dataset.target[i] == labels[row]
        first += len(points)


def test_every_block_has_draws_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.tasks.point_cloud._BLOCK_SETS", 1)
    write_modelnet40_hdf5(tmp_path)
    read = read_modelnet40(tmp_path)
    data = tasks.load_task("point_cloud@modelnet40", data_dir=tmp_path, cache_dir=tmp_path, set_size=8)
    orders = set()
    for i in range(len(data.train)):
        expected = standardize(read.train_points[i][None], "released")[0]
        gaps = np.abs(data.train[i][0].numpy()[:, None] - expected).sum(2)
        orders.add(tuple(gaps.argmin(1).tolist()))
    assert len(orders) == len(data.train)


def test_more_points_than_the_files_have_are_an_error(tmp_path):
    write_modelnet40_hdf5(tmp_path)
    with pytest.raises(DataError, match=r"expected 1000 points a cloud or more, found 8.*--set-size"):
        tasks.load_task("point_cloud@modelnet40", data_dir=tmp_path, cache_dir=tmp_path)


def test_an_object_in_both_splits_is_refused(tmp_path):
    import h5py

    write_modelnet40_hdf5(tmp_path)
    with h5py.File(next(tmp_path.glob("ply_data_train*.h5"))) as train:
        copied = train["data"][0][::-1]
    with h5py.File(next(tmp_path.glob("ply_data_test*.h5")), "r+") as test:
        test["data"][0] = copied
    with pytest.raises(DataError, match="expected different objects for training and testing"):
        tasks.load_task("point_cloud@modelnet40", data_dir=tmp_path, cache_dir=tmp_path, set_size=6)


def test_variants_hold_the_same_objects(tmp_path):
    options = {"source": "shapes", "cache_dir": tmp_path, "num_train": 10, "num_test": 5, "set_size": 50}
    released, paper = (tasks.load_task(name, **options) for name in ("point_cloud", "point_cloud_paper"))
    assert released.train.target.tolist() == paper.train.target.tolist()
    x, y = released.train[3][0].double(), paper.train[3][0].double()
    for axis in range(3):
        assert np.corrcoef(x[:, axis], y[:, axis])[0, 1] == pytest.approx(1, abs=1e-5)


def test_the_protocol_of_simpleview_takes_the_first_points_as_they_are(tmp_path):
    write_modelnet40_hdf5(tmp_path)
    read = read_modelnet40(tmp_path)
    data = tasks.load_task("point_cloud_smooth@modelnet40", data_dir=tmp_path, cache_dir=tmp_path, set_size=6)
    np.testing.assert_array_equal(data.train[:].sets.x.reshape(-1, 6, 3), read.train_points[:, :6])
    assert data.task.set_size == (1024, 1024)


def test_other_clouds_are_brought_into_the_sphere_of_those_files(tmp_path):
    write_modelnet40_text(tmp_path / "text", num_points=2048)
    options = {"cache_dir": tmp_path, "set_size": 50}
    text = tasks.load_task("point_cloud_smooth@modelnet40", data_dir=tmp_path / "text", **options)
    shapes = tasks.load_task("point_cloud_smooth@shapes", num_train=5, num_test=5, **options)
    for data in (text, shapes):
        clouds = data.train[:].sets.x.reshape(-1, 50, 3)
        np.testing.assert_allclose(clouds.mean(1), 0, atol=1e-6)
        np.testing.assert_allclose(clouds.norm(dim=2).amax(1), 1, rtol=1e-5)


def test_its_loss_is_smoothed_and_its_metrics_are_not(tmp_path):
    task = tasks.get_task("point_cloud_smooth")
    logits, target = torch.eye(40)[:5] * 3, torch.arange(5)
    plain = tasks.get_task("point_cloud")
    assert task.loss(logits, target) > plain.loss(logits, target)
    assert all(map(torch.equal, task.per_set(logits, target).values(), plain.per_set(logits, target).values()))
