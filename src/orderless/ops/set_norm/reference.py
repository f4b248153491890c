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
    x: Float[Tensor, "T D"], weight: Float[Tensor, "D"], bias: Float[Tensor, "D"], *, set_size: int, eps: float = 1e-5
) -> Float[Tensor, "T D"]:
    """The same where every set has `set_size` elements, at least one: each set is a row."""
    h = x.to(statistics_dtype(x.dtype)).reshape(-1, set_size * x.shape[1])
    for _ in range(2):
        h = h - h.mean(1, keepdim=True)
    h = (h * torch.rsqrt(h.square().mean(1, keepdim=True) + eps)).reshape(x.shape)
    return (h * weight + bias).to(x.dtype)
