"""Kernels compile for GPUs that are not here, and want no more shared memory than their plans say (`_launch.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orderless.ops._launch import PLANS

SCRIPT = Path(__file__).parent / "compile_kernels.py"
CLEAN = ("_product_kernel", "_product_backward_kernel", "_weight_gradients_kernel")
GPUS = {  # capability, and KiB of shared memory that a program may have: CUDA's programming guide, table of compute capabilities
    "H200": (90, 227),
    "A100": (80, 163),
    "RTX 4090": (89, 99),
}


@pytest.mark.parametrize(
    ("gpu", "numbers"),
    [
        ("H200", "half"),
        ("RTX 4090", "half"),
        ("A100", "tf32x3"),
        pytest.param("A100", "tf32", marks=pytest.mark.full),  # a minute
    ],
)
def test_kernels_fit_on_a_gpu(gpu, numbers):
    capability, shared = GPUS[gpu]
    wanted = compile_kernels(capability, shared, numbers)
    assert set(CLEAN) < set(wanted)
    assert ("scatter_backward_kernel" in wanted) == (numbers != "tf32x3")
    for name, size in wanted.items():
        op = "clean_blocks" if name in CLEAN else "induced_blocks"
        plans = [plan for plan in PLANS[op].get(numbers, PLANS["clean_blocks"][numbers]) if plan.shared <= shared]
        assert size <= plans[0].shared * 2**10, f"{name} wants {size / 2**10:g} KiB"


def compile_kernels(capability: int, shared: int, numbers: str) -> dict[str, int]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, SCRIPT, str(capability), str(shared), numbers],
        env=environment | {"ORDERLESS_BACKEND": "triton"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
