"""Processes that train together: Fabric starts the others with the command that started the first, or a launcher starts all."""

from __future__ import annotations

import os


def is_main_process(num_devices: int | None = None) -> bool:
    """Whether this is the process that writes and speaks; the others only compute.

    Args:
        num_devices: Processes that share each batch, where that is known. SLURM numbers all that `srun` starts: those that train
            on one device each do runs of their own.
    """
    if (rank := _number("RANK")) is not None:  # among all processes: torchrun sets it
        return rank == 0
    if _number("NODE_RANK"):
        return False
    if (local := _number("LOCAL_RANK")) is not None:  # Fabric started it, maybe in a job of SLURM, which has one number for all
        return local == 0
    return num_devices == 1 or not _number("SLURM_PROCID")


def _number(name: str) -> int | None:
    """A variable of the environment. Some launchers set it to nothing, or to -1, where there is no number."""
    said = os.environ.get(name, "")
    return int(said) if said.isdecimal() else None
