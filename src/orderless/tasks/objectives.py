"""What a task asks of a network's output: its loss and, set by set, its metrics.

Letters: N sets, T elements, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from orderless import ops
from orderless.sets import SetBatch

ObjectiveName = Literal["regression", "classification", "element_choice"]
MetricName = Literal["mse", "accuracy", "cross_entropy"]
HIGHER_IS_BETTER: Final = ("accuracy",)  # of other metrics lower


class Objective(ABC):
    """A loss, and the metrics that are reported.

    Attributes:
        metrics: Names of the metrics; the first is the loss that is trained on.
        output: `set` if a network shall answer for each set, `element` if for each element.
    """

    metrics: ClassVar[tuple[MetricName, ...]]
    output: ClassVar[Literal["set", "element"]] = "set"

    def loss(self, output: Tensor | SetBatch, target: Tensor) -> Tensor:
        """The mean over sets of the first metric: a scalar to differentiate."""
        return self.per_set(output, target)[self.metrics[0]].mean()

    @abstractmethod
    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        """Every metric, (N,) each. Their mean over all sets of a split is the figure that is reported."""


class Regression(Objective):
    """Squared error. Output and target (N, K); with several targets, their mean."""

    metrics = ("mse",)

    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        output = _tensor(output)
        if output.shape != target.shape:  # broadcasting (N, 1) against (N,) would compare every set with every other
            raise ValueError(f"output and target must have one shape, got {tuple(output.shape)} and {tuple(target.shape)}.")
        return {"mse": (output - target).square().flatten(1).mean(1)}


class Classification(Objective):
    """Cross entropy of logits (N, C) with classes (N,), and accuracy."""

    metrics = ("cross_entropy", "accuracy")

    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        output = self._logits(output, target)
        return {
            "cross_entropy": F.cross_entropy(output, target, reduction="none"),
            "accuracy": (output.argmax(1) == target).to(output.dtype),
        }

    def smoothed_loss(self, output: Tensor | SetBatch, target: Tensor, smoothing: float) -> Tensor:
        """The mean cross entropy with smoothed classes: 1 - `smoothing` for the true one, the rest shared by all others.

        PyTorch shares among all classes, the true one included: C / (C - 1) times as much of that is the same.
        """
        output = self._logits(output, target)
        num_classes = output.shape[1]
        return F.cross_entropy(output, target, label_smoothing=smoothing * num_classes / max(num_classes - 1, 1))

    @staticmethod
    def _logits(output: Tensor | SetBatch, target: Tensor) -> Tensor:
        output = _tensor(output)
        if output.ndim != 2 or target.shape != output.shape[:1]:
            raise ValueError(
                f"classification takes logits (N, C) and classes (N,), got {tuple(output.shape)} and {tuple(target.shape)}."
            )
        return output


class ElementChoice(Objective):
    r"""Which element of the set is meant: cross entropy of a softmax over the set's own elements, and accuracy.

    $$\ell_n = \log\sum_{i\in n} e^{z_i} - z_{t_n}$$

    Takes one logit per element, so sets may have any size. Output: SetBatch with x (T, 1); target (N,): position of the
    element within its set. An empty set has nothing to choose and no place here.
    """

    metrics = ("cross_entropy", "accuracy")
    output = "element"

    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        if not isinstance(output, SetBatch) or output.x.ndim != 2 or output.x.shape[1] != 1:
            got = tuple(output.x.shape) if isinstance(output, SetBatch) else f"a tensor {tuple(output.shape)}"
            raise ValueError(
                f'this takes one logit per element, a SetBatch (T, 1) of a network with output="element"; got {got}.'
            )
        logits, offsets = output.x, output.offsets
        self._check_target(output, target)
        highest = ops.set_max(logits.detach(), offsets)  # (N, 1); shifting by it changes nothing but the rounding
        shifted = logits - ops.broadcast_sets(highest, offsets, logits.shape[0])
        log_sum = ops.set_sum(shifted.exp(), offsets).log()  # (N, 1)
        chosen = offsets[:-1] + target  # (N,) row of the element that is meant
        return {
            "cross_entropy": (log_sum - shifted.index_select(0, chosen))[:, 0],
            "accuracy": _share_of_the_top(logits, highest, offsets, chosen),
        }

    @staticmethod
    def _check_target(output: SetBatch, target: Tensor) -> None:
        if target.shape != (len(output),):
            raise ValueError(f"target must have one position per set, ({len(output)},); got {tuple(target.shape)}.")
        # a position beyond its set would silently mean an element of the next; reading values stalls a GPU and breaks a graph
        if not torch.compiler.is_compiling() and target.device.type == "cpu":
            wrong = (target < 0) | (target >= output.sizes)
            if wrong.any():
                n = int(wrong.nonzero()[0, 0])
                raise ValueError(f"target {int(target[n])} of set {n} is not a position in its {int(output.sizes[n])} elements.")


CLASSIFICATION = Classification()
OBJECTIVES: dict[ObjectiveName, Objective] = {
    "regression": Regression(),
    "classification": CLASSIFICATION,
    "element_choice": ElementChoice(),
}


def _share_of_the_top(logits: Tensor, highest: Tensor, offsets: Tensor, chosen: Tensor) -> Tensor:
    """(N,) 1 for an element with the highest logit, 1/k where k elements share it: the order of elements must not decide."""
    at_top = (logits == ops.broadcast_sets(highest, offsets, logits.shape[0])).to(torch.float32)  # (T, 1)
    return at_top.index_select(0, chosen)[:, 0] / ops.set_sum(at_top, offsets)[:, 0]


def _tensor(output: Tensor | SetBatch) -> Tensor:
    if isinstance(output, SetBatch):
        raise ValueError('this takes one answer per set, got one per element: build the network with output="set".')
    return output
