"""Layers on rows of numbers that are not elements of sets: parts of heads, and of networks inside networks.

Letters: R rows, D features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orderless.ops import statistics_dtype


class RowNorm(nn.BatchNorm1d):
    """Batch norm of rows (R, D) as published, in training by the statistics of these rows, in eval mode by running ones.

    A single row in training has no spread: it comes out as the bias, and running statistics stay as they are, as they do for no
    row at all. PyTorch's own refuses the one and makes the other NaN. On a CPU its own adds up rows one by one in float32, which
    is wrong in the third digit for 200,000 of them.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] < 2:
            return (x - x) * self.weight + self.bias
        if self.training and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return self._by_exact_statistics(x)
        return super().forward(x)

    def _by_exact_statistics(self, x: Tensor) -> Tensor:
        h = x.to(statistics_dtype(x.dtype))
        var, mean = torch.var_mean(h, 0, correction=0)
        with torch.no_grad():
            unbiased = var * (x.shape[0] / (x.shape[0] - 1))
            for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
                assert running is not None
                assert self.momentum is not None
                running.lerp_(value.to(running.dtype), self.momentum)
            assert self.num_batches_tracked is not None
            self.num_batches_tracked += 1
        return ((h - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias).to(x.dtype)


def linear_norm_relu(in_features: int, out_features: int, *, eps: float) -> nn.Sequential:
    """A linear layer, batch norm, ReLU. The linear layer has no bias: the norm would remove it."""
    linear = nn.Linear(in_features, out_features, bias=False)
    nn.init.kaiming_normal_(linear.weight)
    return nn.Sequential(linear, RowNorm(out_features, eps=eps), nn.ReLU())
