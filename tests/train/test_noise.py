"""Noise on training elements (`noise.py`)."""

import numpy as np
import pytest
import torch
from small_runs import CPU, run, small_model, small_task, weights

from orderless.io.memory_sets import MemorySets
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.transforms import AsStored
from orderless.train import TrainConfig, train_model
from orderless.train.noise import Noise

SPREADS = (0.01, 5.0, 0.0)


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    elements = [(7 + rng.standard_normal((n, 3)) * SPREADS).astype(np.float32) for n in (4000, 2000, 3000)]
    return SetDataset(MemorySets(elements), torch.zeros(3, 1), AsStored())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


def make(sets, *, level=0.5, seed=3, num_steps=10, rank=0):
    return Noise(level, sets, seed=seed, num_steps=num_steps, device=torch.device("cpu"), rank=rank)


def added(noise, batch, step, number=0):
    return noise.add(batch, step, number).sets.x - batch.sets.x


@pytest.mark.parametrize(("step", "level"), [(0, 0.5), (5, 0.25), (9, 0.05)])
def test_it_is_normal_in_proportion_to_the_spread_of_each_feature_and_falls_over_the_steps(sets, step, level):
    batch = sets[:]
    found = added(make(sets), batch, step) / level
    torch.testing.assert_close(found.std(0), torch.tensor(SPREADS), rtol=0.04, atol=0)  # 5 standard errors
    scaled = found[:, 1] / SPREADS[1]
    assert scaled.mean().abs() < 0.05
    assert (scaled.abs() < 1).float().mean() == pytest.approx(0.6827, abs=0.025)
    assert abs(torch.corrcoef(found[:, :2].T)[0, 1]) < 0.05


def test_a_feature_that_does_not_vary_stays_as_it_is(sets):
    assert added(make(sets), sets[:], 0)[:, 2].eq(0).all()


def test_sets_targets_and_the_batch_itself_are_left_alone(sets):
    batch = sets[:]
    before = batch.sets.x.clone()
    noisy = make(sets).add(batch, 0)
    assert batch.sets.x.equal(before)
    assert noisy.sets.sizes.tolist() == batch.sets.sizes.tolist()
    assert noisy.target is batch.target
    assert noisy.sets.x.dtype == torch.float32


def test_what_is_drawn_depends_on_seed_step_batch_and_process_alone(sets):
    batch = sets[:]
    noise = make(sets)
    first = [added(noise, batch, 2), added(noise, batch, 2, 1), added(noise, batch, 3)]
    torch.rand(5)  # nobody else's numbers are in it
    again = make(sets)
    assert added(again, batch, 3).equal(first[2])
    assert added(again, batch, 2).equal(first[0])
    others = [*first, added(make(sets, seed=4), batch, 2), added(make(sets, rank=1), batch, 2)]
    scaled = [(x / x.std(0))[:, 1] for x in others]
    assert torch.corrcoef(torch.stack(scaled)).sub(torch.eye(len(others))).abs().max() < 0.05


def test_how_elements_lie_in_memory_does_not_matter(sets):
    x, target = sets[:].sets.x, sets[:].target
    turned = LabelledSets(sets[:].sets.with_x(x.T.contiguous().T), target)
    assert not turned.sets.x.is_contiguous()
    assert make(sets).add(turned, 2).sets.x.equal(make(sets).add(sets[:], 2).sets.x)


def test_nobody_elses_random_numbers_are_taken(sets):
    batch, noise = sets[:], make(sets)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    noise.add(batch, 0)
    assert torch.rand(3).equal(expected)


def test_elements_may_be_images(tmp_path):
    task = small_task(tmp_path, "set_anomaly", source="digits", num_train=12, num_test=4)
    batch = task.train[:]
    found = added(make(task.train), batch, 0)
    assert found.shape == batch.sets.x.shape
    assert found.dim() == 4
    varies = batch.sets.x.std(0) > 0
    assert found[:, ~varies].eq(0).all()
    torch.testing.assert_close(found[:, varies].std(), batch.sets.x.std(0)[varies].square().mean().sqrt() / 2, rtol=0.05, atol=0)


def test_training_with_noise_goes_on_bit_for_bit(data, tmp_path):
    settings = {"epochs": 3, "noise": 0.3, "accumulate": 2}

    def stop(*, step, **_):
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, folder=tmp_path, progress=stop, **settings)
    resumed, whole = run(data, folder=tmp_path, **settings), run(data, **settings)
    assert weights(resumed.model).equal(weights(whole.model))
    assert not weights(run(data, **settings | {"noise": None}).model).equal(weights(whole.model))


def test_sets_that_are_drawn_anew_are_measured_in_their_first_epoch(tmp_path):
    task = small_task(tmp_path, "point_cloud_smooth", source="shapes", num_train=20, num_test=10, set_size=6)
    config = TrainConfig(epochs=2, batch_size=10, learning_rate=1e-3, noise=0.3)

    def train():
        return train_model(small_model(task), task.task, changed, task.test, config, execution=CPU).model

    changed = task.training_sets(seed=0)
    first = train()
    assert changed.epoch == 1
    assert weights(train()).equal(weights(first))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elements_keep_their_precision_whatever_the_default_is(sets, dtype):
    batch = sets[:]
    batch = LabelledSets(batch.sets.with_x(batch.sets.x.to(dtype)), batch.target)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert make(sets).add(batch, 0).sets.x.dtype == dtype
    finally:
        torch.set_default_dtype(before)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_elements_without_a_spread_are_told(wrong):
    elements = np.ones((5, 2), np.float32)
    elements[3, 1] = wrong
    sets = SetDataset(MemorySets([elements]), torch.zeros(1, 1), AsStored())
    with pytest.raises(ValueError, match="hold NaN or infinite numbers, first in feature 1"):
        make(sets)


def test_the_first_loss_is_of_noisy_elements_and_tests_are_not(data):
    model = small_model(data)
    plain = run(data, small_model(data), epochs=1)
    noisy = run(data, model, epochs=1, noise=100.0)
    assert noisy.history.steps[0]["loss"] != plain.history.steps[0]["loss"]
    assert noisy.history.epochs[0]["test_mse"] == plain.history.epochs[0]["test_mse"]
    with torch.no_grad():
        answers = noisy.model.eval()(data.test[:].sets)
    assert noisy.metrics["mse"] == pytest.approx((answers - data.test.target).square().mean().item(), rel=1e-4)
