"""The forward kernels of induced blocks, and what they share with those of the backward pass.

Rows of a per-set matrix are (head, point), padded: POINTS points a head (a power of two), HEADS heads a chunk, so ROWS =
HEADS x POINTS rows a chunk, and R rows in all CHUNKS chunks. Per-set matrices have BLOCK_D columns, zeros beyond D. Padding
contributes nothing by its values: queries of 0, a score of -inf for a point that is not there, no columns of values for a
head that is not there.

Letters: N sets, T rows, D features, P programs, S = P + N slots, M rows of a tile.
"""

import triton
import triton.language as tl

from orderless.ops._slots import (
    add_product,
    add_rows,
    merged_statistics,
    my_sets,
    my_slot,
    product,
    slots_of_set,
    standardise,
    store_statistics,
    tile_at,
    tiles_of_set,
)

# Places in the buffers of a layer. Folded weights (6, D, D) and biases (6, D):
VALUE = tl.constexpr(0)
GATHER_OUT = tl.constexpr(1)
QUERY = tl.constexpr(2)
KEY = tl.constexpr(3)
POINT_VALUE = tl.constexpr(4)
# What the points were on their way (5, N, POINTS, BLOCK_D):
FIRST_HAT = tl.constexpr(0)  # standardised, before the output product of the gathering attention
FIRST_PRE = tl.constexpr(1)  # after that product, before its ReLU
SECOND_HAT = tl.constexpr(2)  # standardised, before keys and values
KEYS = tl.constexpr(3)
VALUES = tl.constexpr(4)
# Moments of sets (8, N): mean, rest and 1 / deviation of the block's input from 0, of what the output norm sees from 3
FIRST_RSTD = tl.constexpr(6)
SECOND_RSTD = tl.constexpr(7)


# ------------------------------------------------------------------------------------------------------ where things are


@triton.jit
def places(D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr):
    """(M, BLOCK_D) places of a tile's numbers, counted from its first; in 32 bits, because wide addresses take registers."""
    return tl.arange(0, M)[:, None] * D + tl.arange(0, BLOCK_D)[None, :]


@triton.jit
def inside_tile(rows, D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr):
    """(M, BLOCK_D): which numbers of a tile of so many rows are of the set."""
    return (tl.arange(0, M) < rows)[:, None] & (tl.arange(0, BLOCK_D) < D)[None, :]


@triton.jit
def load_moments(moments_ptr, N, n):
    """Mean, rest of the mean and 1 / deviation of set n."""
    return tl.load(moments_ptr + n), tl.load(moments_ptr + N + n), tl.load(moments_ptr + 2 * N + n)


@triton.jit
def store_moments(moments_ptr, N, n, mean, rest, rstd):
    """The opposite of `load_moments`."""
    tl.store(moments_ptr + n, mean)
    tl.store(moments_ptr + N + n, rest)
    tl.store(moments_ptr + 2 * N + n, rstd)


@triton.jit
def load_matrix(matrix_ptr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """ROWS rows of a padded matrix."""
    return tl.load(matrix_ptr + tl.arange(0, ROWS)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :])


@triton.jit
def store_matrix(matrix_ptr, values, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """The opposite of `load_matrix`."""
    tl.store(matrix_ptr + tl.arange(0, ROWS)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :], values)


# ------------------------------------------------------------------------------------------------------------- heads


@triton.jit
def columns_of_heads(chunk, D: tl.constexpr, BLOCK_D: tl.constexpr, HEADS: tl.constexpr, HEAD_D: tl.constexpr):
    """(HEADS, 1, BLOCK_D): which columns belong to each head of the chunk."""
    d = tl.arange(0, BLOCK_D)
    head = chunk * HEADS + tl.arange(0, HEADS)
    return (((d // HEAD_D)[None, :] == head[:, None]) & (d < D)[None, :])[:, None, :]


@triton.jit
def spread_heads(points, mine, HEADS: tl.constexpr, POINTS: tl.constexpr, BLOCK_D: tl.constexpr):
    """(POINTS, BLOCK_D) -> (ROWS, BLOCK_D): each head's rows have the columns of that head alone."""
    wide = tl.where(mine, tl.broadcast_to(points[None, :, :], (HEADS, POINTS, BLOCK_D)), 0.0)
    return tl.reshape(wide, (HEADS * POINTS, BLOCK_D))


@triton.jit
def collect_heads(rows, mine, HEADS: tl.constexpr, POINTS: tl.constexpr, BLOCK_D: tl.constexpr):
    """(ROWS, BLOCK_D) -> (POINTS, BLOCK_D): from each head's rows the columns of that head. The transpose of `spread_heads`."""
    return tl.sum(tl.where(mine, tl.reshape(rows, (HEADS, POINTS, BLOCK_D)), 0.0), 0)


@triton.jit
def load_values(
    values_ptr, chunk,
    D: tl.constexpr, BLOCK_D: tl.constexpr, HEADS: tl.constexpr, POINTS: tl.constexpr, HEAD_D: tl.constexpr,
):  # fmt: skip
    """(ROWS, BLOCK_D) values of a set's points (POINTS, BLOCK_D), spread over the heads."""
    r, d = tl.arange(0, HEADS * POINTS), tl.arange(0, BLOCK_D)
    mine = ((d // HEAD_D)[None, :] == (chunk * HEADS + r // POINTS)[:, None]) & (d < D)[None, :]
    return tl.load(values_ptr + (r % POINTS)[:, None] * BLOCK_D + d[None, :], mine, 0.0)


@triton.jit
def softmax_of_heads(scores, M: tl.constexpr, HEADS: tl.constexpr, POINTS: tl.constexpr):
    """(M, ROWS) scores -> weights that sum to 1 over the points of each head."""
    s = tl.reshape(scores, (M, HEADS, POINTS))
    p = tl.exp(s - tl.max(s, 2, keep_dims=True))
    return tl.reshape(p / tl.sum(p, 2, keep_dims=True), (M, HEADS * POINTS))


# ------------------------------------------------------------------------------------------------------------ kernels


@triton.jit
def gather_kernel(
    x_ptr,  # (T, D)
    queries_ptr,  # (R, BLOCK_D)
    stats_ptr, S,  # (4, S) of x
    moments_ptr,  # (3, N) out
    sums_ptr,  # (P + N, R, BLOCK_D) out: weighted sums of the standardised elements
    tops_ptr, totals_ptr,  # (P + N, R) out: the largest score, and the sum of the weights relative to it
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    ROWS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Queries attend to the standardised elements of each set, as far as they are in this program's tiles."""
    chunk, R = tl.program_id(1), tl.num_programs(1) * ROWS
    queries = load_matrix(queries_ptr + chunk * ROWS * BLOCK_D, ROWS, BLOCK_D)
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
            if (low == tl.load(first_ptr + n)) & (chunk == 0):
                store_moments(moments_ptr, N, n, mean, rest, rstd)
            top = tl.full((ROWS,), -float("inf"), tl.float32)
            total = tl.zeros((ROWS,), tl.float32)
            sums = tl.zeros((ROWS, BLOCK_D), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                scores = product(queries, tl.trans(hat), PRECISION)  # (ROWS, M)
                scores = tl.where((tl.arange(0, M) < rows)[None, :], scores, -float("inf"))
                highest = tl.maximum(top, tl.max(scores, 1))
                weights = tl.exp(scores - highest[:, None])
                shrink = tl.exp(top - highest)
                total = total * shrink + tl.sum(weights, 1)
                sums = add_product(weights.to(x.dtype), hat, sums * shrink[:, None], PRECISION)
                top = highest
            slot = my_slot(n).to(tl.int64) * R + chunk * ROWS
            r = tl.arange(0, ROWS)
            store_matrix(sums_ptr + slot * BLOCK_D, sums, ROWS, BLOCK_D)
            tl.store(tops_ptr + slot + r, top)
            tl.store(totals_ptr + slot + r, total)


@triton.jit
def merge_slots(
    sums_ptr, tops_ptr, totals_ptr, low, high, row, R,
    ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Attention over the whole set from that over its parts: ROWS rows from `row` on, and the log of their sums of exp(score)."""
    at = row + tl.arange(0, ROWS)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    for slot in range(low, high):
        top = tl.maximum(top, tl.load(tops_ptr + tl.cast(slot, tl.int64) * R + at))
    top = tl.where(low < high, top, 0.0)
    total = tl.zeros((ROWS,), tl.float32)
    for slot in range(low, high):
        place = tl.cast(slot, tl.int64) * R + at
        total += tl.load(totals_ptr + place) * tl.exp(tl.load(tops_ptr + place) - top)
    log_total = top + tl.log(tl.where(low < high, total, 1.0))
    merged = tl.zeros((ROWS, BLOCK_D), tl.float32)
    for slot in range(low, high):
        place = tl.cast(slot, tl.int64) * R
        share = tl.exp(tl.load(tops_ptr + place + at) - log_total)
        merged += load_matrix(sums_ptr + (place + row) * BLOCK_D, ROWS, BLOCK_D) * share[:, None]
    return merged, log_total


@triton.jit
def merge_kernel(
    sums_ptr,  # (S, R, BLOCK_D)
    tops_ptr, totals_ptr,  # (S, R)
    merged_ptr,  # (N, R, BLOCK_D) out, float32
    log_totals_ptr,  # (N, R) out
    first_ptr, N, S,
    ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """What `gather_kernel` found in parts, as one for each set; zeros for an empty one. For pooling."""
    n, row, R = tl.program_id(0), tl.program_id(1) * ROWS, tl.num_programs(1) * ROWS
    low, high = slots_of_set(n, first_ptr, N, S)
    merged, log_total = merge_slots(sums_ptr, tops_ptr, totals_ptr, low, high, row, R, ROWS, BLOCK_D)
    place = tl.cast(n, tl.int64) * R + row
    store_matrix(merged_ptr + place * BLOCK_D, merged, ROWS, BLOCK_D)
    tl.store(log_totals_ptr + place + tl.arange(0, ROWS), log_total)


@triton.jit
def standardised_points(h, valid, count, eps):
    """The points of one set standardised over all their numbers, and 1 / deviation."""
    d = tl.where(valid, h - tl.sum(tl.where(valid, h, 0.0)) / count, 0.0)
    d = tl.where(valid, d - tl.sum(d) / count, 0.0)  # what rounding left of the mean
    rstd = tl.rsqrt(tl.sum(d * d) / count + eps)
    return d * rstd, rstd


@triton.jit
def points_kernel(
    points_ptr,  # (POINTS, BLOCK_D) float32
    weights_ptr,  # (6, BLOCK_D, BLOCK_D)
    biases_ptr,  # (6, BLOCK_D) float32
    sums_ptr,  # (S, R, BLOCK_D)
    tops_ptr, totals_ptr,  # (S, R)
    seen_ptr, keys_ptr,  # (N, R, BLOCK_D) out: what the points saw, and their keys by way of the query product
    log_totals_ptr, shifts_ptr,  # (N, R) out: of the gathering scores, and what is added to the scattering ones
    kept_ptr,  # (5, N, POINTS, BLOCK_D) out: see the top of this file; all but the last only where KEEP
    moments_ptr,  # (8, N) out: the last two, where KEEP
    first_ptr, N, S, scale, eps,
    KEEP: tl.constexpr, NUM_POINTS: tl.constexpr, POINTS: tl.constexpr, HEADS: tl.constexpr, HEAD_D: tl.constexpr,
    CHUNKS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The inducing points of one set: merge what they gathered, output product, then their keys and values for the elements."""
    ROWS: tl.constexpr = HEADS * POINTS
    R: tl.constexpr = CHUNKS * ROWS
    dtype = kept_ptr.dtype.element_ty
    n = tl.program_id(0)
    place = tl.cast(n, tl.int64)
    d = tl.arange(0, BLOCK_D)
    r = tl.arange(0, ROWS)
    valid = (tl.arange(0, POINTS) < NUM_POINTS)[:, None] & (d < D)[None, :]
    low, high = slots_of_set(n, first_ptr, N, S)
    attended = tl.zeros((POINTS, BLOCK_D), tl.float32)
    weight = load_matrix(weights_ptr + VALUE * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    for chunk in range(CHUNKS):
        row = place * R + chunk * ROWS
        seen, log_total = merge_slots(sums_ptr, tops_ptr, totals_ptr, low, high, chunk * ROWS, R, ROWS, BLOCK_D)
        if KEEP:
            store_matrix(seen_ptr + row * BLOCK_D, seen.to(dtype), ROWS, BLOCK_D)
            tl.store(log_totals_ptr + row + r, log_total)
        mine = columns_of_heads(chunk, D, BLOCK_D, HEADS, HEAD_D)
        values = product(seen.to(dtype), tl.trans(weight), PRECISION)
        attended += collect_heads(values, mine, HEADS, POINTS, BLOCK_D)
    bias = tl.load(biases_ptr + VALUE * BLOCK_D + d)[None, :]
    h = load_matrix(points_ptr, POINTS, BLOCK_D) + tl.where(low < high, attended + bias, 0.0)

    hat, rstd = standardised_points(h, valid, NUM_POINTS * D, eps)
    bias = tl.load(biases_ptr + GATHER_OUT * BLOCK_D + d)[None, :]
    weight = load_matrix(weights_ptr + GATHER_OUT * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    pre = product(hat.to(dtype), tl.trans(weight), PRECISION) + bias
    h += tl.maximum(pre, 0.0, propagate_nan=tl.PropagateNan.ALL)
    kept = place * POINTS * BLOCK_D  # in each of the five
    step = tl.cast(N, tl.int64) * POINTS * BLOCK_D
    if KEEP:
        store_matrix(kept_ptr + FIRST_HAT * step + kept, hat.to(dtype), POINTS, BLOCK_D)
        store_matrix(kept_ptr + FIRST_PRE * step + kept, pre.to(dtype), POINTS, BLOCK_D)
        tl.store(moments_ptr + FIRST_RSTD * N + n, rstd)

    hat, rstd = standardised_points(h, valid, NUM_POINTS * D, eps)
    hat = hat.to(dtype)
    weight = load_matrix(weights_ptr + POINT_VALUE * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    bias = tl.load(biases_ptr + POINT_VALUE * BLOCK_D + d)[None, :]
    values = tl.where(valid, product(hat, tl.trans(weight), PRECISION) + bias, 0.0)
    weight = load_matrix(weights_ptr + KEY * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    bias = tl.load(biases_ptr + KEY * BLOCK_D + d)[None, :]
    keys = tl.where(valid, product(hat, tl.trans(weight), PRECISION) + bias, 0.0)
    store_matrix(kept_ptr + VALUES * step + kept, values.to(dtype), POINTS, BLOCK_D)
    if KEEP:
        store_matrix(kept_ptr + SECOND_HAT * step + kept, hat, POINTS, BLOCK_D)
        store_matrix(kept_ptr + KEYS * step + kept, keys.to(dtype), POINTS, BLOCK_D)
        tl.store(moments_ptr + SECOND_RSTD * N + n, rstd)

    weight = load_matrix(weights_ptr + QUERY * BLOCK_D * BLOCK_D, BLOCK_D, BLOCK_D)
    bias = tl.load(biases_ptr + QUERY * BLOCK_D + d)[None, :]
    for chunk in range(CHUNKS):
        row = place * R + chunk * ROWS
        mine = columns_of_heads(chunk, D, BLOCK_D, HEADS, HEAD_D)
        spread = spread_heads(keys, mine, HEADS, POINTS, BLOCK_D)
        folded = product(spread.to(dtype), weight, PRECISION) * scale
        store_matrix(keys_ptr + row * BLOCK_D, folded.to(dtype), ROWS, BLOCK_D)
        shift = tl.sum(spread * bias, 1) * scale
        tl.store(shifts_ptr + row + r, tl.where(r % POINTS < NUM_POINTS, shift, -float("inf")))


@triton.jit
def scatter_kernel(
    x_ptr,  # (T, D)
    keys_ptr,  # (N, R, BLOCK_D)
    shifts_ptr,  # (N, R)
    values_ptr,  # (N, POINTS, BLOCK_D)
    moments_ptr,  # (3, N) of x
    y_ptr,  # (T, D) out
    y_stats_ptr, S,  # (4, S) out
    offsets_ptr, first_ptr, set_of_ptr, N,
    POINTS: tl.constexpr, HEADS: tl.constexpr, HEAD_D: tl.constexpr, CHUNKS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Elements read from the points of their set: y = x + attention, and the statistics of y."""
    ROWS: tl.constexpr = HEADS * POINTS
    R: tl.constexpr = CHUNKS * ROWS
    r, d = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = load_moments(moments_ptr, N, n)
            place = tl.cast(n, tl.int64) * R
            values_of_set = values_ptr + tl.cast(n, tl.int64) * POINTS * BLOCK_D
            if CHUNKS == 1:
                keys = load_matrix(keys_ptr + place * BLOCK_D, ROWS, BLOCK_D)
                values = load_values(values_of_set, 0, D, BLOCK_D, HEADS, POINTS, HEAD_D)
                shifts = tl.load(shifts_ptr + place + r)[None, :]
            near = mean + rest  # the mean of y will not be far
            seen, y_mean, squares = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                if CHUNKS == 1:
                    weights = softmax_of_heads(product(hat, tl.trans(keys), PRECISION) + shifts, M, HEADS, POINTS)
                    y = x.to(tl.float32) + product(weights.to(x.dtype), values, PRECISION)
                else:
                    y = x.to(tl.float32)
                    for chunk in range(CHUNKS):
                        part = place + chunk * ROWS
                        keys = load_matrix(keys_ptr + part * BLOCK_D, ROWS, BLOCK_D)
                        values = load_values(values_of_set, chunk, D, BLOCK_D, HEADS, POINTS, HEAD_D)
                        scores = product(hat, tl.trans(keys), PRECISION) + tl.load(shifts_ptr + part + r)[None, :]
                        weights = softmax_of_heads(scores, M, HEADS, POINTS)
                        y += product(weights.to(x.dtype), values, PRECISION)
                y = y.to(x.dtype)
                tl.store(y_ptr + at + local, y, inside)
                centred = y.to(tl.float32) - near
                seen, y_mean, squares = add_rows(seen, y_mean, squares, centred, tl.arange(0, M) < rows, d < D, D)
            store_statistics(y_stats_ptr, S, n, near, seen, y_mean, squares, D)


@triton.jit
def out_kernel(
    x_ptr,  # (T, D)
    weight_ptr,  # (BLOCK_D, BLOCK_D)
    bias_ptr,  # (BLOCK_D,) float32
    stats_ptr, S,  # (4, S) of x
    moments_ptr,  # (3, N) out, of x
    y_ptr,  # (T, D) out
    y_stats_ptr, S_OUT,  # (4, S_OUT) out
    offsets_ptr, first_ptr, set_of_ptr, N, eps,
    D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = x + relu(standardised x W + b), and the statistics of y."""
    d = tl.arange(0, BLOCK_D)
    weight = load_matrix(weight_ptr, BLOCK_D, BLOCK_D)
    bias = tl.load(bias_ptr + d)[None, :]
    local = places(D, BLOCK_D, M)
    start, stop, set_start, set_stop = my_sets(first_ptr, set_of_ptr, N)
    for n in range(set_start, set_stop):
        low, high, origin, end = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        if low < high:
            mean, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
            if low == tl.load(first_ptr + n):
                store_moments(moments_ptr, N, n, mean, rest, rstd)
            near = mean + rest  # the mean of y will not be far
            seen, y_mean, squares = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
            for k in range(low, high):
                row, rows = tile_at(k, origin, end, M)
                inside, at = inside_tile(rows, D, BLOCK_D, M), row * D
                x = tl.load(x_ptr + at + local, inside, 0.0)
                hat = tl.where(inside, standardise(x, mean, rest, rstd), 0.0).to(x.dtype)
                pre = product(hat, tl.trans(weight), PRECISION) + bias
                y = (x.to(tl.float32) + tl.maximum(pre, 0.0, propagate_nan=tl.PropagateNan.ALL)).to(x.dtype)
                tl.store(y_ptr + at + local, y, inside)
                centred = y.to(tl.float32) - near
                seen, y_mean, squares = add_rows(seen, y_mean, squares, centred, tl.arange(0, M) < rows, d < D, D)
            store_statistics(y_stats_ptr, S_OUT, n, near, seen, y_mean, squares, D)
