"""Sum, mean and maximum of each set: the definitions.

Letters: N sets, T elements in all sets.
"""

import math

import torch
from torch import Tensor

from orderless.ops._segments import set_ids, statistics_dtype, sum_sets
from orderless.ops._shapes import Float, Int


def set_sum_reference(x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"]) -> Float[Tensor, "N *element"]:
    """Adds up the elements of each set."""
    return sum_sets(x.to(statistics_dtype(x.dtype)), offsets).to(x.dtype)


def set_mean_reference(x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"]) -> Float[Tensor, "N *element"]:
    """Averages the elements of each set."""
    total = sum_sets(x.to(statistics_dtype(x.dtype)), offsets)
    count = offsets.diff().clamp(min=1).view(-1, *[1] * (x.ndim - 1))  # 1 guards empty sets: 0 / 1
    return (total / count).to(x.dtype)


def set_max_reference(x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"]) -> Float[Tensor, "N *element"]:
    """Takes the largest value of each set, feature by feature."""
    ids = set_ids(offsets, x.shape[0]).view(-1, *[1] * (x.ndim - 1)).expand_as(x)
    # ties share the gradient evenly, so that it does not depend on the order of the elements; the start value would tie as
    # well if it could equal a maximum, which NaN cannot
    start = x.new_full((offsets.shape[0] - 1, *x.shape[1:]), math.nan)
    largest = torch.scatter_reduce(start, 0, ids, x, "amax", include_self=False)
    return largest.masked_fill((offsets.diff() == 0).view(-1, *[1] * (x.ndim - 1)), 0)
