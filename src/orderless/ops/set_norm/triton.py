"""Set norm in Triton: the statistics of all sets in one pass, then every number standardised by those of its set.

The backward pass likewise: the two sums that the norm's gradient needs of each set, then the gradient. The kernels take two
variations that fused ops need: a ReLU behind the norm, and a gradient that is one row for all elements of a set (a pooling's).

Letters: N sets, T rows, D features, P programs, S slots, M rows of a tile.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops._launch import add_parts, on_device_of
from orderless.ops._slots import (
    add_rows,
    merged_statistics,
    merged_sums,
    my_sets,
    my_slot,
    norm_backward,
    size_of_set,
    standardise,
    store_statistics,
    tile_at,
    tiles_of_set,
)
from orderless.ops._tiles import Tiles, cut_tiles, num_programs
from orderless.ops.backend import is_interpreted

WIDEST = 1024  # features a tile can have side by side
_NUMBERS_A_TILE = 4096
_PROGRAMS_A_PROCESSOR = 8  # measured: reading wants many loads under way
_WARPS = 4


def set_norm_triton(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-5) -> Tensor:
    """`set_norm_reference` by kernels."""
    with on_device_of(x):
        y, _ = _set_norm(x.contiguous(), offsets.contiguous(), weight.contiguous(), bias.contiguous(), eps)
    return y


@torch.library.custom_op("orderless::set_norm", mutates_args=())
def _set_norm(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The standardised sets, and their statistics for the backward pass."""
    tiles = cut_tiles(offsets, x.shape[0], rows_a_tile(x.shape[1]))
    stats = set_statistics(x, tiles, programs(x))
    y = torch.empty_like(x)
    _apply_kernel[programs(x)](x, y, weight, bias, stats, stats.shape[1], *pointers(tiles), eps, **constants(x, tiles))
    return y, stats


@_set_norm.register_fake
def _(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), _empty_statistics(x, offsets)


@torch.library.custom_op("orderless::set_norm_backward", mutates_args=())
def _set_norm_backward(
    dy: Tensor, x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, stats: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    tiles = cut_tiles(offsets, x.shape[0], rows_a_tile(x.shape[1]))
    return norm_gradients(dy, x, tiles, weight, bias, stats, eps, relu=False, per_set=False)


@_set_norm_backward.register_fake
def _(dy: Tensor, x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, stats: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(2, x.shape[1], dtype=torch.float32)


def _keep(ctx, inputs, output) -> None:
    x, offsets, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(x, offsets, weight, bias, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, dy, _):
    x, offsets, weight, bias, stats = ctx.saved_tensors
    dx, (dweight, dbias) = _set_norm_backward(dy.contiguous(), x, offsets, weight, bias, stats, ctx.eps)
    return dx, None, dweight.to(weight.dtype), dbias.to(bias.dtype), None


_set_norm.register_autograd(_backward, setup_context=_keep)


# ---------------------------------------------------------------------------------------------- for other ops as well


def rows_a_tile(width: int) -> int:
    """Rows of a tile whose rows have `width` features."""
    return 16 if is_interpreted() else max(_NUMBERS_A_TILE // triton.next_power_of_2(width), 1)


def set_statistics(x: Tensor, tiles: Tiles, grid: tuple[int], *, out: Tensor | None = None) -> Tensor:
    """(4, S) count, near, rest and sum of squared deviations, as `grid` programs left them in their slots."""
    stats = x.new_empty(4, grid[0] + tiles.num_sets, dtype=torch.float32) if out is None else out
    _statistics_kernel[grid](x, stats, stats.shape[1], *pointers(tiles), **constants(x, tiles))
    return stats


def norm_gradients(
    dy: Tensor,
    x: Tensor,
    tiles: Tiles,
    weight: Tensor,
    bias: Tensor,
    stats: Tensor,
    eps: float,
    *,
    relu: bool,
    per_set: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of x, and of weight and bias as (2, D), of a set norm, with a ReLU behind it or not.

    `dy` is (T, D), or (N, D) where all elements of a set have the same gradient.
    """
    grid = programs(x)
    variation = {"RELU": relu, "PER_SET": per_set}
    sums = x.new_empty(2, grid[0] + tiles.num_sets, dtype=torch.float32)
    parts = x.new_empty(grid[0], 2, x.shape[1], dtype=torch.float32)
    args = (x, dy, weight, bias, stats, stats.shape[1], sums, sums.shape[1])
    _backward_sums_kernel[grid](*args, parts, *pointers(tiles), eps, **variation, **constants(x, tiles))
    dx = torch.empty_like(x)
    _backward_apply_kernel[grid](*args, dx, *pointers(tiles), eps, **variation, **constants(x, tiles))
    gradients = x.new_empty(2, x.shape[1], dtype=torch.float32)
    add_parts(parts, gradients)
    return dx, gradients


def add_norm_gradient(
    dhat: Tensor, sums: Tensor, x: Tensor, tiles: Tiles, stats: Tensor, eps: float, dy: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """`dy` plus the gradient that comes to x by way of its standardised numbers, whose gradient is `dhat`."""
    dx = torch.empty_like(x) if out is None else out
    args = (x, dhat, dy, stats, stats.shape[1], sums, sums.shape[1], dx)
    _add_backward_kernel[programs(x)](*args, *pointers(tiles), eps, **constants(x, tiles))
    return dx


def programs(x: Tensor) -> tuple[int]:
    """The grid of the kernels here."""
    return (num_programs(x.device, _PROGRAMS_A_PROCESSOR),)


def pointers(tiles: Tiles) -> tuple[Tensor, Tensor, Tensor, int]:
    """The tiles, as every kernel takes them."""
    return tiles.offsets, tiles.first, tiles.set_of, tiles.num_sets


def constants(x: Tensor, tiles: Tiles) -> dict[str, int]:
    """Sizes that kernels are compiled for."""
    return {"D": x.shape[1], "BLOCK_D": triton.next_power_of_2(x.shape[1]), "M": tiles.block, "num_warps": _WARPS}


def _empty_statistics(x: Tensor, offsets: Tensor) -> Tensor:
    return x.new_empty(4, programs(x)[0] + offsets.shape[0] - 1, dtype=torch.float32)


# ---------------------------------------------------------------------------------------------------------- kernels


@triton.jit
def _load_row(row_ptr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    cols = tl.arange(0, BLOCK_D)
    return tl.load(row_ptr + cols, cols < D, 0.0).to(tl.float32)[None, :]


@triton.jit
def _statistics_kernel(
    x_ptr,  # (T, D)
    stats_ptr, S,  # (4, S) out
    offsets_ptr, first_ptr, set_of_ptr, N,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        near = tl.load(x_ptr + (origin + begin * M) * D, begin < end, 0.0).to(tl.float32)
        seen, mean, squares = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            x = tl.load(x_ptr + row * D + local, inside, 0.0).to(tl.float32)
            seen, mean, squares = add_rows(seen, mean, squares, x - near, tl.arange(0, M) < rows, cols < D, D)
        if begin < end:
            store_statistics(stats_ptr, S, n, near, seen, mean, squares, D)


@triton.jit
def _apply_kernel(
    x_ptr,  # (T, D)
    y_ptr,  # (T, D) out
    weight_ptr, bias_ptr,  # (D,)
    stats_ptr, S,  # (4, S)
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    weight, bias = _load_row(weight_ptr, D, BLOCK_D), _load_row(bias_ptr, D, BLOCK_D)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        near, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            hat = standardise(tl.load(x_ptr + row * D + local, inside, 0.0), near, rest, rstd)
            tl.store(y_ptr + row * D + local, hat * weight + bias, inside)


@triton.jit
def _gradient_behind_norm(
    hat, dy_ptr, at, inside, n, weight, bias,
    RELU: tl.constexpr, PER_SET: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of the norm's output, past the ReLU where there is one: (M, BLOCK_D)."""
    if PER_SET:
        dy = tl.where(inside, _load_row(dy_ptr + n * D, D, BLOCK_D), 0.0)
    else:
        dy = tl.load(dy_ptr + at, inside, 0.0).to(tl.float32)
    if RELU:
        dy = tl.where(hat * weight + bias <= 0, 0.0, dy)  # not > 0: at NaN PyTorch lets the gradient pass
    return dy


@triton.jit
def _backward_sums_kernel(
    x_ptr, dy_ptr,  # (T, D); dy (N, D) where PER_SET
    weight_ptr, bias_ptr,  # (D,)
    stats_ptr, S,  # (4, S)
    sums_ptr, SUMS_S,  # (2, S) out
    parts_ptr,  # (P, 2, D) out: each program's share of the gradients of weight and bias
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    RELU: tl.constexpr, PER_SET: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    weight, bias = _load_row(weight_ptr, D, BLOCK_D), _load_row(bias_ptr, D, BLOCK_D)
    dweight, dbias = tl.zeros((BLOCK_D,), tl.float32), tl.zeros((BLOCK_D,), tl.float32)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        near, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        along, total = tl.zeros((M, BLOCK_D), tl.float32), tl.zeros((M, BLOCK_D), tl.float32)
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            hat = standardise(tl.load(x_ptr + row * D + local, inside, 0.0), near, rest, rstd)
            dy = _gradient_behind_norm(hat, dy_ptr, row * D + local, inside, n, weight, bias, RELU, PER_SET, D, BLOCK_D)
            along += dy * hat
            total += dy
        if begin < end:
            dweight += tl.sum(along, 0)
            dbias += tl.sum(total, 0)
            tl.store(sums_ptr + my_slot(n), tl.sum(total * weight))
            tl.store(sums_ptr + SUMS_S + my_slot(n), tl.sum(along * weight))
    part = parts_ptr + tl.program_id(0) * 2 * D + cols
    tl.store(part, dweight, cols < D)
    tl.store(part + D, dbias, cols < D)


@triton.jit
def _backward_apply_kernel(
    x_ptr, dy_ptr,  # (T, D); dy (N, D) where PER_SET
    weight_ptr, bias_ptr,  # (D,)
    stats_ptr, S,  # (4, S)
    sums_ptr, SUMS_S,  # (2, S)
    dx_ptr,  # (T, D) out
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    RELU: tl.constexpr, PER_SET: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    weight, bias = _load_row(weight_ptr, D, BLOCK_D), _load_row(bias_ptr, D, BLOCK_D)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        near, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
        total, along = merged_sums(sums_ptr, SUMS_S, n, first_ptr, N)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        count = size_of_set(n, offsets_ptr) * D
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            hat = standardise(tl.load(x_ptr + row * D + local, inside, 0.0), near, rest, rstd)
            dy = _gradient_behind_norm(hat, dy_ptr, row * D + local, inside, n, weight, bias, RELU, PER_SET, D, BLOCK_D)
            tl.store(dx_ptr + row * D + local, norm_backward(dy * weight, hat, rstd, total, along, count), inside)


@triton.jit
def _add_backward_kernel(
    x_ptr, dhat_ptr, dy_ptr,  # (T, D)
    stats_ptr, S,  # (4, S)
    sums_ptr, SUMS_S,  # (2, S)
    dx_ptr,  # (T, D) out
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        near, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
        total, along = merged_sums(sums_ptr, SUMS_S, n, first_ptr, N)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        count = size_of_set(n, offsets_ptr) * D
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            hat = standardise(tl.load(x_ptr + row * D + local, inside, 0.0), near, rest, rstd)
            dhat = tl.load(dhat_ptr + row * D + local, inside, 0.0).to(tl.float32)
            dy = tl.load(dy_ptr + row * D + local, inside, 0.0).to(tl.float32)
            tl.store(dx_ptr + row * D + local, dy + norm_backward(dhat, hat, rstd, total, along, count), inside)
