"""Moving numbers between sets and their elements.

Sums over sets, and their twins, the gradients of what sets give to their elements, go by blocks: at most `_ROWS_OF_BLOCK` rows of
one set are added one after another, and what they add up to is added in float64. One running sum over a million rows loses
digits, and 2**24 ones plus one are 2**24 in float32.

Letters: N sets, T elements in all sets, K blocks.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from orderless.ops._shapes import Int

_ROWS_OF_BLOCK = 64


class Blocks(NamedTuple):
    """How the rows of sets are cut into blocks. Their number is known without looking at sizes; some are empty."""

    of_row: Int[Tensor, "T"]
    set_of: Int[Tensor, "K"]


def set_ids(offsets: Int[Tensor, "N_plus_1"], num_elements: int) -> Int[Tensor, "T"]:
    """The number of the set that each element belongs to."""
    return torch.repeat_interleave(offsets.diff(), output_size=num_elements)


def cut_into_blocks(offsets: Int[Tensor, "N_plus_1"], num_elements: int) -> Blocks:
    """Cuts sets into blocks without looking at their sizes: row t of set n is in block t // _ROWS_OF_BLOCK + n.

    That is computed block by block and not row by row: torch's compiler gets the division of row numbers wrong where it does not
    know how many rows there are, as after a mask.
    """
    num_sets = offsets.shape[0] - 1
    first = offsets[:-1] // _ROWS_OF_BLOCK + torch.arange(num_sets, device=offsets.device)  # (N,) block of each set
    # one more than can be needed, so that there are never fewer than two: tracing would take a single block for a special case
    num_blocks = num_elements // _ROWS_OF_BLOCK + num_sets + 1 if num_sets else 0
    blocks = torch.arange(num_blocks, device=offsets.device)
    set_of = torch.bucketize(blocks, first, right=True) - 1
    start = torch.maximum(offsets[:-1][set_of], (blocks - set_of) * _ROWS_OF_BLOCK)
    stop = torch.minimum(offsets[1:][set_of], (blocks - set_of + 1) * _ROWS_OF_BLOCK)
    return Blocks(torch.repeat_interleave((stop - start).clamp(min=0), output_size=num_elements), set_of)


def sum_sets(rows: Tensor, offsets: Int[Tensor, "N_plus_1"]) -> Tensor:
    """Adds up the rows (T, ...) of each set; an empty set gives zeros."""
    blocks = cut_into_blocks(offsets, rows.shape[0])
    return sum_blocks(rows, blocks, offsets.shape[0] - 1).to(rows.dtype)


def sum_blocks(rows: Tensor, blocks: Blocks, num_sets: int) -> Tensor:
    """The same for rows that were cut: (N, ...) in float64, where the device has it."""
    in_blocks = rows.new_zeros((blocks.set_of.shape[0], *rows.shape[1:])).index_add(0, blocks.of_row, rows)
    in_blocks = in_blocks.to(widest_dtype(rows.device))
    return in_blocks.new_zeros((num_sets, *rows.shape[1:])).index_add(0, blocks.set_of, in_blocks)


def broadcast_sets(
    per_set: Tensor, offsets: Int[Tensor, "N_plus_1"], num_elements: int, *, set_size: int | None = None
) -> Tensor:
    """Gives every element the value of its set: (N, ...) -> (T, ...).

    `set_size` is the caller's word that every set has this many elements, which makes it a view of a dense tensor.
    """
    if set_size is not None:
        # wide on the way, so that gradients are added up with all their digits
        wide = per_set.to(statistics_dtype(per_set.dtype)) if per_set.is_floating_point() else per_set
        return wide[:, None].expand(-1, set_size, *per_set.shape[1:]).to(per_set.dtype).flatten(0, 1)
    if not (per_set.is_floating_point() and per_set.requires_grad):  # there is no gradient to add up
        return per_set.index_select(0, set_ids(offsets, num_elements))
    return broadcast_blocks(per_set, cut_into_blocks(offsets, num_elements))


def broadcast_blocks(per_set: Tensor, blocks: Blocks) -> Tensor:
    """The same for rows that were cut: it goes by way of blocks, and so the gradient comes back."""
    in_blocks = per_set.to(widest_dtype(per_set.device)).index_select(0, blocks.set_of)
    return in_blocks.to(statistics_dtype(per_set.dtype)).index_select(0, blocks.of_row).to(per_set.dtype)


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32 at least: a bfloat16 sum over 1000 x 128 numbers has few digits left."""
    return torch.promote_types(dtype, torch.float32)


def widest_dtype(device: torch.device) -> torch.dtype:
    """What long sums are added up in."""
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
