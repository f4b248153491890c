"""Moving numbers between sets and their elements.

Letters: N sets, T elements in all sets.
"""

import torch
from torch import Tensor

from orderless.ops._shapes import Int


def set_ids(offsets: Int[Tensor, "N_plus_1"], num_elements: int) -> Int[Tensor, "T"]:
    """The number of the set that each element belongs to."""
    return torch.repeat_interleave(offsets.diff(), output_size=num_elements)


def sum_rows(rows: Tensor, ids: Int[Tensor, "T"], num_sets: int) -> Tensor:
    """Adds up the rows (T, ...) of each set; an empty set gives zeros."""
    return rows.new_zeros((num_sets, *rows.shape[1:])).index_add(0, ids, rows)


def broadcast_sets(per_set: Tensor, offsets: Int[Tensor, "N_plus_1"], num_elements: int) -> Tensor:
    """Gives every element the value of its set: (N, ...) -> (T, ...)."""
    return per_set.index_select(0, set_ids(offsets, num_elements))


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """float32 at least: a bfloat16 sum over 1000 x 128 numbers has few digits left."""
    return torch.promote_types(dtype, torch.float32)
