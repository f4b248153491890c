"""How kernels are launched: rows of a tile, warps, stages and programs, by op, kind of number and size of the sets.

The first plans were measured on one H200. A GPU with too little shared memory for them gets a leaner one, whose speed was never
measured; where there is none that it has room for, kernels do not run.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orderless.ops._tiles import num_programs
from orderless.ops._tracing import constant_when_traced
from orderless.ops.backend import is_interpreted


class Shape(NamedTuple):
    """How one kernel is launched."""

    warps: int  # of a program
    stages: int  # of software pipelining
    programs: int = 1  # per multiprocessor
    registers: int | None = None  # at most, of a thread: fewer let more programs run at once

    def options(self) -> dict[str, int]:
        """Options of the kernel, but for its stages, which some kernels take as a constant of a loop."""
        return {"num_warps": self.warps} | ({} if self.registers is None else {"maxnreg": self.registers})


class Plan(NamedTuple):
    """How all kernels of an op are launched for one kind of number."""

    shared: int  # KiB of shared memory that the hungriest of them needs; tests compile them and look
    rows: int  # of a tile, the same in all kernels that read each other's statistics
    backward_rows: int
    shapes: dict[str, Shape]
    most_rows: int = 0  # of a chunk of a per-set matrix, in ops that have such

    def lean(self, shared: int, *, rows: int, most_rows: int = 0) -> Plan:
        """The same for less shared memory: smaller tiles, none loaded ahead."""
        return Plan(shared, rows, rows, {name: shape._replace(stages=1) for name, shape in self.shapes.items()}, most_rows)


SMALL = 48  # elements a set, on average: from there on tiles of 64 rows are three quarters full
_CLEAN_HALF = Plan(178, 64, 64, {"forward": Shape(4, 1, 2), "backward": Shape(8, 3, 1), "weights": Shape(8, 3, 1, 128)})
_INDUCED_HALF = Plan(
    192, 64, 64,
    {
        "statistics": Shape(4, 1, 4),
        "gather": Shape(8, 2),
        "points": Shape(8, 1),  # kernels of points have one program a set
        "scatter": Shape(4, 2, 2),
        "out": Shape(4, 2, 2),
        "pool": Shape(4, 2, 3),
        "merge": Shape(4, 1),
        "backward": Shape(8, 1),  # programs of the three kernels below: they share slots and buffers
        "out_backward": Shape(8, 2),
        "scatter_backward": Shape(8, 1),
        "points_backward": Shape(8, 1),
        "gather_backward": Shape(8, 2),
        "pool_backward": Shape(4, 2, 2),
        "products": Shape(4, 2),
        "finish": Shape(4, 1, 4),
    },
    most_rows=128,
)  # fmt: skip
PLANS: dict[str, dict[str, list[Plan]]] = {  # by op and how it multiplies, the fastest first
    "clean_blocks": {
        "half": [_CLEAN_HALF, _CLEAN_HALF.lean(66, rows=64)],
        "half, small sets": [
            Plan(66, 16, 16, {"forward": Shape(4, 1, 4), "backward": Shape(4, 1, 3), "weights": Shape(8, 2, 2)}),
        ],
        "tf32": [Plan(96, 32, 32, {"forward": Shape(8, 1, 2), "backward": Shape(8, 1, 2, 128), "weights": Shape(8, 2, 1)})],
        "tf32x3": [Plan(160, 32, 32, {"forward": Shape(8, 1, 1), "backward": Shape(8, 1, 1), "weights": Shape(8, 1, 1)})],
    },
    "induced_blocks": {
        "half": [_INDUCED_HALF, _INDUCED_HALF.lean(80, rows=32, most_rows=64)],
        "tf32": [
            Plan(
                160, 64, 32,
                {
                    "statistics": Shape(4, 1, 4),
                    "gather": Shape(8, 1),
                    "points": Shape(8, 1),
                    "scatter": Shape(8, 1),
                    "out": Shape(8, 1),
                    "pool": Shape(4, 1, 2),
                    "merge": Shape(4, 1),
                    "backward": Shape(8, 1),
                    "out_backward": Shape(8, 1),
                    "scatter_backward": Shape(8, 1),
                    "points_backward": Shape(8, 1),
                    "gather_backward": Shape(8, 1),
                    "pool_backward": Shape(4, 1, 2),
                    "products": Shape(4, 1),
                    "finish": Shape(4, 1, 4),
                },
                most_rows=64,
            ),
        ],
    },
}  # fmt: skip
INTERPRETED_ROWS = 16


class Launch(NamedTuple):
    """A grid, the rows of a tile, and the options a kernel is called with."""

    grid: tuple[int]
    rows: int
    options: dict[str, Any]

    @classmethod
    def of(cls, op: str, kernel: str, x: Tensor, *, small: bool = False, **constants: int | str) -> Launch:
        """How a kernel of `op` is launched on elements like `x`, of `small` sets or not; it is compiled for `constants`."""
        plan = plan_for(op, x, small=small)
        shape, rows = (Shape(1, 1), INTERPRETED_ROWS) if is_interpreted() else (plan.shapes[kernel], plan.rows)
        options = {**constants, "M": rows, "STAGES": shape.stages, **shape.options()}
        return cls((num_programs(x.device, shape.programs),), rows, options)


def plan_for(op: str, x: Tensor, *, small: bool = False) -> Plan:
    """The fastest plan for elements like `x`, of `small` sets or not, that the GPU has the shared memory for."""
    plans = PLANS[op]
    of_small = plans.get(f"{_how(x)}, small sets", []) if small else []
    for plan in [*of_small, *plans[_how(x)]]:
        if plan.shared <= shared_memory(x):
            return plan
    raise AssertionError(memory_obstacle(op, x))  # callers ask for obstacles first


def memory_obstacle(op: str, x: Tensor) -> str | None:
    """That the GPU has too little shared memory for the kernels of `op` on elements like `x`, or None where it has enough."""
    least = min(plan.shared for plan in PLANS[op][_how(x)])
    if least <= shared_memory(x):
        return None
    return f"kernels for {x.dtype} need {least} KiB of shared memory, and the GPU has {shared_memory(x)} for a program"


def describe_plans(x: Tensor) -> str:
    """In words, the plans by which kernels are launched on elements like `x`."""
    if all(plan_for(op, x) is plans[_how(x)][0] for op, plans in PLANS.items() if memory_obstacle(op, x) is None):
        return "as measured on one H200"
    return f"leaner than measured on one H200, since a program has {shared_memory(x)} KiB of shared memory"


def shared_memory(x: Tensor) -> int:
    """KiB that a program on the device of `x` may have."""
    return 2**20 if x.device.type != "cuda" else _shared_memory(x.device.index or 0)  # the interpreter takes what it wants


@constant_when_traced
def _shared_memory(index: int) -> int:
    return _asked_shared_memory(index) // 2**10


@cache
def _asked_shared_memory(index: int) -> int:
    from triton.runtime import driver  # what Triton compares with itself when it loads a kernel

    shared: int = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return shared


def _how(x: Tensor) -> str:
    precision = product_precision(x)
    return "half" if precision == "ieee" else precision


def are_small(num_elements: int, num_sets: int) -> bool:
    """Whether sets are so small that most of a usual tile would be empty.

    Traced, the answer must not depend on sizes, which are left open: then sets count as usual ones.
    """
    return not torch.compiler.is_compiling() and num_elements <= SMALL * num_sets


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Kernels run on the current GPU, which need not be the one that `x` is on: in this context it is."""
    if x.device.type != "cuda" or torch.compiler.is_compiling():  # compiled code selects devices itself
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

    columns = 32 if out.numel() > 4096 else 8  # few sums are shared by more programs, which take more terms at once
    if is_interpreted():
        columns = 512  # the interpreter takes as long for a program of few sums as for one of many
    grid = (-(-out.numel() // columns),)
    add_parts_kernel[grid](parts, out, parts.shape[0], out.numel(), BLOCK_P=2048 // columns, BLOCK_Q=columns, num_warps=4)
