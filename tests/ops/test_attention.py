"""The definition is checked against a loop over sets, every fast form (`tiled.py`) against the definition."""

import math

import pytest
import torch
from batches import make_batch
from torch.autograd import gradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel

from orderless import ops
from orderless.ops.attention import tiled
from orderless.ops.attention.reference import attention_reference

DIM, HEADS, SCALE = 6, 2, 0.4
PAIRS = {
    "ragged": ([3, 1, 40], [5, 33, 2]),
    "no keys": ([2, 3], [0, 4]),
    "no queries": ([0, 3], [2, 4]),
    "nothing": ([0], [0]),
    "one set": ([4], [70]),
    "equal": ([5, 5], [5, 5]),
    "no sets": ([], []),
    "small": ([1] * 9, [1] * 9),
    "small beside large": ([2] * 9 + [60], [3] * 9 + [50]),
}


def loop(q, k, v):
    """Attention of one set, head by head."""
    if len(k) == 0:
        return torch.zeros_like(q)
    heads = [
        torch.softmax(qh @ kh.T * SCALE, 1) @ vh
        for qh, kh, vh in zip(q.chunk(HEADS, 1), k.chunk(HEADS, 1), v.chunk(HEADS, 1), strict=True)
    ]
    return torch.cat(heads, 1)


def make(sizes, seed):
    return make_batch(sizes, DIM, seed=seed)


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def case(request):
    q_sizes, k_sizes = request.param
    return make(q_sizes, 0), make(k_sizes, 1), make(k_sizes, 2)


def test_the_definition_is_softmax_attention_set_by_set(case):
    q, k, v = case
    expected = torch.cat([loop(*one) for one in zip(q, k, v, strict=True)] or [q.x])
    found = attention_reference(q.x, q.offsets, k.x, v.x, k.offsets, num_heads=HEADS, scale=SCALE)
    torch.testing.assert_close(found, expected)


def test_packed_attention_is_the_definition_with_its_gradients(case):
    q, k, v = case
    inputs = [b.x.requires_grad_() for b in (q, k, v)]
    assert_same(
        ops.packed_attention(q.x, q.offsets, k.x, v.x, k.offsets, num_heads=HEADS, scale=SCALE),
        attention_reference(q.x, q.offsets, k.x, v.x, k.offsets, num_heads=HEADS, scale=SCALE),
        inputs,
    )


def test_dense_queries_over_packed_keys_are_the_definition(case):
    _, k, v = case
    num_points = 3
    q = torch.randn(len(k), num_points, DIM, dtype=torch.float64, requires_grad=True)
    q_offsets = torch.arange(len(k) + 1) * num_points
    options = {"num_heads": HEADS, "scale": SCALE}
    assert_same(
        ops.dense_query_attention(q, k.x, v.x, k.offsets, **options).flatten(0, 1),
        attention_reference(q.flatten(0, 1), q_offsets, k.x, v.x, k.offsets, **options),
        [q, k.x.requires_grad_(), v.x.requires_grad_()],
    )


def test_packed_queries_over_dense_keys_are_the_definition(case):
    q, _, _ = case
    num_points = 3
    k, v = torch.randn(2, len(q), num_points, DIM, dtype=torch.float64).requires_grad_()
    k_offsets = torch.arange(len(q) + 1) * num_points
    options = {"num_heads": HEADS, "scale": SCALE}
    assert_same(
        ops.dense_key_attention(q.x, k, v, q.offsets, **options),
        attention_reference(q.x, q.offsets, k.flatten(0, 1), v.flatten(0, 1), k_offsets, **options),
        [q.x.requires_grad_(), k, v],
    )


def test_tiles_of_small_sets_are_not_mostly_padding():
    for sizes, most in (([1] * 1000, 5.1), ([4, 2, 6] * 300, 3.1), ([2] * 1000 + [9000], 2.5), ([40] * 100, 1.9)):
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        tiles = tiled.tiling(offsets, sum(sizes), tiled.rows_of_tile(offsets, sum(sizes)))
        assert int(tiles.filled.sum()) == sum(sizes)
        assert tiles.filled.numel() <= most * sum(sizes)


def test_equal_sizes_take_a_dense_view_with_the_same_numbers():
    q, k, v = (make([9, 9], seed) for seed in range(3))
    q.x.requires_grad_()
    points = torch.randn(2, 3, DIM, dtype=torch.float64)
    options = {"num_heads": HEADS, "scale": SCALE}
    packed = ops.dense_query_attention(points, q.x, v.x, k.offsets, **options)
    dense = ops.dense_query_attention(points, q.x, v.x, k.offsets, **options, set_size=9)
    assert_same(dense, packed, [q.x])


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e30])
def test_what_another_set_holds_does_not_matter(garbage):
    q, k, v = make([4, 2], 0), make([5, 3], 1), make([5, 3], 2)
    points, keys = torch.randn(2, 3, DIM, dtype=torch.float64), torch.randn(2, 3, DIM, dtype=torch.float64)
    options = {"num_heads": HEADS, "scale": SCALE}

    def of_the_second_set(q_, k_, v_, points_, keys_):
        return torch.cat(
            [
                ops.packed_attention(q_, q.offsets, k_, v_, k.offsets, **options)[4:],
                ops.dense_query_attention(points_, k_, v_, k.offsets, **options)[1],
                ops.dense_key_attention(q_, keys_, keys_, q.offsets, **options)[4:],
            ]
        )

    clean = [q.x, k.x, v.x, points, keys]
    dirty = [rows.clone() for rows in clean]
    for rows, first_set in zip(dirty, (4, 5, 5, 1, 1), strict=True):
        rows[:first_set] = garbage
    torch.testing.assert_close(of_the_second_set(*dirty), of_the_second_set(*clean), rtol=0, atol=0)


def test_gradients_of_the_definition_and_the_tiles_are_right():
    q, k, v = make([2, 0, 1], 0), make([3, 2, 0], 1), make([3, 2, 0], 2)
    inputs = [b.x.requires_grad_() for b in (q, k, v)]
    for function in (attention_reference, ops.packed_attention):
        assert gradcheck(lambda q_, k_, v_, f=function: f(q_, q.offsets, k_, v_, k.offsets, num_heads=HEADS, scale=SCALE), inputs)


def test_second_derivatives_exist_packed_always_and_dense_with_torchs_math_attention():
    k = make([4, 4], 1)
    points = torch.randn(2, 3, DIM, dtype=torch.float64)
    options = {"num_heads": HEADS, "scale": SCALE}
    x = k.x.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: ops.dense_query_attention(points, x, x, k.offsets, **options), x)
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(
            lambda x: ops.dense_query_attention(points, x, x, k.offsets, **options, set_size=4), x
        )


def test_large_scores_do_not_overflow():
    q, k, v = make([2], 0), make([40], 1), make([40], 2)
    out = ops.packed_attention(q.x * 1e4, q.offsets, k.x * 1e4, v.x, k.offsets, num_heads=HEADS, scale=SCALE)
    expected = attention_reference(q.x * 1e4, q.offsets, k.x * 1e4, v.x, k.offsets, num_heads=HEADS, scale=SCALE)
    assert out.isfinite().all()
    torch.testing.assert_close(out, expected)


def test_low_precision_softmax_is_summed_in_float32():
    k = torch.zeros(4096, DIM, dtype=torch.bfloat16)
    v = torch.ones(4096, DIM, dtype=torch.bfloat16)
    q = torch.zeros(1, 1, DIM, dtype=torch.bfloat16)
    out = ops.dense_query_attention(q, k, v, torch.tensor([0, 4096]), num_heads=HEADS, scale=SCALE)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, torch.ones_like(out))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_dense_attention_on_a_cpu_is_rounded_once_and_not_inside(dtype):
    """Also where autocast is on, as in training: torch's own way through 16 bits takes ten times as long on small sets."""
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in ((8, 3, DIM), (40, DIM), (40, DIM))]
    offsets = torch.arange(0, 41, 5)
    with torch.autocast("cpu", torch.bfloat16):
        found = ops.dense_query_attention(*inputs, offsets, num_heads=HEADS, scale=SCALE, set_size=5)
    exact = [a.detach().float().requires_grad_() for a in inputs]
    expected = ops.dense_query_attention(*exact, offsets, num_heads=HEADS, scale=SCALE, set_size=5)
    direction = torch.randn_like(found)
    gradients = torch.autograd.grad(found, inputs, direction)
    wanted = torch.autograd.grad(expected, exact, direction.float())
    for rounded, whole in zip([found, *gradients], [expected, *wanted], strict=True):
        assert torch.equal(rounded, whole.to(dtype))


def assert_same(found, expected, inputs):
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(expected)
    gradients = torch.autograd.grad(found, inputs, direction, allow_unused=True, materialize_grads=True)
    wanted = torch.autograd.grad(expected, inputs, direction, allow_unused=True, materialize_grads=True)
    for a, b in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_queries_that_look_at_many_keys_keep_their_digits():
    """20,000 tiles, which a running sum in float32 would blur: the mean of numbers around 1,000."""
    num_keys = 640_000
    values, offsets = torch.rand(num_keys, HEADS) + 1000, torch.tensor([0, num_keys])
    queries = torch.zeros(1, 1, HEADS, requires_grad=True)
    found = ops.dense_query_attention(queries, values, values, offsets, num_heads=HEADS, scale=SCALE)
    torch.testing.assert_close(found[0, 0].double(), values.double().mean(0), rtol=2e-7, atol=0)
