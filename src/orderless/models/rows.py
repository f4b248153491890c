"""Layers on rows of numbers, where rows are no elements of sets: what heads and networks inside networks are made of.

Letters: R rows, D features.
"""

from __future__ import annotations

from torch import Tensor, nn


class RowNorm(nn.BatchNorm1d):
    """Batch norm of rows (R, D) as published, in training by the statistics of these rows, in eval mode by running ones.

    A single row in training has no spread: it comes out as the bias, and running statistics stay as they are, as they do for no
    row at all. PyTorch's own refuses the one and makes the other NaN.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] < 2:
            return (x - x) * self.weight + self.bias
        return super().forward(x)


def linear_norm_relu(in_features: int, out_features: int, *, eps: float) -> nn.Sequential:
    """A linear layer, batch norm, ReLU. The linear layer has no bias: the norm would remove it."""
    linear = nn.Linear(in_features, out_features, bias=False)
    nn.init.kaiming_normal_(linear.weight)
    return nn.Sequential(linear, RowNorm(out_features, eps=eps), nn.ReLU())
