"""What a traced program may ask while it is traced."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def constant_when_traced(function: F) -> F:
    """Marks a question about the machine or its settings: `torch.compile` asks it once and builds the answer in.

    What `torch.compiler.assume_constant_result` does, but for loading torch's compiler when this package is imported.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
