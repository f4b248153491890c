"""Losses and gradient norms on their way from the device to the history, without making the GPU wait.

Reading a number from a GPU stops the program until everything before it is computed, and the GPU then stands idle until the
program has caught up: up to a tenth of a step. So numbers are copied aside and read a few steps late. A loss that is NaN or
infinite is noticed late, then, but does no harm in between: see `Guard` in `update.py`. On the CPU there is nothing to wait for,
and every number is read at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orderless.tasks.dataset import LabelledSets

_LAG = 2  # steps that a GPU may be behind


@dataclass(frozen=True)
class Taken:
    """A step that was taken, and what it was about."""

    step: int
    loss: float
    gradient_norm: float
    num_sets: int
    num_elements: int
    learning_rate: float
    batches: tuple[LabelledSets, ...]  # so that a step that failed can be looked at


class Watch:
    """Reads losses and gradient norms late.

    Args:
        device: Where they are computed.
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self._pending: deque[tuple[Any, Tensor, dict[str, Any]]] = deque()
        if self.on_gpu:
            self._ring = torch.empty(_LAG + 1, 2, dtype=torch.float32, pin_memory=True)
            self._count = 0

    def add(self, numbers: Tensor, **known: Any) -> None:
        """Takes the loss and the gradient norm of a step, (2,). Their tensor may be used again."""
        if not self.on_gpu:
            self._pending.append((None, numbers.clone(), known))
            return
        place = self._ring[self._count % len(self._ring)]
        self._count += 1
        place.copy_(numbers, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._pending.append((event, place, known))

    def read(self, *, everything: bool = False) -> Iterator[Taken]:
        """The steps whose numbers are due: on a GPU those more than two steps back, or all."""
        while len(self._pending) > (_LAG if self.on_gpu and not everything else 0):
            event, pair, known = self._pending.popleft()
            if event is not None:
                event.synchronize()
            loss, gradient_norm = pair.tolist()
            yield Taken(loss=loss, gradient_norm=gradient_norm, **known)
