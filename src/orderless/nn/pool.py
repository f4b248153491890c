"""Pooling: SetBatch -> Tensor, permutation invariant. An empty set gives zeros.

Attention pooling is `PMA` in `attention.py`.

Letters: N sets, T elements in all sets, D features.
"""

from typing import Literal

from torch import Tensor, nn

from orderless import ops
from orderless.sets import SetBatch

PoolName = Literal["sum", "mean", "max", "attention"]


class SumPool(nn.Module):
    """Sum over the elements of each set. Shapes: SetBatch with x (T, D) -> (N, D)."""

    def forward(self, batch: SetBatch) -> Tensor:
        return ops.set_sum(batch.x, batch.offsets, set_size=batch.set_size)


class MeanPool(nn.Module):
    """Mean over the elements of each set. Shapes: SetBatch with x (T, D) -> (N, D)."""

    def forward(self, batch: SetBatch) -> Tensor:
        return ops.set_mean(batch.x, batch.offsets, set_size=batch.set_size)


class MaxPool(nn.Module):
    """Largest value over the elements of each set, feature by feature. Shapes: SetBatch with x (T, D) -> (N, D)."""

    def forward(self, batch: SetBatch) -> Tensor:
        return ops.set_max(batch.x, batch.offsets, set_size=batch.set_size)


POOLS: dict[str, type[nn.Module]] = {"sum": SumPool, "mean": MeanPool, "max": MaxPool}
