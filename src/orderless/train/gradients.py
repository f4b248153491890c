"""One batch's loss and gradients: the network and its loss as one module, run step by step or replayed from a recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from orderless.tasks.dataset import LabelledSets
from orderless.train.evaluating import Judge, in_full

_WARMUP_STEPS = 3  # before recording: libraries choose their algorithms, and a compiled network is compiled


class Held:
    """A batch on its way through Fabric, which would take a dataclass apart to cast its fields; ours cannot be changed."""

    __slots__ = ("batch",)

    def __init__(self, batch: LabelledSets) -> None:
        self.batch = batch


class Learner(nn.Module):
    """A network and what it is asked: from a batch to its loss, a scalar.

    Args:
        model: SetBatch -> what the judge takes.
        judge: Whose loss it is.
    """

    def __init__(self, model: nn.Module, judge: Judge) -> None:
        super().__init__()
        self.model, self.judge = model, judge

    def forward(self, held: Held) -> Tensor:
        sets, target = held.batch
        return self.judge.loss(in_full(self.model(sets)), target)


class GraphedGradients:
    """Loss and gradients replayed from a CUDA graph, for dense batches of one shape; others take the usual way.

    A replay launches the whole forward and backward pass at once, which is what small batches of deep networks wait for. Each
    shape is recorded when it is first met, at most `_MOST_SHAPES` of them.

    Args:
        learner: The module, on its device.
        autocast: The precision in which it computes, as a context to call it in.
        usual: What to do with a batch that is not recorded: gives the loss, with gradients in the parameters.
    """

    _MOST_SHAPES = 2  # a full batch, and the last one of an epoch

    def __init__(
        self,
        learner: Learner,
        autocast: Callable[[], AbstractContextManager[Any]],
        usual: Callable[[LabelledSets], Tensor],
    ) -> None:
        self.learner, self.module, self.autocast, self.usual = learner, learner.model, autocast, usual
        self._recorded: dict[tuple[Any, ...], tuple[torch.cuda.CUDAGraph, LabelledSets, Tensor, list[Tensor | None]]] = {}

    def __call__(self, batch: LabelledSets) -> Tensor:
        sets, target = batch
        shape = (sets.x.shape, sets.set_size, target.shape)
        if sets.set_size is None or (shape not in self._recorded and len(self._recorded) == self._MOST_SHAPES):
            return self.usual(batch)
        if shape not in self._recorded:
            self._recorded[shape] = self._record(batch)
        graph, static, loss, gradients = self._recorded[shape]
        static.sets.x.copy_(sets.x, non_blocking=True)
        static.target.copy_(target, non_blocking=True)
        graph.replay()
        for parameter, gradient in zip(self.module.parameters(), gradients, strict=True):
            parameter.grad = gradient
        return loss

    def _record(self, batch: LabelledSets) -> tuple[torch.cuda.CUDAGraph, LabelledSets, Tensor, list[Tensor | None]]:
        static = LabelledSets(batch.sets.with_x(batch.sets.x.clone()), batch.target.clone())
        device = batch.sets.device
        kept = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        random_state = torch.cuda.get_rng_state(device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARMUP_STEPS):
                self.module.zero_grad(set_to_none=True)
                self._loss(static).backward()
        torch.cuda.current_stream(device).wait_stream(side)
        self.module.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self._loss(static)
            loss.backward()
        torch.cuda.set_rng_state(random_state, device)  # warming up was not training
        for name, buffer in self.module.named_buffers():
            buffer.copy_(kept[name])
        return graph, static, loss.detach(), [p.grad for p in self.module.parameters()]

    def _loss(self, batch: LabelledSets) -> Tensor:
        with self.autocast():
            loss: Tensor = self.learner(Held(batch))
        return loss
