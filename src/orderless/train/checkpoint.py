"""Checkpoints that survive: whole or not at all, checked when read, the one before kept."""

from __future__ import annotations

import hashlib
import io
import random
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orderless.files import write_bytes
from orderless.io.errors import MachineError

_MAGIC = b"orderless checkpoint 1\n"
_DIGEST_BYTES = 32
_KEPT = 2  # the latest, and one to fall back on


class CheckpointError(MachineError):
    """A checkpoint could not be written, or none could be read."""


@contextmanager
def keeping(what: str, folder: Path, left: str = "The last checkpoint is untouched.") -> Iterator[None]:
    """A disk that refuses what is written inside is an error that says what is left and how to go on."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{what} could not be written to {folder}: {error.strerror or error}. {left} Make room, then go on with --resume."
        ) from error


class Checkpoints:
    """The checkpoints of a run: `step-0000001200.ckpt` and the one before.

    A file is a digest and a `torch.save` archive of tensors and plain values, read without unpickling code. It is written aside,
    flushed and renamed, so a kill at any moment leaves the one before untouched.

    Args:
        folder: Where they are; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Writes the state after `step`, and then removes all but the latest two.

        Raises:
            CheckpointError: If the disk is full or refuses. Earlier checkpoints are untouched.
        """
        content = io.BytesIO()
        torch.save(dict(state), content)
        archive = content.getbuffer()
        path = self.folder / f"step-{step:010d}.ckpt"
        with keeping(f"the checkpoint after step {step}", self.folder, self._what_is_left()):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(path, b"".join([_MAGIC, hashlib.sha256(archive).digest(), archive]))
        for old in self._paths()[:-_KEPT]:
            old.unlink(missing_ok=True)
        return path

    def load(self) -> dict[str, Any] | None:
        """The latest state that can be read, or None where there is no checkpoint.

        Raises:
            CheckpointError: If there are checkpoints and not one of them can be read.
        """
        paths = self._paths()
        for path in reversed(paths):
            try:
                return read_checkpoint(path)
            except (CheckpointError, OSError) as error:
                falling_back = " Falling back to the checkpoint before it." if path != paths[0] else ""
                warnings.warn(f"{error}{falling_back}", stacklevel=2)
                with suppress(OSError):  # so that it is not counted among those that can be fallen back on
                    path.rename(path.with_suffix(".damaged"))
        if paths:
            raise CheckpointError(f"no checkpoint in {self.folder} can be read: delete the folder to start again.")
        return None

    def __bool__(self) -> bool:
        return bool(self._paths())

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{10}\.ckpt", path.name))

    def _what_is_left(self) -> str:
        paths = self._paths()
        return f"The last good one is {paths[-1].name}." if paths else "There is none before it."


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a file.

    Raises:
        CheckpointError: If the file is not a whole checkpoint.
    """
    content = path.read_bytes()
    start = len(_MAGIC) + _DIGEST_BYTES
    if not content.startswith(_MAGIC):
        raise CheckpointError(f"{path.name} is damaged: it does not begin as a checkpoint does.")
    archive = memoryview(content)[start:]
    if hashlib.sha256(archive).digest() != content[len(_MAGIC) : start]:
        raise CheckpointError(f"{path.name} is damaged: its {len(archive):,} bytes do not have the digest that it names.")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(f"{path.name} holds what no checkpoint holds: {error}") from error
    return state


def random_states(device: torch.device) -> dict[str, Any]:
    """Every random state that training may draw from."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002 - the user's network may use it
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_states(states: Mapping[str, Any], device: torch.device) -> None:
    """Puts them back."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)
