"""How kernels walk over packed sets: tiles of rows of one set only, dealt to a fixed number of programs in consecutive runs.

A set of m rows has ceil(m / block) tiles, so ragged sets cost no padding beyond their last tile. Program p of P works on
tiles [p * per, (p + 1) * per) with per = ceil(K / P). What a program adds up over the tiles of one set goes to slot p + n: along
the tiles either p or n grows, so no two pairs share a slot, and the slots of a set are consecutive.

Letters: N sets, T rows in all sets, K tiles (at most T // block + N of them, known without a look at the sizes), P programs.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops.backend import is_interpreted

_MOST_SETS_AT_ONCE = 1024  # whose tiles are cut in one launch
INTERPRETED_PROGRAMS = 3  # few, so that tests see programs with several tiles, several sets, and a set over several programs


class Tiles(NamedTuple):
    """The tiles of a batch of packed sets."""

    offsets: Tensor  # (N + 1,) int64, of the rows
    first: Tensor  # (N + 1,) int32: the tiles of set n are first[n] .. first[n + 1] - 1
    set_of: Tensor  # (at most K,) int32: set of each tile; beyond the last tile, anything
    block: int  # rows of a tile

    @property
    def num_sets(self) -> int:
        return self.first.shape[0] - 1

    def share(self, programs: int, *, least: int = 1) -> int:
        """How many of these programs are worth launching: those with at least `least` tiles each, and always one.

        The others would only write zeros, which would have to be added up.
        """
        return max(min(programs, self.set_of.shape[0] // least), 1)


class SetStatistics(NamedTuple):
    """Statistics of sets as kernels left them, (4, S), and the rows of the tiles they walked by."""

    slots: Tensor
    rows: int


def cut_tiles(offsets: Tensor, num_rows: int, block: int) -> Tiles:
    """Cuts packed sets into tiles of at most `block` rows."""
    runs_kernels = offsets.device.type == "cuda" or is_interpreted()
    if runs_kernels and 0 < offsets.shape[0] - 1 <= _MOST_SETS_AT_ONCE:
        return _cut_in_one_launch(offsets, num_rows, block)
    return cut_tiles_reference(offsets, num_rows, block)


def cut_tiles_reference(offsets: Tensor, num_rows: int, block: int) -> Tiles:
    """The definition, for any number of sets: about ten launches on a GPU, which cost as much as a pass over small sets."""
    num_sets = offsets.shape[0] - 1
    first = torch.zeros_like(offsets, dtype=torch.int32)
    first[1:] = ((offsets.diff() + (block - 1)) // block).cumsum(0)
    numbers = torch.arange(capacity(num_rows, num_sets, block), device=offsets.device, dtype=torch.int32)
    set_of = torch.searchsorted(first[1:], numbers, right=True, out_int32=True).clamp_(max=max(num_sets - 1, 0))
    return Tiles(offsets, first, set_of, block)


def _cut_in_one_launch(offsets: Tensor, num_rows: int, block: int) -> Tiles:
    from orderless.ops._slots import cut_kernel

    num_sets = offsets.shape[0] - 1
    first = torch.empty_like(offsets, dtype=torch.int32)
    set_of = torch.empty(capacity(num_rows, num_sets, block), device=offsets.device, dtype=torch.int32)
    sets_at_once = max(1 << (num_sets - 1).bit_length(), 16)
    tiles_at_once = max(8192 // sets_at_once, 16)  # what a program compares with each other stays in its registers
    grid = (-(-set_of.shape[0] // tiles_at_once),)
    cut_kernel[grid](offsets, first, set_of, num_sets, set_of.shape[0], block, BLOCK_N=sets_at_once, BLOCK_K=tiles_at_once)
    return Tiles(offsets, first, set_of, block)


def capacity(num_rows: int, num_sets: int, block: int) -> int:
    """More tiles than these there cannot be."""
    return num_rows // block + num_sets


def num_programs(device: torch.device, per_processor: int) -> int:
    """How many programs share the tiles: so many per multiprocessor of the GPU."""
    if is_interpreted():
        return INTERPRETED_PROGRAMS
    return _num_processors(device.index or 0) * per_processor


@cache
def _num_processors(index: int) -> int:
    return torch.cuda.get_device_properties(index).multi_processor_count
