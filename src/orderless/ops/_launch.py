"""How kernels are launched: rows of a tile, warps, stages and programs, by op, direction, dtype and size of the sets.

The table was measured on one H200; other GPUs get the same.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orderless.ops._tiles import num_programs
from orderless.ops._tracing import constant_when_traced
from orderless.ops.backend import is_interpreted


class Shape(NamedTuple):
    """How one kernel is launched."""

    rows: int  # of a tile
    warps: int  # of a program
    stages: int  # of software pipelining
    programs: int  # per multiprocessor
    registers: int | None = None  # at most, of a thread: fewer let more programs run at once


SMALL = 48  # elements a set, on average: from there on tiles of 64 rows are three quarters full
TABLE: dict[tuple[str, str], dict[str, Shape]] = {  # (op, how it multiplies); rows are the same in all kernels of an op
    ("clean_blocks", "half, small sets"): {
        "forward": Shape(16, 4, 1, 4),
        "backward": Shape(16, 4, 1, 3),
        "weights": Shape(16, 8, 2, 2),
    },
    ("clean_blocks", "half"): {
        "forward": Shape(64, 4, 1, 2),
        "backward": Shape(64, 8, 3, 1),
        "weights": Shape(64, 8, 3, 1, 128),
    },
    ("clean_blocks", "tf32"): {
        "forward": Shape(32, 8, 1, 2),
        "backward": Shape(32, 8, 1, 2, 128),
        "weights": Shape(32, 8, 2, 1),
    },
    ("clean_blocks", "tf32x3"): {
        "forward": Shape(32, 8, 1, 1),
        "backward": Shape(32, 8, 1, 1),
        "weights": Shape(32, 8, 1, 1),
    },
}
INTERPRETED = Shape(16, 1, 1, 1)


class Launch(NamedTuple):
    """A grid, the rows of a tile, and the options a kernel is called with."""

    grid: tuple[int]
    rows: int
    options: dict[str, Any]

    @classmethod
    def of(cls, op: str, kernel: str, x: Tensor, *, small: bool = False, **constants: int | str) -> Launch:
        """How a kernel of `op` is launched on elements like `x`, of `small` sets or not; it is compiled for `constants`."""
        how = "half" if x.element_size() == 2 else product_precision(x)
        kernels = TABLE.get((op, f"{how}, small sets")) if small else None
        shape = INTERPRETED if is_interpreted() else (kernels or TABLE[op, how])[kernel]
        options = {**constants, "M": shape.rows, "num_warps": shape.warps, "STAGES": shape.stages}
        if shape.registers is not None:
            options["maxnreg"] = shape.registers
        return cls((num_programs(x.device, shape.programs),), shape.rows, options)


def are_small(num_elements: int, num_sets: int) -> bool:
    """Whether sets are so small that most of a usual tile would be empty.

    Traced, the answer must not depend on sizes, which are left open: then sets count as usual ones.
    """
    return not torch.compiler.is_compiling() and num_elements <= SMALL * num_sets


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Kernels run on the current GPU, which need not be the one that `x` is on: in this context it is."""
    if x.device.type != "cuda" or torch.compiler.is_compiling():  # who compiles minds the devices
        return nullcontext()
    return torch.cuda.device(x.device)


def product_precision(x: Tensor) -> str:
    """How kernels multiply float32: as torch is set to; in full it is three TF32 products, which are as exact."""
    if is_interpreted() or x.dtype != torch.float32:
        return "ieee"
    return "tf32" if multiplies_in_tf32() else "tf32x3"


@constant_when_traced  # and traced again where the setting has changed
def multiplies_in_tf32() -> bool:
    """Whether torch is set to multiply float32 in TF32 on a GPU that can."""
    return torch.get_float32_matmul_precision() != "highest"


def add_parts(parts: Tensor, out: Tensor) -> None:
    """Adds up (P, ...) shares of programs into `out`."""
    from orderless.ops._slots import add_parts_kernel

    columns = 32
    grid = (-(-out.numel() // columns),)
    add_parts_kernel[grid](parts, out, parts.shape[0], out.numel(), BLOCK_P=64, BLOCK_Q=columns, num_warps=4)
