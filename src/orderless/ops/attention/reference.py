"""Softmax attention within sets: the definition.

Letters: N sets, Q queries and T keys in all sets, D features, H heads, C = D / H.
"""

import math

import torch
from torch import Tensor

from orderless.ops._segments import set_ids, statistics_dtype
from orderless.ops._shapes import Float, Int


def attention_reference(
    q: Float[Tensor, "Q D"],
    q_offsets: Int[Tensor, "N_plus_1"],
    k: Float[Tensor, "T D"],
    v: Float[Tensor, "T D"],
    k_offsets: Int[Tensor, "N_plus_1"],
    *,
    num_heads: int,
    scale: float,
) -> Float[Tensor, "Q D"]:
    """Every query against every key of all sets, minus the pairs that are not of one set: plain, and quadratic."""
    heads = (num_heads, q.shape[1] // num_heads)
    wide = statistics_dtype(q.dtype)
    seen = set_ids(q_offsets, q.shape[0])[:, None] == set_ids(k_offsets, k.shape[0])  # (Q, T)
    qh, kh, vh = (a.to(wide).unflatten(1, heads).transpose(0, 1) for a in (q, k, v))  # (H, Q or T, C)
    lonely = ~seen.any(1, keepdim=True)  # (Q, 1) queries without a key attend to nothing
    scores = (qh @ kh.mT * scale).masked_fill(~seen, -math.inf).masked_fill(lonely, 0)  # (H, Q, T)
    weights = torch.softmax(scores, -1).masked_fill(lonely, 0)
    return (weights @ vh).transpose(0, 1).flatten(1).to(q.dtype)
