"""Compiles the kernels of both deep networks for a GPU that need not be there, and prints what shared memory each of them wants.

    python tests/ops/compile_kernels.py CAPABILITY SHARED_KIB NUMBERS

`CAPABILITY` is that of the GPU, such as 90, `SHARED_KIB` its shared memory for a program, `NUMBERS` half, tf32 or tf32x3. Instead
of Triton's driver there is one that knows nothing but the capability, and launching is compiling: networks compute nothing.
"""

import json
import sys
import warnings
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

import orderless as ol
from orderless import ops
from orderless.ops import _launch, _tiles, backend

PROCESSORS = 100  # does not change what is compiled


class Nowhere:
    """A driver without a GPU."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def compile_everything(capability: int, shared: int, numbers: str) -> dict[str, int]:
    """Bytes of shared memory that kernels want, by name."""
    wanted: dict[str, int] = {}
    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, **options: Any) -> Any:
        kernel = launch(self, *args, **(options | {"warmup": True}))
        wanted[self.__name__] = max(wanted.get(self.__name__, 0), kernel.metadata.shared)
        return kernel

    driver.set_active(Nowhere(capability))
    JITFunction.run = compile_only  # type: ignore[method-assign]
    backend._obstacle = lambda x: None  # type: ignore[assignment]
    _launch.shared_memory = lambda x: shared
    _tiles._num_processors = lambda index: PROCESSORS  # type: ignore[assignment]
    dtype = torch.bfloat16 if numbers == "half" else torch.float32
    torch.set_float32_matmul_precision("highest" if numbers == "tf32x3" else "high")
    _tiles._cut_in_one_launch(torch.tensor([0, 3, 1000]), 1000, 64)
    _points()
    _set_norm(dtype)
    for sizes in ([1000, 0, 37], [10] * 3):  # usual and small sets
        _train("deep_sets++", sizes, dtype)
    if numbers != "tf32x3":  # which attention kernels do not multiply by
        most_points = _launch.plan_for("induced_blocks", torch.zeros(1, dtype=dtype)).most_rows
        _train("set_transformer++", [1000, 0, 37], dtype)
        _train("set_transformer++", [100, 37], dtype, num_heads=16, num_inducing=most_points)
    return wanted


def _train(name: str, sizes: list[int], dtype: torch.dtype, **options: int) -> None:
    model = ol.create_model(name, 3, 1, depth=4 if name == "deep_sets++" else 2, **options).to(dtype)
    model(ol.SetBatch.from_list([torch.randn(size, 3, dtype=dtype) for size in sizes])).sum().backward()


def _set_norm(dtype: torch.dtype) -> None:
    x, weight, bias = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((64, 128), (128,), (128,)))
    ops.set_norm(x, torch.tensor([0, 64]), weight, bias).sum().backward()


def _points() -> None:
    points, starts, sizes = torch.randn(1024, 3), torch.tensor([0]), torch.tensor([1024])
    ops.farthest_points(points, starts, sizes, 8, 1024)
    ops.nearest_points(points, starts, sizes, points[None, :8], 128, 1024)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(compile_everything(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
