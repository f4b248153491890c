"""Farthest point sampling: the definition.

Letters: N sets, R rows of points, M points in the largest set, C points chosen.
"""

import torch
from torch import Tensor

from orderless.ops._points import spread_out, squared_length
from orderless.ops._segments import statistics_dtype


def farthest_points_reference(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    """`farthest_points`, one choice after another. `room` is known."""
    where, real = spread_out(starts, sizes, room)  # (N, M)
    spread = points[where].to(statistics_dtype(points.dtype)).movedim(2, 0)  # (3, N, M)
    low = torch.where(real, spread, torch.inf).amin(2, keepdim=True)
    high = torch.where(real, spread, -torch.inf).amax(2, keepdim=True)
    apart = torch.where(real, torch.inf, -1.0).to(spread.dtype)  # from the nearest point that was chosen; -1 is never the highest
    chosen = [torch.where(real, squared_length(spread - (low + high) / 2), -1.0).argmax(1)]  # (N,) each
    gaps = [sizes.to(apart.dtype)]  # how far each was from those before it; the first is a point if there is one
    for _ in range(count - 1):
        here = spread.gather(2, chosen[-1][None, :, None].expand(3, -1, 1))  # (3, N, 1)
        apart = torch.minimum(apart, squared_length(spread - here))
        gap, farthest = apart.max(1)  # of equal ones the first
        gaps.append(gap)
        chosen.append(farthest)
    return starts[:, None] + torch.stack(chosen, 1), (torch.stack(gaps, 1) > 0).sum(1)
