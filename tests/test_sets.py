"""`SetBatch`: what it accepts, what it refuses, and that no way in or out of it loses or mixes up an element.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

import copy
import dataclasses
import io
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from orderless import SetBatch

SIZES = {
    "ragged": [3, 1, 6],
    "equal": [4, 4],
    "one set": [5],
    "empty set in the middle": [4, 0, 2],
    "empty sets at both ends": [0, 3, 0],
    "only empty sets": [0, 0],
}
ELEMENTS = {"numbers": (), "vectors": (2,), "images": (3, 4, 4)}

all_sizes = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
all_elements = pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS.keys())
nested = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
few_examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.fixture(autouse=True)
def _one_seed():
    torch.manual_seed(0)


def make_sets(sizes, element=(2,), dtype=torch.float32):
    """Sets in which every number occurs once, so that a lost or swapped element shows."""
    shapes = [(n, *element) for n in sizes]
    ends = list(itertools.accumulate(torch.Size(s).numel() for s in shapes))
    return [torch.arange(end - torch.Size(s).numel(), end).reshape(s).to(dtype) for s, end in zip(shapes, ends, strict=True)]


def make_batch(sizes, element=(2,), dtype=torch.float32):
    return SetBatch.from_list(make_sets(sizes, element, dtype))


def assert_holds(batch, sets, *, set_size=None):
    """`batch` is well formed and holds exactly `sets`, in order."""
    assert isinstance(batch, SetBatch)
    assert batch.offsets.dtype == torch.int64
    assert batch.offsets.device == batch.x.device
    assert batch.offsets.tolist() == [0, *itertools.accumulate(len(s) for s in sets)]
    assert batch.x.shape[0] == batch.offsets[-1]
    assert batch.set_size == set_size
    for n, s in enumerate(sets):
        torch.testing.assert_close(batch.x[batch.offsets[n] : batch.offsets[n + 1]], s, rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------------------ constructor


def test_the_constructor_keeps_the_elements_as_given():
    x = torch.randn(5, 2, requires_grad=True)
    batch = SetBatch(x, torch.tensor([0, 2, 2, 5]))
    assert batch.x is x
    assert_holds(batch, [x[:2], x[2:2], x[2:]])


@pytest.mark.parametrize(
    "offsets",
    [
        [0, 2, 5],
        (0, 2, 5),
        np.array([0, 2, 5]),
        np.array([0, 2, 5], dtype=np.int32),
        np.array([0, 2, 5], dtype=np.uint8),
        np.array([0, 2, 5], dtype=">i4"),
        np.array([5, 2, 0])[::-1],
        torch.tensor([0, 2, 5], dtype=torch.int32),
        torch.tensor([0, 2, 5], dtype=torch.int16),
        torch.tensor([0, 9, 2, 9, 5, 9])[::2],
    ],
    ids=["list", "tuple", "numpy", "int32 array", "uint8 array", "big-endian", "reversed view", "int32", "int16", "strided"],
)
def test_offsets_of_any_integer_kind_become_int64(offsets):
    x = torch.randn(5, 2)
    assert_holds(SetBatch(x, offsets), [x[:2], x[2:]])


def test_offsets_go_to_the_device_of_the_elements():
    batch = SetBatch(torch.empty(5, 2, device="meta"), [0, 2, 5])
    assert batch.offsets.device.type == batch.device.type == "meta"


def test_a_batch_of_no_sets_is_legal():
    batch = SetBatch(torch.empty(0, 2), [0])
    assert_holds(batch, [])
    assert len(batch) == 0
    assert batch.sizes.shape == (0,)


@pytest.mark.parametrize("offsets", [[0, 3, 2, 5], [0, 6, 5], [0, -1, 5], [5, 0]])
def test_offsets_that_decrease_are_refused(offsets):
    with pytest.raises(ValueError, match="never decrease"):
        SetBatch(torch.randn(5, 2), offsets)


def test_the_error_on_decreasing_offsets_names_the_place():
    with pytest.raises(ValueError, match=r"offsets\[2\] = 4 and offsets\[3\] = 3"):
        SetBatch(torch.randn(5, 2), [0, 1, 4, 3, 5])


@pytest.mark.parametrize("offsets", [[1, 5], [-1, 5], [5]])
def test_offsets_that_do_not_start_at_0_are_refused(offsets):
    with pytest.raises(ValueError, match="must start at 0"):
        SetBatch(torch.randn(5, 2), offsets)


@pytest.mark.parametrize("offsets", [[0, 4], [0, 2, 6], [0]])
def test_offsets_that_do_not_end_at_the_number_of_elements_are_refused(offsets):
    with pytest.raises(ValueError, match="end at the number of elements 5"):
        SetBatch(torch.randn(5, 2), offsets)


@pytest.mark.parametrize("sizes", [[2, 3], [3, 2]], ids=["rising", "falling"])
def test_sizes_passed_as_offsets_are_answered_with_the_way_out(sizes):
    with pytest.raises(ValueError, match="cumulative sum with a 0 in front"):
        SetBatch(torch.randn(5, 2), sizes)


@pytest.mark.parametrize(
    "offsets",
    [[0.0, 5.0], [0, float("nan"), 5], np.array([0.0, 5.0]), torch.tensor([0.0, 5.0]), torch.tensor([0, 5 + 0j])],
    ids=["floats", "NaN", "float array", "float tensor", "complex"],
)
def test_offsets_that_are_not_integers_are_refused(offsets):
    with pytest.raises(TypeError, match="offsets must be integers"):
        SetBatch(torch.randn(5, 2), offsets)


def test_bool_offsets_are_refused():
    with pytest.raises(TypeError, match=r"offsets must be integers, got torch\.bool"):
        SetBatch(torch.randn(1, 2), [False, True])


@pytest.mark.parametrize("offsets", [[[0, 5]], torch.tensor([[0], [5]]), 5, np.int64(5)], ids=["row", "column", "int", "numpy"])
def test_offsets_that_are_not_one_dimensional_are_refused(offsets):
    with pytest.raises(ValueError, match="one-dimensional"):
        SetBatch(torch.randn(5, 2), offsets)


@pytest.mark.parametrize("offsets", [[], (), np.array([]), torch.tensor([]), torch.tensor([], dtype=torch.int64)])
def test_no_offsets_at_all_are_refused(offsets):
    with pytest.raises(ValueError, match="at least the number 0"):
        SetBatch(torch.empty(0, 2), offsets)


@pytest.mark.parametrize(
    "offsets",
    [None, "05", [None], ["a"], {0: 5}, [[0], [2, 5]], [0, 2**64], np.array(["0"]), np.array([0, 5], dtype=object)],
    ids=["None", "str", "list of None", "list of str", "dict", "ragged list", "huge", "str array", "object array"],
)
def test_offsets_of_a_wrong_type_are_refused_by_name(offsets):
    with pytest.raises(TypeError, match="offsets must be a tensor or array of numbers"):
        SetBatch(torch.randn(5, 2), offsets)


@pytest.mark.parametrize("x", [[[1.0, 2.0]], ([1.0],), None, 3.0, np.float32(3.0), "x"])
def test_elements_that_are_no_tensor_or_array_are_refused(x):
    with pytest.raises(TypeError, match="x must be a tensor or a numpy array, got"):
        SetBatch(x, [0, 1])


@pytest.mark.parametrize(
    "x",
    [np.array([["a"]]), np.array([[None]]), np.array(["2020-01-01"], dtype="datetime64[D]"), np.array([(1, 2.0)], dtype="i4,f4")],
    ids=["text", "object", "dates", "records"],
)
def test_arrays_that_hold_no_numbers_are_refused(x):
    with pytest.raises(TypeError, match="x must hold numbers, got a numpy array of dtype"):
        SetBatch(x, [0, 1])


@pytest.mark.parametrize("x", [torch.tensor(3.0), np.array(3.0)], ids=["tensor", "array"])
def test_a_single_number_is_no_batch(x):
    with pytest.raises(ValueError, match=r"x must have shape \(T, \*element\), got \(\)"):
        SetBatch(x, [0, 1])


def test_a_sparse_tensor_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match="to_dense"):
        SetBatch(torch.eye(3).to_sparse(), [0, 3])


@nested
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=["jagged", "strided"])
@pytest.mark.parametrize("make", [lambda x: SetBatch(x, [0, 2]), SetBatch.from_padded], ids=["constructor", "from_padded"])
def test_a_nested_tensor_in_the_wrong_door_is_sent_to_from_nested(make, layout):
    with pytest.raises(TypeError, match="from_nested"):
        make(torch.nested.nested_tensor(make_sets([2, 3]), layout=layout))


@pytest.mark.parametrize(
    "x",
    [
        np.arange(10.0).reshape(5, 2),
        np.arange(10, dtype=np.uint8).reshape(5, 2),
        np.arange(10, dtype=np.float16).reshape(5, 2),
        np.arange(10).reshape(5, 2) > 4,
        np.arange(10).reshape(5, 2) * 1j,
        np.arange(10, dtype=">f4").reshape(5, 2),
        np.arange(10.0).reshape(5, 2)[::-1],
        np.arange(10.0).reshape(5, 2)[:, ::-1],
        np.asfortranarray(np.arange(10.0).reshape(5, 2)),
    ],
    ids=["float64", "uint8", "float16", "bool", "complex", "big-endian", "rows reversed", "columns reversed", "Fortran order"],
)
def test_numpy_elements_arrive_unchanged(x):
    batch = SetBatch(x, [0, 2, 5])
    np.testing.assert_array_equal(batch.x.numpy(), x)
    assert batch.x.numpy().dtype == x.dtype.newbyteorder("=")


# -------------------------------------------------------------------------------------------------------- from_list


@all_sizes
@all_elements
def test_from_list_and_to_list_are_inverse(sizes, element):
    sets = make_sets(sizes, element)
    batch = SetBatch.from_list(sets)
    assert_holds(batch, sets)
    assert batch.element_shape == element
    back = batch.to_list()
    assert len(back) == len(sets)
    assert all(torch.equal(a, b) for a, b in zip(back, sets, strict=True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float64, torch.bfloat16, torch.complex64], ids=str)
def test_from_list_keeps_the_dtype(dtype):
    sets = make_sets([2, 0, 3], dtype=dtype)
    batch = SetBatch.from_list(sets)
    assert batch.dtype == dtype
    assert_holds(batch, sets)


def test_from_list_takes_numpy_arrays():
    arrays = [np.arange(4.0).reshape(2, 2), np.empty((0, 2)), np.arange(6.0).reshape(3, 2)]
    assert_holds(SetBatch.from_list(arrays), [torch.from_numpy(a) for a in arrays])


@pytest.mark.parametrize("wrap", [tuple, iter, np.array], ids=["tuple", "iterator", "one array"])
def test_from_list_takes_any_run_of_sets(wrap):
    sets = make_sets([3, 3])
    assert_holds(SetBatch.from_list(wrap(sets)), sets)


def test_from_list_takes_an_object_array_of_sets():
    arrays = np.empty(2, dtype=object)
    arrays[:] = [np.ones((1, 2)), np.zeros((3, 2))]
    assert_holds(SetBatch.from_list(arrays), [torch.from_numpy(a) for a in arrays])


def test_from_list_puts_the_offsets_on_the_device_of_the_sets():
    batch = SetBatch.from_list([s.to("meta") for s in make_sets([3, 0, 2])])
    assert batch.offsets.device == batch.x.device == torch.device("meta")


def test_from_list_of_nothing_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"at least one set.*SetBatch\(torch\.empty\(0, D\), \[0\]\)"):
        SetBatch.from_list([])


@pytest.mark.parametrize(
    "second",
    [torch.zeros(3, 4), torch.zeros(3), torch.zeros(3, 2, 1), torch.empty(0), np.zeros((3, 1), dtype=np.float32)],
    ids=["wider", "no features", "deeper", "empty without width", "numpy"],
)
def test_sets_of_different_element_shapes_are_refused(second):
    with pytest.raises(ValueError, match=r"set 0 has \(2,\), set 1 has .*Only the number of elements may differ"):
        SetBatch.from_list([torch.zeros(3, 2), second])


@pytest.mark.parametrize(
    "second",
    [
        torch.zeros(3, 2, dtype=torch.float64),
        torch.zeros(0, 2, dtype=torch.int64),
        np.zeros((1, 2)),
        torch.empty(1, 2, device="meta"),
    ],
    ids=["float64", "empty integers", "numpy float64", "other device"],
)
def test_sets_of_different_dtype_or_device_are_refused(second):
    with pytest.raises(ValueError, match=r"set 0 is torch\.float32 on cpu, set 1 is .*Convert with"):
        SetBatch.from_list([torch.zeros(3, 2), second])


def test_from_list_names_the_set_that_is_no_tensor():
    with pytest.raises(TypeError, match="set 1 must be a tensor or a numpy array, got list"):
        SetBatch.from_list([torch.zeros(1, 2), [[1.0, 2.0]]])


# ------------------------------------------------------------------------------------------------------ from_padded

MASK = torch.tensor([[True, True, False, False], [True, True, True, True], [False, False, False, False]])
LENGTHS = [2, 4, 0]


@pytest.mark.parametrize("mask", [MASK, MASK.numpy(), MASK.tolist(), MASK.numpy()[::-1, ::-1][::-1, ::-1]])
@all_elements
def test_a_mask_picks_the_elements(mask, element):
    x = torch.randn(3, 4, *element)
    assert_holds(SetBatch.from_padded(x, mask), [x[0, :2], x[1], x[2, :0]])


@pytest.mark.parametrize(
    "lengths",
    [LENGTHS, tuple(LENGTHS), np.array(LENGTHS), torch.tensor(LENGTHS), torch.tensor(LENGTHS, dtype=torch.uint8)],
    ids=["list", "tuple", "numpy", "tensor", "uint8"],
)
def test_lengths_pick_the_first_elements(lengths):
    x = torch.randn(3, 4, 2)
    assert_holds(SetBatch.from_padded(x, lengths=lengths), [x[0, :2], x[1], x[2, :0]])


def test_from_padded_takes_numpy():
    x = np.arange(24.0).reshape(3, 4, 2)
    assert_holds(SetBatch.from_padded(x, MASK.numpy()), [torch.from_numpy(x[n, :size]) for n, size in enumerate(LENGTHS)])


def test_a_mask_need_not_be_a_prefix():
    x = torch.randn(2, 4, 2)
    mask = torch.tensor([[False, True, False, True], [True, False, False, True]])
    assert_holds(SetBatch.from_padded(x, mask), [x[0, [1, 3]], x[1, [0, 3]]])


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (3, 4, 2, 5), (0, 4, 2), (3, 0, 2), (3, 4, 0)], ids=str)
def test_without_mask_or_lengths_every_row_is_an_element(shape):
    x = torch.randn(shape)
    assert_holds(SetBatch.from_padded(x), list(x), set_size=shape[1])


def test_a_full_mask_does_not_promise_equal_sizes():
    x = torch.randn(3, 4, 2)
    assert_holds(SetBatch.from_padded(x, torch.ones(3, 4, dtype=torch.bool)), list(x), set_size=None)


def test_mask_and_lengths_together_are_refused():
    with pytest.raises(ValueError, match="mask or lengths, got both"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), MASK, lengths=LENGTHS)


@pytest.mark.parametrize(
    "mask",
    [MASK.T, MASK[:2], MASK[:, :3], MASK[..., None], MASK[0], True],
    ids=["transposed", "too few sets", "too short", "three dimensions", "one row", "one bool"],
)
def test_a_mask_of_the_wrong_shape_is_refused(mask):
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(3, 4\)"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), mask)


@pytest.mark.parametrize("mask", [MASK.float(), MASK.long(), MASK.long().tolist(), MASK.numpy().astype(np.uint8)])
def test_a_mask_that_is_not_bool_is_refused(mask):
    with pytest.raises(ValueError, match="mask must be bool"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), mask)


def test_lengths_passed_as_a_mask_are_answered_with_the_way_out():
    with pytest.raises(ValueError, match=r"lengths go to `SetBatch\.from_padded"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), torch.tensor(LENGTHS))


@pytest.mark.parametrize("mask", ["mask", [[True], [True, False]], [None]], ids=["str", "ragged list", "list of None"])
def test_a_mask_of_a_wrong_type_is_refused_by_name(mask):
    with pytest.raises(TypeError, match="mask must be a tensor or array"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), mask)


@pytest.mark.parametrize("lengths", [[2, 5, 0], [2, -1, 0]], ids=["too long", "negative"])
def test_lengths_out_of_range_are_refused(lengths):
    with pytest.raises(ValueError, match=r"lengths must lie in \[0, 4\].*got values from"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), lengths=lengths)


@pytest.mark.parametrize("lengths", [[2, 4], [2, 4, 0, 0], []], ids=["too few", "too many", "none"])
def test_lengths_that_are_not_one_per_set_are_refused(lengths):
    with pytest.raises(ValueError, match=r"lengths must have shape \(3,\)"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), lengths=lengths)


@pytest.mark.parametrize("lengths", [[2.0, 4.0, 0.0], [2, float("nan"), 0], [True, True, False]], ids=["float", "NaN", "bool"])
def test_lengths_that_are_not_integers_are_refused(lengths):
    with pytest.raises(TypeError, match="lengths must be integers"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), lengths=lengths)


@pytest.mark.parametrize("lengths", [3, [[2], [4], [0]]], ids=["one number", "column"])
def test_lengths_that_are_not_one_dimensional_are_refused(lengths):
    with pytest.raises(ValueError, match="lengths must be one-dimensional"):
        SetBatch.from_padded(torch.zeros(3, 4, 2), lengths=lengths)


def test_a_padded_tensor_needs_two_dimensions():
    with pytest.raises(ValueError, match=r"x must have shape \(N, M, \*element\), got \(3,\)"):
        SetBatch.from_padded(torch.zeros(3))


@pytest.mark.parametrize("how", [{"mask": torch.zeros(0, 4, dtype=torch.bool)}, {"lengths": []}], ids=["mask", "lengths"])
def test_no_padded_sets_make_a_batch_of_no_sets(how):
    assert_holds(SetBatch.from_padded(torch.zeros(0, 4, 2), **how), [])


@pytest.mark.parametrize("junk", [float("nan"), float("inf"), -float("inf")], ids=str)
@pytest.mark.parametrize("how", [{"mask": MASK}, {"lengths": LENGTHS}], ids=["mask", "lengths"])
def test_junk_in_the_padding_reaches_neither_values_nor_gradients(how, junk):
    real = torch.randn(3, 4, 2, dtype=torch.float64)
    x = torch.where(MASK[..., None], real, junk).requires_grad_()
    batch = SetBatch.from_padded(x, **how)
    assert_holds(batch, [real[0, :2], real[1], real[2, :0]])
    batch.x.square().sum().backward()
    assert torch.equal(x.grad, torch.where(MASK[..., None], 2 * real, 0.0))


# ------------------------------------------------------------------------------------------------------- from_index


@pytest.mark.parametrize("wrap", [list, tuple, np.array, torch.tensor, lambda i: torch.tensor(i, dtype=torch.int32)])
def test_an_unsorted_index_groups_the_elements(wrap):
    x = torch.randn(6, 2)
    batch = SetBatch.from_index(x, wrap([2, 0, 2, 1, 0, 2]))
    assert_holds(batch, [x[[1, 4]], x[[3]], x[[0, 2, 5]]])


def test_from_index_keeps_the_order_within_a_set_when_sets_are_large():
    index = torch.randint(3, (5000,))
    x = torch.arange(5000)
    assert_holds(SetBatch.from_index(x, index), [x[index == n] for n in range(3)])


def test_numbers_that_no_element_has_are_empty_sets():
    x = torch.randn(3, 2)
    assert_holds(SetBatch.from_index(x, [3, 1, 3], num_sets=6), [x[:0], x[[1]], x[:0], x[[0, 2]], x[:0], x[:0]])


@pytest.mark.parametrize("num_sets", [np.int64(4), torch.tensor(4)], ids=["numpy", "tensor"])
def test_num_sets_may_be_any_integer(num_sets):
    x = torch.randn(2, 2)
    assert_holds(SetBatch.from_index(x, [1, 0], num_sets=num_sets), [x[[1]], x[[0]], x[:0], x[:0]])


@pytest.mark.parametrize(
    "index", [[], (), np.array([]), torch.tensor([], dtype=torch.int64)], ids=["list", "tuple", "numpy", "tensor"]
)
@pytest.mark.parametrize(("num_sets", "expected"), [(None, 0), (0, 0), (3, 3)])
def test_no_elements_make_empty_sets(index, num_sets, expected):
    x = torch.empty(0, 2)
    assert_holds(SetBatch.from_index(x, index, num_sets=num_sets), [x] * expected)


def test_from_index_takes_numpy_elements():
    x = np.arange(6.0).reshape(3, 2)
    assert_holds(SetBatch.from_index(x, [1, 0, 1]), [torch.from_numpy(x[[1]]), torch.from_numpy(x[[0, 2]])])


@pytest.mark.parametrize(
    ("index", "num_sets"),
    [([0, -1, 1], None), ([-2, -1, -1], None), ([0, 1, 2], 2), ([0, 0, 0], 0)],
    ids=["negative", "all negative", "too large", "no sets"],
)
def test_an_index_out_of_range_is_refused(index, num_sets):
    with pytest.raises(ValueError, match=r"index must lie in \[0, num_sets\).*got values from"):
        SetBatch.from_index(torch.randn(3, 2), index, num_sets=num_sets)


@pytest.mark.parametrize("index", [[0, 1], [0, 1, 2, 3], []], ids=["too short", "too long", "empty"])
def test_an_index_that_is_not_one_per_element_is_refused(index):
    with pytest.raises(ValueError, match=r"one number per element, shape \(3,\)"):
        SetBatch.from_index(torch.randn(3, 2), index)


def test_a_two_dimensional_index_is_refused():
    with pytest.raises(ValueError, match="index must be one-dimensional"):
        SetBatch.from_index(torch.randn(3, 2), torch.zeros(3, 1, dtype=torch.int64))


@pytest.mark.parametrize("index", [[0.0, 1.0, 1.0], [False, True, True]], ids=["float", "bool"])
def test_an_index_that_is_not_integer_is_refused(index):
    with pytest.raises(TypeError, match="index must be integers"):
        SetBatch.from_index(torch.randn(3, 2), index)


@pytest.mark.parametrize("index", [[0, 0, 0], []], ids=["elements", "no elements"])
def test_a_negative_number_of_sets_is_refused(index):
    with pytest.raises(ValueError, match="num_sets must be at least 0, got -2"):
        SetBatch.from_index(torch.randn(len(index), 2), index, num_sets=-2)


def test_a_fractional_number_of_sets_is_refused():
    with pytest.raises(TypeError, match="float"):
        SetBatch.from_index(torch.randn(3, 2), [0, 0, 0], num_sets=2.0)


# ------------------------------------------------------------------------------------------------------ NestedTensor


@nested
@all_sizes
@all_elements
def test_a_jagged_tensor_and_back_is_the_same_batch(sizes, element):
    sets = make_sets(sizes, element)
    jagged = SetBatch.from_list(sets).to_nested()
    assert jagged.layout == torch.jagged
    assert jagged.shape[0] == len(sizes)
    assert_holds(SetBatch.from_nested(jagged), sets)


@nested
def test_a_batch_of_no_sets_survives_the_jagged_round_trip():
    back = SetBatch.from_nested(SetBatch(torch.empty(0, 2), [0]).to_nested())
    assert_holds(back, [])
    assert back.element_shape == (2,)


@nested
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=["jagged", "strided"])
def test_both_layouts_of_torch_are_read(layout):
    sets = make_sets([3, 0, 2])
    assert_holds(SetBatch.from_nested(torch.nested.nested_tensor(sets, layout=layout)), sets)


@nested
def test_gradients_survive_the_jagged_round_trip():
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 2, dtype=torch.float64)
    (SetBatch.from_nested(SetBatch(x, [0, 2, 2, 5]).to_nested()).x * weight).sum().backward()
    assert torch.equal(x.grad, weight)


@nested
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=["jagged", "strided"])
def test_gradients_reach_the_tensors_a_nested_tensor_was_made_of(layout):
    sets = [s.requires_grad_() for s in make_sets([3, 2])]
    SetBatch.from_nested(torch.nested.as_nested_tensor(sets, layout=layout)).x.square().sum().backward()
    assert all(torch.equal(s.grad, 2 * s.detach()) for s in sets)


@nested
def test_int32_offsets_of_a_jagged_tensor_become_int64():
    x = torch.randn(5, 2)
    jagged = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, 5], dtype=torch.int32))
    assert_holds(SetBatch.from_nested(jagged), [x[:2], x[2:]])


@nested
@pytest.mark.parametrize("starts", [[0, 0, 0], [0, 1, 2]], ids=["from the first", "shifted"])
def test_the_holes_of_a_narrowed_jagged_tensor_are_left_out(starts):
    x = torch.randn(3, 5, 2, requires_grad=True)
    lengths = [5, 2, 0]
    view = torch.nested.narrow(x, 1, torch.tensor(starts), torch.tensor(lengths), layout=torch.jagged)
    batch = SetBatch.from_nested(view)
    expected = [x[n, start : start + size] for n, (start, size) in enumerate(zip(starts, lengths, strict=True))]
    assert_holds(batch, expected)
    batch.x.sum().backward()
    assert x.grad.sum() == 2 * sum(lengths)
    assert x.grad[1, starts[1] : starts[1] + 2].eq(1).all()


@nested
def test_a_jagged_tensor_with_its_element_dimensions_swapped_is_read_right():
    sets = make_sets([3, 5], (2, 4))
    swapped = torch.nested.nested_tensor(sets, layout=torch.jagged).transpose(2, 3)
    assert_holds(SetBatch.from_nested(swapped), [s.transpose(1, 2) for s in sets])


@nested
@pytest.mark.parametrize("sizes", [[3, 5], [4, 4]], ids=["ragged", "equal"])
def test_a_jagged_tensor_that_is_ragged_elsewhere_is_refused(sizes):
    transposed = torch.nested.nested_tensor(make_sets(sizes, (4, 4)), layout=torch.jagged).transpose(1, 2)
    with pytest.raises(ValueError, match=r"dimension 1, may be ragged.*it is dimension 2.*Transpose"):
        SetBatch.from_nested(transposed)


@nested
def test_a_nested_tensor_of_ragged_elements_is_refused():
    with pytest.raises(ValueError, match=r"set 0 has \(2,\), set 1 has \(3,\)"):
        SetBatch.from_nested(torch.nested.nested_tensor([torch.zeros(2, 2), torch.zeros(2, 3)]))


@nested
@pytest.mark.parametrize("offsets", [[0, 2, 5], [2, 4, 9]], ids=["rows after", "rows before"])
def test_a_jagged_tensor_that_leaves_rows_out_is_refused(offsets):
    with pytest.raises(ValueError, match="must start at 0 and end at the number of elements 9"):
        SetBatch.from_nested(torch.nested.nested_tensor_from_jagged(torch.zeros(9, 2), torch.tensor(offsets)))


@nested
def test_a_nested_tensor_of_no_sets_is_refused_because_it_has_no_element_shape():
    with pytest.raises(ValueError, match="at least one set"):
        SetBatch.from_nested(torch.nested.nested_tensor([]))


@pytest.mark.parametrize(
    ("plain", "got"),
    [(torch.zeros(3, 4, 2), r"plain tensor of shape \(3, 4, 2\)"), (np.zeros((3, 2)), "ndarray"), ([torch.zeros(3, 2)], "list")],
    ids=["tensor", "numpy", "list"],
)
def test_what_is_not_nested_is_refused(plain, got):
    with pytest.raises(ValueError, match=f"takes a NestedTensor, got (a )?{got}"):
        SetBatch.from_nested(plain)


# --------------------------------------------------------------------------------------------------- repeat and cat


@pytest.mark.parametrize("num_sets", [0, 1, 3])
@pytest.mark.parametrize("num_points", [0, 1, 4])
def test_repeat_copies_the_points_into_every_set(num_points, num_sets):
    points = torch.randn(num_points, 2)
    assert_holds(SetBatch.repeat(points, num_sets), [points] * num_sets, set_size=num_points)


def test_gradients_of_repeated_points_add_up():
    points = torch.randn(4, 2, requires_grad=True)
    weight = torch.randn(12, 2)
    (SetBatch.repeat(points, 3).x * weight).sum().backward()
    torch.testing.assert_close(points.grad, weight.reshape(3, 4, 2).sum(0))


def test_one_number_cannot_be_repeated():
    with pytest.raises(ValueError, match=r"points must have shape \(I, \*element\)"):
        SetBatch.repeat(torch.tensor(1.0), 2)


@pytest.mark.parametrize("wrap", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_cat_joins_the_sets_in_order(wrap):
    sets = make_sets([3, 0, 2, 1, 4])
    empty = SetBatch(torch.empty(0, 2), [0])
    parts = [SetBatch.from_list(sets[:2]), empty, SetBatch.from_list(sets[2:3]), SetBatch.from_list(sets[3:])]
    assert_holds(SetBatch.cat(wrap(parts)), sets)


def test_cat_keeps_a_set_size_that_all_batches_share():
    a, b = torch.randn(2, 3, 2), torch.randn(1, 3, 2)
    assert_holds(SetBatch.cat([SetBatch.from_padded(a), SetBatch.from_padded(b)]), [*a, *b], set_size=3)


def test_cat_drops_a_set_size_that_the_batches_do_not_share():
    a, b = torch.randn(2, 3, 2), torch.randn(1, 4, 2)
    assert_holds(SetBatch.cat([SetBatch.from_padded(a), SetBatch.from_padded(b)]), [*a, *b])
    assert_holds(SetBatch.cat([SetBatch.from_padded(a), SetBatch.from_list(list(a))]), [*a, *a])


def test_cat_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one SetBatch"):
        SetBatch.cat([])


def test_cat_of_plain_tensors_is_sent_to_from_list():
    with pytest.raises(TypeError, match=r"got Tensor.*from_list"):
        SetBatch.cat([make_batch([2]), torch.zeros(2, 2)])


def test_cat_of_different_element_shapes_is_refused():
    with pytest.raises(ValueError, match=r"batch 0 has \(2,\), batch 1 has \(3,\)"):
        SetBatch.cat([make_batch([2]), make_batch([2], (3,))])


@pytest.mark.parametrize("change", [torch.float64, "meta"], ids=["dtype", "device"])
def test_cat_of_different_dtype_or_device_is_refused(change):
    with pytest.raises(ValueError, match=r"batch 0 is torch\.float32 on cpu, batch 1 is"):
        SetBatch.cat([make_batch([2]), make_batch([2]).to(change)])


# ---------------------------------------------------------------------------------------------------------- padding


@all_sizes
@all_elements
def test_to_padded_and_from_padded_are_inverse(sizes, element):
    sets = make_sets(sizes, element)
    padded, mask = SetBatch.from_list(sets).to_padded(fill=-7.0)
    assert padded.shape == (len(sizes), max(sizes), *element)
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == sizes
    assert padded[~mask].eq(-7).all()
    assert_holds(SetBatch.from_padded(padded, mask), sets)
    assert_holds(SetBatch.from_padded(padded, lengths=sizes), sets)


def test_padding_is_zero_unless_told_otherwise():
    padded, mask = make_batch([3, 1]).to_padded()
    assert torch.equal(padded[~mask], torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bfloat16, torch.complex64, torch.bool], ids=str)
def test_padding_keeps_the_dtype(dtype):
    sets = make_sets([1, 3, 0], dtype=dtype)
    padded, mask = SetBatch.from_list(sets).to_padded(fill=1)
    assert padded.dtype == dtype
    assert padded[~mask].eq(1).all()
    assert_holds(SetBatch.from_padded(padded, mask), sets)


@pytest.mark.parametrize("shape", [(3, 4, 2), (3, 4), (0, 4, 2), (3, 0, 2)], ids=str)
def test_a_dense_batch_comes_back_without_padding(shape):
    x = torch.randn(shape)
    padded, mask = SetBatch.from_padded(x).to_padded(fill=float("nan"))
    assert torch.equal(padded, x)
    assert torch.equal(mask, torch.ones(shape[:2], dtype=torch.bool))


def test_a_batch_of_no_sets_can_be_padded_and_listed():
    batch = SetBatch(torch.empty(0, 2), [0])
    padded, mask = batch.to_padded()
    assert padded.shape == (0, 0, 2)
    assert mask.shape == (0, 0)
    assert batch.to_list() == []


def test_nan_in_the_elements_is_kept_and_nan_in_the_padding_has_no_gradient():
    x = torch.tensor([[1.0], [float("nan")], [3.0]], requires_grad=True)
    padded, mask = SetBatch(x, [0, 1, 3]).to_padded(fill=float("nan"))
    assert padded.isnan().flatten().tolist() == [False, True, True, False]
    padded[mask].sum().backward()
    assert x.grad.flatten().tolist() == [1, 1, 1]


# ---------------------------------------------------------------------------------------------- with_x, to, pin_memory


def test_with_x_puts_other_elements_into_the_same_sets():
    batch = make_batch([3, 0, 2])
    x = torch.randn(5, 7, 3)
    assert_holds(batch.with_x(x), [x[:3], x[:0], x[3:]])
    assert batch.with_x(x).x is x
    assert batch.element_shape == (2,)


def test_with_x_keeps_the_set_size():
    x = torch.randn(2, 3, 2)
    assert_holds(SetBatch.from_padded(x).with_x(x.reshape(6, 2) + 1), list(x + 1), set_size=3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((torch.float64,), {}), (("cpu", torch.float64), {}), ((torch.empty(0).double(),), {}), ((), {"dtype": torch.float64})],
    ids=["dtype", "device and dtype", "like a tensor", "keyword"],
)
def test_a_dtype_goes_to_the_elements_and_offsets_stay_int64(args, kwargs):
    sets = make_sets([3, 0, 2])
    assert_holds(SetBatch.from_list(sets).to(*args, **kwargs), [s.double() for s in sets])


@pytest.mark.parametrize("non_blocking", [False, True])
def test_a_device_takes_elements_and_offsets_along(non_blocking):
    moved = SetBatch.from_padded(torch.randn(2, 3, 2)).to("meta", non_blocking=non_blocking)
    assert moved.device == torch.device("meta")
    assert moved.offsets.device == torch.device("meta")
    assert moved.set_size == 3
    assert moved.dtype == torch.float32


def test_to_can_be_differentiated():
    x = torch.randn(5, 2, requires_grad=True)
    SetBatch(x, [0, 2, 5]).to(torch.float64).x.sum().backward()
    assert torch.equal(x.grad, torch.ones(5, 2))


def test_pin_memory_pins_elements_and_offsets(monkeypatch):
    if not torch.cuda.is_available():  # torch cannot pin without an accelerator: what it would be asked for can still be seen
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: t.clone().as_subclass(_Pinned))
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda t: isinstance(t, _Pinned))
    batch = SetBatch.from_padded(torch.randn(2, 3, 2))
    pinned = batch.pin_memory()
    assert pinned.x.is_pinned()
    assert pinned.offsets.is_pinned()
    assert not batch.x.is_pinned()
    assert pinned.set_size == 3
    assert torch.equal(pinned.x, batch.x)


class _Pinned(torch.Tensor):
    pass


def test_pin_memory_does_what_torch_does_on_this_machine():
    def pin(thing):
        try:
            return thing.pin_memory() is not None
        except RuntimeError as error:
            return str(error)

    assert pin(make_batch([2, 1])) == pin(torch.zeros(3, 2))


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


# ------------------------------------------------------------------------------------------------------- DataLoader


def make_samples():
    return [make_batch([2, 0]), make_batch([1]), make_batch([3]), make_batch([0, 4])]


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_by_itself(num_workers):
    samples = make_samples()
    first, second = DataLoader(samples, batch_size=2, num_workers=num_workers)
    assert_holds(first, [*samples[0], *samples[1]])
    assert_holds(second, [*samples[2], *samples[3]])


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_inside_tuples(num_workers):
    samples = make_samples()
    loader = DataLoader([(s, torch.tensor(float(i))) for i, s in enumerate(samples)], batch_size=4, num_workers=num_workers)
    [(joined, target)] = loader
    assert_holds(joined, [s for sample in samples for s in sample])
    assert target.tolist() == [0, 1, 2, 3]


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_inside_dicts(num_workers):
    samples = make_samples()
    loader = DataLoader(
        [{"cells": s, "age": i, "pair": (s, s)} for i, s in enumerate(samples)], batch_size=3, num_workers=num_workers
    )
    first, second = loader
    assert_holds(first["cells"], [s for sample in samples[:3] for s in sample])
    assert first["age"].tolist() == [0, 1, 2]
    assert_holds(second["cells"], list(samples[3]))
    assert_holds(second["pair"][1], list(samples[3]))


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_is_itself_a_dataset_that_a_batch_sampler_draws_from(num_workers):
    sets = make_sets([3, 0, 2, 1, 4])
    batch = SetBatch.from_list(sets)
    draws = BatchSampler(SequentialSampler(batch), batch_size=2, drop_last=False)
    drawn = list(DataLoader(batch, sampler=draws, batch_size=None, num_workers=num_workers))
    assert len(drawn) == 3
    assert_holds(drawn[0], sets[:2])
    assert_holds(drawn[1], sets[2:4])
    assert_holds(drawn[2], sets[4:])


def test_collation_keeps_the_set_size_that_samples_share():
    x = torch.randn(3, 4, 2)
    assert_holds(default_collate([SetBatch.from_padded(x[:1]), SetBatch.from_padded(x[1:])]), list(x), set_size=4)


def test_collation_of_samples_that_do_not_fit_says_why():
    with pytest.raises(ValueError, match=r"batch 0 has \(2,\), batch 1 has \(3,\)"):
        default_collate([make_batch([2]), make_batch([2], (3,))])


# ----------------------------------------------------------------------------------------------------------- pytree


def test_the_leaves_of_the_tree_are_elements_and_offsets():
    batch = make_batch([3, 2])
    leaves, spec = pytree.tree_flatten({"a": batch, "b": [torch.zeros(1)]})
    assert leaves[0] is batch.x
    assert leaves[1] is batch.offsets
    assert len(leaves) == 3
    assert_holds(pytree.tree_unflatten(leaves, spec)["a"], make_sets([3, 2]))


def test_the_leaves_of_the_tree_have_names():
    paths, _ = pytree.tree_flatten_with_path(make_batch([3, 2]))
    assert [pytree.keystr(path) for path, _ in paths] == [".x", ".offsets"]


def test_tree_map_changes_the_leaves():
    batch = make_batch([3, 2])
    moved = pytree.tree_map(lambda t: t.to("meta"), batch)
    assert isinstance(moved, SetBatch)
    assert moved.x.is_meta
    assert moved.offsets.is_meta


def test_unflattening_does_not_validate():
    _, spec = pytree.tree_flatten(make_batch([3, 2]))
    strange = pytree.tree_unflatten(["not a tensor", None], spec)
    assert strange.x == "not a tensor"
    assert strange.offsets is None


def test_the_set_size_is_no_part_of_the_tree():
    dense, ragged = SetBatch.from_padded(torch.randn(2, 3, 2)), make_batch([4, 2])
    leaves, spec = pytree.tree_flatten(dense)
    assert spec == pytree.tree_flatten(ragged)[1]
    assert_holds(pytree.tree_unflatten(leaves, spec), dense.to_list(), set_size=None)


def test_the_tree_can_be_written_down_and_read_back():
    leaves, spec = pytree.tree_flatten(make_batch([3, 2]))
    read = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert_holds(pytree.tree_unflatten(leaves, read), make_sets([3, 2]))


# ---------------------------------------------------------------------------------------------------------- tracing


@pytest.fixture
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


TRACED = {
    "with_x": lambda b: b.with_x(b.x * 2),
    "constructor": lambda b: SetBatch(b.x * 2, b.offsets),
    "from_padded": lambda b: SetBatch.from_padded(b.x.reshape(1, *b.x.shape) * 2),
    "repeat": lambda b: SetBatch.repeat(b.x, len(b)),
    "cat": lambda b: SetBatch.cat([b, b.with_x(b.x + 1)]),
    "to": lambda b: b.to(torch.float64),
    "sizes": lambda b: b.with_x(b.x * b.sizes.sum()),
}


@pytest.mark.traced
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("build", TRACED.values(), ids=TRACED.keys())
def test_building_a_batch_does_not_break_the_graph(build):
    batch = make_batch([3, 0, 2])
    eager, compiled = build(batch), torch.compile(build, backend="eager", fullgraph=True)(batch)
    assert_holds(compiled, eager.to_list(), set_size=eager.set_size)


@pytest.mark.traced
@pytest.mark.usefixtures("_fresh_compiler")
def test_a_batch_marked_dynamic_is_compiled_once_for_all_sizes():
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    double = torch.compile(lambda b: b.with_x(b.x * 2), backend=count, fullgraph=True, dynamic=False)
    for sizes in ([3, 0, 2], [4, 4, 4], [1, 2, 9]):
        batch = make_batch(sizes)
        assert batch.mark_dynamic() is batch
        assert_holds(double(batch), [2 * s for s in batch])
    assert len(graphs) == 1


# -------------------------------------------------------------------------------------------------------- gradients

CONVERSIONS = {
    "constructor": lambda x: SetBatch(x, [0, 2, 2, 6]).x,
    "from_list": lambda x: SetBatch.from_list([x[2:], x[:0], x[:2]]).x,
    "from_padded dense": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2)).x,
    "from_padded mask": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2), [[False, True, True], [True, False, False]]).x,
    "from_padded lengths": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2), lengths=[0, 2]).x,
    "from_index": lambda x: SetBatch.from_index(x, [2, 0, 2, 0, 4, 2], num_sets=6).x,
    "from_nested": lambda x: SetBatch.from_nested(SetBatch(x, [0, 2, 2, 6]).to_nested()).x,
    "repeat": lambda x: SetBatch.repeat(x, 3).x,
    "cat": lambda x: SetBatch.cat([SetBatch(x, [0, 2, 6]), SetBatch(3 * x, [0, 6])]).x,
    "to_list": lambda x: SetBatch(x, [0, 2, 2, 6]).to_list()[2],
    "to_padded": lambda x: SetBatch(x, [0, 2, 2, 6]).to_padded(fill=5.0)[0],
    "to_padded dense": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2)).to_padded()[0],
    "to": lambda x: SetBatch(x, [0, 2, 2, 6]).to("cpu", copy=True).x,
    "with_x": lambda x: SetBatch(x, [0, 2, 2, 6]).with_x(x.square()).x,
    "one set": lambda x: SetBatch(x, [0, 2, 2, 6])[-1],
    "slice": lambda x: SetBatch(x, [0, 2, 2, 6])[::-2].x,
    "repeated numbers": lambda x: SetBatch(x, [0, 2, 2, 6])[[0, 2, 0]].x,
    "bool mask": lambda x: SetBatch(x, [0, 2, 2, 6])[[True, False, False]].x,
    "tree_map": lambda x: pytree.tree_map(lambda t: t * 2, SetBatch(x, [0, 2, 2, 6])).x,
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS.keys())
@nested
def test_gradients_flow_through_every_conversion(convert):
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert convert(x).requires_grad
    assert torch.autograd.gradcheck(convert, x)


def test_offsets_have_no_gradient():
    assert not SetBatch(torch.randn(5, 2, requires_grad=True), [0, 5]).offsets.requires_grad


# ------------------------------------------------------------------------------------------------------- properties

some_sizes = st.lists(st.integers(0, 6), min_size=1, max_size=7)
some_element = st.sampled_from([(), (1,), (3,), (2, 3)])
some_dtype = st.sampled_from([torch.float32, torch.float64, torch.int64])


@nested
@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element, dtype=some_dtype)
def test_a_tour_of_all_formats_ends_where_it_began(data, sizes, element, dtype):
    sets = make_sets(sizes, element, dtype)
    batch = SetBatch.from_list(sets)

    padded, mask = batch.to_padded(fill=-1)
    batch = SetBatch.from_padded(padded, mask)
    assert_holds(batch, sets)

    index = torch.tensor(data.draw(st.permutations([n for n, size in enumerate(sizes) for _ in range(size)])), dtype=torch.int64)
    scattered = torch.empty_like(batch.x)
    scattered[index.argsort(stable=True)] = batch.x  # sets interleaved, each in its own order
    batch = SetBatch.from_index(scattered, index, num_sets=len(sizes))
    assert_holds(batch, sets)

    batch = SetBatch.from_nested(batch.to_nested())
    assert_holds(batch, sets)
    assert all(torch.equal(a, b) for a, b in zip(batch.to_list(), sets, strict=True))


@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element)
def test_picking_sets_is_picking_from_a_list(data, sizes, element):
    sets = make_sets(sizes, element)
    numbers = data.draw(st.lists(st.integers(-len(sizes), len(sizes) - 1), max_size=8))
    mask = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    cut = data.draw(st.slices(len(sizes)))
    batch = SetBatch.from_list(sets)
    assert_holds(batch[numbers], [sets[n] for n in numbers])
    assert_holds(batch[mask], list(itertools.compress(sets, mask)))
    assert_holds(batch[cut], sets[cut])


@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element)
def test_cutting_a_batch_and_joining_it_changes_nothing(data, sizes, element):
    sets = make_sets(sizes, element)
    batch = SetBatch.from_list(sets)
    cut = data.draw(st.integers(0, len(sizes)))
    assert_holds(SetBatch.cat([batch[:cut], batch[cut:]]), sets)


@few_examples
@given(data=st.data(), num_sets=st.integers(0, 4), max_size=st.integers(0, 4))
def test_any_mask_picks_what_plain_indexing_picks(data, num_sets, max_size):
    bits = data.draw(st.lists(st.booleans(), min_size=num_sets * max_size, max_size=num_sets * max_size))
    mask = torch.tensor(bits, dtype=torch.bool).reshape(num_sets, max_size)
    x = torch.arange(num_sets * max_size * 2.0).reshape(num_sets, max_size, 2)
    junk = torch.where(mask[..., None], x, float("nan"))
    assert_holds(SetBatch.from_padded(junk, mask), [x[n][mask[n]] for n in range(num_sets)])


@few_examples
@given(offsets=st.lists(st.integers(-2, 7), max_size=5), num_elements=st.integers(0, 5))
def test_the_constructor_accepts_exactly_the_legal_offsets(offsets, num_elements):
    legal = bool(offsets) and offsets == sorted(offsets) and offsets[0] == 0 and offsets[-1] == num_elements
    try:
        SetBatch(torch.zeros(num_elements, 1), offsets)
    except ValueError:
        assert not legal
    else:
        assert legal
