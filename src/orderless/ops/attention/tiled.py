"""Attention within sets at a cost proportional to the elements, in plain PyTorch.

Sets are cut into tiles of at most `TILE` rows; a tile never holds rows of two sets, so only the last tile of a set is padded.
A query tile meets the key tiles of its own set, pair by pair, and the pairs' partial softmax sums are merged. The number
of tiles is bounded by T // B + N + 1, which needs no look at the sizes: nothing waits for the GPU, and the function
compiles and exports with free sizes.

Letters: N sets, T rows in all sets, D features, H heads, C = D / H, K tiles, B rows a tile, P pairs of tiles.
"""

import math
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops._segments import Blocks, broadcast_blocks, cut_into_blocks, statistics_dtype, sum_blocks

TILE, SMALLEST_TILE = 32, 4


class Tiling(NamedTuple):
    """How rows of sets are laid into tiles."""

    source: Tensor  # (K, B) row in each slot; T, one past the last row, where the slot is padding
    filled: Tensor  # (K, B) True where the slot holds a row
    set_of: Tensor  # (K,) set of each tile; a spare tile, all padding, is given to the last set


def rows_of_tile(offsets: Tensor, num_rows: int) -> int:
    """B where a tile meets one dense set: `TILE`, or what sets have on average, or else small ones would be mostly padding.

    A traced program does not know how many rows and sets it will get. Where tiles meet tiles, `TILE` it is: the pairs of a large
    set among many small ones would grow with the square of its tiles.
    """
    if torch.compiler.is_compiling():
        return TILE
    average = num_rows // max(offsets.shape[0] - 1, 1)
    return min(TILE, max(SMALLEST_TILE, 1 << average.bit_length()))  # a power of two above it


def tiling(offsets: Tensor, num_rows: int, tile: int = TILE) -> Tiling:
    """Cuts sets into tiles of `tile` rows."""
    num_sets, sizes = offsets.shape[0] - 1, offsets.diff()
    tiles = (sizes + tile - 1) // tile  # (N,)
    last = tiles.cumsum(0)
    # one more than can be needed, so that there are never fewer than two: tracing would take a single tile for a special case
    number = torch.arange(num_rows // tile + num_sets + 1, device=offsets.device)  # (K,)
    owner = torch.bucketize(number, last, right=True)
    set_of = owner.clamp(max=num_sets - 1)
    start = offsets[set_of] + (number - (last - tiles)[set_of]) * tile
    source = start[:, None] + torch.arange(tile, device=offsets.device)
    filled = (source < offsets[1:][set_of][:, None]) & (owner < num_sets)[:, None]
    return Tiling(source.where(filled, num_rows), filled, set_of)


def cut(rows: Tensor, tiles: Tiling) -> Tensor:
    """(T, D) -> (K, B, D), zeros in the padding: 0 x NaN is NaN, so padding may not borrow another row's content."""
    padded = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    return padded.index_select(0, tiles.source.flatten()).unflatten(0, tiles.source.shape)


def join(tiled: Tensor, tiles: Tiling, num_rows: int) -> Tensor:
    """(K, B, D) -> (T, D), the inverse of `cut`."""
    slots = torch.arange(tiles.source.numel(), device=tiled.device)
    # every row has exactly one slot; padding writes to the extra last place
    slot_of = slots.new_zeros(num_rows + 1).scatter(0, tiles.source.flatten(), slots)[:num_rows]
    return tiled.flatten(0, 1).index_select(0, slot_of)


def pairs_within_sets(q_offsets: Tensor, k_offsets: Tensor) -> tuple[Tensor, Tensor]:
    """All (query tile, key tile) pairs of one set. Their number depends on the sizes, so this reads them."""
    q_tiles, k_tiles = ((o.diff() + TILE - 1) // TILE for o in (q_offsets, k_offsets))  # (N,)
    count = q_tiles * k_tiles
    total = int(count.sum())
    set_of = torch.repeat_interleave(count, output_size=total)  # (P,)
    within = torch.arange(total, device=q_offsets.device) - (count.cumsum(0) - count)[set_of]
    first_q, first_k = (t.cumsum(0) - t for t in (q_tiles, k_tiles))
    return first_q[set_of] + within // k_tiles[set_of], first_k[set_of] + within % k_tiles[set_of]


def merging(pair_q: Tensor, num_queries: int) -> Blocks:
    """How the pairs of each query tile are added up where they are many. They must come one query tile after another."""
    ends = torch.bucketize(torch.arange(num_queries, device=pair_q.device), pair_q, right=True)
    return cut_into_blocks(torch.cat([ends.new_zeros(1), ends]), pair_q.shape[0])


def attend(
    q: Tensor,  # (A, B, D) query tiles
    k: Tensor,  # (E, B', D) key tiles
    v: Tensor,  # (E, B', D)
    filled: Tensor,  # (E, B') True at real keys
    pair_q: Tensor,  # (P,) query tile of each pair
    pair_k: Tensor,  # (P,) key tile of each pair
    *,
    num_heads: int,
    scale: float,
    merge: Blocks | None = None,  # of `merging`; None where a query tile has few pairs, which are added one after another
) -> Tensor:  # (A, B, D)
    """Softmax attention of each query tile over all key tiles it is paired with."""
    # autocast would take the products out of float32 again; the meta device knows no autocast
    with nullcontext() if q.device.type == "meta" else torch.autocast(q.device.type, enabled=False):
        return _attend(q, k, v, filled, pair_q, pair_k, num_heads, scale, merge)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    filled: Tensor,
    pair_q: Tensor,
    pair_k: Tensor,
    num_heads: int,
    scale: float,
    merge: Blocks | None,
) -> Tensor:
    def to_pairs(of_query: Tensor) -> Tensor:  # (A, ...) -> (P, ...)
        return of_query.index_select(0, pair_q) if merge is None else broadcast_blocks(of_query, merge)

    def of_queries(of_pair: Tensor) -> Tensor:  # (P, ...) -> (A, ...)
        if merge is None:
            return of_pair.new_zeros((q.shape[0], *of_pair.shape[1:])).index_add(0, pair_q, of_pair)
        return sum_blocks(of_pair, merge, q.shape[0])

    heads = (num_heads, q.shape[-1] // num_heads)
    wide = statistics_dtype(q.dtype)
    qh, kh, vh = (a.to(wide).unflatten(-1, heads).transpose(1, 2) for a in (q, k, v))  # (tiles, H, B, C)
    scores = to_pairs(qh) @ kh.index_select(0, pair_k).mT * scale  # (P, H, B, B')
    scores = scores.masked_fill(~filled[pair_k][:, None, None], -math.inf)
    # the largest score of each query over all its pairs; it cancels out, so no gradient need pass
    highest = scores.detach().amax(-1)  # (P, H, B)
    top = highest.new_full(qh.shape[:3], -math.inf)
    top = top.scatter_reduce(0, pair_q[:, None, None].expand_as(highest), highest, "amax")
    top = top.masked_fill(top == -math.inf, 0)  # queries without a key
    weights = (scores - top[pair_q][..., None]).exp()
    total = of_queries(weights @ vh.index_select(0, pair_k))
    mass = of_queries(weights.sum(-1, keepdim=True))
    out = total / mass.masked_fill(mass == 0, 1)
    return out.transpose(1, 2).flatten(2).to(q.dtype)
