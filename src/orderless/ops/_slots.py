"""What the kernels share: which tiles are a program's, the statistics of a set, a set's numbers standardised.

Programs walk over consecutive tiles (`_tiles.py`), set by set. What a program finds out about its part of set n it leaves in slot
p + n of a buffer with S = P + N slots, and who needs to know about the whole set merges the slots of that set.

Statistics are float32 and never taken from plain sums of squares: a slot holds the count, a number `near` the mean, the `rest`
that is missing to the mean, and the sum of squared deviations; so a set around 1e4 with a spread of 1e-2 stays right. Within a
tile each row has its own mean and deviations, which takes no meeting of the warps; rows are merged once a set.

Letters: N sets, T rows, D features, P programs, S slots, M rows of a tile.
"""

import triton
import triton.language as tl


@triton.jit
def cut_kernel(
    offsets_ptr,  # (N + 1,)
    first_ptr,  # (N + 1,) out
    set_of_ptr,  # (K,) out
    N, K, M,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The tiles of all sets, as `_tiles.cut_tiles` has them. Every program counts all tiles, so that none waits for another."""
    n = tl.arange(0, BLOCK_N)
    size = tl.load(offsets_ptr + n + 1, n < N, 0) - tl.load(offsets_ptr + n, n < N, 0)
    end = tl.cumsum(tl.cdiv(size, M).to(tl.int32), 0)  # the first tile behind each set
    if tl.program_id(0) == 0:
        tl.store(first_ptr, 0)
        tl.store(first_ptr + 1 + n, end, n < N)
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    sets_before = tl.sum(((end[None, :] <= k[:, None]) & (n < N)[None, :]).to(tl.int32), 1)
    tl.store(set_of_ptr + k, tl.minimum(sets_before, N - 1), k < K)


@triton.jit
def my_sets(first_ptr, set_of_ptr, N):
    """This program's tiles, start to stop - 1, and the sets they are of, first to last - 1.

    A kernel goes through the sets, and within each through its tiles: what is the same for a whole set is fetched once, and the
    inner loop is plain enough for the compiler to load a tile ahead.
    """
    num_tiles = tl.load(first_ptr + N)
    per = tl.cdiv(num_tiles, tl.num_programs(0))
    start = tl.program_id(0) * per
    stop = tl.minimum(start + per, num_tiles)
    first = tl.load(set_of_ptr + start, start < stop, 0)
    last = tl.load(set_of_ptr + stop - 1, start < stop, -1) + 1
    return start, stop, first, tl.where(start < stop, last, first)


@triton.jit
def tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M: tl.constexpr):
    """The tiles of set n that are among start .. stop - 1, as a range, and where they lie.

    Tile k begins at row `origin + k * M`, and the set ends before row `end`.
    """
    first = tl.load(first_ptr + n)
    origin = tl.load(offsets_ptr + n) - first.to(tl.int64) * M
    return tl.maximum(start, first), tl.minimum(stop, tl.load(first_ptr + n + 1)), origin, tl.load(offsets_ptr + n + 1)


@triton.jit
def tile_at(k, origin, end, M: tl.constexpr):
    """The first row of tile k, and how many rows it has."""
    row = origin + k * M
    return row, tl.minimum(end - row, M).to(tl.int32)


@triton.jit
def size_of_set(n, offsets_ptr):
    return (tl.load(offsets_ptr + n + 1) - tl.load(offsets_ptr + n)).to(tl.float32)


@triton.jit
def my_slot(n):
    """Where this program leaves what it knows of set n."""
    return tl.program_id(0) + n


@triton.jit
def slots_of_set(n, first_ptr, N, S):
    """The slots of set n in a buffer of S, as a range: the programs that had tiles of it are S - N of them at most."""
    per = tl.cdiv(tl.load(first_ptr + N), S - N)
    first = tl.load(first_ptr + n)
    last = tl.load(first_ptr + n + 1)
    begin = first // per + n
    return begin, tl.where(first < last, (last - 1) // per + n + 1, begin)


@triton.jit
def merged_statistics(
    stats_ptr,  # (4, S): count, near, rest, sum of squared deviations
    S, n, first_ptr, N, eps,
):  # fmt: skip
    """Mean, in two parts, and 1 / standard deviation of set n."""
    CHUNK: tl.constexpr = 32  # one warp's width: adding up needs no meeting of the warps
    first, last = slots_of_set(n, first_ptr, N, S)
    near = tl.load(stats_ptr + S + first, first < last, 0.0)
    at = first + tl.arange(0, CHUNK)
    c = tl.load(stats_ptr + at, at < last, 0.0)
    d = tl.load(stats_ptr + S + at, at < last, near) - near + tl.load(stats_ptr + 2 * S + at, at < last, 0.0)
    s = tl.load(stats_ptr + 3 * S + at, at < last, 0.0)
    count = tl.maximum(tl.sum(c), 1.0)  # an empty set has no slot
    rest = tl.div_rn(tl.sum(c * d), count)
    squares = tl.sum(s + c * (d - rest) * (d - rest))
    if last - first > CHUNK:  # a set over many programs: the same over all its slots
        count = 0.0
        rest = 0.0
        squares = 0.0
        for start in range(first, last, CHUNK):
            at = start + tl.arange(0, CHUNK)
            c = tl.load(stats_ptr + at, at < last, 0.0)
            d = tl.load(stats_ptr + S + at, at < last, near) - near + tl.load(stats_ptr + 2 * S + at, at < last, 0.0)
            count += tl.sum(c)
            rest += tl.sum(c * d)
        rest = tl.div_rn(rest, count)
        for start in range(first, last, CHUNK):
            at = start + tl.arange(0, CHUNK)
            c = tl.load(stats_ptr + at, at < last, 0.0)
            d = tl.load(stats_ptr + S + at, at < last, near) - near + tl.load(stats_ptr + 2 * S + at, at < last, 0.0)
            squares += tl.sum(tl.load(stats_ptr + 3 * S + at, at < last, 0.0) + c * (d - rest) * (d - rest))
    # a whole set is multiplied by it: rounded once, not a GPU's quick guess that is off by a few units in the last place
    return near, rest, tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(squares, count) + eps))


@triton.jit
def merged_sums(sums_ptr, S, n, first_ptr, N):
    """The two sums that the norm's backward pass needs of set n, from its slots (2, S)."""
    CHUNK: tl.constexpr = 32
    first, last = slots_of_set(n, first_ptr, N, S)
    total = 0.0
    along = 0.0
    for start in range(first, last, CHUNK):
        at = start + tl.arange(0, CHUNK)
        total += tl.sum(tl.load(sums_ptr + at, at < last, 0.0))
        along += tl.sum(tl.load(sums_ptr + S + at, at < last, 0.0))
    return total, along


@triton.jit
def add_rows(seen, mean, squares, y, inside_rows, inside_cols, D: tl.constexpr):
    """Takes the rows of `y` (M, D), minus what is near, into the running statistics of the M places for rows.

    seen: (M,) rows so far; mean: (M,) of their numbers; squares: (M,) sum of squared deviations.
    """
    y = tl.where(inside_cols[None, :], y, 0.0)
    row_mean = tl.sum(y, 1) / D
    d = tl.where(inside_cols[None, :], y - row_mean[:, None], 0.0)
    row_squares = tl.sum(d * d, 1)
    now = seen + 1.0
    step = row_mean - mean
    mean = tl.where(inside_rows, mean + step / now, mean)
    squares = tl.where(inside_rows, squares + row_squares + step * step * (D * seen / now), squares)
    return tl.where(inside_rows, now, seen), mean, squares


@triton.jit
def store_statistics(stats_ptr, S, n, near, seen, mean, squares, D: tl.constexpr):
    """Leaves what `add_rows` has gathered of set n."""
    count = tl.sum(seen) * D
    rest = tl.div_rn(tl.sum(seen * mean) * D, count)
    d = mean - rest
    slot = stats_ptr + my_slot(n)
    tl.store(slot, count)
    tl.store(slot + S, near)
    tl.store(slot + 2 * S, rest)
    tl.store(slot + 3 * S, tl.sum(squares + seen * D * d * d))


@triton.jit
def standardise(x, near, rest, rstd):
    """Float32 numbers of a set, with mean 0 and variance 1."""
    return (x.to(tl.float32) - near - rest) * rstd


@triton.jit
def norm_backward(dhat, hat, rstd, total, along, count):
    r"""From the gradient of the standardised numbers to that of the numbers: $r\,(d - \bar d - \hat x\,\overline{d\hat x})$."""
    return rstd * (dhat - total / count - hat * (along / count))


@triton.jit
def nearest(x, PRECISION: tl.constexpr):
    """What a product is to take of x: rounded to the nearest where it multiplies in TF32, which by itself cuts digits off."""
    if PRECISION == "tf32":
        bits = x.to(tl.int32, bitcast=True)
        x = tl.where(x == x, ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True), x)  # NaN stays NaN
    return x


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """The matrix product of a and b, added up in float32."""
    return tl.dot(nearest(a, PRECISION), nearest(b, PRECISION), input_precision=PRECISION)


@triton.jit
def add_product(a, b, total, PRECISION: tl.constexpr):
    """`total` plus the matrix product of a and b."""
    return tl.dot(nearest(a, PRECISION), nearest(b, PRECISION), total, input_precision=PRECISION)


@triton.jit
def add_parts_kernel(
    parts_ptr,  # (P, Q)
    out_ptr,  # (Q,) out
    P, Q,
    BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """Adds up the shares of all programs, always in the same order."""
    at = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    total = tl.zeros((BLOCK_P, BLOCK_Q), tl.float32)
    for start in range(0, P, BLOCK_P):
        p = start + tl.arange(0, BLOCK_P)
        total += tl.load(parts_ptr + p[:, None] * Q + at[None, :], (p < P)[:, None] & (at < Q)[None, :], 0.0)
    tl.store(out_ptr + at, tl.sum(total, 0), at < Q)
