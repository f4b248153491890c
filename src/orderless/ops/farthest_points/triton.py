"""Farthest point sampling in Triton: one program a set, whose points and distances stay in registers through all choices.

Letters: N sets, R rows of points, M points in the largest set, C points chosen.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops._launch import on_device_of

LARGEST = 8192  # points of a set that a program can hold
_POINTS_OF_A_WARP = 256


def farthest_points_triton(points: Tensor, starts: Tensor, sizes: Tensor, count: int, room: int) -> tuple[Tensor, Tensor]:
    """`farthest_points_reference` by a kernel, for sets of up to `LARGEST` points in float32 or less."""
    points, starts, sizes = (t.contiguous() for t in (points, starts, sizes))
    chosen, different = starts.new_empty(len(starts), count), torch.empty_like(sizes)
    block = triton.next_power_of_2(room)
    if len(starts):
        with on_device_of(points):
            _farthest_kernel[(len(starts),)](
                points, starts, sizes, chosen, different, count, BLOCK=block,
                num_warps=min(max(block // _POINTS_OF_A_WARP, 1), 16),
                enable_fp_fusion=False,  # rounded as PyTorch does: another rounding may choose another point
            )  # fmt: skip
    return chosen, different


@triton.jit
def _farthest_kernel(
    points_ptr,  # (R, 3)
    starts_ptr, sizes_ptr,  # (N,)
    chosen_ptr,  # (N, C) out
    different_ptr,  # (N,) out
    C,
    BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    start, size = tl.load(starts_ptr + n), tl.load(sizes_ptr + n)
    places = tl.arange(0, BLOCK)
    real = places < size
    row = points_ptr + 3 * (start + places)
    x = tl.load(row, real, 0.0).to(tl.float32)
    y = tl.load(row + 1, real, 0.0).to(tl.float32)
    z = tl.load(row + 2, real, 0.0).to(tl.float32)
    dx, dy, dz = x - _middle(x, real), y - _middle(y, real), z - _middle(z, real)
    apart = tl.where(real, (dx * dx + dy * dy) + dz * dz, -1.0)
    _, place = tl.max(apart, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(chosen_ptr + n * C, start + place)
    different = (size > 0).to(tl.int64)
    apart = tl.where(real, float("inf"), -1.0)
    for c in range(1, C):
        at = points_ptr + 3 * (start + place)  # there is a row even in an empty set
        dx, dy, dz = x - tl.load(at).to(tl.float32), y - tl.load(at + 1).to(tl.float32), z - tl.load(at + 2).to(tl.float32)
        apart = tl.minimum(apart, (dx * dx + dy * dy) + dz * dz)
        gap, place = tl.max(apart, 0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(chosen_ptr + n * C + c, start + place)
        different += (gap > 0).to(tl.int64)
    tl.store(different_ptr + n, different)


@triton.jit
def _middle(x, real):
    """Between the smallest and the largest; 0 if there is none, without an infinity on the way."""
    return (tl.min(tl.where(real, x, 3.4e38), 0) + tl.max(tl.where(real, x, -3.4e38), 0)) / 2
