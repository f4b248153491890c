"""Farthest point sampling: points of each set that lie far from each other.

Letters: N sets, R rows of points, C points chosen.
"""

import torch
from torch import Tensor

from orderless.ops import backend
from orderless.ops._points import room_for
from orderless.ops.farthest_points.reference import farthest_points_reference

__all__ = ["farthest_points"]


@torch.library.custom_op("orderless::farthest_points", mutates_args=())
def farthest_points(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    """Points of each set that lie far from each other: each is the farthest from all before it, of equal ones the first.

    The first is the farthest from the middle of the set's bounding box, which no rounding depends on; a mean is another number in
    another order. A set with fewer different points than that repeats the first point in its rows.

    Args:
        points: (R, 3), those of a set one after another. Row `starts[n]` is there even if set n is empty.
        starts: (N,) the first row of each set.
        sizes: (N,) how many rows each set has.
        count: How many points to choose, C.
        room: No set has more rows than that; 0 if that is not known.

    Returns:
        (N, C) rows, and (N,) how many of them are different points: those come first. None in an empty set.
    """
    room = room_for(sizes, room)
    if backend.choose(points).name == "triton":
        from orderless.ops.farthest_points.triton import LARGEST, farthest_points_triton

        if room <= LARGEST:
            backend.note("farthest_points", "triton")
            return farthest_points_triton(points, starts, sizes, count, room)
    backend.note("farthest_points", "reference")
    return farthest_points_reference(points, starts, sizes, count, room)


@farthest_points.register_fake
def _(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    return starts.new_empty(starts.shape[0], count), torch.empty_like(sizes)
