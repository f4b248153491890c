"""Set norm, ReLU and pooling in Triton: one pass over the elements forward, two backward.

Letters: N sets, T rows, D features, P programs, S slots, M rows of a tile.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops._launch import on_device_of
from orderless.ops._slots import (
    merged_statistics,
    my_sets,
    my_slot,
    size_of_set,
    slots_of_set,
    standardise,
    tile_at,
    tiles_of_set,
)
from orderless.ops._tiles import SetStatistics, cut_tiles
from orderless.ops.set_norm.triton import constants, norm_gradients, pointers, programs


def norm_relu_pool_triton(
    x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, statistics: SetStatistics, *, mean: bool, eps: float = 1e-5
) -> Tensor:
    """`norm_relu_pool_reference` by kernels."""
    x, offsets, scale, shift = (t.contiguous() for t in (x, offsets, scale, shift))
    with on_device_of(x):
        return _norm_relu_pool(x, offsets, scale, shift, statistics.slots, statistics.rows, mean, eps)


@torch.library.custom_op("orderless::norm_relu_pool", mutates_args=())
def _norm_relu_pool(
    x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, stats: Tensor, rows: int, mean: bool, eps: float
) -> Tensor:
    tiles = cut_tiles(offsets, x.shape[0], rows)
    grid = programs(x)
    parts = x.new_empty(grid[0] + tiles.num_sets, x.shape[1], dtype=torch.float32)
    _pool_kernel[grid](x, scale, shift, stats, stats.shape[1], parts, *pointers(tiles), eps, **constants(x, tiles))
    pooled = x.new_empty(tiles.num_sets, x.shape[1])
    sizes = {"D": x.shape[1], "BLOCK_D": triton.next_power_of_2(x.shape[1]), "MEAN": mean}
    _add_slots_kernel[(tiles.num_sets,)](parts, parts.shape[0], pooled, tiles.offsets, tiles.first, tiles.num_sets, **sizes)
    return pooled


@_norm_relu_pool.register_fake
def _(x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, stats: Tensor, rows: int, mean: bool, eps: float) -> Tensor:
    return x.new_empty(offsets.shape[0] - 1, x.shape[1])


@torch.library.custom_op("orderless::norm_relu_pool_backward", mutates_args=())
def _norm_relu_pool_backward(
    dy: Tensor, x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, stats: Tensor, rows: int, mean: bool, eps: float
) -> tuple[Tensor, Tensor]:
    tiles = cut_tiles(offsets, x.shape[0], rows)
    if mean:
        dy = dy / offsets.diff().clamp(min=1)[:, None]
    return norm_gradients(dy, x, tiles, scale, shift, stats, eps, relu=True, per_set=True)


@_norm_relu_pool_backward.register_fake
def _(
    dy: Tensor, x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, stats: Tensor, rows: int, mean: bool, eps: float
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(2, x.shape[1], dtype=torch.float32)


def _keep(ctx, inputs, output) -> None:
    *tensors, ctx.rows, ctx.mean, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, dy):
    x, offsets, scale, shift, stats = ctx.saved_tensors
    dx, (dscale, dshift) = _norm_relu_pool_backward(
        dy.float().contiguous(), x, offsets, scale, shift, stats, ctx.rows, ctx.mean, ctx.eps
    )
    return dx, None, dscale.to(scale.dtype), dshift.to(shift.dtype), None, None, None, None


_norm_relu_pool.register_autograd(_backward, setup_context=_keep)


@triton.jit
def _pool_kernel(
    x_ptr,  # (T, D)
    scale_ptr, shift_ptr,  # (D,)
    stats_ptr, STATS_S,  # (4, STATS_S)
    parts_ptr,  # (S, D) out: each program's share of the sums
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    scale = tl.load(scale_ptr + cols, cols < D, 0.0).to(tl.float32)[None, :]
    shift = tl.load(shift_ptr + cols, cols < D, 0.0).to(tl.float32)[None, :]
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        near, rest, rstd = merged_statistics(stats_ptr, STATS_S, n, first_ptr, N, eps)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        total = tl.zeros((M, BLOCK_D), tl.float32)
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            a = standardise(tl.load(x_ptr + row * D + local, inside, 0.0), near, rest, rstd) * scale + shift
            a = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
            total += tl.where(inside, a, 0.0)
        if begin < end:
            tl.store(parts_ptr + my_slot(n) * D + cols, tl.sum(total, 0), cols < D)


@triton.jit
def _add_slots_kernel(
    parts_ptr, S,  # (S, D)
    out_ptr,  # (N, D) out
    offsets_ptr, first_ptr, N,
    MEAN: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The sum over a set's slots, or the mean over its elements; zeros for an empty set."""
    CHUNK: tl.constexpr = 8
    n = tl.program_id(0)
    cols = tl.arange(0, BLOCK_D)
    size = size_of_set(n, offsets_ptr)
    total = tl.zeros((CHUNK, BLOCK_D), tl.float32)
    if size > 0:
        first, last = slots_of_set(n, first_ptr, N, S)
        for start in range(first, last, CHUNK):
            slot = start + tl.arange(0, CHUNK)
            total += tl.load(parts_ptr + slot[:, None] * D + cols[None, :], (slot < last)[:, None] & (cols < D)[None, :], 0.0)
    pooled = tl.sum(total, 0)
    if MEAN:
        pooled /= tl.maximum(size, 1.0)
    tl.store(out_ptr + n * D + cols, pooled, cols < D)
