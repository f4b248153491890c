"""Padding of ragged batches to a few sizes: it changes neither answers nor gradients."""

import math

import pytest
import torch
from batches import SIZES, make_batch
from legal import all_legal, build, pairwise, title
from torch import nn

import orderless as ol
from orderless import SetBatch
from orderless.train.buckets import Bucket, round_up

ALLOWED = [row for row in all_legal() if row["norm"] not in ("feature", "batch")]


@pytest.mark.parametrize("number", [0, 1, 15, 16, 17, 33, 64, 65, 1000, 64_000, 64_001, 10**8])
def test_sizes_are_few_and_near(number):
    size = round_up(number)
    assert number <= size <= number + number // 8
    assert round_up(size) == size
    assert len({round_up(n) for n in range(2**12, 2**13)}) == 9  # eight, and the first of the next octave


def test_numbers_of_sets_are_fewer_still():
    assert [round_up(n, 1) for n in (1, 2, 3, 4, 5, 7, 9, 13, 17, 24, 25, 33, 49, 64)] == [
        1,
        2,
        3,
        4,
        6,
        8,
        12,
        16,
        24,
        24,
        32,
        48,
        64,
        64,
    ]
    assert len({Bucket.around(make_batch([50] * n, dim=1)).num_sets for n in range(20, 41)}) == 3


def test_powers_of_two_are_sizes():
    assert [round_up(2**n) for n in range(20)] == [2**n for n in range(20)]


def test_a_batch_is_followed_by_its_own_elements_in_sets_of_padding():
    sets = make_batch([3, 0, 15], dim=2)
    bucket = Bucket(24, 6)  # three sets of padding
    padded = bucket.buffer(sets)
    assert padded.offsets.tolist() == [0, 3, 3, 18, 19, 20, 24]
    assert padded.set_size is None
    assert torch.equal(padded.x, torch.cat([sets.x, sets.x[:6]]))


def test_every_set_of_padding_has_an_element(sizes):
    sets = make_batch(sizes)
    bucket = Bucket.around(sets)
    padded = bucket.buffer(sets)
    assert len(padded) == bucket.num_sets > len(sets)
    assert padded.num_elements == bucket.num_elements
    assert torch.equal(padded.offsets[: len(sets) + 1], sets.offsets)
    assert padded.sizes[len(sets) :].min() >= 1
    SetBatch(padded.x, padded.offsets)  # which checks them


def test_padding_longer_than_the_batch_repeats_it():
    sets = make_batch([1, 0, 0, 0, 0, 0, 1], dim=1)
    padded = Bucket(11, 9).buffer(sets)
    assert padded.x.flatten().tolist() == [*sets.x.flatten().tolist()] * 5 + [sets.x[0].item()]


def test_without_any_element_padding_is_zeros():
    sets, other = make_batch([0, 0], dim=1), make_batch([1, 2], dim=1)
    bucket = Bucket(8, 4)
    buffer = bucket.buffer(other)
    bucket.fill(buffer, sets)
    assert buffer.x.abs().sum() == 0
    assert buffer.offsets.tolist() == [0, 0, 0, 1, 8]


def test_a_buffer_stays_where_it_is_and_forgets_what_was_in_it():
    large, small = make_batch([9, 2, 6], seed=1), make_batch([2, 5], seed=2)
    bucket = Bucket.around(large)
    buffer = bucket.buffer(large)
    places = buffer.x.data_ptr(), buffer.offsets.data_ptr()
    bucket.fill(buffer, small)
    assert (buffer.x.data_ptr(), buffer.offsets.data_ptr()) == places
    fresh = bucket.buffer(small)
    assert torch.equal(buffer.x, fresh.x)
    assert torch.equal(buffer.offsets, fresh.offsets)


def test_batches_of_similar_sizes_share_a_bucket():
    buckets = {Bucket.around(make_batch([n, 30, 70 - n], dim=1)) for n in range(10, 60)}
    assert len(buckets) == 1


# ------------------------------------------------------------------------------------------------------- networks


def loss_and_gradients(model, sets, answer):
    """A loss that weighs every number of the answer differently."""
    rows = answer.x if isinstance(answer, SetBatch) else answer
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(7), dtype=rows.dtype)
    loss = (rows * weights).sum() + rows.square().sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("sizes", [SIZES["ragged"], SIZES["empty set"], SIZES["longer than a tile"]], ids=str)
@pytest.mark.parametrize("row", pairwise(ALLOWED), ids=title)
def test_padding_changes_neither_answers_nor_gradients(row, sizes):
    torch.manual_seed(0)
    model, sets = build(row).double(), make_batch(sizes, dim=2)
    if any(isinstance(module, ol.nn.ElementDropout | nn.Dropout) for module in model.modules()):
        model.eval()  # its random numbers would differ
    bucket = Bucket.around(sets)
    plain, padded = model(sets), bucket.cut(model(bucket.buffer(sets)), sets)
    if isinstance(plain, SetBatch):
        assert torch.equal(padded.offsets, sets.offsets)
    loss, gradients = loss_and_gradients(model, sets, plain)
    padded_loss, padded_gradients = loss_and_gradients(model, sets, padded)
    # float64, and sums over sets in another order: a dozen digits, of the largest gradient where others cancel
    torch.testing.assert_close(padded_loss, loss, rtol=1e-11, atol=1e-11)
    largest = max(1.0, *(its.abs().max().item() for its in gradients if its is not None))
    for (name, _), mine, its in zip(model.named_parameters(), padded_gradients, gradients, strict=True):
        if its is None:
            assert mine is None, name
            continue
        assert torch.isfinite(mine).all(), name
        torch.testing.assert_close(mine, its, rtol=1e-9, atol=1e-11 * largest, msg=lambda text, name=name: f"{name}: {text}")


def test_networks_that_only_bear_what_is_in_the_data_bear_the_padding():
    """A logarithm of an element, and a mean over a set that must not be empty: zeros or empty sets would give NaN gradients."""

    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(1, 4), nn.Linear(4, 1)

        def forward(self, sets):
            h = self.inner(sets.x.log())
            total = h.new_zeros(len(sets), 4).index_add(0, torch.repeat_interleave(sets.sizes), h)
            return self.outer(total / sets.sizes[:, None])

    model = Fragile()
    sets = SetBatch.from_list([torch.rand(5, 1) + 1, torch.rand(8, 1) + 1])
    bucket = Bucket(16, 5)
    bucket.cut(model(bucket.buffer(sets)), sets).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("norm", ["feature", "batch"])
def test_norms_over_the_batch_do_see_padding(norm):
    """Why they must not be padded: were this not so, recordings would be refused for nothing."""
    row = next(row for row in all_legal() if row["norm"] == norm and row["name"] == "deep_sets++" and row["output"] == "set")
    model, sets = build(row).double(), make_batch([3, 1, 17], dim=2)
    bucket = Bucket.around(sets)
    assert not torch.allclose(bucket.cut(model(bucket.buffer(sets)), sets), model(sets))
    model.eval()
    torch.testing.assert_close(bucket.cut(model(bucket.buffer(sets)), sets), model(sets))


def test_an_answer_without_a_row_for_each_is_not_cut():
    sets = make_batch([3, 1])
    bucket = Bucket(6, 4)
    padded = bucket.buffer(sets)
    for answer in (torch.tensor(1.0), torch.zeros(6, 1), SetBatch.repeat(torch.zeros(2, 1), 4)):
        with pytest.raises(ValueError, match="one row per set, or a SetBatch with one row per element"):
            bucket.cut(answer, sets)
    assert bucket.cut(padded, sets).x.shape == (4, 4)
    assert math.isclose(bucket.cut(torch.arange(4.0), sets).sum(), 1)
