"""What every row needs to be understood later."""

import importlib.util
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

import orderless as ol

ROOT = Path(__file__).parents[1]


def describe_machine(device: str) -> dict[str, object]:
    """The machine and the versions."""
    rev = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()} CPU"
    return {
        "device": name,
        "cpus": torch.get_num_threads(),
        "torch": torch.__version__,
        "triton": version("triton") if importlib.util.find_spec("triton") else None,
        "orderless": ol.__version__,
        "git_rev": rev.stdout.strip(),
    }
