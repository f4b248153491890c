"""Induced blocks in Triton: four kernels a block forward, four backward.

Queries, keys, values and scores of elements are never stored. Scale and shift of the norms are part of the linear maps behind
them (see `fold`), so all that kernels see are standardised elements, the same for the attention that gathers and for the one
that reads. The gathering scores are elements times folded queries, and what is summed up are the elements themselves: the
value map is applied to what a set's points saw, not to its elements. The reading takes keys that the query map is folded
into. What happens to the points of a set is one program's work (`points_kernel`).

Kept for the backward pass are the input of each block, the elements before its output norm, and what a set's points went through.

Letters: N sets, T rows, D features, L blocks, H heads, I points, Q queries, R rows of a per-set matrix, P programs.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from orderless.ops._launch import INTERPRETED_ROWS, Plan, add_parts, on_device_of, plan_for, product_precision
from orderless.ops._tiles import SetStatistics, cut_tiles, num_programs
from orderless.ops.backend import is_interpreted
from orderless.ops.induced_blocks import Folded
from orderless.ops.induced_blocks.backward_kernels import (
    finish_kernel,
    gather_backward_kernel,
    out_backward_kernel,
    points_backward_kernel,
    products_kernel,
    scatter_backward_kernel,
)
from orderless.ops.induced_blocks.forward_kernels import (
    gather_kernel,
    merge_kernel,
    out_kernel,
    points_kernel,
    scatter_kernel,
)
from orderless.ops.set_norm.triton import pointers, set_statistics

_MOST_ROWS = 128  # of a chunk of a per-set matrix, in any plan
_POINT_VALUE = 4  # among the maps that only points meet: see `forward_kernels.py`
_SETS_A_SHARE = 16  # that one program of `products_kernel` adds up


def induced_blocks_triton(x: Tensor, offsets: Tensor, folded: Folded, *, eps: float) -> tuple[Tensor, SetStatistics]:
    """`induced_blocks_reference` by kernels, and the statistics of the sets it gives."""
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *folded))
    with on_device_of(x):
        y, statistics, *_ = _induced_blocks(x.contiguous(), offsets, *folded, eps, keep)
    return y, SetStatistics(statistics, _rows(x, "forward"))


def attention_pool_triton(x: Tensor, offsets: Tensor, queries: Tensor, statistics: SetStatistics | None, *, eps: float) -> Tensor:
    """(N, Q, D) float32: what queries (Q, D) see of each set's standardised elements; zeros for an empty set."""
    slots, rows = statistics or (None, _rows(x, "forward"))
    with on_device_of(x):
        seen, _, _ = _attention_pool(x.contiguous(), offsets, queries, slots, rows, eps)
    return seen


# ------------------------------------------------------------------------------------------------------------- blocks


@torch.library.custom_op("orderless::induced_blocks", mutates_args=())
def _induced_blocks(
    x: Tensor, offsets: Tensor, points: Tensor, queries: Tensor, weights: Tensor, biases: Tensor, eps: float, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The result, its statistics, and what is kept: see `_room`."""
    blocks, sizes = points.shape[0], _sizes(x, points, queries)
    room = _room(x, offsets, points, queries, keep)
    y, statistics, inputs, inner, kept, rows, numbers, moments = room
    if blocks == 0 or x.shape[0] == 0:
        y.copy_(x)
        return room
    run = _Launcher(x, offsets, _rows(x, "forward"))
    where = pointers(run.tiles)
    P, P_scatter, P_out = (run.programs(kernel) for kernel in ("gather", "scatter", "out"))
    slots = _slots(x, P, offsets, sizes.all_rows, sizes.BLOCK_D), *(_slots(x, P, offsets, sizes.all_rows) for _ in range(2))
    parameters = _padded(points, queries, weights, biases, sizes, x.dtype)
    set_statistics(x, run.tiles, (P_out,), out=statistics)
    of_inputs = statistics, statistics.shape[1]
    of_inner = _empty(x, 4, P_scatter + len(offsets) - 1, dtype=torch.float32), P_scatter + len(offsets) - 1
    z = x
    for block in range(blocks):
        place = block if keep else 0
        h, z_next = inner[place], inputs[block] if block < len(inputs) else y
        p, q, w, b = (a[block] for a in parameters)
        seen, keys = rows[place]
        log_totals, shifts = numbers[place]
        gather_kernel[(P, sizes.CHUNKS)](
            z, q, *of_inputs, moments[place], *slots, *where, eps, ROWS=sizes.rows, **sizes.width(), **run.tiled("gather")
        )
        points_kernel[(len(seen),)](
            p, w, b, *slots, seen, keys, log_totals, shifts, kept[place], moments[place],
            run.tiles.first, len(seen), P + len(seen), _scale(x), eps,
            KEEP=keep, NUM_POINTS=sizes.NUM_POINTS, **sizes.heads(), CHUNKS=sizes.CHUNKS, **sizes.width(), **run.plain("points"),
        )  # fmt: skip
        scatter_kernel[(P_scatter,)](
            z, keys, shifts, kept[place, -1], moments[place], h, *of_inner, *where,
            **sizes.heads(), CHUNKS=sizes.CHUNKS, **sizes.width(), **run.tiled("scatter"),
        )  # fmt: skip
        out_kernel[(P_out,)](
            h, w[-1], b[-1], *of_inner, moments[place, 3:], z_next, *of_inputs, *where, eps, **sizes.width(), **run.tiled("out")
        )
        z = z_next
    return room


@_induced_blocks.register_fake
def _(
    x: Tensor, offsets: Tensor, points: Tensor, queries: Tensor, weights: Tensor, biases: Tensor, eps: float, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _room(x, offsets, points, queries, keep)


def _room(
    x: Tensor, offsets: Tensor, points: Tensor, queries: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for everything the forward pass gives. Where nothing is kept, blocks use the room of one in turn."""
    blocks, sets, sizes = points.shape[0], offsets.shape[0] - 1, _sizes(x, points, queries)
    some = blocks if keep else min(blocks, 1)
    slots = num_programs(x.device, _plan(x).shapes["out"].programs) + sets
    return (
        _empty(x, *x.shape),
        _empty(x, 4, slots, dtype=torch.float32),  # statistics of the result
        _empty(x, max(blocks - 1, 0) if keep else 0, *x.shape),  # inputs of all blocks but the first
        _empty(x, some, *x.shape),  # elements before the output norm
        _empty(x, some, 5, sets, sizes.POINTS, sizes.BLOCK_D),  # what the points went through
        _empty(x, some, 2, sets, sizes.all_rows, sizes.BLOCK_D),  # what the points saw; their keys by way of the query map
        # log-sums of exp(score); what is added to the reading scores
        _empty(x, some, 2, sets, sizes.all_rows, dtype=torch.float32),
        _empty(x, some, 8, sets, dtype=torch.float32),  # moments of each set's elements and points
    )


@torch.library.custom_op("orderless::induced_blocks_backward", mutates_args=())
def _induced_blocks_backward(
    dy: Tensor,
    x: Tensor,
    offsets: Tensor,
    points: Tensor,
    queries: Tensor,
    weights: Tensor,
    biases: Tensor,
    inputs: Tensor,
    inner: Tensor,
    kept: Tensor,
    rows: Tensor,
    numbers: Tensor,
    moments: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, points, queries, weights and biases."""
    blocks, sets, sizes = points.shape[0], offsets.shape[0] - 1, _sizes(x, points, queries)
    if blocks == 0 or x.shape[0] == 0:
        zeros = [torch.zeros_like(a, dtype=torch.float32) for a in (points, queries, weights, biases)]
        return dy.clone(), zeros[0], zeros[1], zeros[2], zeros[3]
    run = _Launcher(x, offsets, _rows(x, "backward"))
    where = pointers(run.tiles)
    P = run.tiles.share(run.programs("backward"))
    S = P + sets
    width, heads = sizes.width(), sizes.heads()
    _, q, w, b = _padded(points, queries, weights, biases, sizes, x.dtype)
    slots = (
        _slots(x, P, offsets, sizes.all_rows, sizes.BLOCK_D),
        _slots(x, P, offsets, sizes.all_rows),
        _slots(x, P, offsets, sizes.POINTS, sizes.BLOCK_D),
    )
    so_far = _empty(x, *x.shape, dtype=torch.float32) if sizes.CHUNKS > 1 else x  # not touched where one chunk is all
    parts = _empty(x, P, sizes.BLOCK_D + 1 + sizes.all_rows, sizes.BLOCK_D, dtype=torch.float32)
    part_sums = _empty(x, blocks, *parts.shape[1:], dtype=torch.float32)
    dkeys = _empty(x, blocks, sets, sizes.all_rows, sizes.BLOCK_D)
    dshifts = _empty(x, blocks, sets, sizes.all_rows, dtype=torch.float32)
    dkept = _empty(x, blocks, 4, sets, sizes.POINTS, sizes.BLOCK_D)
    dseen, deltas = _empty(x, sets, sizes.all_rows, sizes.BLOCK_D), _empty(x, sets, sizes.all_rows, dtype=torch.float32)
    inner_sums = _empty(x, 2, S, dtype=torch.float32)
    sums = _empty(x, 2 * sizes.CHUNKS, 2, S, dtype=torch.float32)  # each kernel adds to what the one before it left
    dhat, dhat_next = _empty(x, *x.shape), _empty(x, *x.shape)  # each kernel reads one and writes the other
    dz_room, whole_room = _empty(x, *x.shape), _empty(x, *x.shape)
    # a bias that all points' values have comes to every element whole, since weights sum to 1: in float32 its gradient is the
    # plain sum, which a product in TF32 is not; of narrower numbers the sum over points is as good, and is there already
    sums_of_dz = _empty(x, blocks, sizes.D) if x.dtype == torch.float32 else None
    dz = dy  # of the block's output, without what comes through the next block's norms
    for block in reversed(range(blocks)):
        has_next = block < blocks - 1
        z, h = inputs[block - 1] if block else x, inner[block]
        z_next, next_moments = (inputs[block], moments[block + 1]) if has_next else (z, moments[block])
        whole = whole_room if has_next else dy
        (seen, keys), (log_totals, shifts) = rows[block], numbers[block]
        out_backward_kernel[(P,)](
            h, w[block, -1], b[block, -1], moments[block, 3:], dz, z_next, dhat, next_moments, sums[-1], S, whole,
            dhat_next, inner_sums, parts, parts.shape[1], *where, HAS_NEXT=has_next, **width, **run.tiled("out_backward"),
        )  # fmt: skip
        for chunk in range(sizes.CHUNKS):
            scatter_backward_kernel[(P,)](
                z, keys, shifts, kept[block, -1], moments[block], whole, h, dhat_next, moments[block, 3:], inner_sums, S,
                dz_room, dhat, so_far, sums[chunk - 1], sums[chunk], *slots, chunk, sizes.all_rows, *where,
                NUM_POINTS=sizes.NUM_POINTS, **sizes.ends(chunk), **heads, **width, **run.tiled("scatter_backward"),
            )  # fmt: skip
        dz = dz_room
        if sums_of_dz is not None:
            torch.sum(dz, 0, out=sums_of_dz[block])
        points_backward_kernel[(sets,)](
            w[block], b[block], seen, kept[block], moments[block], *slots, dkeys[block], dshifts[block], dseen, deltas,
            dkept[block], run.tiles.first, sets, S, _scale(x),
            NUM_POINTS=sizes.NUM_POINTS, CHUNKS=sizes.CHUNKS, **heads, **width, **run.plain("points_backward"),
        )  # fmt: skip
        for chunk in range(sizes.CHUNKS):
            gather_backward_kernel[(P,)](
                z, q[block], moments[block], log_totals, dseen, deltas, dhat, dhat_next, so_far,
                sums[sizes.CHUNKS + chunk - 1], sums[sizes.CHUNKS + chunk], S, parts, sizes.BLOCK_D + 1,
                parts.shape[1], chunk, sizes.all_rows, *where,
                HAS_OTHER=True, ROWS=sizes.rows, **sizes.ends(chunk), **width, **run.tiled("gather_backward"),
            )  # fmt: skip
        add_parts(parts, part_sums[block])
        dhat, dhat_next = dhat_next, dhat
    dx = _empty(x, *x.shape)
    finish_kernel[(run.programs("finish"),)](
        x, dhat, dz, moments[0], sums[-1], S, dx, *where, HAS_OTHER=True, **width, **run.tiled("finish", product=False)
    )

    shares = -(-sets // _SETS_A_SHARE)
    dmatrices = _empty(x, shares, blocks, 5, sizes.D, sizes.BLOCK_D, dtype=torch.float32)
    dvectors = _empty(x, shares, blocks, 5, sizes.D, dtype=torch.float32)
    products_kernel[(blocks * 5, sizes.D // sizes.HEAD_D, shares)](
        rows, kept, dkeys, dshifts, dkept, dmatrices, dvectors, sets, sizes.all_rows,
        POINTS=sizes.POINTS, HEAD_D=sizes.HEAD_D, BLOCK_C=_block(sizes.HEAD_D), **width, **run.plain("products"),
    )  # fmt: skip
    dpoints = dkept[:, 3, :, : sizes.NUM_POINTS, : sizes.D].sum(1, dtype=torch.float32)
    dqueries = part_sums[:, sizes.BLOCK_D + 1 :].unflatten(1, (-1, sizes.POINTS))[
        :, : queries.shape[1], : sizes.NUM_POINTS, : sizes.D
    ]
    dweights, dbiases = _empty(x, *weights.shape, dtype=torch.float32), _empty(x, *biases.shape, dtype=torch.float32)
    torch.sum(dmatrices[..., : sizes.D], 0, out=dweights[:, :5])
    torch.sum(dvectors, 0, out=dbiases[:, :5])
    dweights[:, 5], dbiases[:, 5] = part_sums[:, : sizes.D, : sizes.D], part_sums[:, sizes.BLOCK_D, : sizes.D]
    if sums_of_dz is not None:
        dbiases[:, _POINT_VALUE] = sums_of_dz
    return dx, dpoints, dqueries.contiguous(), dweights, dbiases


@_induced_blocks_backward.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    offsets: Tensor,
    points: Tensor,
    queries: Tensor,
    weights: Tensor,
    biases: Tensor,
    inputs: Tensor,
    inner: Tensor,
    kept: Tensor,
    rows: Tensor,
    numbers: Tensor,
    moments: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    gradients = [_empty(x, *a.shape, dtype=torch.float32) for a in (points, queries, weights, biases)]
    return torch.empty_like(x), gradients[0], gradients[1], gradients[2], gradients[3]


def _keep(ctx, inputs, output) -> None:
    x, offsets, points, queries, weights, biases, _, ctx.kept = inputs
    ctx.save_for_backward(x, offsets, points, queries, weights, biases, *output[2:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # zeros for all that is kept would double it


def _backward(ctx, dy, *_):
    if not ctx.kept:
        raise RuntimeError("induced_blocks was called with keep=False, so it has no backward pass. Pass keep=True.")
    saved = ctx.saved_tensors
    if dy is None:
        return (None,) * 8
    dx, *gradients = _induced_blocks_backward(dy.contiguous(), *saved)
    return dx, None, *(g.to(a.dtype) for g, a in zip(gradients, saved[2:6], strict=True)), None, None


_induced_blocks.register_autograd(_backward, setup_context=_keep)


# ------------------------------------------------------------------------------------------------------------ pooling


@torch.library.custom_op("orderless::attention_pool", mutates_args=())
def _attention_pool(
    x: Tensor, offsets: Tensor, queries: Tensor, statistics: Tensor | None, tile_rows: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What queries saw (N, Q, D), the log-sums of exp(score) (N, R), and the moments of the sets (3, N)."""
    sets, rows, width = offsets.shape[0] - 1, _block(queries.shape[0]), _width(x.shape[1])
    log_totals, moments = _pool_room(x, offsets, queries)
    if x.shape[0] == 0:
        return x.new_zeros(sets, *queries.shape, dtype=torch.float32), log_totals, moments
    run = _Launcher(x, offsets, tile_rows)
    if statistics is None:
        statistics = set_statistics(x, run.tiles, (run.programs("statistics"),))
    P = run.programs("pool")
    q = _pad(queries, x.dtype, rows, width["BLOCK_D"])
    slots = _slots(x, P, offsets, rows, width["BLOCK_D"]), *(_slots(x, P, offsets, rows) for _ in range(2))
    gather_kernel[(P, 1)](
        x, q, statistics, statistics.shape[1], moments, *slots, *pointers(run.tiles), eps, ROWS=rows, **width, **run.tiled("pool")
    )
    seen = _empty(x, sets, rows, width["BLOCK_D"], dtype=torch.float32)
    merge_kernel[(sets, 1)](
        *slots, seen, log_totals, run.tiles.first, sets, P + sets,
        ROWS=rows, BLOCK_D=width["BLOCK_D"], **run.plain("merge", product=False),
    )  # fmt: skip
    return seen[:, : queries.shape[0], : x.shape[1]].contiguous(), log_totals, moments


@_attention_pool.register_fake
def _(
    x: Tensor, offsets: Tensor, queries: Tensor, statistics: Tensor | None, tile_rows: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty(x, offsets.shape[0] - 1, *queries.shape, dtype=torch.float32), *_pool_room(x, offsets, queries)


def _pool_room(x: Tensor, offsets: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    sets = offsets.shape[0] - 1
    return _empty(x, sets, _block(queries.shape[0]), dtype=torch.float32), _empty(x, 3, sets, dtype=torch.float32)


@torch.library.custom_op("orderless::attention_pool_backward", mutates_args=())
def _attention_pool_backward(
    dseen: Tensor, x: Tensor, offsets: Tensor, queries: Tensor, seen: Tensor, log_totals: Tensor, moments: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the queries."""
    rows, width = log_totals.shape[1], _width(x.shape[1])
    dx, dqueries = _empty(x, *x.shape), torch.zeros_like(queries, dtype=torch.float32)
    if x.shape[0] == 0:
        return dx, dqueries
    run = _Launcher(x, offsets, _rows(x, "backward"))
    where = pointers(run.tiles)
    P = run.programs("pool_backward")
    q, dseen_padded = _pad(queries, x.dtype, rows, width["BLOCK_D"]), _pad(dseen, x.dtype, rows, width["BLOCK_D"])
    deltas = F.pad((dseen.to(x.dtype) * seen).sum(2), (0, rows - seen.shape[1]))  # of what the kernel sees, or it will not cancel
    dhat, S = _empty(x, *x.shape), P + len(offsets) - 1
    sums = _empty(x, 2, S, dtype=torch.float32)
    parts = _empty(x, P, rows, width["BLOCK_D"], dtype=torch.float32)
    gather_backward_kernel[(P,)](
        x, q, moments, log_totals, dseen_padded, deltas, x, dhat, x, sums, sums, S, parts, 0, rows, 0, rows, *where,
        HAS_OTHER=False, FIRST=True, LAST=True, ROWS=rows, **width, **run.tiled("pool_backward"),
    )  # fmt: skip
    finish_kernel[(run.programs("finish"),)](
        x, dhat, x, moments, sums, S, dx, *where, HAS_OTHER=False, **width, **run.tiled("finish", product=False)
    )
    return dx, parts.sum(0)[: queries.shape[0], : x.shape[1]].contiguous()


@_attention_pool_backward.register_fake
def _(
    dseen: Tensor, x: Tensor, offsets: Tensor, queries: Tensor, seen: Tensor, log_totals: Tensor, moments: Tensor
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), _empty(x, *queries.shape, dtype=torch.float32)


def _pool_keep(ctx, inputs, output) -> None:
    x, offsets, queries, *_ = inputs
    ctx.save_for_backward(x, offsets, queries, *output)
    ctx.mark_non_differentiable(*output[1:])


def _pool_backward(ctx, dseen, *_):
    saved = ctx.saved_tensors
    dx, dqueries = _attention_pool_backward(dseen.float(), *saved)
    return dx, None, dqueries.to(saved[2].dtype), None, None, None


_attention_pool.register_autograd(_pool_backward, setup_context=_pool_keep)


# ----------------------------------------------------------------------------------------------------- sizes and launches


class Sizes(NamedTuple):
    """Of a block's attention, as kernels are compiled for it: powers of two, heads in chunks of at most 128 rows."""

    NUM_POINTS: int
    POINTS: int
    HEADS: int  # of a chunk
    HEAD_D: int
    CHUNKS: int
    D: int
    BLOCK_D: int

    @property
    def rows(self) -> int:
        """Rows of a chunk of a per-set matrix."""
        return self.HEADS * self.POINTS

    @property
    def all_rows(self) -> int:
        """Rows of all chunks."""
        return self.CHUNKS * self.rows

    def width(self) -> dict[str, int]:
        """What every kernel takes."""
        return {"D": self.D, "BLOCK_D": self.BLOCK_D}

    def heads(self) -> dict[str, int]:
        """What kernels take that know of heads."""
        return {"POINTS": self.POINTS, "HEADS": self.HEADS, "HEAD_D": self.HEAD_D}

    def ends(self, chunk: int) -> dict[str, bool]:
        """Whether a chunk is the first or the last."""
        return {"FIRST": chunk == 0, "LAST": chunk == self.CHUNKS - 1}


class _Launcher:
    """The tiles of a batch, and how kernels are launched on them."""

    def __init__(self, x: Tensor, offsets: Tensor, rows: int) -> None:
        self.plan, self.precision = _plan(x), product_precision(x)
        self.tiles = cut_tiles(offsets, x.shape[0], rows)

    def programs(self, kernel: str) -> int:
        return num_programs(self.tiles.offsets.device, self.plan.shapes[kernel].programs)

    def plain(self, kernel: str, *, product: bool = True) -> dict[str, Any]:
        """Options of a kernel without tiles."""
        shape = self.plan.shapes[kernel]
        options: dict[str, Any] = {**shape.options(), "num_stages": shape.stages}
        return {"PRECISION": self.precision, **options} if product else options

    def tiled(self, kernel: str, *, product: bool = True) -> dict[str, Any]:
        """Options of a kernel that walks over tiles."""
        return {"M": self.tiles.block, **self.plain(kernel, product=product)}


def _plan(x: Tensor) -> Plan:
    return plan_for("induced_blocks", x)


def _rows(x: Tensor, direction: str) -> int:
    """Rows of a tile."""
    if is_interpreted():
        return INTERPRETED_ROWS
    return _plan(x).rows if direction == "forward" else _plan(x).backward_rows


def _sizes(x: Tensor, points: Tensor, queries: Tensor) -> Sizes:
    _, num_points, width = points.shape
    num_heads, padded = queries.shape[1], _block(num_points)
    heads = min(triton.next_power_of_2(num_heads), _MOST_ROWS // padded)
    all_heads = -(-num_heads // heads) * heads  # whatever the plan, so that forward and backward agree on R
    heads = min(heads, max(_plan(x).most_rows // padded, 1))
    return Sizes(num_points, padded, heads, width // num_heads, all_heads // heads, width, _block(width))


def _width(width: int) -> dict[str, int]:
    return {"D": width, "BLOCK_D": _block(width)}


def _block(size: int) -> int:
    """A power of two, and at least 16, which is the least that `tl.dot` takes."""
    return max(triton.next_power_of_2(size), 16)


def _scale(x: Tensor) -> float:
    return 1 / math.sqrt(x.shape[1])


def _empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)


def _slots(x: Tensor, programs: int, offsets: Tensor, *shape: int) -> Tensor:
    """Room for what programs add up of each set: see `_tiles`."""
    return _empty(x, programs + offsets.shape[0] - 1, *shape, dtype=torch.float32)


def _padded(
    points: Tensor, queries: Tensor, weights: Tensor, biases: Tensor, sizes: Sizes, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The parameters as kernels take them: products in the dtype of the elements, the rest in float32."""
    L, block, points_block = points.shape[0], sizes.BLOCK_D, sizes.POINTS
    return (
        _pad(points, torch.float32, points_block, block),
        _pad(queries, dtype, sizes.CHUNKS * sizes.HEADS, points_block, block).view(L, sizes.all_rows, block),
        _pad(weights, dtype, block, block),
        _pad(biases, torch.float32, block),
    )


def _pad(a: Tensor, dtype: torch.dtype, *shape: int) -> Tensor:
    """Zeros behind `a` until its last dimensions are `shape`."""
    missing = [want - have for want, have in zip(reversed(shape), reversed(a.shape), strict=False)]
    return F.pad(a.to(dtype), [n for m in missing for n in (0, m)]) if any(missing) else a.to(dtype).contiguous()
