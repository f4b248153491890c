"""Set norm: the definition against the formula of the paper; against the definition the CPU's short way (`set_norm/cpu.py`) and
the kernels (`set_norm/triton.py`).
"""

import math
from functools import partial

import pytest
import torch
from batches import make_batch
from kernels import DEVICE, NUMBERS, assert_as_accurate, assert_same, case, outcome, start_with_zeros, without_gpu
from torch.autograd import forward_ad, gradcheck

from orderless import ops
from orderless.ops import _tiles
from orderless.ops.set_norm import set_norm_obstacle, triton
from orderless.ops.set_norm.reference import set_norm_dense, set_norm_reference
from orderless.ops.set_norm.triton import WIDEST, rows_a_tile


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


def dense(x, offsets, weight, bias, eps=1e-5):
    """The form that compilers get, of sets of one size."""
    return set_norm_dense(x, offsets, weight, bias, set_size=int(offsets[1]), eps=eps)


def test_the_form_for_compilers_is_the_definition_and_so_are_its_derivatives():
    batch, parameters = make_batch([5, 5, 5], dim=3), affine(3)
    inputs = [t.requires_grad_() for t in (batch.x, *parameters)]
    found, expected = (function(inputs[0], batch.offsets, *inputs[1:]) for function in (dense, set_norm_reference))
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(found)
    for mine, its in zip(*(torch.autograd.grad(y, inputs, direction) for y in (found, expected)), strict=True):
        torch.testing.assert_close(mine, its)
    assert torch.autograd.gradgradcheck(lambda x, w, b: dense(x, batch.offsets, w, b), inputs)


def test_the_form_for_compilers_keeps_a_small_spread_at_a_large_offset():
    x, offsets = (torch.randn(3000, 16) * 1e-2 + 1e4).float(), torch.arange(4) * 1000
    exact = torch.cat([formula(s.double(), torch.ones(16), torch.zeros(16)) for s in x.split(1000)])
    found = dense(x, offsets, torch.ones(16), torch.zeros(16)).double()
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.traced
@pytest.mark.parametrize("forced", [None, "reference"])
def test_compiled_it_is_the_definition_whatever_is_forced(monkeypatch, forced):
    if forced:
        monkeypatch.setenv("ORDERLESS_BACKEND", forced)
    batch, parameters = make_batch([5, 5, 5], dim=3), affine(3)
    inputs = [t.requires_grad_() for t in (batch.x, *parameters)]

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(x, weight, bias):
        return ops.set_norm(x, batch.offsets, weight, bias, set_size=5)

    found, expected = compiled(*inputs), set_norm_reference(inputs[0], batch.offsets, *inputs[1:])
    torch.testing.assert_close(found, expected)
    for mine, its in zip(*(torch.autograd.grad(y.square().sum(), inputs) for y in (found, expected)), strict=True):
        torch.testing.assert_close(mine, its)


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


@pytest.mark.parametrize(
    "function", [set_norm_reference, ops.set_norm, partial(ops.set_norm, set_size=3)], ids=["it", "op", "dense"]
)
def test_second_derivatives_are_right(function):
    batch, parameters = make_batch([3, 3], dim=2), affine(2)
    inputs = [t.requires_grad_() for t in (batch.x, *parameters)]
    assert torch.autograd.gradgradcheck(lambda x, w, b: function(x, batch.offsets, w, b), inputs)


@pytest.mark.parametrize("set_size", [None, 2])
def test_gradients_of_one_set_size_and_of_any_are_right(set_size):
    batch, parameters = make_batch([2, 2, 2], dim=3), affine(3)
    inputs = [t.requires_grad_() for t in (batch.x, *parameters)]
    assert gradcheck(lambda x, w, b: ops.set_norm(x, batch.offsets, w, b, set_size=set_size), inputs)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own, in its jvp
@pytest.mark.parametrize("set_size", [None, 4])
def test_transforms_of_functions_see_through_it(set_size):
    batch, (weight, bias) = make_batch([4, 4], dim=3), affine(3)
    direction = torch.randn_like(batch.x)

    def normed(x):
        return ops.set_norm(x, batch.offsets, weight, bias, set_size=set_size)

    jacobian = torch.autograd.functional.jacobian(normed, batch.x)
    torch.testing.assert_close(
        torch.func.jvp(normed, (batch.x,), (direction,))[1], torch.einsum("abcd,cd->ab", jacobian, direction)
    )
    torch.testing.assert_close(torch.func.jacrev(normed)(batch.x), jacobian)
    stacked = torch.stack([batch.x, direction])
    torch.testing.assert_close(torch.func.vmap(normed)(stacked), torch.stack([normed(batch.x), normed(direction)]))


@pytest.mark.parametrize("set_size", [None, 3])
@pytest.mark.parametrize("trained", ["x", "weight", "bias", "x bias"])
def test_second_derivatives_leave_out_what_is_frozen(set_size, trained):
    batch, (weight, bias) = make_batch([3, 3], dim=2), affine(2)
    given = {"x": batch.x, "weight": weight, "bias": bias}
    inputs = [given[name].requires_grad_() for name in trained.split()]

    def gradients(function):
        y = function(batch.x, batch.offsets, weight, bias, eps=EPS)
        first = torch.autograd.grad(y.square().sum(), inputs, create_graph=True)
        return *first, *torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    for found, expected in zip(gradients(partial(ops.set_norm, set_size=set_size)), gradients(set_norm_reference), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("set_size", [None, 4])
def test_its_result_may_be_written_to(set_size):
    batch, (weight, bias) = make_batch([4, 4], dim=3), affine(3)
    x = batch.x.requires_grad_()
    in_place = torch.relu_(ops.set_norm(x, batch.offsets, weight, bias, set_size=set_size))
    expected = torch.relu(set_norm_reference(x, batch.offsets, weight, bias))
    torch.testing.assert_close(torch.autograd.grad(in_place.sum(), x), torch.autograd.grad(expected.sum(), x))


@pytest.mark.parametrize("set_size", [None, 4])
def test_batches_of_gradients_and_forward_derivatives_are_right(set_size):
    batch, parameters = make_batch([4, 4], dim=3), affine(3)
    weight, bias = (t.requires_grad_() for t in parameters)

    def normed(x):
        return ops.set_norm(x, batch.offsets, weight, bias, set_size=set_size)

    jacobian = torch.autograd.functional.jacobian(normed, batch.x)
    torch.testing.assert_close(torch.autograd.functional.jacobian(normed, batch.x, vectorize=True), jacobian)
    direction = torch.randn_like(batch.x)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(normed(forward_ad.make_dual(batch.x, direction))).tangent
    torch.testing.assert_close(tangent, torch.einsum("abcd,cd->ab", jacobian, direction))


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("set_size", [None, 4])
def test_a_trace_computes_the_same(set_size):
    batch, (weight, bias) = make_batch([4, 4], dim=3), affine(3)

    def normed(x, weight):
        return ops.set_norm(x, batch.offsets, weight, bias, set_size=set_size)

    other = torch.randn_like(batch.x)
    weight.requires_grad_()
    torch.testing.assert_close(torch.jit.trace(normed, (batch.x, weight))(other, weight), normed(other, weight))


def test_sums_over_a_long_ragged_set_are_as_exact_as_over_a_short_one():
    """Rows added one after another in float32 would lose digits with their number."""
    x, offsets = torch.randn(60_000, 4) + 1, torch.tensor([0, 59_000, 60_000])
    weight, bias = (t.float().requires_grad_() for t in affine())
    dy = torch.rand(60_000, 4)
    wide = [t.detach().double().requires_grad_() for t in (weight, bias)]
    exact = torch.autograd.grad(set_norm_reference(x.double(), offsets, *wide), wide, dy.double())
    for found, truth in zip(torch.autograd.grad(ops.set_norm(x, offsets, weight, bias), (weight, bias), dy), exact, strict=True):
        assert (found - truth).abs().max() <= 1e-6 * truth.abs().max()


def test_what_is_kept_for_the_way_back_is_once_the_elements():
    kept = []
    x = torch.randn(6000, 16, requires_grad=True)
    weight, bias = (t.float().requires_grad_() for t in affine(16))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
        ops.set_norm(x, torch.tensor([0, 1000, 6000]), weight, bias)
    assert sum(kept) <= 1.1 * x.nbytes


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


# --------------------------------------------------------------------------------------------------------- the kernels

EPS = 1e-2  # large enough to be missed where it is forgotten

KERNEL_CASES = [
    case([3, 1, 17], 20, numbers="float32", name="ragged"),
    case([70, 2, 33], 20, numbers="float32", name="longer than a tile"),
    case([4, 0, 2, 0], 48, numbers="float32", name="empty sets", marks=(without_gpu,)),
    case([4, 0, 16, 0], 16, numbers="float32", name="full tiles", marks=(without_gpu,)),
    case([1, 1, 1, 1], 3, numbers="float32", name="singles"),
    case([5], 2, numbers="float32", name="one set"),
    case([40, 2], 1, numbers="float32", name="one feature"),
    case([50, 0, 200, 3], 128, numbers="float32", name="over several programs"),
    case([50, 0, 200, 3], 128, numbers="float16", name="over several programs", marks=(without_gpu,)),
    case([50, 0, 200, 3], 128, numbers="bfloat16", name="over several programs"),
    case([3, 1, 17], 20, numbers="float16", name="ragged"),
    case([5000, 0, 60_000, 1, 900], 128, numbers="bfloat16", name="large"),
]


def drawn(sizes, width, dtype=torch.float32, *, seed=0):
    """Elements that `dtype` can hold, offsets, scale, shift and a direction, in float64."""
    batch = make_batch(sizes, width, seed=seed).to(DEVICE)
    generator = torch.Generator().manual_seed(seed + 1)
    scale, shift = torch.randn(2, width, generator=generator, dtype=torch.float64).to(DEVICE)
    direction = torch.randn(batch.x.shape, generator=generator, dtype=torch.float64).to(DEVICE)
    return batch.x.to(dtype).double(), batch.offsets, (1 + scale / 4).float().double(), shift.float().double(), direction


def check_kernels(sizes, width, dtype=torch.float32):
    """The kernels against the definition, elements in `dtype`, scale and shift in float32, as under autocast."""
    x, offsets, scale, shift, direction = drawn(sizes, width, dtype)
    given = {"x": x.to(dtype), "weight": scale.float(), "bias": shift.float()}
    exact = outcome(
        partial(set_norm_reference, offsets=offsets, eps=EPS), {"x": x, "weight": scale, "bias": shift}, direction.to(dtype)
    )
    plain = outcome(partial(set_norm_reference, offsets=offsets, eps=EPS), given, direction)
    with ops.backend.recording() as used:
        fast = outcome(partial(ops.set_norm, offsets=offsets, eps=EPS), given, direction)
    assert used == {("set_norm", "triton"): 1}
    assert_as_accurate(fast, plain, exact)


def normed(x, offsets, scale, shift, direction):
    """What the kernels make of float32 numbers, and of their gradients."""
    tensors = {"x": x.float(), "weight": scale.float(), "bias": shift.float()}
    return outcome(partial(ops.set_norm, offsets=offsets), tensors, direction)


@pytest.mark.parametrize(("sizes", "width", "numbers"), KERNEL_CASES)
def test_kernels_are_as_accurate_as_the_definition(sizes, width, numbers, kernels):
    check_kernels(sizes, width, NUMBERS[numbers][0])


def test_a_set_over_more_programs_than_are_merged_at_once(kernels, monkeypatch):
    monkeypatch.setattr(_tiles, "INTERPRETED_PROGRAMS", 40)
    check_kernels([5, 36 * rows_a_tile(20) + 3, 0, 1], 20)


@pytest.mark.parametrize("sizes", [[], [0, 0, 0]], ids=["no sets", "all empty"])
def test_kernels_have_nothing_to_do_without_elements(sizes, kernels):
    found = normed(*drawn(sizes, 20))
    assert found["result"].shape == (0, 20)
    assert found["gradient of x"].shape == (0, 20)
    assert (found["gradient of weight"] == 0).all()
    assert (found["gradient of bias"] == 0).all()


def far_from_zero(x):
    """Sets of 100, 3 and 30 elements with a spread of 1e-2, each around another number."""
    around = torch.cat([torch.full((size, 1), value) for size, value in ((100, 1e4), (3, 0), (30, -2e4))])
    return (x * 1e-2 + around.to(x)).float().double()


def test_kernels_keep_a_small_spread_beside_a_large_offset(kernels):
    x, offsets, *_ = drawn([100, 3, 30], 20)
    x = far_from_zero(x)
    weight, bias = torch.ones(20, device=DEVICE), torch.zeros(20, device=DEVICE)
    exact = torch.cat([formula(s, weight, bias) for s in x.split([100, 3, 30])])
    found = ops.set_norm(x.float(), offsets, weight, bias).double()
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_kernels_find_gradients_beside_a_large_offset(kernels):
    x, offsets, scale, shift, direction = drawn([100, 3, 30], 20)
    x = far_from_zero(x)
    given = {"x": x, "weight": scale, "bias": shift}
    exact = outcome(partial(set_norm_reference, offsets=offsets), given, direction)
    plain = outcome(partial(set_norm_reference, offsets=offsets), {name: t.float() for name, t in given.items()}, direction)
    assert_as_accurate(normed(x, offsets, scale, shift, direction), plain, exact)


def test_kernels_give_the_bias_for_a_set_of_equal_numbers(kernels):
    x, offsets, scale, shift, direction = drawn([20, 3], 20)
    x[:20] = 3.25
    found = normed(x, offsets, scale, shift, direction)
    torch.testing.assert_close(found["result"][:20], shift.float().expand(20, 20))
    assert all(t.isfinite().all() for t in found.values())


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # numpy's, of the spoilt set
@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 1e38], ids=str)
def test_kernels_do_not_let_sets_see_each_other(spoilt, kernels):
    x, offsets, scale, shift, direction = drawn([18, 40, 0, 5], 20)
    bad = x.clone()
    bad[18 + 3] = spoilt
    healthy, ill = (normed(a, offsets, scale, shift, direction) for a in (x, bad))
    others = torch.tensor([*range(18), *range(58, 63)], device=DEVICE)
    for name in ("result", "gradient of x"):
        torch.testing.assert_close(ill[name][others], healthy[name][others], rtol=0, atol=0)
        assert not torch.equal(ill[name][18:58], healthy[name][18:58])
    if math.isnan(spoilt):
        assert ill["result"][18:58].isnan().all()
        assert ill["gradient of x"][18:58].isnan().all()


def test_kernels_do_not_mind_the_order_of_elements_nor_of_sets(kernels):
    sizes, width = [18, 40, 0, 5], 20
    x, offsets, scale, shift, direction = drawn(sizes, width)
    starts = offsets.tolist()
    rows = [start + torch.randperm(size) for start, size in zip(starts, sizes, strict=False)]
    order = [3, 1, 0, 2]
    moved = torch.cat([rows[n] for n in order]).to(DEVICE)
    new_offsets = torch.tensor([0, *(sizes[n] for n in order)], device=DEVICE).cumsum(0)
    found, expected = normed(x, offsets, scale, shift, direction), normed(x[moved], new_offsets, scale, shift, direction[moved])
    for name in ("result", "gradient of x"):  # other programs have other parts of a set: the same to rounding
        torch.testing.assert_close(found[name][moved], expected[name])
    for name in ("gradient of weight", "gradient of bias"):
        torch.testing.assert_close(found[name], expected[name])


def test_kernels_give_the_same_numbers_every_time(kernels):
    given = drawn([18, 40, 0, 5], 20)
    assert_same(normed(*given), normed(*given))


def test_kernels_take_tensors_with_gaps(kernels):
    x, offsets, scale, shift, _ = (t.float() if t.is_floating_point() else t for t in drawn([18, 0, 5], 20))
    gapped = [torch.stack([t, torch.full_like(t, 7)], -1)[..., 0] for t in (x, offsets, scale, shift)]
    assert not any(t.is_contiguous() for t in gapped)
    torch.testing.assert_close(ops.set_norm(*gapped), ops.set_norm(x, offsets, scale, shift), rtol=0, atol=0)


def test_kernels_give_gradients_in_the_dtype_of_each_tensor(kernels):
    x, offsets, scale, shift, direction = drawn([18, 0, 5], 20, torch.float16)
    given = {"x": x.half(), "weight": scale.half(), "bias": shift.half()}
    exact = outcome(partial(set_norm_reference, offsets=offsets), {n: t.double() for n, t in given.items()}, direction.half())
    plain = outcome(partial(set_norm_reference, offsets=offsets), given, direction)
    found = outcome(partial(ops.set_norm, offsets=offsets), given, direction)
    assert {t.dtype for t in found.values()} == {torch.float16}
    assert_as_accurate(found, plain, exact)


def test_kernels_have_no_second_derivatives_and_say_so(kernels):
    x, offsets, scale, shift, _ = (t.float() if t.is_floating_point() else t for t in drawn([3, 2], 20))
    (gradient,) = torch.autograd.grad(
        ops.set_norm(x.requires_grad_(), offsets, scale, shift).square().sum(), x, create_graph=True
    )
    with pytest.raises(RuntimeError, match="set_norm_backward"):
        gradient.sum().backward()


def test_more_features_than_kernels_take_go_to_the_definition(kernels):
    x, offsets, scale, shift, direction = drawn([3, 2], WIDEST + 1)
    assert set_norm_obstacle(x.float()) == f"{WIDEST + 1} features are more than {WIDEST}"
    assert set_norm_obstacle(x.float()[:, :WIDEST]) is None
    with ops.backend.recording() as used:
        normed(x, offsets, scale, shift, direction)
    assert used == {("set_norm", "reference"): 1}


def op_arguments():
    x, offsets, scale, shift, direction = (t.float() if t.is_floating_point() else t for t in drawn([3, 0, 2], 20))
    return x.requires_grad_(), offsets, scale.requires_grad_(), shift.requires_grad_(), direction


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def test_kernels_are_registered_as_torch_wants_them():
    *given, direction = op_arguments()
    torch.library.opcheck(triton._set_norm, (*given, EPS), test_utils=CHECKS)
    x, offsets, scale, shift = (t.detach() for t in given)
    stats = triton._set_norm(x, offsets, scale, shift, EPS)[1]
    torch.library.opcheck(triton._set_norm_backward, (direction, x, offsets, scale, shift, stats, EPS), test_utils=CHECKS)


@pytest.mark.traced
def test_kernels_can_be_traced_with_sizes_left_open(monkeypatch):
    start_with_zeros(monkeypatch)
    *given, _ = op_arguments()
    torch.library.opcheck(triton._set_norm, (*given, EPS), test_utils="test_aot_dispatch_dynamic")
