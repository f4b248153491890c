"""Training sets that are changed anew in every epoch (`augment.py`)."""

import pickle

import numpy as np
import pytest
import torch
from small_runs import run, small_model, small_task, weights

from orderless.io.memory_sets import MemorySets
from orderless.tasks.augment import AugmentedSets, ScaleAndShift, SubsampledSets, _uniform
from orderless.tasks.dataset import SetDataset
from orderless.tasks.transforms import AsStored
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
    low, high = plain.argmin(0, keepdim=True), plain.argmax(0, keepdim=True)  # far apart: their difference keeps its digits
    factor = (changed.gather(0, high) - changed.gather(0, low)) / (plain.gather(0, high) - plain.gather(0, low))
    shift = changed.gather(0, low) - factor * plain.gather(0, low)
    torch.testing.assert_close(changed, plain * factor + shift, rtol=0, atol=1e-6)  # float32 of numbers around 1
    factor, shift = factor[0], shift[0]
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


# ------------------------------------------------------------------------------------------------------- parts of sets


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"), "point_cloud", source="shapes", num_train=30, num_test=10, set_size=400)


def test_a_set_gives_a_part_of_its_elements_each_once(large):
    sets = SubsampledSets(large.train, 0.25, seed=0)
    for number, (x, target) in enumerate(sets):
        whole = large.train[number][0]
        places = [int((whole == row).all(1).nonzero()[0, 0]) for row in x]
        assert places == sorted(set(places))  # in their order, none twice
        assert 0.2 * len(whole) < len(x) <= len(whole)
        assert target.equal(large.train[number][1])
        assert abs(len(x) - sets.sizes[number]) < 60  # 4 standard deviations of a binomial number, and more


def test_parts_grow_until_the_last_epoch_takes_whole_sets(large):
    sets = SubsampledSets(large.train, 0.25, seed=0, epochs=5)
    smallest = []
    for epoch in range(5):
        sets.begin_epoch(epoch)
        smallest.append(sets._shares.min())
    assert smallest == sorted(smallest)
    assert smallest[2] > 0.25 + 0.75 / 2
    assert sets[:].sets.sizes.tolist() == [400] * 30
    again = pickle.loads(pickle.dumps(SubsampledSets(large.train, 0.25, seed=0, epoch=3, epochs=5)))
    sets.begin_epoch(3)
    assert torch.equal(again[:].sets.x, sets[:].sets.x)


def test_no_set_becomes_empty(large):
    sets = SubsampledSets(large.train, 1e-6, seed=0)
    sets._shares[:] = 0.0
    alone = [int((large.train[n][0] == x).all(1).nonzero()[0, 0]) for n, (x, _) in enumerate(sets) if len(x) == 1]
    assert len(alone) == 30
    assert len(set(alone)) > 20  # another place in every set


def test_whether_sets_give_parts_hangs_on_their_sizes(large, data):
    assert SubsampledSets(large.train, 0.999, seed=0).gives_parts
    assert not SubsampledSets(data.train, 0.25, seed=0).gives_parts


def test_shares_and_elements_are_drawn_evenly(large):
    sets = SubsampledSets(large.train, 0.25, seed=0)
    sizes = []
    for epoch in range(40):
        sets.begin_epoch(epoch)
        sizes += sets[:].sets.sizes.tolist()
    share = np.array(sizes) / 400
    assert share.mean() == pytest.approx(0.625, abs=0.025)  # 4 standard errors of 1,200 even shares
    assert share.std() == pytest.approx(0.75 / 12**0.5, rel=0.1)
    uniform = _uniform(np.repeat(np.arange(20, dtype=np.uint64), 5000), np.tile(np.arange(5000), 20)).reshape(20, 5000)
    assert np.histogram(uniform, 10, (0, 1))[0] == pytest.approx(10_000, abs=4 * 95)
    assert np.abs(np.corrcoef(uniform) - np.eye(20)).max() < 5 / 5000**0.5
    assert abs(np.corrcoef(uniform[:, 1:].ravel(), uniform[:, :-1].ravel())[0, 1]) < 4 / 1e5**0.5


def test_what_is_kept_depends_on_seed_epoch_and_set_alone(large):
    sets = SubsampledSets(large.train, 0.25, seed=3, epoch=5)
    whole = sets[:].sets
    for some in ([4, 1, 29], [1], [29, 4]):
        assert sets[some].sets.x.equal(whole[some].x)
    assert sets[4][0].equal(whole[4])
    assert torch.cat(list(sets.blocks(4, 30))).equal(whole[4])
    assert pickle.loads(pickle.dumps(sets))[:].sets.x.equal(whole.x)
    for seed, epoch in ((3, 6), (4, 5)):
        assert SubsampledSets(large.train, 0.25, seed, epoch)[:].sets.num_elements != whole.num_elements


def test_ragged_sets_give_what_each_gives_alone():
    rng = np.random.default_rng(0)
    stored = MemorySets([rng.normal(size=(n, 2)) for n in (300, 0, 64, 65, 1000, 3)])
    sets = SubsampledSets(SetDataset(stored, torch.arange(6.0), AsStored()), 0.25, seed=0)
    whole = sets[:].sets
    assert whole.sizes[[1, 2, 5]].tolist() == [0, 64, 3]
    assert (whole.sizes[[0, 3, 4]].numpy() < [300, 65, 1000]).all()
    for number in range(6):
        assert sets[[number]].sets.x.equal(whole[number])
        assert sets[[number, number]].sets[1].equal(whole[number])


def test_small_sets_give_everything(data):
    sets = SubsampledSets(data.train, 0.1, seed=0)
    assert sets[:].sets.x.equal(data.train[:].sets.x)
    assert sets.sizes.tolist() == data.train.sizes.tolist()


def test_a_part_is_taken_of_what_another_augmentation_gives(tmp_path):
    smooth = small_task(tmp_path, "point_cloud_smooth", source="shapes", num_train=5, num_test=5, set_size=200)
    stretched = smooth.training_sets(seed=0)
    sets = SubsampledSets(stretched, 0.25, seed=0)
    sets.begin_epoch(2)
    assert stretched.epoch == 2
    assert {tuple(row) for row in sets[1][0].tolist()} < {tuple(row) for row in stretched[1][0].tolist()}


def test_training_takes_other_parts_of_sets_in_every_epoch(large):
    done = run(large, epochs=4, batch_size=10, subsample=0.25)
    elements = [row["elements_per_second"] / row["sets_per_second"] for row in done.history.epochs[1:]]  # of a set, on average
    assert 180 < elements[0] < 320
    assert elements == sorted(elements)
    assert elements[-1] == pytest.approx(400)


def test_batches_by_elements_have_room_for_whole_sets(large, monkeypatch):
    found = []
    thinned = SubsampledSets._gather

    def gather(sets, indices):
        batch = thinned(sets, indices)
        found.append(batch.sets.num_elements)
        assert len(indices) == 3  # whole sets have 400 elements, so no batch may count on getting fewer
        return batch

    monkeypatch.setattr(SubsampledSets, "_gather", gather)
    run(large, epochs=3, batch_elements=1200, subsample=0.25)
    assert len(found) == 30
    assert max(found) <= 1200


def test_training_on_parts_of_sets_goes_on_bit_for_bit(large, tmp_path):
    settings = {"epochs": 3, "batch_size": 10, "subsample": 0.25}

    def stop(*, step, **_):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(large, folder=tmp_path, progress=stop, **settings)
    resumed, whole = run(large, folder=tmp_path, **settings), run(large, **settings)
    assert weights(resumed.model).equal(weights(whole.model))
    assert not weights(run(large, **settings | {"subsample": None}).model).equal(weights(whole.model))
