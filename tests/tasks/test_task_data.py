"""Prepared tasks: what travels, what is checked, networks that fit (`task_data.py`)."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tasks.small import load

from orderless.io.errors import DataError
from orderless.tasks import statistics, task_data
from orderless.tasks.registry import TASKS
from orderless.tasks.source import Source


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.delenv("ORDERLESS_CACHE", raising=False)


def test_a_dataset_travels_to_workers_by_its_path(tmp_path):
    data = load("normal_var", tmp_path, num_train=500, set_size=1000)
    assert len(pickle.dumps(data.train)) < 20_000  # targets go along; the elements have 2 MB
    again = pickle.loads(pickle.dumps(data))
    assert again.title == data.title
    torch.testing.assert_close(again.train[7][0], data.train[7][0], rtol=0, atol=0)


def test_spawned_workers_give_the_same_batches(tmp_path):
    data = load("mnist_var_6_10", tmp_path)
    loader = data.train.loader(4, shuffle=True, num_workers=1)
    loader.multiprocessing_context = "spawn"
    for ours, plain in zip(loader, data.train.loader(4, shuffle=True), strict=True):
        torch.testing.assert_close(ours.sets.x, plain.sets.x, rtol=0, atol=0)
        assert ours.sets.offsets.tolist() == plain.sets.offsets.tolist()


def test_targets_that_are_no_classes_are_an_error(tmp_path):
    def build(writer, request):
        for split, _, count in request.counts():
            writer.add_sets(split, np.zeros((count, 2), np.float32), np.ones(count, int), target=np.full(count, 7))
        return {"class_names": ["a", "b"]}

    task = replace(TASKS["anemia"], sources=(Source("made", "simulated", "made up", (2,), build),))
    with pytest.raises(DataError, match=r"expected classes 0\.\.1, found targets 7\.\.7"):
        task.load(cache_dir=tmp_path, num_train=2, num_test=2)


def test_a_featurizer_of_ones_own_is_used(tmp_path):
    class Mean(torch.nn.Module):
        out_features = 4

        def forward(self, images):
            return images.mean((1, 2, 3))[:, None].repeat(1, 4)

    data = load("set_anomaly", tmp_path)
    mine = Mean()
    model = data.create_model("deep_sets", depth=2, featurizer=mine)
    assert mine in list(model.modules())
    assert model(data.test[[0]].sets).x.shape == (10, 1)


@pytest.mark.parametrize("read", [2**14, 7], ids=["some sets at a time", "parts of sets"])
@pytest.mark.parametrize("name", ["normal_var", "hematocrit", "point_cloud", "mnist_var_6_10"])
def test_elements_are_standardised_by_all_of_training(name, read, tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "_NUMBERS_READ", read)
    data = load(name, tmp_path)
    model = data.create_model("deep_sets++", depth=2, width=8, standardize=True)
    x = data.train[:].sets.x.double()
    spread = x.std(0, unbiased=False)
    varies = spread > 0  # borders of pictures do not
    torch.testing.assert_close(model.featurizer.mean, x.mean(0).float())
    torch.testing.assert_close(model.featurizer.spread, torch.where(varies, spread, 1.0).float())
    seen = model.featurizer(data.train[:].sets.x).double()
    assert seen.mean(0).abs().max() < 0.1
    assert model.config == data.create_model("deep_sets++", depth=2, width=8).config
    assert model(data.test[:2].sets).shape == (2, data.out_features)


def test_of_more_elements_than_enough_sets_evenly_spread_decide(tmp_path, monkeypatch):
    data = load("normal_var", tmp_path)  # 12 sets of 20 elements
    monkeypatch.setattr(task_data, "_STANDARDIZING_ELEMENTS", 60)
    monkeypatch.setattr(statistics, "_FEWEST_SETS", 1)
    featurizer = data.create_model("deep_sets", depth=2, standardize=True).featurizer
    x = data.train[[0, 6, 11]].sets.x.double()
    torch.testing.assert_close(featurizer.mean, x.mean(0).float())
    torch.testing.assert_close(featurizer.spread, x.std(0, unbiased=False).float())
    assert not torch.allclose(featurizer.mean, data.train[:].sets.x.mean(0))


def test_large_sets_are_not_left_to_one_of_them(tmp_path, monkeypatch):
    data = load("normal_var", tmp_path)
    monkeypatch.setattr(task_data, "_STANDARDIZING_ELEMENTS", 1)
    featurizer = data.create_model("deep_sets", depth=2, standardize=True).featurizer
    torch.testing.assert_close(featurizer.mean, data.train[:].sets.x.double().mean(0).float())


def test_elements_without_a_mean_are_told(tmp_path, monkeypatch):
    data = load("point_cloud", tmp_path)
    wrong = np.array([0, np.nan, 0])
    monkeypatch.setattr(statistics.FeatureStatistics, "add", lambda self, elements: setattr(self, "mean", wrong))
    with pytest.raises(ValueError, match=r"point_cloud@shapes: training elements hold NaN or infinite .* in feature 1"):
        data.create_model("deep_sets", standardize=True)


def test_elements_are_left_as_they_are_unless_asked(tmp_path):
    assert load("normal_var", tmp_path).create_model("deep_sets", depth=2).featurizer is None


def test_what_cannot_be_standardised_says_why(tmp_path):
    images, points = load("set_anomaly", tmp_path), load("point_cloud", tmp_path)
    with pytest.raises(ValueError, match="elements of set_anomaly go through a featurizer: leave standardize alone"):
        images.create_model("deep_sets", standardize=True)
    for model in ("pointnet++", "simpleview"):
        with pytest.raises(ValueError, match=f"{re.escape(model)} takes coordinates as they are.*leave standardize alone"):
            points.create_model(model, standardize=True)
    with pytest.raises(ValueError, match="model must be one of"):
        points.create_model("nope", standardize=True)
    with pytest.raises(ValueError, match="standardize must be true or false, got 3"):
        points.create_model("deep_sets", standardize=3)
    with pytest.raises(ValueError, match=r"a featurizer of your own: leave out one of the two"):
        points.create_model("deep_sets", standardize=True, featurizer=torch.nn.Linear(3, 2))


def test_models_get_the_papers_options_where_they_fit(tmp_path):
    data = load("point_cloud", tmp_path)
    assert data.create_model("deep_sets++", depth=2).config.pool == "max"
    assert data.create_model("deep_sets++", depth=2, pool="sum").config.pool == "sum"
    assert data.create_model("set_transformer++", depth=2).config.pool == "attention"
    assert data.create_model("deep_sets", depth=2).config.out_features == len(data.class_names)
    assert load("normal_var", tmp_path).create_model("deep_sets_pointcloud").config.pool == "max"


def test_set_anomaly_models_answer_for_each_image(tmp_path):
    data = load("set_anomaly", tmp_path)
    assert data.element_shape == (1, 64, 64)
    assert data.out_features == 1
    model = data.create_model("deep_sets", depth=2)
    assert model.config.output == "element"
    assert model(data.test[[0]].sets).x.shape == (10, 1)
