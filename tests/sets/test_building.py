"""`SetBatch`: what its constructors accept and refuse. With its neighbours, the tests of `sets.py`.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

import warnings

import numpy as np
import pytest
import torch
from numbered_sets import all_elements, all_sizes, assert_holds, make_sets, nested

from orderless import SetBatch

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


def test_a_batch_can_be_built_where_the_meta_device_is_the_default():
    with torch.device("meta"):
        ragged = SetBatch(torch.empty(9, 3), [0, 4, 9])
        unread = SetBatch(torch.empty(9, 3), torch.tensor([0, 4, 9]))
        with pytest.raises(ValueError, match="offsets must start at 0 and end at the number of elements 9"):
            SetBatch(torch.empty(9, 3), [0, 4, 8])
        for build in (
            lambda: SetBatch.from_padded(torch.empty(2, 4, 3), lengths=[1, 3]),
            lambda: SetBatch.from_padded(torch.empty(1, 2, 3), [[True, False]]),
            lambda: SetBatch.from_index(torch.empty(2, 3), [0, 1]),
            lambda: ragged[:1],
            lambda: ragged[0],
        ):
            with pytest.raises(ValueError, match=r"cannot be read on the meta device: build the batch on the CPU and move it"):
                build()
    assert (ragged.num_sets, unread.num_sets, ragged.device.type) == (2, 2, "meta")


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
        np.array([(1, (0.5, 2.0))] * 5, dtype=[("flag", "u1"), ("x", "f4", (2,))])["x"],
    ],
    ids=[
        "float64",
        "uint8",
        "float16",
        "bool",
        "complex",
        "big-endian",
        "rows reversed",
        "columns reversed",
        "Fortran order",
        "field of packed records",
    ],
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
    with pytest.raises(TypeError, match=r"num_sets must be a whole number, got 2\.0\. Convert with `int\(\)`"):
        SetBatch.from_index(torch.randn(3, 2), [0, 0, 0], num_sets=2.0)


def test_large_identifiers_are_refused_with_the_way_to_number_them():
    # 2**28 sets would be 2 GiB of sizes and offsets, 10**12 more than there is
    for highest in (2**28, 10**12):
        with pytest.raises(ValueError, match=rf"index goes up to {highest}, .* of 3 elements\..*np\.unique\(ids, return"):
            SetBatch.from_index(torch.randn(3, 2), [0, 1, highest])
    with pytest.raises(ValueError, match=r"no memory for the sizes of num_sets=10{15} sets\..*np\.unique\(ids, return"):
        SetBatch.from_index(torch.randn(3, 2), [0, 1, 1], num_sets=10**15)
    with pytest.raises(ValueError, match=r"no memory for the sizes of num_sets=9223372036854775808 sets"):
        SetBatch.from_index(torch.randn(3, 2), [0, 1, 1], num_sets=2**63)
    with pytest.raises(TypeError, match=r"index must be .*numbers.*np\.unique\(ids, return_inverse=True\)"):
        SetBatch.from_index(torch.randn(3, 2), ["a", "b", "b"])
    with pytest.raises(ValueError, match=r"got values from -1 to 1\..*np\.unique\(ids, return_inverse=True\)"):
        SetBatch.from_index(torch.randn(3, 2), [0, -1, 1])


def test_a_masked_array_is_refused_since_its_mask_would_be_lost():
    masked = np.ma.masked_greater(np.array([[1.0, 999.0]]), 500)
    with pytest.raises(TypeError, match="masked array, whose mask would be lost: fill it"):
        SetBatch.from_list([masked])


def test_names_that_are_numbers_do_not_become_millions_of_empty_sets():
    with pytest.raises(ValueError, match="would make 20240103 sets, nearly all empty, of 3 elements"):
        SetBatch.from_index(torch.zeros(3, 2), [20240101, 20240102, 20240101])
    assert len(SetBatch.from_index(torch.zeros(3, 2), [0, 1, 99_999])) == 100_000


def test_repeat_takes_arrays_and_refuses_what_is_no_number_of_sets():
    points = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert torch.equal(SetBatch.repeat(points, 3).x, torch.from_numpy(points).repeat(3, 1))
    with pytest.raises(ValueError, match="num_sets must be at least 0, got -1"):
        SetBatch.repeat(torch.zeros(4, 2), -1)
    with pytest.raises(TypeError, match=r"num_sets must be a whole number, got 2\.5"):
        SetBatch.repeat(torch.zeros(4, 2), 2.5)
    with pytest.raises(ValueError, match="num_sets must be at least 0, got -2"):
        SetBatch.repeat(torch.zeros(4, 2), np.int64(-2))
    with pytest.raises(TypeError, match="num_sets must be a whole number, got 'a'"):
        SetBatch.repeat(torch.zeros(4, 2), "a")
    with pytest.raises(TypeError, match="points must be a tensor or a numpy array, got list"):
        SetBatch.repeat([[1.0, 2.0]], 2)


def test_a_mapped_file_that_may_only_be_read_is_taken_without_a_word(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((5, 2), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = SetBatch(mapped, [0, 5])
    assert batch.x.data_ptr() == mapped.ctypes.data  # and not copied
