"""From gradients to new weights: their norm, clipping, the optimizer's step, and the moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import AveragedModel


class Guard:
    """A flag on the device that keeps the optimizer from the weights, from the first step on that is not finite.

    Nobody has to read the loss for that, so the GPU never waits for the program.

    Args:
        device: Of the weights.
        optimizer: One that takes the flag `found_inf`, as PyTorch's fused ones do.
    """

    def __init__(self, device: torch.device, optimizer: torch.optim.Optimizer) -> None:
        self._failed = torch.zeros((), device=device)
        optimizer.found_inf = self._failed  # type: ignore[attr-defined]

    def look(self, numbers: Tensor) -> None:
        """Once one of the numbers was NaN or infinite, the flag is up for good."""
        self._failed.copy_(torch.maximum(self._failed, 1.0 - torch.isfinite(numbers).all().float()))

    @contextmanager
    def up(self) -> Iterator[None]:
        """The flag is up inside: steps are computed in full, and leave weights and optimizer as they are."""
        before = self._failed.clone()
        self._failed.fill_(1)
        try:
            yield
        finally:
            self._failed.copy_(before)


class Update:
    """From gradients to new weights, in two halves: on a CPU the loop looks at the numbers in between.

    Args:
        model: The network.
        optimizer: Of its weights: Adam or AdamW, fused.
        clip_norm: Gradients with a larger norm are scaled down to it.
        average: A moving average of the weights, brought up to date after each step.
        guard: Looks at every step's numbers; None where they are read before the step is taken.

    Attributes:
        parameters: The weights that are trained.
        rate: The learning rate on the device, where recorded steps read it.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
        average: AveragedModel | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.model, self.optimizer, self.average, self.guard = model, optimizer, average, guard
        self.clip_norm = clip_norm
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.rate = torch.zeros((), device=self.parameters[0].device)
        # listed once: a walk through the layers in every step takes longer than the averaging itself
        self._weights: list[Tensor] = list(model.parameters())
        self._slots = _buffer_slots(model)
        self._mean_weights: list[Tensor] = [] if average is None else list(average.module.parameters())
        self._mean_slots = [] if average is None else _buffer_slots(average.module)

    def set_rate(self, rate: float) -> None:
        """The learning rate of the step to come."""
        for options in self.optimizer.param_groups:
            options["lr"] = rate

    def measure(self, loss: Tensor) -> Tensor:
        """(2,) the loss and the norm of the gradients that are there, which are clipped."""
        norm = get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        if self.clip_norm is not None:
            clip_grads_with_norm_(self.parameters, self.clip_norm, norm)
        numbers = torch.stack([loss.detach(), norm])
        if self.guard is not None:
            self.guard.look(numbers)
        return numbers

    def apply(self) -> None:
        """The optimizer's step, and the moving average's."""
        self.optimizer.step()
        self._average()
        self._count_average()

    # ----------------------------------------------------------------------------------------------------- recorded

    def apply_on_device(self) -> None:
        """`apply` without what the host would do: inside a recording, to be completed by `applied` after each replay."""
        with self._rate_on_device():
            self.optimizer.step()
        self._average()

    def applied(self) -> None:
        """What a replay cannot do: tells PyTorch of the change; counts the average's steps, and starts it with the first."""
        changed = [*self.parameters, *_held(self._slots), *self._mean_weights, *_held(self._mean_slots)]
        torch.autograd.graph.increment_version(changed)
        self._count_average()

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Steps may be tried inside; weights, buffers, optimizer and average are afterwards what they were."""
        assert self.guard is not None
        with self.guard.up(), unchanged([*_held(self._slots), *self._mean_weights, *_held(self._mean_slots)]):
            try:
                yield
            finally:
                self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _average(self) -> None:
        """The moving average takes its share of the new weights; running statistics are the network's own."""
        if self.average is None:
            return
        assert self.average.multi_avg_fn is not None
        self.average.multi_avg_fn(self._mean_weights, self._weights, 0)
        for (mine, name), (its, _) in zip(self._mean_slots, self._slots, strict=True):
            before, now = mine[name], its[name]
            if before is None or now is None or before.shape != now.shape:
                mine[name] = None if now is None else now.detach().clone()
            else:
                before.copy_(now)

    @torch.no_grad()
    def _count_average(self) -> None:
        """The average begins with the weights after the first step."""
        if self.average is None:
            return
        if not int(self.average.n_averaged):
            for mine, its in zip(self._mean_weights, self._weights, strict=True):
                mine.data.copy_(its.data)
        self.average.n_averaged += 1

    @contextmanager
    def _rate_on_device(self) -> Iterator[None]:
        """The optimizer reads `rate`. Its own options, which checkpoints hold, are afterwards what they were."""
        before = [(options, options["lr"], options["capturable"]) for options in self.optimizer.param_groups]
        recording = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        for options, _, _ in before:
            options["lr"], options["capturable"] = self.rate, recording  # PyTorch insists on it, and warns of it elsewhere
        try:
            yield
        finally:
            for options, rate, capturable in before:
                options["lr"], options["capturable"] = rate, capturable


Slot = tuple[dict[str, Tensor | None], str]  # where a module holds a buffer: a network may put another tensor there in any step


def _buffer_slots(model: nn.Module) -> list[Slot]:
    return [(module._buffers, name) for module in model.modules() for name in module._buffers]


def _held(slots: Sequence[Slot]) -> list[Tensor]:
    return [tensor for buffers, name in slots if (tensor := buffers[name]) is not None]


@contextmanager
def unchanged(tensors: Sequence[Tensor]) -> Iterator[None]:
    """The tensors hold afterwards what they held before."""
    kept: list[Any] = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        for tensor, content in zip(tensors, kept, strict=True):
            tensor.data.copy_(content)
