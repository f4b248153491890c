"""Sets with their targets, one by one and in batches (`dataset.py`)."""

from itertools import chain

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from orderless import SetBatch
from orderless.io.store import open_or_build
from orderless.tasks.dataset import SetDataset, collate_sets
from orderless.tasks.order import ByElements
from orderless.tasks.transforms import AsStored, Standardize

SIZES = np.array([3, 0, 5, 1, 4, 4])


@pytest.fixture(params=[1, 2**28], ids=["many blocks", "one block"])
def dataset(tmp_path, request, monkeypatch):
    monkeypatch.setattr("orderless.io.store_writer._BLOCK_BYTES", request.param)

    def build(writer):
        x = np.arange(SIZES.sum() * 2, dtype=np.float32).reshape(-1, 2)
        writer.add_sets("train", x[:8], SIZES[:3], id=np.arange(3))
        writer.add_sets("train", x[8:], SIZES[3:], id=np.arange(3, 6))
        return {}

    store = open_or_build(tmp_path / "s", build, key={}, element_shape=(2,))
    return SetDataset(store["train"], torch.arange(6.0)[:, None], AsStored())


def test_one_set_comes_with_its_target(dataset):
    x, target = dataset[2]
    assert x.shape == (5, 2)
    assert x[0].tolist() == [6.0, 7.0]
    assert target.tolist() == [2.0]
    assert dataset[-1][1].tolist() == [5.0]
    assert dataset[1][0].shape == (0, 2)
    assert len(list(dataset)) == len(dataset) == 6


@pytest.mark.parametrize(
    "key", [[2, 0, 1], np.array([2, 0, 1]), torch.tensor([2, 0, 1]), [-4, 0, 1]], ids=["list", "array", "tensor", "negative"]
)
def test_several_sets_are_a_batch(dataset, key):
    sets, target = dataset[key]
    assert isinstance(sets, SetBatch)
    assert sets.sizes.tolist() == [5, 3, 0]
    assert target.tolist() == [[2.0], [0.0], [1.0]]
    for n, i in enumerate([2, 0, 1]):
        torch.testing.assert_close(sets[n], dataset[i][0], rtol=0, atol=0)


def test_slices_and_masks_are_batches(dataset):
    assert dataset[1:4].target.tolist() == [[1.0], [2.0], [3.0]]
    assert dataset[np.array([True, False, False, False, True, False])].target.tolist() == [[0.0], [4.0]]
    assert len(dataset[[]].sets) == 0


def test_equal_sizes_are_a_dense_batch(dataset):
    assert dataset[[4, 5]].sets.set_size == 4
    assert dataset[[3, 5]].sets.set_size is None


@pytest.mark.parametrize("key", [np.int64(2), torch.tensor(2), np.array(2)], ids=["numpy", "tensor", "array"])
def test_a_number_of_any_kind_is_one_set(dataset, key):
    assert dataset[key][1].tolist() == [2.0]


@pytest.mark.parametrize("key", [6, -7, [0, 6], [0.5], np.zeros(3, bool), True, [[0, 1]]], ids=str)
def test_numbers_of_sets_that_are_not_there_are_errors(dataset, key):
    with pytest.raises(IndexError):
        dataset[key]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("index", [2, 1, -1])
def test_a_set_may_be_read_block_by_block(dataset, index, size):
    blocks = list(dataset.blocks(index, size))
    assert all(0 < len(block) <= size for block in blocks)
    assert torch.equal(torch.cat([torch.empty(0, 2), *blocks]), dataset[index][0])


def test_blocks_are_what_a_network_gets(dataset):
    standardised = SetDataset(dataset.stored, dataset.target, Standardize((1.0, 2.0), (3.0, 4.0)))
    assert torch.equal(torch.cat(list(standardised.blocks(2, 2))), standardised[2][0])
    assert torch.equal(dataset[2][0], torch.cat(list(dataset.blocks(2))))  # and the store is as it was


def test_batches_go_through_all_sets_in_order(dataset):
    assert torch.cat([batch.target for batch in dataset.batches(4)]).flatten().tolist() == list(range(6))


def test_raw_undoes_the_transform(dataset):
    scaled = SetDataset(dataset.stored, dataset.target, Standardize((1.0, 1.0), (2.0, 2.0)))
    torch.testing.assert_close(scaled[0][0], (dataset[0][0] - 1) / 2)
    torch.testing.assert_close(scaled.raw[0][0], dataset[0][0], rtol=0, atol=0)


def order_of(loader):
    return [batch.target.flatten().tolist() for batch in loader]


def test_the_order_depends_on_seed_and_epoch_alone(dataset):
    loader = dataset.loader(2, shuffle=True, seed=3)
    first, second = order_of(loader), order_of(loader)
    assert first != second
    again = dataset.loader(2, shuffle=True, seed=3)
    again.sampler.epoch = 1
    assert order_of(again) == second
    assert order_of(dataset.loader(2, shuffle=True, seed=4)) != first
    assert sorted(chain.from_iterable(first)) == list(range(6))


def test_workers_change_nothing(dataset):
    def seen(num_workers):
        loader = dataset.loader(2, shuffle=True, seed=3, num_workers=num_workers)
        return [(b.sets.x.tolist(), b.sets.offsets.tolist(), b.target.tolist()) for _ in range(2) for b in loader]

    assert seen(2) == seen(0)


def test_an_epoch_begins_with_its_first_batch(dataset):
    """A loader with workers makes an iterator that it never uses: that must not count as an epoch."""
    order = dataset.loader(2, shuffle=True).sampler
    iter(order)
    assert order.epoch == 0
    next(iter(order))
    assert order.epoch == 1


def test_a_pass_takes_nothing_from_the_global_random_numbers(dataset):
    before = torch.get_rng_state()
    order_of(dataset.loader(2, shuffle=True))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loader_takes_batches_of_another_kind(dataset):
    assert order_of(dataset.loader(order=ByElements(dataset.sizes, 8))) == [[0.0, 1.0, 2.0], [3.0, 4.0], [5.0]]


def test_options_reach_the_loader(dataset):
    loader = dataset.loader(2, num_workers=1, pin_memory=True)
    assert loader.num_workers == 1
    assert loader.pin_memory


def test_last_batches_are_kept_or_dropped(dataset):
    assert [len(b) for b in order_of(dataset.loader(4))] == [4, 2]
    assert [len(b) for b in order_of(dataset.loader(4, drop_last=True))] == [4]
    assert len(dataset.loader(4)) == 2
    with pytest.raises(ValueError, match="batch_size must be 1 or more, got 0"):
        dataset.loader(0)


def test_a_plain_loader_works_with_our_collate(dataset):
    (batch,) = DataLoader(dataset, batch_size=6, collate_fn=collate_sets)
    assert batch.sets.sizes.tolist() == SIZES.tolist()
    assert batch.target.shape == (6, 1)


def test_collate_takes_arrays_and_numbers():
    batch = collate_sets([(np.zeros((2, 3), np.float32), 1.5), (np.ones((4, 3), np.float32), 2)])
    assert batch.sets.sizes.tolist() == [2, 4]
    assert batch.target.tolist() == [1.5, 2.0]


def test_every_set_needs_a_target(dataset):
    with pytest.raises(ValueError, match="6 sets, 5 targets"):
        SetDataset(dataset.stored, torch.zeros(5), AsStored())
