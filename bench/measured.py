"""What every row needs to be understood later."""

import importlib.util
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

import orderless as ol

ROOT = Path(__file__).parents[1]


def describe_machine(device: str) -> dict[str, object]:
    """The machine, the versions, and how busy the machine is."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()} CPU"
    return {
        "device": name,
        "cpus": torch.get_num_threads(),
        "torch": torch.__version__,
        "triton": version("triton") if importlib.util.find_spec("triton") else None,
        "orderless": ol.__version__,
        "git_rev": _git_rev(),
        "load": os.getloadavg()[0],  # of the last minute: other work makes times of a CPU worth little
    }


@cache
def _git_rev() -> str:
    """With a plus where files differ from the commit's. Once: what is committed while this process measures is not in it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
