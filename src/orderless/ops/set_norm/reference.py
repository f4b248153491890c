"""Set norm: the definition.

Letters: N sets, T elements in all sets, D features.
"""

import torch
from torch import Tensor

from orderless.ops._segments import broadcast_sets, statistics_dtype, sum_sets
from orderless.ops._shapes import Float, Int


def set_norm_reference(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    weight: Float[Tensor, "D"],
    bias: Float[Tensor, "D"],
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "T D"]:
    """Standardises each set over all its elements and features, then scales and shifts each feature."""
    count = (offsets.diff() * x.shape[1]).clamp(min=1)  # (N,) numbers in each set; 1 guards empty sets

    def mean_of_set(rows: Tensor) -> Tensor:  # (T, D) -> (T, 1), every element gets its set's mean
        mean = sum_sets(rows, offsets).sum(1, keepdim=True) / count[:, None]
        return broadcast_sets(mean, offsets, x.shape[0])

    h = x.to(statistics_dtype(x.dtype))
    for _ in range(2):  # the second round removes what rounding left of the mean: offset 1e4, spread 1e-2 stays right
        h = h - mean_of_set(h)
    return (h * torch.rsqrt(mean_of_set(h.square()) + eps) * weight + bias).to(x.dtype)


def set_norm_dense(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    weight: Float[Tensor, "D"],
    bias: Float[Tensor, "D"],
    *,
    set_size: int,
    eps: float = 1e-5,
) -> Float[Tensor, "T D"]:
    """The same where every set has `set_size` elements, at least one.

    The norm is written as a map `h * scale + shift` of each set and feature, and all sums run over the elements of a set, feature
    by feature. So its derivative needs no other sums than these, and a compiler reads the elements once for all of them.
    """
    wide, count = statistics_dtype(x.dtype), set_size * x.shape[1]

    def mean_of_set(h: Tensor) -> Tensor:  # (N, M, D) -> (N, 1)
        return h.sum(1).sum(1, keepdim=True) / count

    h = x.to(wide).reshape(offsets.shape[0] - 1, set_size, x.shape[1])  # (N, M, D), also where an exported program gets M = 0
    h = h - mean_of_set(h).detach()[:, None]  # the norm does not see what is subtracted: no gradient goes through it
    rest = mean_of_set(h)  # what rounding left of the mean
    var = mean_of_set(h.square()) - rest.square()
    scale = torch.rsqrt(var.clamp(min=0) + eps) * weight.to(wide)  # (N, D)
    shift = bias.to(wide) - rest * scale  # (N, D)
    return (h * scale[:, None] + shift[:, None]).reshape(x.shape).to(x.dtype)
