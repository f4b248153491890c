"""One device in full precision without Lightning Fabric, which would have next to nothing to do there.

So training on one device needs no extra package, and does not wait for one to load. Several devices, mixed precision and trackers
go through Fabric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from orderless.train.config import Execution, TrainConfig


class OneDevice:
    """What the training loop uses of `lightning_fabric.Fabric`, for one process on one device.

    Args:
        device: Where to compute.
    """

    world_size, global_rank, is_global_zero = 1, 0, True
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.loggers: list[Any] = []

    def setup_module(self, module: nn.Module) -> nn.Module:
        """The module on the device."""
        return module.to(self.device)

    def setup_optimizers(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer as it is."""
        return optimizer

    def backward(self, loss: Tensor) -> None:
        """Gradients of the loss."""
        loss.backward()

    def no_backward_sync(self, module: nn.Module, *, enabled: bool) -> AbstractContextManager[Any]:
        """There is nobody to wait for."""
        return nullcontext()

    def log_dict(self, numbers: Mapping[str, float], *, step: int) -> None:
        """There is no tracker."""


def is_enough(execution: Execution, config: TrainConfig) -> bool:
    """Whether a run can do without Fabric."""
    return execution.num_devices == 1 and not execution.loggers and config.precision != "bf16-mixed"
