"""Clean blocks: the definition against the layers, and the kernels (`clean_blocks/triton.py`) against the definition."""

import math
from functools import partial

import pytest
import torch
from batches import make_batch
from kernels import (
    DEVICE,
    NUMBERS,
    assert_as_accurate,
    assert_same,
    case,
    multiplying,
    outcome,
    start_with_zeros,
    without_gpu,
)
from torch.autograd import gradcheck

from orderless import ops
from orderless.nn import CleanBlock
from orderless.ops import _tiles
from orderless.ops.clean_blocks import triton
from orderless.ops.clean_blocks.reference import clean_blocks_reference
from orderless.ops.clean_blocks.triton import WIDEST

EPS = 1e-2  # large enough to be missed where it is forgotten


def drawn(sizes, width, depth, *, seed=0):
    """Elements, scale, shift and weight of the blocks, offsets, and a direction, in float64.

    No number comes near the kink of a ReLU, where a rounding decides whether a gradient passes: features are on for all elements,
    or off for all. Their scale has either sign.
    """
    batch = make_batch(sizes, width, seed=seed).to(DEVICE)
    generator = torch.Generator().manual_seed(seed + 1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    on = (torch.rand(depth, 2, width, generator=generator) < 0.7).double() * 2 - 1
    sign = (torch.rand(depth, 2, width, generator=generator) < 0.7).double() * 2 - 1
    tensors = {
        "x": batch.x,
        "scale": sign * (0.25 + normal(depth, 2, width).clamp(-2, 2) / 20),
        "shift": on * (2 + normal(depth, 2, width).clamp(-2, 2) / 5),
        "weight": normal(depth, 2, width, width) / math.sqrt(width),
    }
    tensors = {name: t.float().double().to(DEVICE) for name, t in tensors.items()}
    return tensors, batch.offsets, normal(*batch.x.shape).to(DEVICE)


def with_kinks(tensors):
    """The same with scales and shifts such that about half of all numbers are cut by a ReLU, element by element."""
    return tensors | {"scale": 4 * tensors["scale"], "shift": tensors["shift"] / 10}


def in_dtype(tensors, dtype):
    """Elements in `dtype`, parameters in float32, as under autocast."""
    return {name: t.to(dtype if name == "x" else torch.float32) for name, t in tensors.items()}


def blocks(offsets, eps=EPS):
    return lambda **tensors: ops.clean_blocks(offsets=offsets, eps=eps, **tensors)[0]


def definition(offsets, eps=EPS):
    """The definition in the dtype of the elements, where a half precision product would want both sides alike."""

    def compute(x, scale, shift, weight):
        return clean_blocks_reference(x, offsets, scale, shift, weight.to(x.dtype), eps=eps)

    return compute


def check_kernels(sizes, width, depth, numbers="float32", *, change=lambda tensors: tensors):
    dtype, precision = NUMBERS[numbers]
    tensors, offsets, direction = drawn(sizes, width, depth)
    tensors = change(tensors | {"x": tensors["x"].to(dtype).double()})
    given, direction = in_dtype(tensors, dtype), direction.to(dtype)
    exact = outcome(definition(offsets), tensors, direction)
    with multiplying(precision):
        plain = outcome(definition(offsets), given, direction)
        with ops.backend.recording() as used:
            fast = outcome(blocks(offsets), given, direction)
    assert used == {("clean_blocks", "triton"): 1}
    assert_as_accurate(fast, plain, exact)


def computed(tensors, offsets, direction):
    """What the kernels make of float32 numbers, and of their gradients."""
    return outcome(blocks(offsets), in_dtype(tensors, torch.float32), direction)


# ------------------------------------------------------------------------------------------------------ the definition


def test_it_is_what_the_layers_compute():
    tensors, offsets, _ = drawn([3, 0, 5], 4, 2)
    tensors = {name: t.cpu() for name, t in tensors.items()}
    expected = make_batch([3, 0, 5], 4).with_x(tensors["x"])
    for scales, shifts, weights in zip(tensors["scale"], tensors["shift"], tensors["weight"], strict=True):
        block = CleanBlock(4).double()
        for i, (norm, fc) in enumerate(((block.branch.norm1, block.branch.fc1), (block.branch.norm2, block.branch.fc2))):
            norm.load_state_dict({"weight": scales[i], "bias": shifts[i]})
            fc.load_state_dict({"weight": weights[i]})
        expected = block(expected)
    torch.testing.assert_close(clean_blocks_reference(offsets=offsets.cpu(), **tensors), expected.x)


@pytest.mark.parametrize("sizes", [[3, 0, 2], [1]], ids=str)
def test_gradients_of_the_definition_are_right(sizes):
    tensors, offsets, _ = drawn(sizes, 3, 2)
    inputs = [t.cpu().requires_grad_() for t in tensors.values()]
    assert gradcheck(lambda x, *rest: clean_blocks_reference(x, offsets.cpu(), *rest), inputs)


# --------------------------------------------------------------------------------------------------------- the kernels


@pytest.mark.parametrize(
    ("sizes", "width", "depth", "numbers"),
    [
        case([3, 1, 17], 20, 1, numbers="float32", name="ragged"),
        case([70, 2, 0, 33], 20, 3, numbers="float32", name="longer than a tile"),
        case([18, 4], 20, 5, numbers="float32", name="with products made again"),
        case([5, 20], 128, 1, numbers="float32", name="widest"),
        case([1, 1, 1, 1], 16, 1, numbers="float16", name="singles", marks=(without_gpu,)),
        case([20], 16, 3, numbers="float16", name="one set", marks=(without_gpu,)),
        case([40, 0, 3], 48, 2, numbers="float16", name="empty set"),
        case([40, 0, 300, 3], 128, 2, numbers="bfloat16", name="empty set"),
        case([40, 0, 300, 3], 128, 2, numbers="tf32", name="empty set"),
        case([5000, 0, 30_000, 1, 900], 128, 5, numbers="bfloat16", name="large"),
    ],
)
def test_kernels_are_as_accurate_as_the_definition(sizes, width, depth, numbers, kernels):
    check_kernels(sizes, width, depth, numbers)


def test_kernels_cut_at_the_same_numbers(kernels):
    check_kernels([70, 2, 0, 33], 20, 2, change=with_kinks)


def test_a_set_over_more_programs_than_are_merged_at_once(kernels, monkeypatch):
    monkeypatch.setattr(_tiles, "INTERPRETED_PROGRAMS", 40)
    check_kernels([5, 36 * triton.rows_of_tiles(torch.zeros(1, 20, device=DEVICE)) + 3, 0, 1], 20, 1)


@pytest.mark.parametrize("sizes", [[], [0, 0, 0]], ids=["no sets", "all empty"])
def test_kernels_have_nothing_to_do_without_elements(sizes, kernels):
    found = computed(*drawn(sizes, 20, 2))
    assert found["result"].shape == (0, 20)
    assert found["gradient of x"].shape == (0, 20)
    for name in ("scale", "shift", "weight"):
        assert (found[f"gradient of {name}"] == 0).all()


def test_without_blocks_elements_pass(kernels):
    tensors, offsets, direction = drawn([3, 0, 18], 20, 0)
    found = computed(tensors, offsets, direction)
    torch.testing.assert_close(found["result"], tensors["x"].float(), rtol=0, atol=0)
    torch.testing.assert_close(found["gradient of x"], direction.float(), rtol=0, atol=0)


def test_kernels_keep_a_small_spread_beside_a_large_offset(kernels):
    def around_1e4(tensors):
        return tensors | {"x": (tensors["x"] * 1e-2 + 1e4).float().double()}

    tensors, offsets, _ = drawn([50, 3, 30], 20, 1)
    tensors = around_1e4(tensors)
    # what a block adds is of size 1, and float32 around 1e4 has steps of 1e-3: only what is added can be exact
    exact = definition(offsets, 1e-5)(**tensors) - tensors["x"]
    found, _ = ops.clean_blocks(offsets=offsets, eps=1e-5, **in_dtype(tensors, torch.float32))
    step = 2**-10  # of float32 beyond 8192
    assert ((found.double() - tensors["x"]) - exact).abs().max() <= 0.51 * step
    check_kernels([50, 3, 30], 20, 1, change=around_1e4)


def test_a_set_of_equal_numbers_has_finite_gradients(kernels):
    tensors, offsets, direction = drawn([20, 3], 20, 2)
    tensors["x"][:20] = 3.25
    exact = outcome(definition(offsets), tensors, direction)
    plain = outcome(definition(offsets), in_dtype(tensors, torch.float32), direction)
    found = computed(tensors, offsets, direction)
    assert all(t.isfinite().all() for t in found.values())
    assert_as_accurate(found, plain, exact)


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # numpy's, of the spoilt set
@pytest.mark.parametrize("spoilt", [math.nan, math.inf], ids=str)
def test_kernels_do_not_let_sets_see_each_other(spoilt, kernels):
    tensors, offsets, direction = drawn([5, 18, 0, 3], 20, 1)
    bad = tensors | {"x": tensors["x"].clone()}
    bad["x"][7] = spoilt
    healthy, ill = (computed(t, offsets, direction) for t in (tensors, bad))
    others = torch.tensor([*range(5), *range(23, 26)], device=DEVICE)
    for name in ("result", "gradient of x"):
        torch.testing.assert_close(ill[name][others], healthy[name][others], rtol=0, atol=0)
        assert ill[name][5:23].isnan().all()


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
def test_what_is_not_a_number_is_not_hidden_from_the_gradients(kernels):
    tensors, offsets, direction = drawn([3, 18], 20, 1)
    tensors["x"][5] = math.nan
    plain = outcome(definition(offsets), in_dtype(tensors, torch.float32), direction)
    found = computed(tensors, offsets, direction)
    for name, value in plain.items():
        assert torch.equal(found[name].isnan(), value.isnan()), name


def test_kernels_do_not_mind_the_order_of_elements_nor_of_sets(kernels):
    sizes = [18, 20, 0, 5]
    tensors, offsets, direction = drawn(sizes, 20, 1)
    rows = [start + torch.randperm(size) for start, size in zip(offsets.tolist(), sizes, strict=False)]
    order = [3, 1, 0, 2]
    moved = torch.cat([rows[n] for n in order]).to(DEVICE)
    new_offsets = torch.tensor([0, *(sizes[n] for n in order)], device=DEVICE).cumsum(0)
    found = computed(tensors, offsets, direction)
    expected = computed(tensors | {"x": tensors["x"][moved]}, new_offsets, direction[moved])
    for name, value in expected.items():  # other programs have other parts of a set: the same to rounding
        torch.testing.assert_close(found[name][moved] if value.shape == direction.shape else found[name], value)


def test_a_set_comes_out_the_same_alone_and_among_others(kernels):
    tensors, offsets, direction = drawn([3, 18, 0, 5], 20, 1)
    together = computed(tensors, offsets, direction)
    alone = computed(tensors | {"x": tensors["x"][3:21]}, torch.tensor([0, 18], device=DEVICE), direction[3:21])
    for name in ("result", "gradient of x"):
        torch.testing.assert_close(alone[name], together[name][3:21])


def test_kernels_give_the_same_numbers_every_time(kernels):
    given = drawn([18, 0, 5], 20, 2)
    assert_same(computed(*given), computed(*given))


def test_kernels_take_tensors_with_gaps(kernels):
    tensors, offsets, direction = drawn([18, 0, 5], 20, 1)
    given = in_dtype(tensors, torch.float32)
    gapped = {name: torch.stack([t, torch.full_like(t, 7)], -1)[..., 0] for name, t in given.items()}
    gapped_offsets = torch.stack([offsets, offsets + 1], 1)[:, 0]
    assert not any(t.is_contiguous() for t in (*gapped.values(), gapped_offsets))
    assert_same(outcome(blocks(gapped_offsets), gapped, direction), outcome(blocks(offsets), given, direction))


def test_transposed_weights_are_transposed(kernels):
    tensors, offsets, direction = drawn([18, 0, 5], 20, 1)
    given = in_dtype(tensors, torch.float32)
    transposed = given | {"weight": given["weight"].mT}
    expected = outcome(blocks(offsets), given | {"weight": given["weight"].mT.contiguous()}, direction)
    assert_same(outcome(blocks(offsets), transposed, direction), expected)


def test_kernels_give_gradients_in_the_dtype_of_each_tensor(kernels):
    tensors, offsets, direction = drawn([18, 0, 5], 48, 1)
    given = {name: t.half() for name, t in tensors.items()}
    exact = outcome(definition(offsets), {name: t.double() for name, t in given.items()}, direction.half())
    plain, found = (outcome(f(offsets), given, direction) for f in (definition, blocks))
    assert {t.dtype for t in found.values()} == {torch.float16}
    assert_as_accurate(found, plain, exact)


@pytest.mark.parametrize("wanted", ["x", "scale", "shift", "weight"])
def test_the_gradient_of_one_tensor_alone_is_the_same(wanted, kernels):
    tensors, offsets, direction = drawn([18, 0, 5], 20, 1)
    given, every = in_dtype(tensors, torch.float32), computed(tensors, offsets, direction)
    others = {name: t for name, t in given.items() if name != wanted}
    found = outcome(partial(blocks(offsets), **others), {wanted: given[wanted]}, direction)
    assert_same(found, {"result": every["result"], f"gradient of {wanted}": every[f"gradient of {wanted}"]})


def op_arguments(depth=1):
    tensors, offsets, direction = drawn([3, 0, 2], 20, depth)
    x, *parameters = in_dtype(tensors, torch.float32).values()
    return (x, offsets, *parameters), direction.float()


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_nothing_is_kept_where_no_gradient_is_wanted(depth, kernels):
    given, _ = op_arguments(depth)
    y, kept, stats = triton._clean_blocks(*given, EPS, True, False)
    same, nothing, same_stats = triton._clean_blocks(*given, EPS, False, False)
    assert len(nothing) == 0
    assert max(depth - 1, 0) <= len(kept) <= max(2 * depth - 1, 0)  # the inputs of blocks, and of inner products as many as pay
    torch.testing.assert_close(same, y, rtol=0, atol=0)
    torch.testing.assert_close(same_stats, stats, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("wants_gradient", [True, False])
def test_what_is_kept_depends_on_whether_gradients_are_wanted(wants_gradient, kernels, monkeypatch):
    (x, offsets, *parameters), _ = op_arguments()
    asked = []
    op = triton._clean_blocks
    monkeypatch.setattr(triton, "_clean_blocks", lambda *args: asked.append(args[-2]) or op(*args))
    ops.clean_blocks(x, offsets, *parameters)
    ops.clean_blocks(x.requires_grad_(wants_gradient), offsets, *parameters)
    with torch.no_grad():
        ops.clean_blocks(x, offsets, *parameters)
    assert asked == [False, wants_gradient, False]


def test_kernels_have_no_second_derivatives_and_say_so(kernels):
    (x, offsets, *parameters), _ = op_arguments()
    y, _ = ops.clean_blocks(x.requires_grad_(), offsets, *parameters)
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="clean_blocks_backward"):
        gradient.sum().backward()


def test_more_features_than_kernels_take_go_to_the_definition(kernels):
    tensors, offsets, _ = drawn([3, 2], WIDEST + 1, 1)
    assert ops.clean_blocks_obstacle(tensors["x"].float()) == f"{WIDEST + 1} features are more than {WIDEST}"
    assert ops.clean_blocks_obstacle(tensors["x"].float()[:, :WIDEST]) is None
    with ops.backend.recording() as used:
        y, statistics = ops.clean_blocks(offsets=offsets, **in_dtype(tensors, torch.float32))
    assert used == {("clean_blocks", "reference"): 1}
    assert statistics is None
    torch.testing.assert_close(y, definition(offsets, 1e-5)(**in_dtype(tensors, torch.float32)), rtol=0, atol=0)


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def test_kernels_are_registered_as_torch_wants_them():
    (x, offsets, *parameters), direction = op_arguments()
    given = (x, offsets, *parameters)
    torch.library.opcheck(triton._clean_blocks, (*given, EPS, False, False), test_utils=CHECKS)
    _, kept, stats = triton._clean_blocks(*given, EPS, True, False)
    torch.library.opcheck(
        triton._clean_blocks_backward, (direction, x, kept, stats, offsets, *parameters, EPS, False), test_utils=CHECKS
    )
    with_gradients = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
    torch.library.opcheck(triton._clean_blocks, (*with_gradients, EPS, True, False), test_utils=CHECKS)


@pytest.mark.traced
def test_kernels_can_be_traced_with_sizes_left_open(monkeypatch):
    start_with_zeros(monkeypatch)
    (x, offsets, *parameters), _ = op_arguments()
    given = (x.requires_grad_(), offsets, *(p.requires_grad_() for p in parameters))
    torch.library.opcheck(triton._clean_blocks, (*given, EPS, True, False), test_utils="test_aot_dispatch_dynamic")
