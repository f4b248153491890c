"""Layers that act on every element alike, so that encoders read as a sequence of SetBatch -> SetBatch modules."""

import torch
from torch import nn

from orderless.sets import SetBatch


class ElementLinear(nn.Linear):
    """A linear layer on every element. Shapes: SetBatch with x (T, in_features) -> SetBatch with x (T, out_features)."""

    def forward(self, batch: SetBatch) -> SetBatch:  # type: ignore[override]
        return batch.with_x(super().forward(batch.x))


class ElementReLU(nn.Module):
    """ReLU of every element. Shapes: SetBatch with x (T, D) -> the same."""

    def forward(self, batch: SetBatch) -> SetBatch:
        return batch.with_x(torch.relu(batch.x))


class ElementTanh(nn.Module):
    """Tanh of every element. Shapes: SetBatch with x (T, D) -> the same."""

    def forward(self, batch: SetBatch) -> SetBatch:
        return batch.with_x(torch.tanh(batch.x))


class ElementDropout(nn.Dropout):
    """Dropout on the features of every element. Shapes: SetBatch with x (T, D) -> the same."""

    def forward(self, batch: SetBatch) -> SetBatch:  # type: ignore[override]
        return batch.with_x(super().forward(batch.x))
