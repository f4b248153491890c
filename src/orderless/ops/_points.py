"""What ops on points in space share.

Letters: N sets, R rows of points, M points in the largest set.
"""

import torch
from torch import Tensor


def room_for(sizes: Tensor, room: int) -> int:
    """M, at least 1: `room` where the caller knows it, or else read from the sizes, which waits for the GPU."""
    return max(room or (int(sizes.max()) if len(sizes) else 0), 1)


def spread_out(starts: Tensor, sizes: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """(N, M) the row of each place, and whether there is a point."""
    places = torch.arange(room, device=starts.device)
    real = places < sizes[:, None]
    return torch.where(real, starts[:, None] + places, starts[:, None]), real


def squared_length(difference: Tensor) -> Tensor:
    """The sum of squares over the first dimension, of three. Term by term: a reduction may round differently in another shape."""
    square = difference * difference
    return square[0] + square[1] + square[2]
