"""A stack of clean residual blocks: the definition.

Letters: T elements in all sets, D features, L blocks.
"""

import torch.nn.functional as F
from torch import Tensor

from orderless.ops._shapes import Float, Int
from orderless.ops.set_norm.reference import set_norm_reference


def clean_blocks_reference(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    scale: Float[Tensor, "L 2 D"],
    shift: Float[Tensor, "L 2 D"],
    weight: Float[Tensor, "L 2 D D"],
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "T D"]:
    """x + relu(norm(relu(norm(x)) W1)) W2, block after block."""
    for scales, shifts, weights in zip(scale, shift, weight, strict=True):
        h = x
        for gamma, beta, w in zip(scales, shifts, weights, strict=True):
            h = F.linear(set_norm_reference(h, offsets, gamma, beta, eps=eps).relu(), w)
        x = x + h
    return x
