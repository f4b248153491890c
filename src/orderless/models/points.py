"""What the networks for point clouds share: an order of the points that depends on where they lie in space.

`in_canonical_order` sorts each set by its coordinates. What is computed from that is the same, to the last bit, in whatever order
the points came, and a tie that goes to the first point always goes to the same one. Nothing tells equal points apart.

Letters: N sets, T points in all sets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from orderless import ops
from orderless.sets import SetBatch


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


def nan_where_not_finite(batch: SetBatch) -> Tensor:
    """(N,) NaN for a set with a point that is NaN or infinite, else 0: added to an answer, it keeps the point from being lost."""
    return ops.set_sum(batch.x.detach() * 0, batch.offsets, set_size=batch.set_size).sum(1)
