"""Calling anybody's module on a SetBatch, whatever form of sets it takes, and reading its answer in one form.

A module may take a `SetBatch`, a padded tensor and its mask `(x (N, M, D), mask (N, M))`, or a dense tensor alone. It may
give one vector per set (a tensor whose first dimension is N) or one per element (a SetBatch, or a padded (N, M, ...) tensor).

Letters: N sets, M elements in the largest set, T elements in all sets.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from orderless.sets import SetBatch

Takes = Literal["auto", "set_batch", "padded", "dense"]
Module = Callable[..., Any]


class Caller:
    """A module together with the form in which it takes sets.

    Args:
        module: An `nn.Module` or any function. It is used in the mode, training or eval, in which it is.
        takes: `set_batch`, `padded` for `module(x, mask)`, `dense` for `module(x)` with equal sizes only; `auto` decides by
            the signature: a first parameter annotated as SetBatch, or a single one, means `set_batch`.
    """

    def __init__(self, module: Module, takes: Takes = "auto") -> None:
        if takes not in get_args(Takes):
            raise ValueError(f"takes must be one of {', '.join(get_args(Takes))}; got {takes!r}.")
        self.module = module
        self.takes = _guess(module) if takes == "auto" else takes

    def __call__(self, batch: SetBatch) -> Tensor | SetBatch:
        """The module's answer: a tensor (N, ...) per set, or a SetBatch per element."""
        if self.takes == "set_batch":
            return _per_set(self.module(batch), batch)
        x, mask = batch.to_padded()
        if self.takes == "dense" and not bool(mask.all()):
            raise ValueError("a module that takes a dense tensor can only be tried on sets of equal sizes.")
        return self._on_padded(x, mask, batch)

    def on_padded(self, x: Tensor, mask: Tensor) -> Tensor | SetBatch:
        """The answer for sets given padded. A module that takes a SetBatch gets one without the padding."""
        batch = SetBatch.from_padded(x, mask)
        if self.takes == "set_batch":
            return _per_set(self.module(batch), batch)
        if self.takes == "dense":
            raise ValueError("a module that takes a dense tensor alone cannot be told what is padding.")
        return self._on_padded(x, mask, batch)

    def _on_padded(self, x: Tensor, mask: Tensor, batch: SetBatch) -> Tensor | SetBatch:
        answer = self._raw(x, mask)
        if isinstance(answer, Tensor) and answer.ndim >= 2 and answer.shape[:2] == mask.shape:
            # (N, M, ...) may be per element, or M numbers per set: only the former grows with another column
            wider = self._raw(torch.cat([x, x[:, :1]], dim=1), torch.cat([mask, mask.new_zeros(len(x), 1)], dim=1))
            if wider.shape[1] == answer.shape[1] + 1:
                return SetBatch.from_padded(answer, mask)
        return _per_set(answer, batch)

    def _raw(self, x: Tensor, mask: Tensor) -> Any:
        return self.module(x, mask) if self.takes == "padded" else self.module(x)


@contextlib.contextmanager
def untouched(module: Module) -> Iterator[None]:
    """Runs a check without gradients and gives a module its buffers (running statistics) and the random state back."""
    buffers = dict(module.named_buffers()) if isinstance(module, nn.Module) else {}
    saved = {name: buffer.clone() for name, buffer in buffers.items()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for name, buffer in buffers.items():
                buffer.copy_(saved[name])


def _guess(module: Module) -> Takes:
    function = module.forward if isinstance(module, nn.Module) else module
    try:
        parameters = [
            p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # built in C: no signature to read
        return "set_batch"
    if not parameters or "SetBatch" in str(parameters[0].annotation):
        return "set_batch"
    required = [p for p in parameters if p.default is p.empty]
    has_mask = len(required) >= 2 or any("mask" in p.name for p in parameters[1:2])
    return "padded" if has_mask else "set_batch"


def _per_set(answer: Any, batch: SetBatch) -> Tensor | SetBatch:
    if isinstance(answer, SetBatch):
        return answer
    if not isinstance(answer, Tensor):
        raise TypeError(f"the module must return a tensor or a SetBatch, got {type(answer).__name__}.")
    if answer.ndim == 0 or answer.shape[0] != batch.num_sets:
        raise ValueError(
            f"the module got {batch.num_sets} sets and returned a tensor of shape {tuple(answer.shape)}; "
            "expected one row per set, a padded (N, M, ...) tensor, or a SetBatch."
        )
    return answer
