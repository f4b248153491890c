import pytest
import torch
from batches import make_batch
from torch.autograd import gradcheck

from orderless import ops
from orderless.ops.set_norm.reference import set_norm_reference


def affine(dim=4, dtype=torch.float64):
    return torch.linspace(0.5, 2, dim, dtype=dtype), torch.linspace(-1, 1, dim, dtype=dtype)


def formula(s, weight, bias, eps=1e-5):
    """Set norm of one set, written as in the paper, with eps inside the root."""
    mean = s.sum() / s.numel()
    variance = ((s - mean) ** 2).sum() / s.numel()
    return (s - mean) / (variance + eps).sqrt() * weight + bias


def test_it_is_the_formula_of_the_paper_set_by_set(sizes):
    batch, (weight, bias) = make_batch(sizes), affine()
    expected = torch.cat([formula(s, weight, bias) if len(s) else s for s in batch])
    torch.testing.assert_close(set_norm_reference(batch.x, batch.offsets, weight, bias), expected)
    torch.testing.assert_close(ops.set_norm(batch.x, batch.offsets, weight, bias), expected)


def test_dense_view_gives_the_same_numbers_and_gradients():
    batch, (weight, bias) = make_batch([7, 7, 7]), affine()
    x = batch.x.requires_grad_()
    packed = ops.set_norm(x, batch.offsets, weight, bias)
    dense = ops.set_norm(x, batch.offsets, weight, bias, set_size=7)
    torch.testing.assert_close(dense, packed)
    direction = torch.randn_like(packed)
    torch.testing.assert_close(torch.autograd.grad(dense, x, direction), torch.autograd.grad(packed, x, direction))


@pytest.mark.parametrize("set_size", [None, 1000])
def test_a_large_offset_does_not_drown_a_small_spread(set_size):
    x = (torch.randn(3000, 16) * 1e-2 + 1e4).float()
    offsets = torch.arange(4) * 1000
    weight, bias = torch.ones(16), torch.zeros(16)
    exact = torch.cat([formula(s.double(), weight, bias) for s in x.split(1000)])
    found = ops.set_norm(x, offsets, weight, bias, set_size=set_size).double()
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize("sizes", [[3, 0, 2], [1], [0]], ids=str)
def test_gradients_are_right_to_elements_scale_and_shift(sizes):
    batch, parameters = make_batch(sizes, dim=3), affine(3)
    inputs = [t.requires_grad_() for t in (batch.x, *parameters)]
    assert gradcheck(lambda x, w, b: set_norm_reference(x, batch.offsets, w, b), inputs)
    assert gradcheck(lambda x, w, b: ops.set_norm(x, batch.offsets, w, b), inputs)


def test_second_derivatives_exist():
    batch, (weight, bias) = make_batch([3, 2], dim=2), affine(2)
    assert torch.autograd.gradgradcheck(lambda x: set_norm_reference(x, batch.offsets, weight, bias), batch.x.requires_grad_())


def test_a_set_of_equal_numbers_comes_out_as_the_bias():
    weight, bias = affine()
    x = torch.full((5, 4), 3.25, dtype=torch.float64, requires_grad=True)
    out = ops.set_norm(x, torch.tensor([0, 5]), weight, bias)
    torch.testing.assert_close(out, bias.expand(5, 4))
    assert torch.autograd.grad(out.square().sum(), x)[0].isfinite().all()


def test_low_precision_input_has_float32_statistics():
    x = torch.randn(1000, 128).to(torch.bfloat16)
    weight, bias, offsets = torch.ones(128), torch.zeros(128), torch.tensor([0, 1000])
    exact = formula(x.double(), weight, bias)
    found = ops.set_norm(x, offsets, weight.bfloat16(), bias.bfloat16())
    assert found.dtype == torch.bfloat16
    assert (found.double() - exact).abs().max() <= 2**-8 * exact.abs().max()  # the rounding of the result, nothing more
