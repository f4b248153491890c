"""Training sets that are changed anew in every epoch (`augment.py`)."""

import pickle

import numpy as np
import pytest
import torch
from small_runs import run, small_model, small_task

from orderless.tasks.augment import AugmentedSets, ScaleAndShift
from orderless.train import Execution, TrainConfig, train_model

SPREAD = ScaleAndShift(low=2 / 3, high=3 / 2, shift=0.2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return small_task(folder, "point_cloud_smooth", source="shapes", num_train=40, num_test=10, set_size=6)


def test_factors_and_shifts_are_uniform_and_every_axis_has_its_own():
    factors, shifts = SPREAD.draw(20_000, 3, np.random.default_rng(0))
    for drawn, low, high in ((factors, 2 / 3, 3 / 2), (shifts, -0.2, 0.2)):
        assert low <= drawn.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < drawn.max() <= high
        torch.testing.assert_close(drawn.mean(0), torch.full((3,), (low + high) / 2), rtol=0, atol=0.01)  # 4 standard errors
        assert torch.corrcoef(drawn.T).sub(torch.eye(3)).abs().max() < 0.03


def test_a_set_is_stretched_and_shifted_as_a_whole(data):
    sets = data.training_sets(seed=0)
    plain, changed = data.train[7][0], sets[7][0]
    factor = (changed[1] - changed[0]) / (plain[1] - plain[0])
    shift = changed[0] - factor * plain[0]
    torch.testing.assert_close(changed, plain * factor + shift, rtol=1e-4, atol=1e-5)
    assert ((factor > 0.66) & (factor < 1.51)).all()
    assert (shift.abs() < 0.21).all()
    assert len(set(factor.tolist())) == 3
    assert sets.target.equal(data.train.target)


def test_what_is_drawn_depends_on_seed_epoch_and_set_alone(data):
    sets = data.training_sets(seed=3)
    sets.begin_epoch(5)
    whole = sets[:].sets
    again = AugmentedSets(data.train, data.task.augmentation, 3, epoch=5)
    for some in ([4, 1, 39], [1], [39, 4]):
        assert again[some].sets.x.equal(whole[some].x)
    assert again[4][0].equal(whole[4])
    torch.testing.assert_close(torch.cat(list(again.blocks(4, 4))), whole[4])
    assert pickle.loads(pickle.dumps(again))[:].sets.x.equal(whole.x)
    again.begin_epoch(6)
    assert not again[:].sets.x.equal(whole.x)
    again.begin_epoch(5)
    assert again[:].sets.x.equal(whole.x)
    assert not data.training_sets(seed=4)[:].sets.x.equal(data.training_sets(seed=3)[:].sets.x)


def test_tasks_without_one_train_on_their_sets_as_they_are(tmp_path):
    plain = small_task(tmp_path)
    assert plain.training_sets(seed=1) is plain.train


def test_sets_as_stored_are_left_alone(data):
    assert data.training_sets(seed=0).raw[:].sets.x.equal(data.train[:].sets.x)


def train(data, *, folder=None, workers=0, stop=None):
    def progress(**told):
        if told["step"] == stop:
            raise KeyboardInterrupt

    torch.manual_seed(0)
    model = data.create_model("deep_sets_pointcloud", width=8)
    config = TrainConfig(epochs=3, batch_size=16, **data.task.train_options, learning_rate=1e-3)
    execution = Execution(device="cpu", checkpoint_seconds=0, num_workers=workers)
    sets = data.training_sets(seed=0)
    done = train_model(model, data.task, sets, data.test, config, folder=folder, execution=execution, progress=progress)
    return done.model.state_dict()


def test_a_run_on_changed_sets_goes_on_bit_for_bit(data, tmp_path):
    whole = train(data)
    for step in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            train(data, folder=tmp_path, stop=step)
    resumed = train(data, folder=tmp_path)
    assert all(resumed[name].equal(weight) for name, weight in whole.items())
    other = run(data, small_model(data, "deep_sets_pointcloud", depth=3), epochs=3, batch_size=16)
    assert not other.model.state_dict()["decoder.1.weight"].equal(whole["decoder.1.weight"])


def test_workers_change_the_sets_alike(data):
    alone, helped = train(data), train(data, workers=1)
    assert all(helped[name].equal(weight) for name, weight in alone.items())
