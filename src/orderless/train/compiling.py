"""`torch.compile` for training: the whole network, or layer by layer where launching costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn

_MOST_VARIANTS = 200  # of one kind of layer: widths, norms, modes, precisions and sizes of batches


class Layered(Protocol):
    """A module that compiles its layers one by one when told to, such as `orderless.nn.Encoder`."""

    compile_layers: bool


def layered_parts(*models: nn.Module) -> list[Layered]:
    """All modules in these networks that can compile their layers one by one."""
    modules: list[Any] = [module for model in models for module in model.modules()]
    return [module for module in modules if hasattr(module, "compile_layers")]


@contextmanager
def compiled_layers(parts: Sequence[Layered]) -> Iterator[None]:
    """The layers of these are compiled, until the end of the block.

    Layers of a kind share their code, so fifty of them are compiled in the time of one. Between layers control returns to Python,
    which costs a recording nothing.
    """
    if not parts:
        yield
        return
    before = [part.compile_layers for part in parts]
    try:
        for part in parts:
            part.compile_layers = True
        # the limit is on one function, and all networks of the process share those of a kind of layer
        with torch._dynamo.config.patch(recompile_limit=_MOST_VARIANTS):
            yield
    finally:
        for part, value in zip(parts, before, strict=True):
            part.compile_layers = value
