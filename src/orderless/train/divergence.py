"""NaN and infinity: a run that meets them stops, and says where they came from."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.utils import _pytree as pytree

from orderless.tasks.dataset import LabelledSets

Loss = Callable[..., Tensor]
UNCLEAR = "everything is finite when the step is repeated"
TRANSLATED = (
    "everything is finite when the step is repeated without torch.compile and CUDA graphs, so these may be at fault: try "
    "training without them"
)


class TrainingDiverged(RuntimeError):  # noqa: N818 - it is an outcome
    """The loss or a gradient became NaN or infinite. The weights are still those of before the step.

    Running statistics of norms have seen the batch that did it; the latest checkpoint has those of before.

    Attributes:
        step: The step that failed, counted from 1.
        tensor: The first tensor that was not finite, in words.
        in_data: Whether it is the data that are not finite, which no setting of training cures.
    """

    def __init__(self, step: int, tensor: str, *, where: str | None = None, in_data: bool = False) -> None:
        self.step, self.tensor, self.in_data = step, tensor, in_data
        said = f"training stopped at step {step}: {tensor}."
        if in_data:
            super().__init__(f"{said} Leave out such elements and sets, or replace them by numbers, and train again.")
            return
        look = f" `orderless diagnose {shlex.quote(where)}` shows the gradients of every layer up to there;" if where else ""
        cures = "a lower learning_rate, clipped gradients or a ++ network may cure it."
        super().__init__(f"{said}{look} {cures if where else cures.capitalize()}")


def first_not_finite(model: nn.Module, batch: LabelledSets, loss: Loss) -> str | None:
    """Which tensor is the first that is not finite in a step on this batch, in words; the step is done once more to see.

    Forward order first (inputs, then the output of each layer, then the loss), then gradients, from the last layer to the first,
    then their norm: squares of numbers beyond 1e19 do not fit into float32.
    """
    if problem := not_finite_data(batch):
        return problem
    found: list[str] = []
    handles = [
        module.register_forward_hook(_watch(name, found))
        for name, module in model.named_modules()
        if next(module.children(), None) is None
    ]
    try:
        value = loss(model(batch.sets), batch.target)
    finally:
        for handle in handles:
            handle.remove()
    if found:
        return found[0]
    if not torch.isfinite(value).all():
        return f"the loss became {_kind(value)} although every layer's output is finite"
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    gradients = torch.autograd.grad(value, [p for _, p in parameters], allow_unused=True)
    there = [(name, gradient) for (name, _), gradient in zip(parameters, gradients, strict=True) if gradient is not None]
    for name, gradient in reversed(there):
        if not torch.isfinite(gradient).all():
            return f"the gradient of {name} became {_kind(gradient)}, with a loss of {value.item():.4g}"
    if not torch.isfinite(get_total_norm([gradient for _, gradient in there])):
        most, name = max((gradient.abs().max().item(), name) for name, gradient in there)
        return f"the norm of the gradient is beyond float32: that of {name} has {most:.2g} in it, the loss is {value.item():.4g}"
    return None


def not_finite_data(batch: LabelledSets) -> str | None:
    """What of the batch itself is not finite, in words; None where all of it is."""
    for what, tensor in (("the elements of a set", batch.sets.x), ("a target", batch.target)):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return f"{what} in the training data {'are' if what.startswith('the') else 'is'} {_kind(tensor)}"
    return None


def _watch(name: str, found: list[str]) -> Callable[[nn.Module, object, object], None]:
    def hook(module: nn.Module, _: object, output: object) -> None:
        for leaf in pytree.tree_leaves(output):
            if not found and isinstance(leaf, Tensor) and leaf.is_floating_point() and not torch.isfinite(leaf).all():
                found.append(f"the output of {name or 'the network'} ({type(module).__name__}) became {_kind(leaf)}")

    return hook


def _kind(tensor: Tensor) -> str:
    return "NaN" if torch.isnan(tensor).any() else "infinite"
