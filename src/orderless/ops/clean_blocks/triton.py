"""Clean residual blocks in Triton: one kernel a product, two products a block.

A product's kernel standardises its input by the merged statistics of the set, scales, shifts, applies the ReLU, multiplies by a
weight that stays on the chip, adds the skip where there is one, and leaves the statistics of what it made for the next. The
gradient of a norm's input needs two sums over the whole set, so a backward kernel leaves `dhat`, the gradient of the standardised
numbers, with its share of those sums, and the kernel after it finishes the norm. Gradients of weights are added up by a program
over its tiles, then over the programs in their order: the same every time.

Letters: N sets, T rows, D features, L blocks, P programs, S slots, M rows of a tile.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops._launch import Launch, add_parts, are_small, on_device_of, product_precision
from orderless.ops._slots import (
    add_product,
    add_rows,
    merged_statistics,
    merged_sums,
    my_sets,
    my_slot,
    norm_backward,
    product,
    size_of_set,
    standardise,
    store_statistics,
    tile_at,
    tiles_of_set,
)
from orderless.ops._tiles import SetStatistics, cut_tiles
from orderless.ops.set_norm.triton import add_norm_gradient, pointers, set_statistics

WIDEST = 128  # a weight, a tile and its product fit on one multiprocessor
_KEPT_INNER = 5  # one block in so many keeps its inner product
_LEAST_TILES = 2  # of a program that adds up gradients of weights: what it leaves is as large as 256 rows of elements


def clean_blocks_triton(
    x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, SetStatistics]:
    """`clean_blocks_reference` by kernels, and the statistics of the sets it gives."""
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x, scale, shift, weight))
    x, offsets, scale, shift, weight = (t.contiguous() for t in (x, offsets, scale, shift, weight))
    small = are_small(x.shape[0], offsets.shape[0] - 1)
    with on_device_of(x):
        y, _, stats = _clean_blocks(x, offsets, scale, shift, weight, eps, keep, small)
    return y, SetStatistics(stats[-1], rows_of_tiles(x, small=small))


@torch.library.custom_op("orderless::clean_blocks", mutates_args=())
def _clean_blocks(
    x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, eps: float, keep: bool, small: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, what is kept for the backward pass, and the statistics of the input of every product and of the result.

    Kept are the inputs of all products but the first, apart from what is made again: see `_places`. Statistics are
    (2 L + 1, 4, S).
    """
    products = 2 * weight.shape[0]
    launch = _launch("forward", x, small)
    tiles = cut_tiles(offsets, x.shape[0], launch.rows)
    kept, stats = _room(x, offsets, weight, keep, small)
    set_statistics(x, tiles, launch.grid, out=stats[0])
    spare = [torch.empty_like(x) for _ in range(min(products, 3))]
    places = _places(weight.shape[0]) if keep else {}
    w, gamma, beta = weight.to(x.dtype).flatten(0, 1), scale.flatten(0, 1), shift.flatten(0, 1)
    block_input, inner = x, x
    for i in range(products):
        is_second = i % 2 == 1
        source = inner if is_second else block_input
        y = kept[places[i + 1]] if i + 1 in places else spare[i % 3]
        _product_kernel[launch.grid](
            source, w[i], gamma[i], beta[i], stats[i], block_input, y, stats[i + 1], stats.shape[2],
            *pointers(tiles), eps, HAS_SKIP=is_second, **launch.options,
        )  # fmt: skip
        block_input, inner = (y, inner) if is_second else (block_input, y)
    return block_input if products else x.clone(), kept, stats


def _places(blocks: int) -> dict[int, int]:
    """Where the input of each product is kept.

    Of most blocks the inner product is computed again in the backward pass: a twelfth of the time, a third of the memory.
    """
    numbers = (i for i in range(1, 2 * blocks) if i % 2 == 0 or i // 2 % _KEPT_INNER == 0)
    return {number: place for place, number in enumerate(numbers)}


@_clean_blocks.register_fake
def _(
    x: Tensor, offsets: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, eps: float, keep: bool, small: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), *_room(x, offsets, weight, keep, small)


def _room(x: Tensor, offsets: Tensor, weight: Tensor, keep: bool, small: bool) -> tuple[Tensor, Tensor]:
    """Room for the inputs of products and for all statistics."""
    products = 2 * weight.shape[0]
    slots = _launch("forward", x, small).grid[0] + offsets.shape[0] - 1
    kept = x.new_empty(len(_places(weight.shape[0])) if keep else 0, *x.shape)
    return kept, x.new_empty(products + 1, 4, slots, dtype=torch.float32)


@torch.library.custom_op("orderless::clean_blocks_backward", mutates_args=())
def _clean_blocks_backward(
    dy: Tensor,
    x: Tensor,
    kept: Tensor,
    stats: Tensor,
    offsets: Tensor,
    scale: Tensor,
    shift: Tensor,
    weight: Tensor,
    eps: float,
    small: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, of the weights (2 L, D, D), and of scales and shifts (2 L, 2, D), in float32."""
    blocks, width = weight.shape[0], x.shape[1]
    launch, weights = _launch("backward", x, small), _launch("weights", x, small)
    tiles = cut_tiles(offsets, x.shape[0], launch.rows)
    P, P_weights = tiles.share(launch.grid[0]), tiles.share(weights.grid[0], least=_LEAST_TILES)
    dweight, weight_parts = _float32(x, 2 * blocks, width, width), _float32(x, P_weights, 2, width, width)
    norm_parts = _float32(x, 2 * blocks, P, 2, width)
    dhats, sums = [torch.empty_like(x) for _ in range(2)], _float32(x, 2, 2, P + tiles.num_sets)
    of_blocks, remade = [torch.empty_like(x) for _ in range(2)], torch.empty_like(x if blocks > 1 else x[:0])
    w, gamma, beta = weight.to(x.dtype).flatten(0, 1), scale.flatten(0, 1), shift.flatten(0, 1)
    places = _places(blocks)
    skip = dy  # gradient of a block's output, until what comes through the next block's first norm is added
    for block in reversed(range(blocks)):
        first, is_last = 2 * block, block == blocks - 1
        block_input = kept[places[first]] if block else x
        inner = kept[places[first + 1]] if first + 1 in places else remade
        if inner is remade:
            again = _launch("forward", x, small)
            _product_kernel[again.grid](
                block_input, w[first], gamma[first], beta[first], stats[first], block_input, inner, torch.empty_like(stats[0]),
                stats.shape[2], *pointers(tiles), eps, HAS_SKIP=False, **again.options,
            )  # fmt: skip
        total = dy if is_last else of_blocks[block % 2]
        of_inner = of_blocks[(block + 1) % 2]  # the skip's place, which is read no more once the block's output is done with
        for i, source, output, gradient in (
            (first + 1, inner, inner if is_last else kept[places[first + 2]], total),
            (first, block_input, inner, of_inner),
        ):
            _product_backward_kernel[(P,)](
                source, gamma[i], beta[i], stats[i], stats.shape[2], w[i], skip, output, dhats[(i + 1) % 2],
                stats[i + 1], sums[(i + 1) % 2], gradient, dhats[i % 2], sums[i % 2], sums.shape[2], norm_parts[i],
                *pointers(tiles), eps, HAS_SKIP=i > first, HAS_NORM=gradient is not dy, **launch.options,
            )  # fmt: skip
        skip = total
        _weight_gradients_kernel[(P_weights, 2)](
            block_input, inner, of_inner, total, gamma[first], beta[first], stats[first], stats.shape[2], weight_parts,
            *pointers(tiles), eps, **weights.options,
        )  # fmt: skip
        add_parts(weight_parts, dweight[first : first + 2])
    if blocks == 0:
        return dy.clone(), dweight, norm_parts.sum(1)
    dx = add_norm_gradient(dhats[0], sums[0], x, tiles, stats[0], eps, skip, out=dhats[1])
    return dx, dweight, norm_parts.sum(1)


@_clean_blocks_backward.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    kept: Tensor,
    stats: Tensor,
    offsets: Tensor,
    scale: Tensor,
    shift: Tensor,
    weight: Tensor,
    eps: float,
    small: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    products, width = 2 * weight.shape[0], x.shape[1]
    return torch.empty_like(x), _float32(x, products, width, width), _float32(x, products, 2, width)


def _keep(ctx, inputs, output) -> None:
    x, offsets, scale, shift, weight, ctx.eps, _, ctx.small = inputs
    _, kept, stats = output
    ctx.save_for_backward(x, kept, stats, offsets, scale, shift, weight)
    ctx.mark_non_differentiable(kept, stats)
    ctx.set_materialize_grads(False)  # zeros for all that is kept would double it


def _backward(ctx, dy, *_):
    x, kept, stats, offsets, scale, shift, weight = ctx.saved_tensors
    dx, dweight, dnorm = _clean_blocks_backward(
        dy.contiguous(), x, kept, stats, offsets, scale, shift, weight, ctx.eps, ctx.small
    )
    dscale, dshift = dnorm.unflatten(0, (-1, 2)).unbind(2)
    return dx, None, dscale.to(scale.dtype), dshift.to(shift.dtype), dweight.view_as(weight).to(weight.dtype), None, None, None


_clean_blocks.register_autograd(_backward, setup_context=_keep)


def _float32(x: Tensor, *shape: int) -> Tensor:
    return x.new_empty(shape, dtype=torch.float32)


def rows_of_tiles(x: Tensor, *, small: bool = False) -> int:
    """Rows of a tile of elements like x: the same in all kernels, whose statistics are kept by tiles."""
    return _launch("forward", x, small).rows


def _launch(kernel: str, x: Tensor, small: bool) -> Launch:
    width = x.shape[1]
    sizes = {"D": width, "BLOCK_D": max(triton.next_power_of_2(width), 16)}
    return Launch.of("clean_blocks", kernel, x, small=small, **sizes, PRECISION=product_precision(x))


# ---------------------------------------------------------------------------------------------------------- kernels


@triton.jit
def _load_matrix(w_ptr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """(out, in) weights, zeros beyond D."""
    i = tl.arange(0, BLOCK_D)
    return tl.load(w_ptr + i[:, None] * D + i[None, :], (i < D)[:, None] & (i < D)[None, :], 0.0)


@triton.jit
def _load_row(row_ptr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """A row of D numbers, to be loaded where it is used: kept, it would take registers of every thread all along."""
    i = tl.arange(0, BLOCK_D)
    return tl.load(row_ptr + i, i < D, 0.0).to(tl.float32)[None, :]


@triton.jit
def _scale_and_shift(hat, scale_ptr, shift_ptr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    return hat * _load_row(scale_ptr, D, BLOCK_D) + _load_row(shift_ptr, D, BLOCK_D)


@triton.jit
def _product_kernel(
    x_ptr,  # (T, D)
    w_ptr,  # (D, D)
    scale_ptr, shift_ptr,  # (D,)
    x_stats_ptr,  # (4, S)
    skip_ptr,  # (T, D) where HAS_SKIP
    y_ptr,  # (T, D) out
    y_stats_ptr, S,  # (4, S) out
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    HAS_SKIP: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = relu(norm(x)) W, plus the skip, and the statistics of y."""
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]  # within a tile, in 32 bits: wide addresses take registers
    w = _load_matrix(w_ptr, D, BLOCK_D)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        mean, rest, rstd = merged_statistics(x_stats_ptr, S, n, first_ptr, N, eps)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        near = 0.0
        if HAS_SKIP:
            near = tl.load(skip_ptr + (origin + begin * M) * D, begin < end, 0.0).to(tl.float32)
        seen, y_mean, squares = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
        for k in tl.range(begin, end, num_stages=STAGES):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            x = tl.load(x_ptr + row * D + local, inside, 0.0)
            a = _scale_and_shift(standardise(x, mean, rest, rstd), scale_ptr, shift_ptr, D, BLOCK_D)
            a = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)  # NaN stays NaN, as in PyTorch
            y = product(a.to(x.dtype), tl.trans(w), PRECISION)
            if HAS_SKIP:
                y += tl.load(skip_ptr + row * D + local, inside, 0.0).to(tl.float32)
            y = y.to(x.dtype)
            tl.store(y_ptr + row * D + local, y, inside)
            centred = y.to(tl.float32) - near
            seen, y_mean, squares = add_rows(seen, y_mean, squares, centred, tl.arange(0, M) < rows, cols < D, D)
        if begin < end:
            store_statistics(y_stats_ptr, S, n, near, seen, y_mean, squares, D)


@triton.jit
def _product_backward_kernel(
    x_ptr,  # (T, D) input of the product
    scale_ptr, shift_ptr,  # (D,)
    x_stats_ptr, S,  # (4, S)
    w_ptr,  # (D, D)
    skip_ptr,  # (T, D) where HAS_SKIP: gradient of the output y, without what comes through the norm that follows
    y_ptr, y_dhat_ptr,  # (T, D) where HAS_NORM: the output, and the gradient of its standardised numbers
    y_stats_ptr, y_sums_ptr,  # (4, S), (2, SUMS_S) where HAS_NORM
    dy_ptr,  # (T, D) out where HAS_NORM: the whole gradient of y
    dhat_ptr,  # (T, D) out: gradient of the standardised x
    sums_ptr, SUMS_S,  # (2, SUMS_S) out
    norm_parts_ptr,  # (P, 2, D) out: each program's share of the gradients of scale and shift
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    HAS_SKIP: tl.constexpr, HAS_NORM: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the gradient of y = relu(norm(x)) W to that of the standardised x, the scale and the shift."""
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    w = _load_matrix(w_ptr, D, BLOCK_D)
    dscale, dshift = tl.zeros((BLOCK_D,), tl.float32), tl.zeros((BLOCK_D,), tl.float32)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        mean, rest, rstd = merged_statistics(x_stats_ptr, S, n, first_ptr, N, eps)
        if HAS_NORM:
            y_mean, y_rest, y_rstd = merged_statistics(y_stats_ptr, S, n, first_ptr, N, eps)
            y_total, y_along = merged_sums(y_sums_ptr, SUMS_S, n, first_ptr, N)
            count = size_of_set(n, offsets_ptr) * D
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        along, total = tl.zeros((M, BLOCK_D), tl.float32), tl.zeros((M, BLOCK_D), tl.float32)
        for k in tl.range(begin, end, num_stages=STAGES):
            row, rows = tile_at(k, origin, end_row, M)
            at = row * D
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            x = tl.load(x_ptr + at + local, inside, 0.0)
            if HAS_NORM:
                y_hat = standardise(tl.load(y_ptr + at + local, inside, 0.0), y_mean, y_rest, y_rstd)
                dhat = tl.load(y_dhat_ptr + at + local, inside, 0.0).to(tl.float32)
                dy = norm_backward(dhat, y_hat, y_rstd, y_total, y_along, count)
                if HAS_SKIP:
                    dy += tl.load(skip_ptr + at + local, inside, 0.0).to(tl.float32)
                dy = tl.where(inside, dy, 0.0).to(x.dtype)
                tl.store(dy_ptr + at + local, dy, inside)
            else:
                dy = tl.load(skip_ptr + at + local, inside, 0.0)
            da = product(dy, w, PRECISION)
            hat = standardise(x, mean, rest, rstd)
            a = _scale_and_shift(hat, scale_ptr, shift_ptr, D, BLOCK_D)
            da = tl.where(a <= 0, 0.0, da)  # not a > 0: at NaN PyTorch lets the gradient pass
            tl.store(dhat_ptr + at + local, da * _load_row(scale_ptr, D, BLOCK_D), inside)
            along += da * hat
            total += da
        if begin < end:
            dscale += tl.sum(along, 0)
            dshift += tl.sum(total, 0)
            scale = _load_row(scale_ptr, D, BLOCK_D)
            tl.store(sums_ptr + my_slot(n), tl.sum(total * scale))
            tl.store(sums_ptr + SUMS_S + my_slot(n), tl.sum(along * scale))
    part = norm_parts_ptr + tl.program_id(0) * 2 * D + cols
    tl.store(part, dscale, cols < D)
    tl.store(part + D, dshift, cols < D)


@triton.jit
def _weight_gradients_kernel(
    x1_ptr, x2_ptr,  # (T, D) inputs of the block's two products
    dy1_ptr, dy2_ptr,  # (T, D) gradients of their outputs
    scale_ptr, shift_ptr,  # (2, D)
    stats_ptr, S,  # (2, 4, S)
    parts_ptr,  # (P, 2, D, D) out: each program's share of the gradients of W1 and W2
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of W in y = relu(norm(x)) W for both products of a block, which share the multiprocessors."""
    which = tl.program_id(1)
    if which == 0:
        x_ptr = x1_ptr
        dy_ptr = dy1_ptr
    else:
        x_ptr = x2_ptr
        dy_ptr = dy2_ptr
    cols = tl.arange(0, BLOCK_D)
    local = tl.arange(0, M)[:, None] * D + cols[None, :]
    dw = tl.zeros((BLOCK_D, BLOCK_D), tl.float32)
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        mean, rest, rstd = merged_statistics(stats_ptr + which * 4 * S, S, n, first_ptr, N, eps)
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        for k in tl.range(begin, end, num_stages=STAGES):
            row, rows = tile_at(k, origin, end_row, M)
            inside = (tl.arange(0, M) < rows)[:, None] & (cols < D)[None, :]
            x = tl.load(x_ptr + row * D + local, inside, 0.0)
            dy = tl.load(dy_ptr + row * D + local, inside, 0.0)
            hat = standardise(x, mean, rest, rstd)
            a = _scale_and_shift(hat, scale_ptr + which * D, shift_ptr + which * D, D, BLOCK_D)
            a = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
            dw = add_product(tl.trans(dy), a.to(x.dtype), dw, PRECISION)
    part = parts_ptr + (tl.program_id(0) * 2 + which) * D * D
    tl.store(part + cols[:, None] * D + cols[None, :], dw, (cols < D)[:, None] & (cols < D)[None, :])
