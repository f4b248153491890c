"""The backward kernels of induced blocks. See `forward_kernels.py` for sizes, padding and buffers.

The gradient of a norm's input needs two sums over the whole set. So a kernel leaves `dhat`, the gradient of the standardised
numbers, and those sums slot by slot; the kernel after it finishes the norm. Gradients of weights are added up by each program
over its tiles, then over the programs in their order: the same every time. Products are arranged so that features or rows of
a per-set matrix, of which there are 128, are the first dimension of each: then eight warps share a tile of 64 elements
without doing it twice.

Letters: N sets, T rows, D features, L blocks, P programs, S = P + N slots, M rows of a tile.
"""

import triton
import triton.language as tl

from orderless.ops._slots import (
    add_product,
    merged_sums,
    my_sets,
    my_slot,
    norm_backward,
    product,
    size_of_set,
    slots_of_set,
    standardise,
    tile_at,
    tiles_of_set,
)
from orderless.ops.induced_blocks.forward_kernels import (
    FIRST_HAT,
    FIRST_PRE,
    FIRST_RSTD,
    GATHER_OUT,
    KEY,
    KEYS,
    POINT_VALUE,
    QUERY,
    SECOND_HAT,
    SECOND_RSTD,
    VALUE,
    collect_heads,
    columns_of_heads,
    inside_tile,
    load_matrix,
    load_moments,
    load_values,
    places,
    spread_heads,
    store_matrix,
)

# Gradients of what the points were on their way (4, N, POINTS, BLOCK_D):
D_PRE = tl.constexpr(0)
D_KEYS = tl.constexpr(1)
D_VALUES = tl.constexpr(2)
D_POINTS = tl.constexpr(3)  # of points plus what they gathered


@triton.jit
def out_backward_kernel(
    x_ptr,  # (T, D) what the output norm saw
    weight_ptr,  # (BLOCK_D, BLOCK_D)
    bias_ptr,  # (BLOCK_D,) float32
    moments_ptr,  # (3, N) of x
    dy_ptr,  # (T, D) gradient of the block's output y, without what comes through the next block's norms
    y_ptr, y_dhat_ptr,  # (T, D) where HAS_NEXT: the output, and the gradient of its standardised numbers
    y_moments_ptr, y_sums_ptr, S,  # (3, N), (2, S) where HAS_NEXT
    whole_ptr,  # (T, D) out where HAS_NEXT: the whole gradient of y
    dhat_ptr,  # (T, D) out: gradient of the standardised x
    sums_ptr,  # (2, S) out
    parts_ptr,  # (P, part_rows, BLOCK_D) out: the first BLOCK_D rows are of the weight, the next of the bias
    part_rows,
    offsets_ptr, first_ptr, set_of_ptr, N,
    HAS_NEXT: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back from y = x + relu(standardised x W + b) to the standardised x."""
    weight = load_matrix(weight_ptr, BLOCK_D, BLOCK_D)
    bias = tl.load(bias_ptr + tl.arange(0, BLOCK_D))[:, None]
    dweight = tl.zeros((BLOCK_D, BLOCK_D), tl.float32)
    dbias = tl.zeros((BLOCK_D,), tl.float32)
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = load_moments(moments_ptr, N, n)
            if HAS_NEXT:
                y_mean, y_rest, y_rstd = load_moments(y_moments_ptr, N, n)
                y_total, y_along = merged_sums(y_sums_ptr, S, n, first_ptr, N)
                count = size_of_set(n, offsets_ptr) * D
            total, along = tl.zeros((BLOCK_D,), tl.float32), tl.zeros((BLOCK_D,), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                dy = tl.load(dy_ptr + at + local, inside, 0.0)
                if HAS_NEXT:
                    y_hat = standardise(tl.load(y_ptr + at + local, inside, 0.0), y_mean, y_rest, y_rstd)
                    y_dhat = tl.load(y_dhat_ptr + at + local, inside, 0.0).to(tl.float32)
                    through = norm_backward(y_dhat, y_hat, y_rstd, y_total, y_along, count)
                    dy = tl.where(inside, dy.to(tl.float32) + through, 0.0).to(dy.dtype)
                    tl.store(whole_ptr + at + local, dy, inside)
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                mapped = product(weight, tl.trans(hat), PRECISION)  # (BLOCK_D, M)
                dpre = tl.where(mapped + bias > 0, tl.trans(dy), 0.0)
                dbias += tl.sum(dpre.to(tl.float32), 1)
                along += tl.sum(dpre.to(tl.float32) * mapped, 1)
                dpre = dpre.to(x.dtype)
                dweight = add_product(dpre, hat, dweight, PRECISION)
                dhat = product(tl.trans(weight), dpre, PRECISION)  # (BLOCK_D, M)
                total += tl.sum(dhat, 1)
                tl.store(dhat_ptr + at + local, tl.trans(dhat.to(x.dtype)), inside)
            store_sums(sums_ptr, sums_ptr, S, n, total, along, False)
    part = parts_ptr + tl.program_id(0).to(tl.int64) * part_rows * BLOCK_D
    store_matrix(part, dweight, BLOCK_D, BLOCK_D)
    tl.store(part + BLOCK_D * BLOCK_D + tl.arange(0, BLOCK_D), dbias)


@triton.jit
def scatter_backward_kernel(
    x_ptr,  # (T, D) input of the block
    keys_ptr,  # (N, R, BLOCK_D)
    shifts_ptr,  # (N, R)
    values_ptr,  # (N, POINTS, BLOCK_D)
    moments_ptr,  # (3, N) of x
    dy_ptr,  # (T, D) gradient of y = x + attention, without what comes through the output norm
    y_ptr, y_dhat_ptr,  # (T, D)
    y_moments_ptr, y_sums_ptr, S,  # (3, N), (2, S)
    whole_ptr,  # (T, D) out: the whole gradient of y
    dhat_ptr,  # (T, D) out where LAST: gradient of the standardised x, as far as it is of the queries
    so_far_ptr,  # (T, D) float32: that gradient, from the chunks done before this; in where not FIRST, out where not LAST
    sums_before_ptr, sums_ptr,  # (2, S) of that gradient: of the chunks done before, where not FIRST; with this one, out
    dkeys_ptr,  # (S, R, BLOCK_D) out, float32
    dshifts_ptr,  # (S, R) out
    dvalues_ptr,  # (S, POINTS, BLOCK_D) out, float32
    chunk, R,
    offsets_ptr, first_ptr, set_of_ptr, N,
    FIRST: tl.constexpr, LAST: tl.constexpr,
    NUM_POINTS: tl.constexpr, POINTS: tl.constexpr, HEADS: tl.constexpr, HEAD_D: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back from what elements read of the points to the standardised elements, and to the keys and values of the points."""
    ROWS: tl.constexpr = HEADS * POINTS
    r, d = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = load_moments(moments_ptr, N, n)
            y_mean, y_rest, y_rstd = load_moments(y_moments_ptr, N, n)
            y_total, y_along = merged_sums(y_sums_ptr, S, n, first_ptr, N)
            count = size_of_set(n, offsets_ptr) * D
            place = tl.cast(n, tl.int64) * R + chunk * ROWS
            keys = load_matrix(keys_ptr + place * BLOCK_D, ROWS, BLOCK_D)
            shifts = tl.load(shifts_ptr + place + r)[:, None]
            values = load_values(values_ptr + tl.cast(n, tl.int64) * POINTS * BLOCK_D, chunk, D, BLOCK_D, HEADS, POINTS, HEAD_D)
            dkeys = tl.zeros((ROWS, BLOCK_D), tl.float32)
            dvalues = tl.zeros((ROWS, BLOCK_D), tl.float32)
            dshifts = tl.zeros((ROWS,), tl.float32)
            total, along = tl.zeros((BLOCK_D,), tl.float32), tl.zeros((ROWS,), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                y_hat = standardise(tl.load(y_ptr + at + local, inside, 0.0), y_mean, y_rest, y_rstd)
                y_dhat = tl.load(y_dhat_ptr + at + local, inside, 0.0).to(tl.float32)
                dy = tl.load(dy_ptr + at + local, inside, 0.0)
                through = norm_backward(y_dhat, y_hat, y_rstd, y_total, y_along, count)
                dy = tl.where(inside, dy.to(tl.float32) + through, 0.0).to(dy.dtype)
                if FIRST:
                    tl.store(whole_ptr + at + local, dy, inside)
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                scores = product(keys, tl.trans(hat), PRECISION) + shifts  # (ROWS, M)
                weights = softmax_of_columns(scores, M, HEADS, POINTS)
                dweights = product(values, tl.trans(dy), PRECISION)
                dvalues = add_product(weights.to(x.dtype), dy, dvalues, PRECISION)
                dscores = softmax_backward(dweights, weights, M, HEADS, POINTS)
                dshifts += tl.sum(dscores, 1)
                along += tl.sum(dscores * safe_log(weights), 1)
                dscores = dscores.to(x.dtype)
                dkeys = add_product(dscores, hat, dkeys, PRECISION)
                dhat = product(tl.trans(keys), dscores, PRECISION)  # (BLOCK_D, M)
                total += tl.sum(dhat, 1)
                if not FIRST:
                    dhat += tl.trans(tl.load(so_far_ptr + at + local, inside, 0.0))
                if LAST:
                    tl.store(dhat_ptr + at + local, tl.trans(dhat.to(x.dtype)), inside)
                else:
                    tl.store(so_far_ptr + at + local, tl.trans(dhat), inside)
            along -= tl.load(shifts_ptr + place + r, r % POINTS < NUM_POINTS, 0.0) * dshifts
            store_sums(sums_before_ptr, sums_ptr, S, n, total, along, not FIRST)
            slot = my_slot(n).to(tl.int64)
            store_matrix(dkeys_ptr + (slot * R + chunk * ROWS) * BLOCK_D, dkeys, ROWS, BLOCK_D)
            tl.store(dshifts_ptr + slot * R + chunk * ROWS + r, dshifts)
            # of a head's rows only that head's columns count: together they are one (POINTS, D) matrix
            mine = ((d // HEAD_D)[None, :] == (chunk * HEADS + r // POINTS)[:, None]) & (d < D)[None, :]
            tl.store(dvalues_ptr + slot * POINTS * BLOCK_D + (r % POINTS)[:, None] * BLOCK_D + d[None, :], dvalues, mine)


@triton.jit
def softmax_of_columns(scores, M: tl.constexpr, HEADS: tl.constexpr, POINTS: tl.constexpr):
    """(ROWS, M) scores -> weights that sum to 1 over the points of each head: `softmax_of_heads`, elements side by side."""
    s = tl.reshape(scores, (HEADS, POINTS, M))
    p = tl.exp(s - tl.max(s, 1, keep_dims=True))
    return tl.reshape(p / tl.sum(p, 1, keep_dims=True), (HEADS * POINTS, M))


@triton.jit
def softmax_backward(dweights, weights, M: tl.constexpr, HEADS: tl.constexpr, POINTS: tl.constexpr):
    """(ROWS, M) gradient of the scores of `softmax_of_columns`."""
    dw = tl.reshape(dweights, (HEADS, POINTS, M))
    w = tl.reshape(weights, (HEADS, POINTS, M))
    return tl.reshape(w * (dw - tl.sum(dw * w, 1, keep_dims=True)), (HEADS * POINTS, M))


@triton.jit
def store_sums(before_ptr, sums_ptr, S, n, total, along, HAS_BEFORE: tl.constexpr):
    """Leaves the two sums that the norm's backward pass needs of set n, with those that another kernel left in the same slot.

    They are sums of dhat and of dhat times the standardised x. The latter is taken where it costs least: for dhat = A^T b it is
    the sum of b times A x, both of which a kernel has at hand. Where b is the gradient of scores A x that a softmax made weights
    of, the weights' logarithm serves as well: it differs by one number a softmax, and such gradients add up to 0.
    """
    total, along = tl.sum(total), tl.sum(along)
    if HAS_BEFORE:
        total += tl.load(before_ptr + my_slot(n))
        along += tl.load(before_ptr + S + my_slot(n))
    tl.store(sums_ptr + my_slot(n), total)
    tl.store(sums_ptr + S + my_slot(n), along)


@triton.jit
def safe_log(weights):
    """The logarithm, but finite at 0."""
    return tl.log(tl.maximum(weights, 1e-37))


@triton.jit
def gather_backward_kernel(
    x_ptr,  # (T, D)
    queries_ptr,  # (R, BLOCK_D)
    moments_ptr,  # (3, N) of x
    log_totals_ptr,  # (N, R)
    dseen_ptr,  # (N, R, BLOCK_D) gradient of what the queries saw
    deltas_ptr,  # (N, R) of each row, gradient times what was seen
    other_ptr,  # (T, D) where HAS_OTHER: the gradient of the standardised x by another way
    dhat_ptr,  # (T, D) out where LAST: gradient of the standardised x
    so_far_ptr,  # (T, D) float32: that gradient, from the chunks done before this; in where not FIRST, out where not LAST
    sums_before_ptr, sums_ptr, S,  # (2, S): of that gradient's other parts, unless there are none; of all so far, out
    parts_ptr,  # (P, part_rows, BLOCK_D) out: rows from part_row on are of the queries
    part_row, part_rows, chunk, R,
    offsets_ptr, first_ptr, set_of_ptr, N,
    HAS_OTHER: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back from what queries saw of each set to its standardised elements and to the queries."""
    r = tl.arange(0, ROWS)
    queries = load_matrix(queries_ptr + chunk * ROWS * BLOCK_D, ROWS, BLOCK_D)
    dqueries = tl.zeros((ROWS, BLOCK_D), tl.float32)
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = load_moments(moments_ptr, N, n)
            place = tl.cast(n, tl.int64) * R + chunk * ROWS
            dseen = load_matrix(dseen_ptr + place * BLOCK_D, ROWS, BLOCK_D)
            log_total = tl.load(log_totals_ptr + place + r)[:, None]
            delta = tl.load(deltas_ptr + place + r)[:, None]
            total, along = tl.zeros((BLOCK_D,), tl.float32), tl.zeros((ROWS,), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                scores = product(queries, tl.trans(hat), PRECISION) - log_total  # (ROWS, M)
                weights = tl.exp(tl.where((tl.arange(0, M) < rows)[None, :], scores, -float("inf")))
                dweights = product(dseen, tl.trans(hat), PRECISION)
                dscores = weights * (dweights - delta)
                along += tl.sum(weights * dweights + dscores * safe_log(weights), 1)
                dscores, weights = dscores.to(x.dtype), weights.to(x.dtype)
                dqueries = add_product(dscores, hat, dqueries, PRECISION)
                dhat = product(tl.trans(dseen), weights, PRECISION)
                dhat = add_product(tl.trans(queries), dscores, dhat, PRECISION)  # (BLOCK_D, M)
                total += tl.sum(dhat, 1)
                if HAS_OTHER and FIRST:
                    dhat += tl.trans(tl.load(other_ptr + at + local, inside, 0.0)).to(tl.float32)
                if not FIRST:
                    dhat += tl.trans(tl.load(so_far_ptr + at + local, inside, 0.0))
                if LAST:
                    tl.store(dhat_ptr + at + local, tl.trans(dhat.to(x.dtype)), inside)
                else:
                    tl.store(so_far_ptr + at + local, tl.trans(dhat), inside)
            store_sums(sums_before_ptr, sums_ptr, S, n, total, along, HAS_OTHER or not FIRST)
    part = tl.program_id(0).to(tl.int64) * part_rows + part_row + chunk * ROWS
    store_matrix(parts_ptr + part * BLOCK_D, dqueries, ROWS, BLOCK_D)


@triton.jit
def finish_kernel(
    x_ptr, dhat_ptr,  # (T, D)
    other_ptr,  # (T, D) where HAS_OTHER: the gradient of x by another way
    moments_ptr, sums_ptr, S,  # (3, N), (2, S)
    dx_ptr,  # (T, D) out
    offsets_ptr, first_ptr, set_of_ptr, N,
    HAS_OTHER: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """From the gradient of the standardised x to that of x."""
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = load_moments(moments_ptr, N, n)
            total, along = merged_sums(sums_ptr, S, n, first_ptr, N)
            count = size_of_set(n, offsets_ptr) * D
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                hat = standardise(tl.load(x_ptr + at + local, inside, 0.0), mean, rest, rstd)
                dhat = tl.load(dhat_ptr + at + local, inside, 0.0).to(tl.float32)
                dx = norm_backward(dhat, hat, rstd, total, along, count)
                if HAS_OTHER:
                    dx += tl.load(other_ptr + at + local, inside, 0.0).to(tl.float32)
                tl.store(dx_ptr + at + local, dx.to(dx_ptr.dtype.element_ty), inside)


@triton.jit
def points_backward_kernel(
    weights_ptr,  # (6, BLOCK_D, BLOCK_D)
    biases_ptr,  # (6, BLOCK_D) float32
    seen_ptr,  # (N, R, BLOCK_D)
    kept_ptr,  # (5, N, POINTS, BLOCK_D)
    moments_ptr,  # (8, N)
    dkeys_slots_ptr,  # (S, R, BLOCK_D) float32
    dshifts_slots_ptr,  # (S, R)
    dvalues_slots_ptr,  # (S, POINTS, BLOCK_D) float32
    dkeys_ptr,  # (N, R, BLOCK_D) out: of the keys by way of the query product, times scale
    dshifts_ptr,  # (N, R) out: times scale
    dseen_ptr,  # (N, R, BLOCK_D) out
    deltas_ptr,  # (N, R) out
    dkept_ptr,  # (4, N, POINTS, BLOCK_D) out: see the top of this file
    first_ptr, N, S, scale,
    NUM_POINTS: tl.constexpr, POINTS: tl.constexpr, HEADS: tl.constexpr, HEAD_D: tl.constexpr, CHUNKS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back through what happens to the inducing points of one set, from their keys and values to what they gathered."""
    ROWS: tl.constexpr = HEADS * POINTS
    R: tl.constexpr = CHUNKS * ROWS
    dtype = kept_ptr.dtype.element_ty
    n = tl.program_id(0)
    place = tl.cast(n, tl.int64)
    kept = place * POINTS * BLOCK_D
    step = tl.cast(N, tl.int64) * POINTS * BLOCK_D
    d = tl.arange(0, BLOCK_D)
    r = tl.arange(0, ROWS)
    low, high = slots_of_set(n, first_ptr, N, S)

    dkeys = tl.zeros((POINTS, BLOCK_D), tl.float32)
    weight = load_matrix(weights_ptr + QUERY * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    bias = tl.load(biases_ptr + QUERY * BLOCK_D + d)[None, :]
    for chunk in range(CHUNKS):
        dfolded = tl.zeros((ROWS, BLOCK_D), tl.float32)
        dshift = tl.zeros((ROWS,), tl.float32)
        for slot in range(low, high):
            row = tl.cast(slot, tl.int64) * R + chunk * ROWS
            dfolded += load_matrix(dkeys_slots_ptr + row * BLOCK_D, ROWS, BLOCK_D)
            dshift += tl.load(dshifts_slots_ptr + row + r)
        dshift *= scale
        dfolded = (dfolded * scale).to(dtype)
        row = place * R + chunk * ROWS
        store_matrix(dkeys_ptr + row * BLOCK_D, dfolded, ROWS, BLOCK_D)
        tl.store(dshifts_ptr + row + r, dshift)
        dspread = product(dfolded, tl.trans(weight), PRECISION) + dshift[:, None] * bias
        dkeys += collect_heads(dspread, columns_of_heads(chunk, D, BLOCK_D, HEADS, HEAD_D), HEADS, POINTS, BLOCK_D)
    dvalues = tl.zeros((POINTS, BLOCK_D), tl.float32)
    mask = (d < D)[None, :]  # programs write no other columns
    for slot in range(low, high):
        at = tl.cast(slot, tl.int64) * POINTS * BLOCK_D + tl.arange(0, POINTS)[:, None] * BLOCK_D + d[None, :]
        dvalues += tl.load(dvalues_slots_ptr + at, mask, 0.0)
    dkeys, dvalues = dkeys.to(dtype), dvalues.to(dtype)
    store_matrix(dkept_ptr + D_KEYS * step + kept, dkeys, POINTS, BLOCK_D)
    store_matrix(dkept_ptr + D_VALUES * step + kept, dvalues, POINTS, BLOCK_D)

    weight = load_matrix(weights_ptr + KEY * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    dhat = product(dkeys, weight, PRECISION)
    weight = load_matrix(weights_ptr + POINT_VALUE * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    dhat = add_product(dvalues, weight, dhat, PRECISION)
    hat = load_matrix(kept_ptr + SECOND_HAT * step + kept, POINTS, BLOCK_D).to(tl.float32)
    dh = points_norm_backward(dhat, hat, tl.load(moments_ptr + SECOND_RSTD * N + n), NUM_POINTS, D, POINTS, BLOCK_D)

    pre = load_matrix(kept_ptr + FIRST_PRE * step + kept, POINTS, BLOCK_D)
    dpre = tl.where(pre > 0, dh, 0.0).to(dtype)
    store_matrix(dkept_ptr + D_PRE * step + kept, dpre, POINTS, BLOCK_D)
    weight = load_matrix(weights_ptr + GATHER_OUT * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    dhat = product(dpre, weight, PRECISION)
    hat = load_matrix(kept_ptr + FIRST_HAT * step + kept, POINTS, BLOCK_D).to(tl.float32)
    dh += points_norm_backward(dhat, hat, tl.load(moments_ptr + FIRST_RSTD * N + n), NUM_POINTS, D, POINTS, BLOCK_D)
    store_matrix(dkept_ptr + D_POINTS * step + kept, dh.to(dtype), POINTS, BLOCK_D)

    weight = load_matrix(weights_ptr + VALUE * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    for chunk in range(CHUNKS):
        row = place * R + chunk * ROWS
        spread = spread_heads(dh, columns_of_heads(chunk, D, BLOCK_D, HEADS, HEAD_D), HEADS, POINTS, BLOCK_D)
        dseen = product(spread.to(dtype), weight, PRECISION).to(dtype)
        seen = load_matrix(seen_ptr + row * BLOCK_D, ROWS, BLOCK_D).to(tl.float32)
        tl.store(deltas_ptr + row + r, tl.sum(dseen.to(tl.float32) * seen, 1))  # of what is stored, or it will not cancel
        store_matrix(dseen_ptr + row * BLOCK_D, dseen, ROWS, BLOCK_D)


@triton.jit
def points_norm_backward(dhat, hat, rstd, NUM_POINTS: tl.constexpr, D: tl.constexpr, POINTS: tl.constexpr, BLOCK_D: tl.constexpr):
    """`norm_backward` for the points of one set, zeros where there are none."""
    valid = (tl.arange(0, POINTS) < NUM_POINTS)[:, None] & (tl.arange(0, BLOCK_D) < D)[None, :]
    dhat = tl.where(valid, dhat, 0.0)
    return tl.where(valid, norm_backward(dhat, hat, rstd, tl.sum(dhat), tl.sum(dhat * hat), NUM_POINTS * D), 0.0)


@triton.jit
def products_kernel(
    rows_ptr,  # (L, 2, N, R, BLOCK_D): what the points saw, and their keys by way of the query product
    kept_ptr,  # (L, 5, N, POINTS, BLOCK_D)
    dkeys_ptr,  # (L, N, R, BLOCK_D)
    dshifts_ptr,  # (L, N, R)
    dkept_ptr,  # (L, 4, N, POINTS, BLOCK_D)
    dweights_ptr,  # (splits, L, 5, D, BLOCK_D) out, float32
    dbiases_ptr,  # (splits, L, 5, D) out
    N, R,
    POINTS: tl.constexpr, HEAD_D: tl.constexpr, BLOCK_C: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of the weights and biases that only points meet: of one map, the rows of one head, over a share of the sets.

    All are products a^T b over the points of all sets. For the value map of the gathering and for the query map, each head has
    its own b.
    """
    layer, number = tl.program_id(0) // 5, tl.program_id(0) % 5
    head = tl.program_id(1)
    j, c, d = tl.arange(0, POINTS), tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_D)
    step = tl.cast(N, tl.int64) * POINTS * BLOCK_D
    wide = tl.cast(N, tl.int64) * R * BLOCK_D
    kept, dkept = kept_ptr + layer * 5 * step, dkept_ptr + layer * 4 * step
    if number == VALUE:
        a_ptr, b_ptr = dkept + D_POINTS * step, rows_ptr + layer * 2 * wide + head * POINTS * BLOCK_D
    elif number == GATHER_OUT:
        a_ptr, b_ptr = dkept + D_PRE * step, kept + FIRST_HAT * step
    elif number == QUERY:
        a_ptr, b_ptr = kept + KEYS * step, dkeys_ptr + layer * wide + head * POINTS * BLOCK_D
    elif number == KEY:
        a_ptr, b_ptr = dkept + D_KEYS * step, kept + SECOND_HAT * step
    else:
        a_ptr, b_ptr = dkept + D_VALUES * step, kept + SECOND_HAT * step
    b_rows = tl.where((number == VALUE) | (number == QUERY), R, POINTS)  # of a set
    per = tl.cdiv(N, tl.num_programs(2))
    low = tl.program_id(2) * per
    dweight = tl.zeros((BLOCK_C, BLOCK_D), tl.float32)
    dbias = tl.zeros((BLOCK_C,), tl.float32)
    for n in range(low, tl.minimum(low + per, N)):
        place = tl.cast(n, tl.int64)
        a_at = place * POINTS * BLOCK_D + j[:, None] * BLOCK_D + (head * HEAD_D + c)[None, :]
        a = tl.load(a_ptr + a_at, (c < HEAD_D)[None, :], 0.0)
        b = load_matrix(b_ptr + place * b_rows * BLOCK_D, POINTS, BLOCK_D)
        dweight = add_product(tl.trans(a), b, dweight, PRECISION)
        if number == QUERY:
            share = tl.load(dshifts_ptr + (layer * tl.cast(N, tl.int64) + place) * R + head * POINTS + j)
            dbias += tl.sum(a.to(tl.float32) * share[:, None], 0)
        else:
            dbias += tl.sum(a.to(tl.float32), 0)
    out = (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * D + head * HEAD_D
    tl.store(dweights_ptr + (out + c)[:, None] * BLOCK_D + d[None, :], dweight, (c < HEAD_D)[:, None])
    tl.store(dbiases_ptr + out + c, dbias, c < HEAD_D)
