"""The nearest points of each set to given places.

Letters: N sets, R rows of points, C centres, K neighbours.
"""

import torch
from torch import Tensor

from orderless.ops import backend
from orderless.ops._points import room_for
from orderless.ops.nearest_points.reference import nearest_points_reference

__all__ = ["nearest_points"]


@torch.library.custom_op("orderless::nearest_points", mutates_args=())
def nearest_points(
    points: Tensor, starts: Tensor, sizes: Tensor, centres: Tensor, count: int, room: int
) -> tuple[Tensor, Tensor]:
    """The points of each set that are nearest to each centre, the nearest first; at one distance the earlier row.

    Args:
        points: (R, 3), as for `farthest_points`.
        starts: (N,) the first row of each set.
        sizes: (N,) how many rows each set has.
        centres: (N, C, 3).
        count: How many points to choose, K.
        room: No set has more rows than that; 0 if that is not known.

    Returns:
        (N, C, K) rows, and their squared distances in float32. Where a set has fewer points, or others that are NaN or
        infinitely far away: its first row, infinitely far away.
    """
    room = room_for(sizes, room)
    if backend.choose(points).name == "triton":
        from orderless.ops.nearest_points.triton import LARGEST, nearest_points_triton

        if max(room, count) <= LARGEST:
            backend.note("nearest_points", "triton")
            return nearest_points_triton(points, starts, sizes, centres, count, room)
    backend.note("nearest_points", "reference")
    return nearest_points_reference(points, starts, sizes, centres, count, room)


@nearest_points.register_fake
def _(points: Tensor, starts: Tensor, sizes: Tensor, centres: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    shape = (centres.shape[0], centres.shape[1], count)
    return starts.new_empty(shape), torch.empty(shape, device=points.device)
