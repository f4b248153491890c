"""What a traced program may ask while it is traced, and whether torch transforms what runs."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., object])


def constant_when_traced(function: F) -> F:
    """Marks a question about the machine or its settings: `torch.compile` asks it once and builds the answer in.

    What `torch.compiler.assume_constant_result` does, but for loading torch's compiler when this package is imported.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant_when_traced
def is_transformed() -> bool:
    """Whether `torch.func` transforms what runs, or forward derivatives are taken: they want operations that torch knows.

    Our own ops have a backward pass but no forward derivative: their inputs would count as constants, and derivatives would
    silently be wrong.
    """
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
