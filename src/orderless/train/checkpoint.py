"""Checkpoints that survive: whole or not at all, checked when read, the one before kept."""

from __future__ import annotations

import hashlib
import io
import pickle
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
_DAMAGED = ".damaged"
_RESUME = "run the same command again (`orderless train` with --resume): it continues from there"


class CheckpointError(MachineError):
    """A checkpoint could not be written, or none could be read."""


class DamagedCheckpointError(CheckpointError):
    """The bytes of a checkpoint were read, and are not what was written."""


@contextmanager
def keeping(what: str, folder: Path, left: str = "The last checkpoint is untouched.") -> Iterator[None]:
    """Turns a failed write inside the block into an error that says what is left and how to resume."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{what} could not be written to {folder}: {error.strerror or error}. {left} Make room, then {_RESUME}."
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
        """Writes the state after `step`, and then removes all but the latest two, and those that were damaged.

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
        self._remove_old()
        return path

    def load(self) -> dict[str, Any] | None:
        """The latest state that is whole, or None where there is no checkpoint. Damaged checkpoints are renamed and skipped.

        Raises:
            CheckpointError: If there are checkpoints and none of them is whole, or if one could not be read. A failed read may be
                temporary, so nothing is renamed then.
        """
        paths = self._paths()
        for path in reversed(paths):
            try:
                return read_checkpoint(path)
            except FileNotFoundError:  # another process of this run found it damaged
                continue
            except DamagedCheckpointError as error:
                falling_back = " Falling back to the checkpoint before it." if path != paths[0] else ""
                warnings.warn(f"{error}{falling_back}", stacklevel=2)
                with suppress(OSError):  # so that it is not counted among those that can be fallen back on
                    path.rename(path.with_suffix(_DAMAGED))
        if paths or self._paths(_DAMAGED):
            raise CheckpointError(
                f"no checkpoint in {self.folder} can be used, all are damaged: put a good copy there, or delete the folder to "
                "start again at step 0."
            )
        return None

    def __bool__(self) -> bool:
        """Whether there is a run here. One whose checkpoints are all damaged counts: it did begin."""
        return bool(self._paths() or self._paths(_DAMAGED))

    def _paths(self, suffix: str = ".ckpt") -> list[Path]:
        try:
            with _reading(self.folder):
                return sorted(path for path in self.folder.iterdir() if re.fullmatch(rf"step-\d{{10}}\{suffix}", path.name))
        except FileNotFoundError:
            return []

    def _remove_old(self) -> None:
        try:
            for path in (*self._paths()[:-_KEPT], *self._paths(_DAMAGED)):
                path.unlink(missing_ok=True)
        except (CheckpointError, OSError) as error:  # training need not stop for it: the next checkpoint tries again
            warnings.warn(f"old checkpoints in {self.folder} could not be removed: {error}", stacklevel=3)

    def _what_is_left(self) -> str:
        paths = self._paths()
        return f"The last good one is {paths[-1].name}." if paths else "There is none before it."


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns a failed read inside the block into an error that says how to resume: nothing is known to be damaged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be read: {error.strerror or error}. Nothing was changed there. Check the disk, then {_RESUME}."
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a file.

    Raises:
        FileNotFoundError: If there is none.
        DamagedCheckpointError: If the file is not a whole checkpoint.
        CheckpointError: If it could not be read, though it may be whole.
    """
    with _reading(path):
        content = path.read_bytes()
    start = len(_MAGIC) + _DIGEST_BYTES
    if not content.startswith(_MAGIC):
        raise DamagedCheckpointError(f"{path.name} is damaged: it does not begin like a checkpoint.")
    archive = memoryview(content)[start:]
    if hashlib.sha256(archive).digest() != content[len(_MAGIC) : start]:
        raise DamagedCheckpointError(f"{path.name} is damaged: its {len(archive):,} bytes do not match their digest.")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = named[1] if named else "something"
        raise CheckpointError(
            f"{path} is whole, but holds {what}, which is not loaded from files, since it could run code. Nothing was changed "
            "there. A network's extra state has to be made of plain values and tensors."
        ) from error
    except Exception as error:  # every byte is as it was written: memory ran out, or torch is older than the one that wrote it
        raise CheckpointError(
            f"{path} is whole, but could not be loaded: {error}. Nothing was changed there. With enough memory and the version "
            f"of torch that wrote it, {_RESUME}."
        ) from error
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
