"""Which implementation of an op runs: its Triton kernels or the plain PyTorch definition, and why.

Kernels run on CUDA where Triton is installed; everywhere else, and for shapes and dtypes they are not made for, the definition
does. `ORDERLESS_BACKEND=reference` or `triton` forces one. Nothing here looks for a GPU before there is a tensor on it.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops._tracing import constant_when_traced, is_transformed

VARIABLE = "ORDERLESS_BACKEND"
_OLDEST_CAPABILITY = (8, 0)  # bfloat16 and asynchronous copies
_recordings: list[Counter[tuple[str, str]]] = []


class Choice(NamedTuple):
    """What runs, `triton` or `reference`, and why."""

    name: str
    reason: str


def choose(x: Tensor) -> Choice:
    """The backend for elements like `x`, as far as its device and dtype tell; an op may still find a shape it cannot take."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "reference", "triton"):
        raise ValueError(f"{VARIABLE} must be reference or triton, or not set; got {wanted!r}.")
    if wanted == "reference":
        return Choice("reference", f"{VARIABLE}=reference")
    obstacle = _obstacle(x)
    if obstacle is None:
        return Choice("triton", f"{VARIABLE}=triton" if wanted else f"elements are {x.dtype} on {x.device.type}")
    if wanted == "triton":
        raise ValueError(f"{VARIABLE}=triton, but {obstacle}. Unset it to let orderless choose.")
    return Choice("reference", obstacle)


def is_forced() -> bool:
    """Whether `ORDERLESS_BACKEND` says what runs."""
    return bool(os.environ.get(VARIABLE))


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU: how they are tested where there is no GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@contextmanager
def recording() -> Iterator[Counter[tuple[str, str]]]:
    """Counts the calls of ops inside the block, as {(op, backend): calls}."""
    used: Counter[tuple[str, str]] = Counter()
    _recordings.append(used)
    try:
        yield used
    finally:
        _recordings[:] = [other for other in _recordings if other is not used]  # `remove` would take one that is equal


def note(op: str, backend: str) -> None:
    """Tells the recordings that are on what ran. Not seen while a network is being compiled."""
    for used in _recordings:
        used[op, backend] += 1


def _obstacle(x: Tensor) -> str | None:
    """What keeps kernels from running on `x`, or None."""
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"elements are {x.dtype}, which kernels do not support"
    if not _has_triton():
        return "Triton is not installed"
    if is_transformed():
        return "torch.func or forward derivatives are in use, which kernels do not support"
    if x.device.type == "cpu" and is_interpreted() and os.environ.get(VARIABLE) == "triton":
        return None  # only where it is asked for: the interpreter is for tests, and slow
    if x.device.type != "cuda":
        return f"elements are on {x.device.type}, kernels run on cuda"
    capability = _capability(x.device.index or 0)
    if capability < _OLDEST_CAPABILITY:
        return f"the GPU has compute capability {capability[0]}.{capability[1]}, kernels need {_OLDEST_CAPABILITY[0]}.0"
    return None


@constant_when_traced
def _has_triton() -> bool:
    return _found("triton")


@constant_when_traced
def _capability(index: int) -> tuple[int, int]:
    return _asked_capability(index)


@cache
def _found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@cache
def _asked_capability(index: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(index)
