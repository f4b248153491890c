"""A stack of induced set attention blocks with clean paths (ISAB++): the definition.

Letters: N sets, T elements in all sets, D features, L blocks, I inducing points.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from orderless.ops._shapes import Float, Int
from orderless.ops.attention import dense_key_attention, dense_query_attention
from orderless.ops.set_norm.reference import set_norm_reference


class InducedParameters(NamedTuple):
    """The parameters of all blocks, stacked.

    Of a block's eight linear maps four are of the attention in which points gather from elements, and four of that in which
    elements read from the points: query, key, value, output, each time. Of its five norms, two are of the gathering (of the keys,
    which are the values too, and before the output map) and three of the reading (of the queries, of the keys, before the output
    map).
    """

    points: Tensor  # (L, I, D)
    weights: Tensor  # (L, 8, D, D), as in `torch.nn.Linear`
    biases: Tensor  # (L, 8, D)
    scales: Tensor  # (L, 5, D) of the norms
    shifts: Tensor  # (L, 5, D)


def induced_blocks_reference(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    parameters: InducedParameters,
    *,
    num_heads: int,
    eps: float = 1e-5,
) -> Float[Tensor, "T D"]:
    """Points gather from the elements of each set, elements read from the points, block after block."""
    for block in zip(*(p.to(x.dtype) for p in parameters), strict=True):
        x = _block(x, offsets, InducedParameters(*block), num_heads, eps)
    return x


def _block(x: Tensor, offsets: Tensor, parameters: InducedParameters, num_heads: int, eps: float) -> Tensor:
    points, weights, biases, scales, shifts = parameters
    N, dense = offsets.shape[0] - 1, (offsets.shape[0] - 1, *points.shape)
    at = torch.arange(N + 1, device=x.device) * points.shape[0]  # of the points, as offsets are of the elements
    scale = 1 / math.sqrt(x.shape[1])

    def linear(number: int, a: Tensor) -> Tensor:
        return F.linear(a, weights[number], biases[number])

    def norm(number: int, a: Tensor, offsets: Tensor) -> Tensor:
        return set_norm_reference(a, offsets, scales[number], shifts[number], eps=eps)

    queries, seen = linear(0, points).expand(dense), norm(0, x, offsets)
    h = points + dense_query_attention(queries, linear(1, seen), linear(2, seen), offsets, num_heads=num_heads, scale=scale)
    h = h.flatten(0, 1)  # (N I, D)
    h = h + linear(3, norm(1, h, at)).relu()

    queries, seen = linear(4, norm(2, x, offsets)), norm(3, h, at)
    keys, values = linear(5, seen).reshape(dense), linear(6, seen).reshape(dense)
    x = x + dense_key_attention(queries, keys, values, offsets, num_heads=num_heads, scale=scale)
    return x + linear(7, norm(4, x, offsets)).relu()
