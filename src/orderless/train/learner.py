"""A network and its loss as one module, from a batch to a number."""

from __future__ import annotations

from torch import Tensor, nn

from orderless.tasks.dataset import LabelledSets
from orderless.train.evaluating import Judge, in_full


class Held:
    """Hides a batch from Fabric, which takes dataclasses apart and assigns to their fields; those of a SetBatch are frozen."""

    __slots__ = ("batch",)

    def __init__(self, batch: LabelledSets) -> None:
        self.batch = batch


class Learner(nn.Module):
    """From a batch to its loss, a scalar.

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
