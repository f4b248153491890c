"""How large the activations and gradients of a network are, layer by layer, in the order in which it runs.

A layer is what people count as one: an entry of a `Sequential` or `ModuleList`, such as a residual block or an attention block
with all its weights, or else a module with weights of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.utils.parametrize import is_parametrized
from torch.utils import _pytree as pytree

from orderless.tasks import LabelledSets

Reading = float | str | None  # as JSON has it: a number, "nan", "inf", or None where there is nothing to read
_LISTS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_MAKERS = "parametrizations"  # where `torch.nn.utils.parametrize` keeps them


@dataclass(frozen=True)
class Layers:
    """What was read of each layer, in forward order.

    Attributes:
        names: Of the modules, as in `named_modules()`.
        gradient: Norm of the gradient of all weights of the layer: the root of the sum of their squares. A weight that several
            layers share counts for the first of them. None where nothing is left that is trained, or where the layer takes no
            part in the answer.
        activation: Root mean square of the numbers that the layer gives, over all its calls. None where it gives none.
        loss: Whose gradient it is.
    """

    names: tuple[str, ...]
    gradient: tuple[float | None, ...]
    activation: tuple[float | None, ...]
    loss: float

    def to_row(self) -> dict[str, Any]:
        """Names and readings as strict JSON has them: what is not finite becomes `"nan"` or `"inf"`, which `float` reads."""
        return {
            "names": list(self.names),
            "gradient": [as_json_number(value) for value in self.gradient],
            "activation": [as_json_number(value) for value in self.activation],
        }


def read_layers(model: nn.Module, batch: Any, loss: Callable[..., Tensor]) -> Layers:
    """Runs a network forward and backward once, in training mode, and reads the size of every layer's activations and gradient.

    It leaves no trace: weights, their `.grad`, buffers (running statistics), training or eval mode, hooks and random states are
    as before, so that reading twice gives the same numbers. Under `torch.autocast` it reads what autocast computes.

    Args:
        model: Any module. Wrappers of `torch.compile`, of data parallel training and of Lightning Fabric are looked through.
        batch: What the model takes, on its device; a tuple is several arguments. Or `LabelledSets`, of which it takes the sets.
        loss: From the model's output to a scalar. With `LabelledSets` it gets the targets as well: `loss(output, target)`.
    """
    model = bare(model)
    layers = _find_layers(model)
    trained = {id(weight): weight for layer in layers.values() for weight in layer.weights if weight.requires_grad}
    with for_reading(model), torch.inference_mode(False), torch.enable_grad():
        with _listening(layers) as calls:
            value = _loss(model, batch, loss)
        found = torch.autograd.grad(value, list(trained.values()), allow_unused=True) if trained else ()
    norms = {key: None if g is None else norm(g) for key, g in zip(trained, found, strict=True)}
    order = [*calls, *(name for name in layers if name not in calls)]  # first those that were called, as they were called
    own = _each_to_one({name: layers[name].weights for name in order})
    return Layers(
        names=tuple(order),
        gradient=tuple(_gradient(own[name], norms, was_called=name in calls) for name in order),
        activation=tuple(calls[name].root_mean_square() if name in calls else None for name in order),
        loss=value.item(),
    )


class _HasModel(Protocol):
    """A moment of a run."""

    @property
    def model(self) -> nn.Module: ...


class LayerObserver:
    """Observes a training run: reads the layers of the network on the same batch at every moment that it is shown.

    Args:
        batch: Sets and targets. They are moved to the network's device.
        loss: `loss(output, target)`, a scalar.
    """

    def __init__(self, batch: LabelledSets, loss: Callable[..., Tensor]) -> None:
        self.batch, self.loss = batch, loss

    def __call__(self, moment: _HasModel) -> Mapping[str, Any]:
        """`names`, `gradient` and `activation`, fit for JSON: see `Layers`."""
        device = next(moment.model.parameters()).device
        batch = LabelledSets(self.batch.sets.to(device), self.batch.target.to(device))
        return read_layers(moment.model, batch, self.loss).to_row()


def as_json_number(value: float | None) -> Reading:
    """A number as strict JSON has it: what is not finite becomes a text."""
    return value if value is None or math.isfinite(value) else str(value)


def as_floats(values: Sequence[Reading]) -> list[float | None]:
    """What `as_json_number` wrote, as numbers again."""
    return [None if value is None else float(value) for value in values]


def norm(tensor: Tensor) -> float:
    """The root of the sum of squares, in float64: the square of 1e-30 is 0 in float32."""
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    numbers = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    return torch.linalg.vector_norm(numbers, dtype=torch.float64).item()


# --------------------------------------------------------------------------------------------------- which layers there are


@dataclass(frozen=True)
class _Layer:
    """A module that counts as one layer, and the weights whose gradient is its own."""

    module: nn.Module
    weights: tuple[nn.Parameter, ...]
    gives: bool = True  # whether what the module returns is the work of these weights, and not of layers inside it


def bare(model: nn.Module) -> nn.Module:
    """The module inside wrappers: hooks do not fire in compiled code, and wrappers want a backward pass of their own."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", getattr(model, "_original_module", None)), nn.Module):
            model = inner  # torch.compile keeps it under the first name, Lightning Fabric under the second
        else:
            return model


def _find_layers(model: nn.Module) -> dict[str, _Layer]:
    """Opens the model, and everything in it that holds a list of layers, and takes what is then inside."""
    layers: dict[str, _Layer] = {}
    seen: set[nn.Module] = set()

    def look_into(module: nn.Module, name: str) -> None:
        if module in seen:  # in two places: one layer that is called twice
            return
        seen.add(module)
        inside = _children(module)
        is_whole = not inside or (name != "" and not _holds_a_list(module))
        weights = tuple(module.parameters(recurse=is_whole))
        if weights:
            layers[name or type(module).__name__] = _Layer(module, weights, gives=is_whole)
        if not is_whole:
            for inner_name, inner in inside.items():
                look_into(inner, f"{name}.{inner_name}" if name else inner_name)

    look_into(model, "")
    if not layers:
        raise ValueError(f"{type(model).__name__} has no weights, and so no layers to read.")
    if lazy := next((name for name, layer in layers.items() if any(map(nn.parameter.is_lazy, layer.weights))), None):
        raise ValueError(f"the weights of {lazy} are made when the network first runs: run it on a batch before it is read.")
    return layers


def _children(module: nn.Module) -> dict[str, nn.Module]:
    """The modules in it, but for those that make its weights out of others, such as those of weight norm."""
    return {name: inner for name, inner in module.named_children() if not (name == _MAKERS and is_parametrized(module))}


def _holds_a_list(module: nn.Module) -> bool:
    return (isinstance(module, _LISTS) and len(module) > 0) or any(map(_holds_a_list, _children(module).values()))


# --------------------------------------------------------------------------------------------------- reading


class _Calls:
    """What a layer gave, over all its calls."""

    def __init__(self) -> None:
        self.norm, self.count = 0.0, 0

    def add(self, output: Any) -> None:
        """One more call gave this: a tensor, a SetBatch, or tuples and dicts of them."""
        for tensor in pytree.tree_leaves(output):
            if isinstance(tensor, Tensor) and (tensor.is_floating_point() or tensor.is_complex()):
                self.norm = math.hypot(self.norm, norm(tensor))
                self.count += tensor.numel()

    def root_mean_square(self) -> float | None:
        """Of all numbers; None where there was none."""
        return self.norm / math.sqrt(self.count) if self.count else None


@contextmanager
def _listening(layers: Mapping[str, _Layer]) -> Iterator[dict[str, _Calls]]:
    """While inside, notes what layers give, in the order in which they begin."""
    calls: dict[str, _Calls] = {}
    handles = []
    for name, layer in layers.items():

        def begin(*_: Any, name: str = name) -> None:
            calls.setdefault(name, _Calls())

        def end(_: nn.Module, __: Any, output: Any, name: str = name) -> None:
            calls[name].add(output)

        handles.append(layer.module.register_forward_pre_hook(begin))
        if layer.gives:
            handles.append(layer.module.register_forward_hook(end))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _loss(model: nn.Module, batch: Any, loss: Callable[..., Tensor]) -> Tensor:
    if isinstance(batch, LabelledSets):
        value = loss(model(batch.sets), batch.target)
    else:
        value = loss(model(*batch) if isinstance(batch, tuple) else model(batch))
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
        got = f"shape {tuple(value.shape)}, requires_grad={value.requires_grad}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"loss must give a scalar tensor that depends on the weights, got {got}.")
    return value


def _each_to_one(weights: Mapping[str, Sequence[nn.Parameter]]) -> dict[str, list[nn.Parameter]]:
    """Leaves every weight with the first layer that has it: with each, it would be several times in what all layers add up to."""
    first: dict[int, str] = {}
    for name, of_layer in weights.items():
        for weight in of_layer:
            first.setdefault(id(weight), name)
    return {name: [weight for weight in of_layer if first[id(weight)] == name] for name, of_layer in weights.items()}


def _gradient(weights: Sequence[nn.Parameter], norms: Mapping[int, float | None], *, was_called: bool) -> float | None:
    trained = [norms[id(weight)] for weight in weights if id(weight) in norms]
    reached = [value for value in trained if value is not None]
    if not trained or (not reached and not was_called):
        return None
    return math.hypot(*reached)  # 0 where the loss does not depend on a layer that was called


# --------------------------------------------------------------------------------------------------- leaving no trace


@contextmanager
def for_reading(model: nn.Module) -> Iterator[None]:
    """Training mode while inside; mode, buffers and random states are put back in the end."""
    modes = [(module, module.training) for module in model.modules()]
    held = [(module._buffers, dict(module._buffers)) for module in model.modules()]
    buffers = {id(buffer): buffer for _, of_module in held for buffer in of_module.values() if buffer is not None}
    values = {key: buffer.clone() for key, buffer in buffers.items()}
    with _same_random_states({weight.device for weight in model.parameters()}):
        model.train()
        try:
            yield
        finally:
            for module, was_training in modes:
                module.training = was_training
            for now, before in held:
                now.update(before)  # a module may have put another tensor in a buffer's place
            with torch.no_grad():
                for key, buffer in buffers.items():
                    buffer.copy_(values[key])


@contextmanager
def _same_random_states(devices: set[torch.device]) -> Iterator[None]:
    python, legacy_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - a module may use it
    others = [device for device in devices if device.type != "cpu"]
    kind = others[0].type if others else "cuda"
    try:
        with torch.random.fork_rng([device.index for device in others], device_type=kind):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy_numpy)  # noqa: NPY002 - likewise
