"""Norm, ReLU and pooling in one: the definition against its parts, and the kernels (`norm_relu_pool/triton.py`) against it.

Kernels run where statistics come with the elements: here `clean_blocks` without a block, which passes elements on, finds them.
"""

import math
from functools import partial

import pytest
import torch
from batches import make_batch
from kernels import DEVICE, NUMBERS, assert_as_accurate, assert_same, case, outcome, start_with_zeros
from torch.autograd import gradcheck

from orderless import ops
from orderless.ops import _tiles
from orderless.ops.clean_blocks.triton import rows_of_tiles
from orderless.ops.norm_relu_pool import triton
from orderless.ops.norm_relu_pool.reference import norm_relu_pool_reference
from orderless.ops.set_norm.reference import set_norm_reference

EPS = 1e-2  # large enough to be missed where it is forgotten
SUM_AND_MEAN = pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])


def drawn(sizes, width, *, seed=0):
    """Elements, scale and shift, offsets, and a direction, in float64. No number is near the kink of the ReLU."""
    batch = make_batch(sizes, width, seed=seed).to(DEVICE)
    generator = torch.Generator().manual_seed(seed + 1)
    on = (torch.rand(width, generator=generator) < 0.7).double() * 2 - 1
    scale, shift = torch.randn(2, width, generator=generator, dtype=torch.float64)
    tensors = {"x": batch.x, "scale": 0.25 + scale.clamp(-2, 2) / 10, "shift": on * (2.5 + shift.clamp(-2, 2) / 5)}
    direction = torch.randn(len(sizes), width, generator=generator, dtype=torch.float64).to(DEVICE)
    return {name: t.float().double().to(DEVICE) for name, t in tensors.items()}, batch.offsets, direction


def statistics_of(x, offsets):
    nothing = x.new_empty(0, 2, x.shape[1], dtype=torch.float32)
    return ops.clean_blocks(x.detach(), offsets, nothing, nothing, nothing[..., None].expand(0, 2, -1, x.shape[1]))[1]


def pooled(offsets, mean, eps=EPS):
    """The op on elements that bring their statistics."""

    def compute(x, scale, shift):
        return ops.norm_relu_pool(x, offsets, scale, shift, mean=mean, eps=eps, statistics=statistics_of(x, offsets))

    return compute


def in_dtype(tensors, dtype):
    return {name: t.to(dtype if name == "x" else torch.float32) for name, t in tensors.items()}


def check_kernels(sizes, width, mean, dtype=torch.float32, *, change=lambda tensors: tensors):
    tensors, offsets, direction = drawn(sizes, width)
    tensors = change(tensors | {"x": tensors["x"].to(dtype).double()})
    given, direction = in_dtype(tensors, dtype), direction.to(dtype)
    definition = partial(norm_relu_pool_reference, offsets=offsets, mean=mean, eps=EPS)
    exact, plain = (outcome(definition, t, direction) for t in (tensors, given))
    with ops.backend.recording() as used:
        fast = outcome(pooled(offsets, mean), given, direction)
    assert used == {("norm_relu_pool", "triton"): 1, ("clean_blocks", "triton"): 1}
    # all elements of a set have one gradient, so that of the scale is a sum of standardised numbers, which cancel
    hats = ops.broadcast_sets(direction.double(), offsets, sum(sizes)) * norm_of(tensors["x"], offsets)
    assert_as_accurate(fast, plain, exact, terms={"gradient of scale": hats.abs().sum(0).max().item()})
    return fast


def norm_of(x, offsets):
    return set_norm_reference(x, offsets, torch.ones_like(x[0]), torch.zeros_like(x[0]), eps=EPS)


def computed(tensors, offsets, direction, mean):
    return outcome(pooled(offsets, mean), in_dtype(tensors, torch.float32), direction)


# ------------------------------------------------------------------------------------------------------ the definition


@SUM_AND_MEAN
def test_it_is_norm_then_relu_then_pooling(mean):
    tensors, offsets, _ = drawn([3, 0, 17], 4)
    x, scale, shift = tensors.values()
    h = ops.set_norm(x, offsets, scale, shift, eps=EPS).relu()
    expected = (ops.set_mean if mean else ops.set_sum)(h, offsets)
    torch.testing.assert_close(ops.norm_relu_pool(x, offsets, scale, shift, mean=mean, eps=EPS), expected)


@SUM_AND_MEAN
def test_gradients_of_the_definition_are_right(mean):
    tensors, offsets, _ = drawn([3, 0, 2], 3)
    inputs = [t.cpu().requires_grad_() for t in tensors.values()]
    assert gradcheck(lambda x, *rest: norm_relu_pool_reference(x, offsets.cpu(), *rest, mean=mean), inputs)


def test_without_statistics_the_definition_runs(kernels):
    tensors, offsets, _ = drawn([3, 2], 4)
    with ops.backend.recording() as used:
        ops.norm_relu_pool(offsets=offsets, mean=False, **in_dtype(tensors, torch.float32))
    assert used == {("norm_relu_pool", "reference"): 1}


# --------------------------------------------------------------------------------------------------------- the kernels


@SUM_AND_MEAN
@pytest.mark.parametrize(
    ("sizes", "width", "numbers"),
    [
        case([3, 1, 17], 20, numbers="float32", name="ragged"),
        case([70, 2, 0, 33], 20, numbers="float32", name="longer than a tile"),
        case([1], 48, numbers="float16", name="one element"),
        case([50, 0, 20, 0], 48, numbers="float16", name="empty sets"),
        case([50, 0, 20, 0], 128, numbers="bfloat16", name="empty sets"),
        case([5000, 0, 60_000, 1, 900], 128, numbers="bfloat16", name="large"),
    ],
)
def test_kernels_are_as_accurate_as_the_definition(sizes, width, numbers, mean, kernels):
    found = check_kernels(sizes, width, mean, NUMBERS[numbers][0])
    empty = torch.tensor(sizes) == 0
    assert (found["result"][empty.to(DEVICE)] == 0).all()


def test_kernels_cut_at_the_same_numbers(kernels):
    check_kernels([70, 2, 0, 33], 20, False, change=lambda t: t | {"scale": 4 * t["scale"], "shift": t["shift"] / 10})


def test_a_set_over_more_programs_than_are_merged_at_once(kernels, monkeypatch):
    monkeypatch.setattr(_tiles, "INTERPRETED_PROGRAMS", 40)
    check_kernels([5, 36 * rows_of_tiles(torch.zeros(1, 20, device=DEVICE)) + 3, 0, 1], 20, True)


@SUM_AND_MEAN
@pytest.mark.parametrize("sizes", [[], [0, 0, 0]], ids=["no sets", "all empty"])
def test_kernels_give_zeros_without_elements(sizes, mean, kernels):
    tensors, offsets, direction = drawn(sizes, 20)
    found = computed(tensors, offsets, direction, mean)
    assert found["result"].shape == (len(sizes), 20)
    assert all((t == 0).all() for t in found.values())


def test_kernels_keep_a_small_spread_beside_a_large_offset(kernels):
    check_kernels([50, 3, 30], 20, True, change=lambda t: t | {"x": (t["x"] * 1e-2 + 1e4).float().double()})


def test_a_set_of_equal_numbers_has_finite_gradients(kernels):
    tensors, offsets, direction = drawn([20, 3], 20)
    tensors["x"][:20] = 3.25
    found = computed(tensors, offsets, direction, True)
    torch.testing.assert_close(found["result"][0], tensors["shift"].float().relu())
    assert all(t.isfinite().all() for t in found.values())


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # numpy's, of the spoilt set
@pytest.mark.parametrize("spoilt", [math.nan, math.inf], ids=str)
def test_kernels_do_not_let_sets_see_each_other(spoilt, kernels):
    tensors, offsets, direction = drawn([5, 18, 0, 3], 20)
    bad = tensors | {"x": tensors["x"].clone()}
    bad["x"][7] = spoilt
    healthy, ill = (computed(t, offsets, direction, False) for t in (tensors, bad))
    plain = outcome(
        partial(norm_relu_pool_reference, offsets=offsets, mean=False, eps=EPS), in_dtype(bad, torch.float32), direction
    )
    for name, others in (("result", [0, 2, 3]), ("gradient of x", [*range(5), *range(23, 26)])):
        torch.testing.assert_close(ill[name][others], healthy[name][others], rtol=0, atol=0)
    for name, value in plain.items():
        assert torch.equal(ill[name].isnan(), value.isnan()), name


def test_kernels_give_the_same_numbers_every_time(kernels):
    given = drawn([18, 40, 0, 5], 20)
    assert_same(computed(*given, False), computed(*given, False))


def test_kernels_do_not_mind_the_order_of_elements(kernels):
    tensors, offsets, direction = drawn([40, 5], 20)
    moved = torch.cat([torch.randperm(40), 40 + torch.randperm(5)]).to(DEVICE)
    found = computed(tensors, offsets, direction, True)
    expected = computed(tensors | {"x": tensors["x"][moved]}, offsets, direction, True)
    for name, value in expected.items():
        torch.testing.assert_close(found[name][moved] if name == "gradient of x" else found[name], value)


def test_kernels_take_tensors_with_gaps(kernels):
    tensors, offsets, direction = drawn([18, 0, 5], 20)
    given = in_dtype(tensors, torch.float32)
    gapped = {name: torch.stack([t, torch.full_like(t, 7)], -1)[..., 0] for name, t in given.items()}
    gapped_offsets = torch.stack([offsets, offsets + 1], 1)[:, 0]
    wide = direction.float()[:, :1].expand(3, 20)  # as the gradient of a sum comes
    found = outcome(pooled(gapped_offsets, False), gapped, wide)
    assert_same(found, outcome(pooled(offsets, False), given, wide.contiguous()))


@pytest.mark.parametrize(
    ("dtype", "around"),
    [(torch.float32, 0), (torch.float32, 1e4), (torch.float16, 100)],
    ids=["float32", "float32 far from zero", "float16 far from zero"],
)
def test_blocks_leave_the_statistics_of_what_they_give(dtype, around, kernels):
    """As it is stored: float16 around 100 has steps of 1/16."""
    tensors, offsets, _ = drawn([70, 2, 0, 33], 20)
    x, scale, shift = in_dtype(tensors, torch.float32).values()
    generator = torch.Generator().manual_seed(3)
    norms, weight = torch.randn(2, 1, 2, 20, generator=generator), torch.randn(1, 2, 20, 20, generator=generator)
    y, statistics = ops.clean_blocks((x + around).to(dtype), offsets, *norms.to(DEVICE), weight.to(DEVICE))
    found = ops.norm_relu_pool(y.float(), offsets, scale, shift, mean=True, statistics=statistics)
    exact = ops.norm_relu_pool(y.double(), offsets, scale.double(), shift.double(), mean=True)
    torch.testing.assert_close(found, exact.float(), rtol=1e-5, atol=1e-6)


def op_arguments(mean):
    tensors, offsets, direction = drawn([3, 0, 2], 20)
    x, scale, shift = in_dtype(tensors, torch.float32).values()
    slots, rows = statistics_of(x, offsets)
    return (x, offsets, scale, shift, slots, rows, mean, EPS), direction.float()


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


@SUM_AND_MEAN
def test_kernels_are_registered_as_torch_wants_them(mean, monkeypatch):
    monkeypatch.setenv(ops.backend.VARIABLE, "triton")
    (x, offsets, scale, shift, *rest), direction = op_arguments(mean)
    torch.library.opcheck(triton._norm_relu_pool_backward, (direction, x, offsets, scale, shift, *rest), test_utils=CHECKS)
    wanted = (x.requires_grad_(), offsets, scale.requires_grad_(), shift.requires_grad_(), *rest)
    torch.library.opcheck(triton._norm_relu_pool, wanted, test_utils=CHECKS)


@pytest.mark.traced
def test_kernels_can_be_traced_with_sizes_left_open(monkeypatch):
    monkeypatch.setenv(ops.backend.VARIABLE, "triton")
    start_with_zeros(monkeypatch)
    (x, offsets, scale, shift, *rest), _ = op_arguments(True)
    wanted = (x.requires_grad_(), offsets, scale.requires_grad_(), shift.requires_grad_(), *rest)
    torch.library.opcheck(triton._norm_relu_pool, wanted, test_utils="test_aot_dispatch_dynamic")
