"""`SetBatch`: that no way in or out of it loses or mixes up an element.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

import numpy as np
import pytest
import torch
from numbered_sets import all_elements, all_sizes, assert_holds, make_batch, make_sets, nested

from orderless import SetBatch

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


def test_with_x_takes_a_tensor_with_one_element_for_each():
    batch = make_batch([3, 0, 2])
    with pytest.raises(TypeError, match=r"with_x takes a tensor, got ndarray\. Convert with `torch\.as_tensor`"):
        batch.with_x(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="one new element for each of the 5 old ones, got 4"):
        batch.with_x(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="one new element for each of the 5 old ones, got a single number"):
        batch.with_x(torch.tensor(1.0))


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


@pytest.mark.parametrize("name", ["float", "double", "half", "bfloat16"])
def test_elements_are_cast_by_the_names_that_tensors_have_for_it(name):
    sets = make_sets([3, 0, 2])
    assert_holds(getattr(SetBatch.from_list(sets), name)(), [getattr(s, name)() for s in sets])
    assert getattr(SetBatch.from_padded(torch.randn(2, 3, 2)), name)().set_size == 3


def test_cpu_and_cuda_take_elements_and_offsets_along(monkeypatch):
    asked = []

    def cuda(tensor, device=None, non_blocking=False):  # there need not be a GPU: what it would be asked for can still be seen
        asked.append((device, non_blocking))
        return tensor.to("meta")

    monkeypatch.setattr(torch.Tensor, "cuda", cuda)
    batch = SetBatch.from_padded(torch.randn(2, 3, 2))
    for moved in (batch.cuda(), batch.cuda(1), batch.cuda("cuda:1", non_blocking=True)):
        assert moved.device == moved.offsets.device == torch.device("meta")
        assert (moved.set_size, moved.dtype, moved.offsets.dtype) == (3, torch.float32, torch.int64)
    assert asked == [(None, False), (1, False), ("cuda:1", True)]
    assert_holds(batch.cpu(), list(batch), set_size=3)


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
