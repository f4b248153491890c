import pytest
import torch
from batches import make_batch
from torch.autograd import gradcheck

from orderless import ops
from orderless.ops.reduce.reference import set_max_reference, set_mean_reference, set_sum_reference
from orderless.ops.reduce.traced import set_max_traced

OPS = {
    "sum": (ops.set_sum, set_sum_reference, lambda s: s.sum(0)),
    "mean": (ops.set_mean, set_mean_reference, lambda s: s.mean(0)),
    "max": (ops.set_max, set_max_reference, lambda s: s.amax(0)),
}


@pytest.fixture(params=OPS.values(), ids=OPS.keys())
def op(request):
    return request.param


def test_each_set_is_reduced_alone_and_empty_sets_give_zeros(op, sizes):
    reduce, reference, of_one = op
    batch = make_batch(sizes)
    expected = torch.stack([of_one(s) if len(s) else torch.zeros(4, dtype=torch.float64) for s in batch])
    torch.testing.assert_close(reference(batch.x, batch.offsets), expected)
    torch.testing.assert_close(reduce(batch.x, batch.offsets), expected)


def test_dense_view_gives_the_same_numbers_and_gradients(op):
    reduce, _, _ = op
    batch = make_batch([6, 6, 6])
    x = batch.x.requires_grad_()
    packed, dense = reduce(x, batch.offsets), reduce(x, batch.offsets, set_size=6)
    torch.testing.assert_close(dense, packed)
    direction = torch.randn_like(packed)
    torch.testing.assert_close(torch.autograd.grad(dense, x, direction), torch.autograd.grad(packed, x, direction))


@pytest.mark.parametrize("sizes", [[3, 0, 2], [4], [0]], ids=str)
def test_gradients_are_right_at_empty_sets_too(op, sizes):
    _, reference, _ = op
    batch = make_batch(sizes)
    assert gradcheck(lambda x: reference(x, batch.offsets), batch.x.requires_grad_())


def test_dense_view_of_sets_without_elements_gives_zeros(op):
    reduce, _, _ = op
    assert torch.equal(reduce(torch.empty(0, 3), torch.zeros(3, dtype=torch.int64), set_size=0), torch.zeros(2, 3))


@pytest.mark.parametrize("largest", [2.0, 0.0, -3.0])
def test_ties_share_the_gradient_of_the_maximum(largest):
    x = torch.tensor([[largest - 1], [largest], [largest]], requires_grad=True)
    for kwargs in ({}, {"set_size": 3}):
        (gradient,) = torch.autograd.grad(ops.set_max(x, torch.tensor([0, 3]), **kwargs).sum(), x)
        assert gradient.flatten().tolist() == [0, 0.5, 0.5]


def test_elements_of_any_shape_are_reduced(op):
    reduce, _, of_one = op
    x = torch.randn(5, 2, 3, 4)
    out = reduce(x, torch.tensor([0, 2, 5]))
    torch.testing.assert_close(out, torch.stack([of_one(x[:2]), of_one(x[2:])]))


@pytest.mark.parametrize("set_size", [None, 4096])
def test_low_precision_sums_are_accumulated_in_float32(set_size):
    x = torch.ones(4096, 1, dtype=torch.bfloat16)  # a bfloat16 running sum of ones stops at 256
    assert ops.set_sum(x, torch.tensor([0, 4096]), set_size=set_size).item() == 4096
    assert ops.set_mean(x, torch.tensor([0, 4096]), set_size=set_size).item() == 1


@pytest.mark.parametrize("set_size", [None, 2])
@pytest.mark.parametrize("op", [ops.set_sum, ops.set_mean, ops.set_max])
def test_whole_numbers_are_refused(op, set_size):
    """A sum in float32 would lose digits of them, and a mean of them is no whole number."""
    op = getattr(op, "__wrapped__", op)  # without the check of shapes, which users do not have
    with pytest.raises(TypeError, match=r"floating-point numbers, got torch.int64. Convert with `.float\(\)`"):
        op(torch.tensor([[2**24 + 1], [1]]), torch.tensor([0, 2]), set_size=set_size)


@pytest.mark.parametrize(("sizes", "set_size"), [([3, 0, 2], None), ([4, 4], 4), ([4, 4], None), ([0, 0], 0), ([1], 1)], ids=str)
def test_the_maximum_as_an_op_of_its_own_is_the_definition(sizes, set_size):
    batch = make_batch(sizes)
    x = batch.x.requires_grad_()
    found, expected = set_max_traced(x, batch.offsets, set_size), set_max_reference(x, batch.offsets)
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(expected)
    torch.testing.assert_close(torch.autograd.grad(found, x, direction), torch.autograd.grad(expected, x, direction))
    torch.library.opcheck(set_max_traced, (x, batch.offsets, set_size))


of_torch_itself = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*"
)  # while it compiles


@pytest.mark.traced
@of_torch_itself
@pytest.mark.parametrize("set_size", [None, 5], ids=["ragged", "dense"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_compiled_the_largest_elements_have_the_gradient_also_where_they_are_computed_anew(dtype, set_size):
    """A compiler keeps digits of bfloat16 numbers that are rounded off in memory: what it computes anew equals no maximum."""
    offsets = torch.tensor([0, 5, 10, 15])
    x = torch.randn(15, 64, dtype=dtype).requires_grad_()

    def largest(x):
        return ops.set_max(torch.exp(x) * 1.1 + x, offsets, set_size=set_size)

    found, expected = torch.compile(largest, fullgraph=True)(x), largest(x)
    tolerance = {} if dtype == torch.float64 else {"rtol": 0.02, "atol": 0.02}  # of one rounding to 8 binary digits
    torch.testing.assert_close(found, expected, **tolerance)
    mine, its = (torch.autograd.grad(y.sum(), x)[0] for y in (found, expected))
    assert ((mine != 0).sum() - (its != 0).sum()).abs() <= 0.1 * (its != 0).sum()  # rounding makes ties, and not the same ones
    # of two elements that round to one maximum either may have it, and the slope at one is not that at the other
    torch.testing.assert_close(mine.sum(0), its.sum(0), **({} if dtype == torch.float64 else {"rtol": 0.1, "atol": 0.1}))


@pytest.mark.traced
@of_torch_itself
def test_compiled_ties_share_the_gradient_and_empty_sets_have_none():
    offsets, x = torch.tensor([0, 3, 3, 5]), torch.tensor([[1.0], [2.0], [2.0], [0.0], [0.0]]).requires_grad_()
    compiled = torch.compile(lambda x: ops.set_max(x, offsets), fullgraph=True)(x)
    assert compiled.flatten().tolist() == [2.0, 0.0, 0.0]
    assert torch.autograd.grad(compiled.sum(), x)[0].flatten().tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.traced
@of_torch_itself
@pytest.mark.parametrize("set_size", [None, 5], ids=["ragged", "dense"])
def test_compiled_the_maximum_has_the_derivatives_of_torch_func(set_size):
    offsets, x = torch.tensor([0, 5, 10]), torch.randn(10, 3, dtype=torch.float64)
    direction = torch.randn_like(x)

    def largest(x):
        return ops.set_max(x, offsets, set_size=set_size)

    def forward():
        return torch.func.jvp(largest, (x,), (direction,))[1]

    def back():
        return torch.func.grad(lambda x: largest(x).sum())(x)

    jacobian = torch.autograd.functional.jacobian(largest, x)
    for derivative, expected in ((forward, torch.einsum("abcd,cd->ab", jacobian, direction)), (back, jacobian.sum((0, 1)))):
        torch.testing.assert_close(torch.compile(derivative, fullgraph=True, backend="eager")(), expected)
