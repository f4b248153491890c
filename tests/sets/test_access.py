"""`SetBatch`: indexing, printing, and that it cannot be changed.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

import copy
import dataclasses
import io
import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from numbered_sets import (
    all_sizes,
    assert_holds,
    make_batch,
    make_sets,
)

from orderless import SetBatch

# --------------------------------------------------------------------------------------------------------- indexing


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8, torch.tensor, np.array])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_number_gives_one_set(n, kind):
    sets = make_sets([3, 0, 2])
    assert torch.equal(SetBatch.from_list(sets)[kind(n)], sets[n])


@pytest.mark.parametrize("kind", [int, np.int64, torch.tensor])
@pytest.mark.parametrize("n", [-1, -2, -3])
def test_a_negative_number_counts_from_the_end(n, kind):
    sets = make_sets([3, 0, 2])
    assert torch.equal(SetBatch.from_list(sets)[kind(n)], sets[n])


def test_one_set_is_a_view():
    batch = make_batch([3, 2])
    assert batch[1].data_ptr() == batch.x[3:].data_ptr()


@pytest.mark.parametrize("n", [3, -4, 10**12, np.int64(3), torch.tensor(3)], ids=["3", "-4", "huge", "numpy", "tensor"])
def test_a_number_out_of_range_is_an_index_error(n):
    with pytest.raises(IndexError, match="the batch has 3 sets"):
        make_batch([3, 0, 2])[n]


@pytest.mark.parametrize("n", [0, -1])
def test_a_batch_of_no_sets_has_no_first_and_no_last(n):
    with pytest.raises(IndexError, match="the batch has 0 sets"):
        SetBatch(torch.empty(0, 2), [0])[n]


SLICES = [
    slice(None),
    slice(1, 3),
    slice(0, 5, 2),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(-2, None),
    slice(2, 2),
    slice(4, 1),
    slice(-99, 99),
    slice(7, 9),
]


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_a_slice_picks_what_it_picks_from_a_list(key):
    sets = make_sets([3, 0, 2, 1, 4])
    assert_holds(SetBatch.from_list(sets)[key], sets[key])


@pytest.mark.parametrize("wrap", [list, tuple, np.array, torch.tensor, lambda k: torch.tensor(k, dtype=torch.int32)])
@pytest.mark.parametrize("numbers", [[2, 0], [1, 1, 1], [-1, 0, -5], [4, 3, 2, 1, 0]], ids=str)
def test_a_list_of_numbers_picks_sets_in_its_order_with_repeats(numbers, wrap):
    sets = make_sets([3, 0, 2, 1, 4])
    assert_holds(SetBatch.from_list(sets)[wrap(numbers)], [sets[n] for n in numbers])


def test_a_reversed_numpy_view_is_an_index_too():
    sets = make_sets([3, 1, 2])
    largest_first = np.argsort([3, 1, 2])[::-1]
    assert_holds(SetBatch.from_list(sets)[largest_first], [sets[0], sets[2], sets[1]])


def test_a_range_is_an_index_too():
    sets = make_sets([3, 0, 2])
    assert_holds(SetBatch.from_list(sets)[range(2)], sets[:2])


@pytest.mark.parametrize("wrap", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "numpy", "tensor"])
@pytest.mark.parametrize("mask", [[True, False, True], [False, False, False], [True, True, True], [False, True, False]], ids=str)
def test_a_bool_mask_picks_sets(mask, wrap):
    sets = make_sets([3, 0, 2])
    assert_holds(SetBatch.from_list(sets)[wrap(mask)], list(itertools.compress(sets, mask)))


@pytest.mark.parametrize("key", [[], (), np.array([]), np.array([], dtype=np.int64), torch.tensor([])])
def test_an_empty_index_gives_a_batch_of_no_sets(key):
    chosen = make_batch([3, 0, 2])[key]
    assert_holds(chosen, [])
    assert chosen.element_shape == (2,)


@pytest.mark.parametrize("key", [slice(None), [], torch.zeros(0, dtype=torch.bool)], ids=["slice", "list", "mask"])
def test_a_batch_of_no_sets_can_be_indexed_by_nothing(key):
    assert_holds(SetBatch(torch.empty(0, 2), [0])[key], [])


@pytest.mark.parametrize("key", [slice(1, None), [2, 0], [True, False, True], []], ids=["slice", "list", "mask", "empty"])
def test_picking_sets_keeps_the_set_size(key):
    x = torch.randn(3, 4, 2)
    expected = x[torch.tensor(key, dtype=torch.int64) if key == [] else key]
    assert_holds(SetBatch.from_padded(x)[key], list(expected), set_size=4)


def test_picking_sets_of_images_keeps_their_shape():
    sets = make_sets([2, 0, 1], (3, 4, 4))
    assert_holds(SetBatch.from_list(sets)[[2, 0]], [sets[2], sets[0]])


@pytest.mark.parametrize("key", [[3], [0, -4], torch.tensor([0, 99])], ids=["too large", "too small", "tensor"])
def test_a_list_with_a_number_out_of_range_is_an_index_error(key):
    with pytest.raises(IndexError, match="the batch has 3 sets"):
        make_batch([3, 0, 2])[key]


@pytest.mark.parametrize(
    "key",
    [[True], [True] * 4, np.array([], dtype=bool), torch.ones(3, 1, dtype=torch.bool), True, np.bool_(True)],
    ids=["too short", "too long", "empty", "two-dimensional", "one bool", "one numpy bool"],
)
def test_a_mask_that_is_not_one_bool_per_set_is_an_index_error(key):
    with pytest.raises(IndexError, match=r"a bool mask must have shape \(3,\)"):
        make_batch([3, 0, 2])[key]


@pytest.mark.parametrize(
    "key",
    [1.0, np.float64(1), [0.0, 1.0], torch.tensor([0.5]), torch.tensor([1j]), [[0, 1]], torch.zeros(0, 2, dtype=torch.int64)],
    ids=["float", "numpy float", "floats", "float tensor", "complex", "two-dimensional", "empty two-dimensional"],
)
def test_an_index_of_wrong_numbers_is_an_index_error(key):
    with pytest.raises(IndexError, match=r"indexed by an int, a slice, a list of ints or a bool mask, got torch\."):
        make_batch([3, 0, 2])[key]


def test_uint8_which_might_be_a_mask_is_an_index_error():
    for key in (torch.tensor([0, 1, 1], dtype=torch.uint8), np.array([0, 1, 1], dtype=np.uint8)):
        with pytest.raises(IndexError, match=r"a mask or as numbers of sets: pass `key\.bool\(\)` or `key\.long\(\)`"):
            make_batch([3, 0, 2])[key]


@pytest.mark.parametrize("key", [None, ..., "a", (0, slice(None)), {0}, [None]], ids=str)
def test_an_index_of_another_type_is_an_index_error(key):
    with pytest.raises(IndexError, match=r"indexed by an int, a slice, a list of ints or a bool mask, got .* index `batch\.x`"):
        make_batch([3, 0, 2])[key]


# ------------------------------------------------------------------------------------------------- access and printing


@all_sizes
def test_iteration_and_len_go_over_the_sets(sizes):
    sets = make_sets(sizes)
    batch = SetBatch.from_list(sets)
    assert len(batch) == batch.num_sets == len(sizes)
    assert all(torch.equal(a, b) for a, b in zip(batch, sets, strict=True))


@all_sizes
def test_sizes_are_counted(sizes):
    batch = make_batch(sizes)
    assert batch.sizes.tolist() == sizes
    assert batch.sizes.dtype == torch.int64
    assert batch.num_elements == sum(sizes)


def test_repr_is_one_short_line_however_large_the_batch():
    text = repr(SetBatch(torch.zeros(10_000, 3, 4, 4), range(0, 10_001, 10)))
    assert text == "SetBatch(1000 sets, sizes=[10, 10, 10, 10, 10, 10, ...], x=(10000, 3, 4, 4) float32, device=cpu)"


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [([3], "[3]"), ([3, 0, 2], "[3, 0, 2]"), ([1] * 6, "[1, 1, 1, 1, 1, 1]"), ([1] * 7, "[1, 1, 1, 1, 1, 1, ...]")],
)
def test_repr_shows_the_first_sizes(sizes, shown):
    assert f"sizes={shown}, x=({sum(sizes)}, 2)" in repr(make_batch(sizes))


def test_repr_works_where_there_are_no_values_to_show():
    assert repr(make_batch([3, 2]).to("meta")) == "SetBatch(2 sets, sizes=[...], x=(5, 2) float32, device=meta)"
    assert repr(SetBatch(torch.empty(0, 2), [0])) == "SetBatch(0 sets, sizes=[], x=(0, 2) float32, device=cpu)"


# --------------------------------------------------------------------------------- immutability, copies and pickling


@pytest.mark.parametrize("name", ["x", "offsets", "set_size", "anything"])
def test_a_batch_cannot_be_changed(name):
    batch = make_batch([3, 2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(batch, name, torch.zeros(5, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(batch, name)


def test_a_batch_equals_only_itself_and_can_be_a_key():
    batch, twin = make_batch([3, 2]), make_batch([3, 2])
    assert batch != twin
    assert len({batch, twin, batch}) == 2


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda b: pickle.loads(pickle.dumps(b)),
    "torch.save": lambda b: torch.load(_saved(b), weights_only=False),
}


def _saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
def test_a_copy_holds_the_same_sets_and_set_size(duplicate):
    sets = make_sets([3, 0, 2])
    assert_holds(duplicate(SetBatch.from_list(sets)), sets)
    x = torch.randn(2, 3, 2)
    assert_holds(duplicate(SetBatch.from_padded(x)), list(x), set_size=3)


def test_a_deep_copy_shares_no_memory():
    batch = make_batch([3, 2])
    twin = copy.deepcopy(batch)
    batch.x.zero_()
    assert_holds(twin, make_sets([3, 2]))


def test_sizes_that_are_known_without_offsets_are_used_on_the_meta_device():
    dense = SetBatch.from_padded(torch.empty(2, 3, 4, device="meta"))
    assert [s.shape for s in dense] == [s.shape for s in dense.to_list()] == [(3, 4), (3, 4)]
    assert dense[-1].shape == (3, 4)


def test_sets_whose_sizes_cannot_be_read_are_refused_on_the_meta_device():
    ragged = make_batch([3, 2]).to("meta")
    for read in (ragged.to_list, ragged.to_padded, lambda: ragged[0]):
        with pytest.raises(ValueError, match="sizes of sets cannot be read on the meta device: build the batch on the CPU"):
            read()


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4)], ids=["sets", "no sets", "empty sets"])
def test_sets_of_a_dense_batch_are_views_of_its_elements(shape):
    x = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    dense = SetBatch.from_padded(x)
    assert [s.tolist() for s in dense] == x.tolist()
    assert all(s.data_ptr() == dense.x.data_ptr() + 8 * 12 * n for n, s in enumerate(dense) if s.numel())
    assert all(torch.equal(dense[n], s) for n, s in enumerate(dense))
