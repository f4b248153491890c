"""The nearest points of each set to given places: the definition.

Letters: N sets, R rows of points, M points in the largest set, C centres, K neighbours.
"""

import torch
from torch import Tensor

from orderless.ops._points import spread_out, squared_length
from orderless.ops._segments import statistics_dtype

_DISTANCES_AT_ONCE = 2**26  # 64 million: half a gigabyte of keys
_COLUMN_BITS = 32


def nearest_points_reference(
    points: Tensor, starts: Tensor, sizes: Tensor, centres: Tensor, count: int, room: int
) -> tuple[Tensor, Tensor]:
    """`nearest_points`, by all distances. `room` is known."""
    where, real = spread_out(starts, sizes, room)  # (N, M)
    dtype = statistics_dtype(points.dtype)
    spread = points[where].to(dtype).movedim(2, 0)[:, :, None]  # (3, N, 1, M)
    centres = centres.to(dtype).movedim(2, 0)[..., None]  # (3, N, C, 1)
    num_sets, num_rows = real.shape
    columns = torch.arange(num_rows, device=points.device)
    rows = starts.new_zeros(num_sets, centres.shape[2], count)
    squared = torch.full(rows.shape, torch.inf, device=points.device)
    num_found = min(count, num_rows)
    step = max(1, _DISTANCES_AT_ONCE // max(1, num_sets * num_rows))
    for first in range(0, centres.shape[2], step):
        block = slice(first, first + step)
        distance = squared_length(spread - centres[:, :, block]).float()
        distance = torch.where(real[:, None] & (distance < torch.inf), distance, torch.inf)  # what is NaN is no neighbour
        # one whole number to sort by: numbers of 0 and more are in the order of their bits, and columns break ties
        key = (distance.view(torch.int32).long() << _COLUMN_BITS) + columns
        key = key.topk(num_found, largest=False).values
        rows[:, block, :num_found] = key & (2**_COLUMN_BITS - 1)
        squared[:, block, :num_found] = (key >> _COLUMN_BITS).int().view(torch.float32)
    return starts[:, None, None] + rows.where(squared.isfinite(), 0), squared
