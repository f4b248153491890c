"""Pure functions on tensors: `(x, offsets)` stands for N sets laid end to end, set `n` being `x[offsets[n]:offsets[n + 1]]`.

Each op has a folder: `reference.py` is its definition in plain PyTorch, `__init__.py` the call that picks the fastest way
that gives the same numbers.
"""

from orderless.ops._segments import broadcast_sets, statistics_dtype
from orderless.ops.attention import dense_key_attention, dense_query_attention, packed_attention
from orderless.ops.reduce import set_max, set_mean, set_sum
from orderless.ops.set_norm import set_norm

__all__ = [
    "broadcast_sets",
    "dense_key_attention",
    "dense_query_attention",
    "packed_attention",
    "set_max",
    "set_mean",
    "set_norm",
    "set_sum",
    "statistics_dtype",
]
