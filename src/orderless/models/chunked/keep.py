"""Where activations are kept between passes: on the device, in host memory, on disk, or nowhere."""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
import warnings
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from orderless.models.chunked.source import Chunk

Keep = Literal["auto", "device", "host", "disk", "nothing"]
Place = Literal["device", "host", "disk"]

# how much of what is free "auto" takes: chunks in work need room on the device, other programs in memory and on disk
MODEST = {"device": 0.75, "host": 0.5, "disk": 0.9}


class Kept(ABC):
    """Rows of all elements, chunk by chunk. What is put for a chunk takes the place of what was put before."""

    @abstractmethod
    def put(self, chunk: Chunk, rows: Tensor) -> None:
        """Keeps rows (n, ...), one for each element of the chunk."""

    @abstractmethod
    def get(self, chunk: Chunk) -> Tensor:
        """What was put, on the device of the network."""


class OnDevice(Kept):
    """Keeps rows as they are."""

    def __init__(self) -> None:
        self._rows: dict[int, Tensor] = {}

    def put(self, chunk: Chunk, rows: Tensor) -> None:
        self._rows[chunk.number] = rows

    def get(self, chunk: Chunk) -> Tensor:
        return self._rows[chunk.number]


class OnHost(Kept):
    """Keeps rows in host memory, page-locked where the device is a GPU, which then copies without making anyone wait.

    Args:
        device: Where rows go back to.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows: dict[int, Tensor] = {}

    def put(self, chunk: Chunk, rows: Tensor) -> None:
        room = self._rows.get(chunk.number)
        if room is None or room.shape != rows.shape or room.dtype != rows.dtype:
            room = _host_rows(rows.shape, rows.dtype, self._device)
            self._rows[chunk.number] = room
        room.copy_(rows, non_blocking=True)  # and back on the same stream, so what is read has arrived

    def get(self, chunk: Chunk) -> Tensor:
        return self._rows[chunk.number].to(self._device, non_blocking=True, copy=True)  # `put` writes to the same memory


class OnDisk(Kept):
    """Keeps rows in a file that has no name: nothing is left of it, however the process ends.

    Args:
        folder: On which disk.
        device: Where rows go back to.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._folder, self._device = folder, device
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed, and so removed, with this object)
        weakref.finalize(self, self._file.close)
        self._like: Tensor | None = None  # (0, ...)

    def put(self, chunk: Chunk, rows: Tensor) -> None:
        if self._like is None:
            self._like = torch.empty(0, *rows.shape[1:], dtype=rows.dtype)
        assert (rows.shape[1:], rows.dtype) == (self._like.shape[1:], self._like.dtype), "longer rows would overlap"
        try:
            self._file.seek(chunk.start * self._row_bytes)
            self._file.write(_bytes_of(rows.detach().cpu().contiguous()))
            self._file.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(error.errno, f"the disk of {self._folder} is full. Free some room, or give another folder=.") from error

    def get(self, chunk: Chunk) -> Tensor:
        assert self._like is not None, "nothing was put"
        rows = _host_rows((chunk.num_elements, *self._like.shape[1:]), self._like.dtype, self._device)
        self._file.seek(chunk.start * self._row_bytes)
        count = self._file.readinto(_bytes_of(rows))
        assert count == rows.numel() * rows.element_size(), "fewer rows than were put"
        return rows.to(self._device)

    @property
    def _row_bytes(self) -> int:
        assert self._like is not None
        return math.prod(self._like.shape[1:]) * self._like.element_size()


@dataclass(frozen=True)
class Keeping:
    """What is kept, and where.

    Attributes:
        place: Where.
        every: Rows are kept at every n-th place where they could be; 0 for none.
        device: Of the network.
        folder: For files.
    """

    place: Place
    every: int
    device: torch.device
    folder: Path

    def make(self) -> Kept:
        """Room for the rows of all elements."""
        if self.place == "disk":
            return OnDisk(self.folder, self.device)
        return OnDevice() if self.place == "device" or self.device.type == "cpu" else OnHost(self.device)


def check_keep(keep: str) -> None:
    """Raises where `keep` is no place to keep rows at."""
    if keep not in get_args(Keep):
        raise ValueError(f"keep must be one of {', '.join(get_args(Keep))}; got {keep!r}.")


def decide(
    keep: Keep, *, num_bytes: int, count: int, always: int, device: torch.device, folder: str | os.PathLike[str] | None
) -> Keeping:
    """Where rows are kept, and how often.

    Args:
        keep: The user's wish. `auto` takes the first place where all fits: the device, host memory, disk. Where nothing holds
            all, it takes the roomiest place and keeps as much as fits.
        num_bytes: Of one row for each element.
        count: At how many places of the network rows could be kept.
        always: How often rows have to be kept in any case.
        device: Of the network.
        folder: For files; None for the system's folder of temporary files.
    """
    check_keep(keep)
    where = Path(tempfile.gettempdir() if folder is None else folder)
    if not where.is_dir():
        raise ValueError(f"folder must be an existing folder for files of activations, got {str(where)!r}.")
    places: list[Place] = ["device", "host", "disk"] if device.type == "cuda" else ["host", "disk"]
    room: dict[str, int]
    if keep in get_args(Place):
        room = {keep: free_bytes(keep, device, where)}
    else:
        room = {place: int(free_bytes(place, device, where) * MODEST[place]) for place in places}
    wanted = 0 if keep == "nothing" else count
    for place, free in room.items():
        if num_bytes * (wanted + always) <= free:
            return Keeping(place, 1 if wanted else 0, device, where)  # type: ignore[arg-type]
    place, free = max(room.items(), key=lambda item: item[1])
    fitting = free // num_bytes - always
    if fitting < 0 or (fitting == 0 and keep != "auto"):
        raise _no_room(keep, num_bytes * (always + 1 if wanted else always), room, where)
    if fitting == 0:
        warnings.warn(
            "there is no room to keep activations, so every pass begins at the elements and time grows with the square of the "
            f"depth. They take {_size(num_bytes)} at a time; {_rooms(room, where)}. Another disk can be given with folder=.",
            stacklevel=4,
        )
    return Keeping(place, math.ceil(wanted / fitting) if fitting else 0, device, where)  # type: ignore[arg-type]


def free_bytes(place: str, device: torch.device, folder: Path) -> int:
    """What is free there, as far as the system says."""
    if place == "disk":
        return shutil.disk_usage(folder).free
    if place == "device" and device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    return min(_free_memory(), _left_of_limit())


def _free_memory() -> int:
    """Host memory that programs can still get."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not Linux: half of what there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _left_of_limit(group: Path = Path("/sys/fs/cgroup")) -> int:
    """What the limit of a container leaves, or more than there can be where it has none."""
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no such limit, or "max"
        return 2**62


def _no_room(keep: Keep, num_bytes: int, room: dict[str, int], folder: Path) -> Exception:
    text = f"keep={keep!r} needs room for {_size(num_bytes)} of activations; {_rooms(room, folder)}."
    if keep == "disk":
        return OSError(errno.ENOSPC, f"{text} Give another folder=, or keep='nothing', which computes them again.")
    return MemoryError(f"{text} keep='disk' with a folder= on a larger disk takes less memory.")


def _rooms(room: dict[str, int], folder: Path) -> str:
    words = {"device": "on the device", "host": "in host memory", "disk": f"on the disk of {folder}"}
    return ", ".join(f"{_size(free)} may be used {words[place]}" for place, free in room.items())


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**29 else f"{num_bytes / 2**20:.1f} MiB"


def _host_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def _bytes_of(rows: Tensor) -> memoryview:
    """The memory of contiguous rows on the host."""
    return rows.flatten().view(torch.uint8).numpy().data
