"""Softmax attention that stays within sets. A query whose set has no key gets zeros.

One definition (`reference.py`), three forms by what is packed and what is a small dense set of the same size everywhere:

- `dense_query_attention`: I queries a set over its elements (inducing points gathering, attention pooling);
- `dense_key_attention`: a set's elements over its I keys (elements reading the inducing points);
- `packed_attention`: elements over elements.

Letters: N sets, T elements in all sets, I rows of a small dense set, D features.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from orderless.ops._shapes import Float, Int
from orderless.ops.attention import tiled
from orderless.ops.attention.reference import attention_reference

__all__ = ["attention_reference", "dense_key_attention", "dense_query_attention", "packed_attention"]


def dense_query_attention(
    q: Float[Tensor, "N I D"],
    k: Float[Tensor, "T D"],
    v: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    *,
    num_heads: int,
    scale: float,
    set_size: int | None = None,
) -> Float[Tensor, "N I D"]:
    """I queries of each set over the packed keys of that set.

    Args:
        q: Queries.
        k: Keys of all sets, one set after another.
        v: Values, as the keys.
        offsets: Keys of set `n` are `k[offsets[n]:offsets[n + 1]]`.
        num_heads: D features are split into this many heads.
        scale: Multiplies the scores before the softmax.
        set_size: The caller's word that every set has this many keys, which allows a dense view.
    """
    if q.shape[0] == 0:
        return _of_no_sets(q, k, v)
    if set_size:
        dense = (q.shape[0], set_size, k.shape[1])
        return _dense(q, k.reshape(dense), v.reshape(dense), num_heads, scale)
    tiles = tiled.tiling(offsets, k.shape[0], tiled.rows_of_tile(offsets, k.shape[0]))
    number = torch.arange(tiles.set_of.shape[0], device=k.device)
    return tiled.attend(
        q,
        tiled.cut(k, tiles),
        tiled.cut(v, tiles),
        tiles.filled,
        tiles.set_of,
        number,
        merge=tiled.merging(tiles.set_of, q.shape[0]),
        num_heads=num_heads,
        scale=scale,
    )


def dense_key_attention(
    q: Float[Tensor, "T D"],
    k: Float[Tensor, "N I D"],
    v: Float[Tensor, "N I D"],
    offsets: Int[Tensor, "N_plus_1"],
    *,
    num_heads: int,
    scale: float,
) -> Float[Tensor, "T D"]:
    """The packed queries of each set over that set's I keys.

    Args:
        q: Queries of all sets, one set after another.
        k: Keys.
        v: Values.
        offsets: Queries of set `n` are `q[offsets[n]:offsets[n + 1]]`.
        num_heads: D features are split into this many heads.
        scale: Multiplies the scores before the softmax.
    """
    if k.shape[0] == 0:
        return _of_no_sets(q, k, v)
    if k.shape[1] == 0:
        return torch.where(q.new_zeros((), dtype=torch.bool), q, 0) + (k.sum() + v.sum())  # zeros, with gradients of zeros
    every_key = k.new_ones(k.shape[:2], dtype=torch.bool)
    tiles = tiled.tiling(offsets, q.shape[0], tiled.rows_of_tile(offsets, q.shape[0]))
    number = torch.arange(tiles.set_of.shape[0], device=q.device)
    out = tiled.attend(tiled.cut(q, tiles), k, v, every_key, number, tiles.set_of, num_heads=num_heads, scale=scale)
    return tiled.join(out, tiles, q.shape[0])


def packed_attention(
    q: Float[Tensor, "Q D"],
    q_offsets: Int[Tensor, "N_plus_1"],
    k: Float[Tensor, "T D"],
    v: Float[Tensor, "T D"],
    k_offsets: Int[Tensor, "N_plus_1"],
    *,
    num_heads: int,
    scale: float,
) -> Float[Tensor, "Q D"]:
    """The packed queries of each set over the packed keys of that set: quadratic in the size of a set.

    Args:
        q: Queries of all sets, one set after another.
        q_offsets: Queries of set `n` are `q[q_offsets[n]:q_offsets[n + 1]]`.
        k: Keys of all sets, one set after another.
        v: Values, as the keys.
        k_offsets: Keys of set `n` are `k[k_offsets[n]:k_offsets[n + 1]]`.
        num_heads: D features are split into this many heads.
        scale: Multiplies the scores before the softmax.
    """
    if q_offsets.shape[0] == 1:
        return _of_no_sets(q, k, v)
    q_tiles, k_tiles = tiled.tiling(q_offsets, q.shape[0]), tiled.tiling(k_offsets, k.shape[0])
    pair_q, pair_k = tiled.pairs_within_sets(q_offsets, k_offsets)
    out = tiled.attend(
        tiled.cut(q, q_tiles),
        tiled.cut(k, k_tiles),
        tiled.cut(v, k_tiles),
        k_tiles.filled,
        pair_q,
        pair_k,
        num_heads=num_heads,
        scale=scale,
    )
    return tiled.join(out, q_tiles, q.shape[0])


def _of_no_sets(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No rows; but keys and values, which decide nothing, get a gradient of zeros all the same."""
    return q + (k.sum() + v.sum())


def _dense(q: Tensor, k: Tensor, v: Tensor, num_heads: int, scale: float) -> Tensor:
    """(N, I, D) x (N, M, D): every set has the same number of queries and of keys."""
    if q.device.type == "cpu" and q.dtype in (torch.bfloat16, torch.float16):
        # torch's kernel for CPUs has a slow backward pass in 16 bits: on sets of ten elements it takes ten times as long as in 32
        with torch.autocast("cpu", enabled=False):
            return _dense(q.float(), k.float(), v.float(), num_heads, scale).to(q.dtype)
    heads = (num_heads, q.shape[-1] // num_heads)
    qh, kh, vh = (a.unflatten(-1, heads).transpose(1, 2) for a in (q, k, v))
    return scaled_dot_product_attention(qh, kh, vh, scale=scale).transpose(1, 2).flatten(2)
