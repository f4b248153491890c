"""Where to compute: from a user's word to a device that is there."""

from __future__ import annotations

import platform
import re

import torch


def resolve_device(name: str = "auto") -> torch.device:
    """`auto` is a GPU where there is one; `cpu`, `cuda` and `cuda:1` are what they say, or an error.

    Raises:
        ValueError: If the name is none of these, or asks for a GPU that is not there.
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if name == "cpu":
        return torch.device("cpu")
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N; got {name!r}.")
    if not torch.cuda.is_available():
        raise ValueError(f"device {name} was asked for, but PyTorch sees no GPU here: ask for cpu, or install a CUDA build.")
    number = int(name.partition(":")[2] or 0)
    if number >= torch.cuda.device_count():
        raise ValueError(f"device {name} was asked for, but there are {torch.cuda.device_count()} GPUs, counted from 0.")
    return torch.device("cuda", number)


def describe_device(device: torch.device) -> str:
    """Its name, for people and result files."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU"
