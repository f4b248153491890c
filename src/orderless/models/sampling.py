"""Centroids and neighbours in point clouds, chosen by where points lie in space and never by where they stand in a tensor.

`in_canonical_order` sorts each set by its coordinates. What is computed from that is the same whatever the order was, to the last
bit, and a tie that goes to the first point goes to the same point always. Points that are equal are told apart by nothing.

The two choices are opaque to `torch.compile` and `torch.export`: a loop over hundreds of centroids would be hundreds of copies of
its body in the graph, and how many points the largest set has is read there.

Letters: N sets, T points in all sets, R rows of points, M points in the largest set, C centroids, K neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from orderless import ops
from orderless.sets import SetBatch

_DISTANCES_AT_ONCE = 2**26  # 64 million: half a gigabyte of keys
_COLUMN_BITS = 32


def in_canonical_order(batch: SetBatch) -> SetBatch:
    """The same sets, the points of each sorted by their first coordinate, then by the second, then by the third."""
    points = batch.x.detach().to(ops.statistics_dtype(batch.dtype))
    order = torch.arange(batch.num_elements, device=batch.device)
    for axis in reversed(range(points.shape[1])):
        order = order[points[order, axis].sort(stable=True).indices]
    order = order[set_numbers(batch)[order].sort(stable=True).indices]
    return batch.with_x(batch.x.index_select(0, order))


def set_numbers(batch: SetBatch) -> Tensor:
    """(T,) which set each element is of."""
    return ops.broadcast_sets(torch.arange(batch.num_sets, device=batch.device), batch.offsets, batch.num_elements)


@torch.library.custom_op("orderless::farthest_points", mutates_args=())
def farthest_points(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    """Points of each set that lie far from each other: each is the farthest from all before it.

    The first is the farthest from the middle of the set's bounding box, which no rounding depends on; a mean is another number in
    another order. A set with fewer different points than that repeats the first point in its rows.

    Args:
        points: (R, 3), those of a set one after another, in canonical order. Row `starts[n]` is there even if set n is empty.
        starts: (N,) the first row of each set.
        sizes: (N,) how many rows each set has.
        count: How many points to choose, C.
        room: No set has more rows than that; 0 if that is not known.

    Returns:
        (N, C) rows, and (N,) how many of them are different points: those come first. None in an empty set.
    """
    where, real = _spread(points, starts, sizes, room)  # (N, M)
    spread = points[where].to(ops.statistics_dtype(points.dtype)).movedim(2, 0)  # (3, N, M)
    low = torch.where(real, spread, torch.inf).amin(2, keepdim=True)
    high = torch.where(real, spread, -torch.inf).amax(2, keepdim=True)
    apart = torch.where(real, torch.inf, -1.0).to(spread.dtype)  # from the nearest point that was chosen; -1 is never the highest
    chosen = [torch.where(real, _squared(spread - (low + high) / 2), -1.0).argmax(1)]  # (N,) each
    gaps = [sizes.to(apart.dtype)]  # how far each was from those before it; the first is a point if there is one
    for _ in range(count - 1):
        here = spread.gather(2, chosen[-1][None, :, None].expand(3, -1, 1))  # (3, N, 1)
        apart = torch.minimum(apart, _squared(spread - here))
        gap, farthest = apart.max(1)  # of equal ones the first
        gaps.append(gap)
        chosen.append(farthest)
    return starts[:, None] + torch.stack(chosen, 1), (torch.stack(gaps, 1) > 0).sum(1)


@farthest_points.register_fake
def _(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    return starts.new_empty(starts.shape[0], count), torch.empty_like(sizes)


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
        (N, C, K) rows, and their squared distances in float32. Where a set has fewer points: its first row, infinitely far away.
    """
    where, real = _spread(points, starts, sizes, room)  # (N, M)
    dtype = ops.statistics_dtype(points.dtype)
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
        distance = torch.where(real[:, None], _squared(spread - centres[:, :, block]), torch.inf).float()
        # one whole number to sort by: numbers of 0 and more are in the order of their bits, and columns break ties
        key = (distance.view(torch.int32).long() << _COLUMN_BITS) + columns
        key = key.topk(num_found, largest=False).values
        rows[:, block, :num_found] = key & (2**_COLUMN_BITS - 1)
        squared[:, block, :num_found] = (key >> _COLUMN_BITS).int().view(torch.float32)
    return starts[:, None, None] + rows.where(squared.isfinite(), 0), squared


@nearest_points.register_fake
def _(points: Tensor, starts: Tensor, sizes: Tensor, centres: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    shape = (centres.shape[0], centres.shape[1], count)
    return starts.new_empty(shape), torch.empty(shape, device=points.device)


def _spread(points: Tensor, starts: Tensor, sizes: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """(N, M) the row of each place, and whether there is a point; M is at least 1."""
    if not room and len(sizes):
        room = int(sizes.max())
    places = torch.arange(max(room, 1), device=points.device)
    real = places < sizes[:, None]
    return torch.where(real, starts[:, None] + places, starts[:, None]), real


def _squared(difference: Tensor) -> Tensor:
    """The sum of squares over the first dimension, of three. Term by term: a reduction may round otherwise in another shape."""
    square = difference * difference
    return square[0] + square[1] + square[2]
