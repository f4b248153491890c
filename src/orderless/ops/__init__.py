"""Pure functions on tensors: `(x, offsets)` stands for N sets laid end to end, set `n` being `x[offsets[n]:offsets[n + 1]]`.

Each op has a folder: `reference.py` is its definition in plain PyTorch, `triton.py` its kernels for a GPU where it has some,
`__init__.py` the call that picks the fastest way that gives the same numbers. `backend.py` says which, and why.
"""

from orderless.ops import backend
from orderless.ops._segments import broadcast_sets, statistics_dtype, widest_dtype
from orderless.ops.attention import dense_key_attention, dense_query_attention, packed_attention
from orderless.ops.clean_blocks import clean_blocks, clean_blocks_obstacle
from orderless.ops.farthest_points import farthest_points
from orderless.ops.induced_blocks import (
    InducedParameters,
    fold_queries,
    induced_blocks,
    induced_blocks_obstacle,
    norm_attention_pool,
)
from orderless.ops.nearest_points import nearest_points
from orderless.ops.norm_relu_pool import norm_relu_pool
from orderless.ops.reduce import set_max, set_mean, set_sum
from orderless.ops.set_norm import set_norm

__all__ = [
    "InducedParameters",
    "backend",
    "broadcast_sets",
    "clean_blocks",
    "clean_blocks_obstacle",
    "dense_key_attention",
    "dense_query_attention",
    "farthest_points",
    "fold_queries",
    "induced_blocks",
    "induced_blocks_obstacle",
    "nearest_points",
    "norm_attention_pool",
    "norm_relu_pool",
    "packed_attention",
    "set_max",
    "set_mean",
    "set_norm",
    "set_sum",
    "statistics_dtype",
    "widest_dtype",
]
