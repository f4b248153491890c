"""A stack of induced set attention blocks with clean paths (ISAB++), and the attention pooling that follows it.

Letters: N sets, T elements in all sets, D features, L blocks, H heads, I inducing points, Q queries.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops import backend
from orderless.ops._launch import memory_obstacle, multiplies_in_tf32, plan_for, product_precision
from orderless.ops._segments import statistics_dtype
from orderless.ops._shapes import Float, Int
from orderless.ops._tiles import SetStatistics
from orderless.ops.attention import dense_query_attention
from orderless.ops.induced_blocks.reference import InducedParameters, induced_blocks_reference
from orderless.ops.set_norm.reference import set_norm_reference

__all__ = ["InducedParameters", "fold_queries", "induced_blocks", "induced_blocks_obstacle", "norm_attention_pool"]

WIDEST = 128  # features, and inducing points: per-set matrices and a tile fit on one multiprocessor
MOST_HEADS = 16
_NORM_OF_MAP = (0, 0, 1, 2, 3, 3, 4)  # behind which norm each map stands, but the very first, which takes points as they are


class Folded(NamedTuple):
    """Parameters of L blocks as kernels take them: every norm's scale and shift is part of the linear map behind it."""

    points: Tensor  # (L, I, D)
    queries: Tensor  # (L, H, I, D): scores of the gathering attention are these times standardised elements
    weights: Tensor  # (L, 6, D, D): value and output of the gathering; query, key, value and output of the reading
    biases: Tensor  # (L, 6, D)


def induced_blocks(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    parameters: InducedParameters,
    *,
    num_heads: int,
    eps: float = 1e-5,
) -> tuple[Float[Tensor, "T D"], SetStatistics | None]:
    r"""Points gather from the elements of each set, elements read from the points, block after block.

    $$h = p + \mathrm{Attn}(p, \mathrm{SN}(x)), \quad h \leftarrow h + \mathrm{relu}(\mathrm{SN}(h) W + b)$$

    $$y = x + \mathrm{Attn}(\mathrm{SN}(x), \mathrm{SN}(h)), \quad y \leftarrow y + \mathrm{relu}(\mathrm{SN}(y) W' + b')$$

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`. The points of an empty set gather nothing.
        parameters: Of all blocks.
        num_heads: D features are split into this many heads.
        eps: Of the norms.

    Returns:
        The elements, and the statistics of the sets where kernels have left them, for `norm_attention_pool`.
    """
    if induced_blocks_obstacle(x, parameters.points.shape[1], num_heads) is not None:
        backend.note("induced_blocks", "reference")
        return induced_blocks_reference(x, offsets, parameters, num_heads=num_heads, eps=eps), None
    from orderless.ops.induced_blocks.triton import induced_blocks_triton

    backend.note("induced_blocks", "triton")
    with torch.autocast(x.device.type, enabled=False):
        return induced_blocks_triton(x, offsets, fold(parameters, num_heads), eps=eps)


def norm_attention_pool(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    queries: Float[Tensor, "Q D"],
    scale: Float[Tensor, "D"],
    shift: Float[Tensor, "D"],
    *,
    eps: float = 1e-5,
    statistics: SetStatistics | None = None,
) -> Float[Tensor, "N Q D"]:
    r"""What each query sees of each set: the mean of its set-normed elements, weighted by the softmax of their scores.

    $$z_{nq} = \sum_i \mathrm{softmax}_i(q \cdot \mathrm{SN}(x)_{ni})\, \mathrm{SN}(x)_{ni}$$

    Attention with keys and values that are linear in the elements is this with queries from `fold_queries`, and then the value
    map: weights sum to 1, so mean and map may change places.

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`. An empty set gives zeros.
        queries: Q queries, the same for all sets.
        scale: Of the norm, for each feature.
        shift: Of the norm, for each feature.
        eps: Of the norm.
        statistics: Of the sets, if they came with `x`. They save a look at all elements.

    Returns:
        float32 at least.
    """
    wide = statistics_dtype(x.dtype)
    if _pool_obstacle(x, queries.shape[0]) is not None:
        backend.note("norm_attention_pool", "reference")
        seen = set_norm_reference(x, offsets, scale, shift, eps=eps)
        every = queries.to(x.dtype).expand(offsets.shape[0] - 1, *queries.shape)
        return dense_query_attention(every, seen, seen, offsets, num_heads=1, scale=1.0).to(wide)
    from orderless.ops.induced_blocks.triton import attention_pool_triton

    backend.note("norm_attention_pool", "triton")
    with torch.autocast(x.device.type, enabled=False):
        seen = attention_pool_triton(x, offsets, queries.to(wide) * scale.to(wide), statistics, eps=eps)
        return torch.where((offsets.diff() > 0)[:, None, None], seen * scale + shift, 0)


def fold_queries(
    points: Float[Tensor, "*L I D"],
    query_weight: Float[Tensor, "*L D D"],
    query_bias: Float[Tensor, "*L D"],
    key_weight: Float[Tensor, "*L D D"],
    *,
    num_heads: int,
) -> Float[Tensor, "*L H I D"]:
    r"""Queries that take elements instead of keys: $s_{hji} = q_{hj} \cdot k_{hi} = (W_{K,h}^\top q_{hj}) \cdot x_i$, scaled.

    A key's bias adds the same to all scores of a query, which no softmax sees. So it has no place here, and no gradient.
    """
    heads = (num_heads, -1)
    q = (points @ query_weight.mT + query_bias.unsqueeze(-2)) / math.sqrt(points.shape[-1])
    return q.unflatten(-1, heads).transpose(-3, -2) @ key_weight.unflatten(-2, heads)


def fold(parameters: InducedParameters, num_heads: int) -> Folded:
    """Moves every norm's scale and shift into the linear maps behind it: W (s z + t) + b = (W s) z + (W t + b)."""
    # these products come before the kernels' own: in TF32 they would be a second rounding that the layers do not have
    wide = torch.float64 if multiplies_in_tf32() else statistics_dtype(parameters.points.dtype)
    points, weights, biases, scales, shifts = (p.to(wide) for p in parameters)
    # split and unbind take one launch in the backward pass, where every slice would take three and be added to the others
    query_weight, weights = weights.split([1, 7], 1)
    query_bias, biases = biases.split([1, 7], 1)
    scales, shifts = (torch.stack([rows[i] for i in _NORM_OF_MAP], 1) for rows in (scales.unbind(1), shifts.unbind(1)))
    key_weight, folded = (weights * scales.unsqueeze(2)).split([1, 6], 1)
    _, moved = (biases + (weights @ shifts.unsqueeze(3)).squeeze(3)).split([1, 6], 1)
    query_weight, query_bias, key_weight = (a.squeeze(1) for a in (query_weight, query_bias, key_weight))
    queries = fold_queries(points, query_weight, query_bias, key_weight, num_heads=num_heads)
    return Folded(*(a.to(statistics_dtype(parameters.points.dtype)) for a in (points, queries, folded, moved)))


def induced_blocks_obstacle(x: Tensor, num_inducing: int, num_heads: int) -> str | None:
    """What keeps kernels from elements like `x`, so many points and so many heads; None where they run."""
    choice = backend.choose(x)
    if choice.name != "triton":
        return choice.reason
    if product_precision(x) == "tf32x3":
        return "float32 is multiplied in full (with torch.set_float32_matmul_precision('high') kernels would run)"
    if x.shape[1] > WIDEST:
        return f"{x.shape[1]} features are more than {WIDEST}"
    if num_heads > MOST_HEADS:
        return f"{num_heads} heads are more than {MOST_HEADS}"
    return memory_obstacle("induced_blocks", x) or _points_obstacle(x, num_inducing, "inducing points")


def _pool_obstacle(x: Tensor, num_queries: int) -> str | None:
    return induced_blocks_obstacle(x, 1, 1) or _points_obstacle(x, num_queries, "queries")


def _points_obstacle(x: Tensor, count: int, what: str) -> str | None:
    """A matrix of a set's points must fit on one multiprocessor: in float32, or with little memory, half as many do."""
    most = min(plan_for("induced_blocks", x).most_rows, WIDEST if x.element_size() == 2 else WIDEST // 2)
    return None if count <= most else f"{count} {what} are more than {most} for {x.dtype}"
