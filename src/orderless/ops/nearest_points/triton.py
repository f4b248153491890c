"""The nearest points in Triton: one program a centre, which sorts the distances to all points of its set without writing them.

Letters: N sets, R rows of points, M points in the largest set, C centres, K neighbours.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from orderless.ops._launch import on_device_of

LARGEST = 4096  # points of a set, and neighbours, that a program can sort
_KEYS_OF_A_WARP = 256


def nearest_points_triton(
    points: Tensor, starts: Tensor, sizes: Tensor, centres: Tensor, count: int, room: int
) -> tuple[Tensor, Tensor]:
    """`nearest_points_reference` by a kernel, for sets of up to `LARGEST` points in float32 or less."""
    points, starts, sizes, centres = (t.contiguous() for t in (points, starts, sizes, centres))
    num_sets, num_centres, _ = centres.shape
    rows = starts.new_empty(num_sets, num_centres, count)
    squared = torch.empty(rows.shape, device=points.device)
    kept = max(triton.next_power_of_2(count), 2)  # the fewest that Triton sorts
    block = max(triton.next_power_of_2(room), kept)
    if rows.numel():
        with on_device_of(points):
            _nearest_kernel[(num_sets * num_centres,)](
                points, starts, sizes, centres, rows, squared, num_centres, count, BLOCK=block, KEPT=kept,
                num_warps=min(max(block // _KEYS_OF_A_WARP, 1), 16),
                enable_fp_fusion=False,  # rounded as PyTorch does: another rounding may choose another point
            )  # fmt: skip
    return rows, squared


@triton.jit
def _nearest_kernel(
    points_ptr,  # (R, 3)
    starts_ptr, sizes_ptr,  # (N,)
    centres_ptr,  # (N, C, 3)
    rows_ptr, squared_ptr,  # (N, C, K) out
    C, K,
    BLOCK: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    centre = tl.program_id(0).to(tl.int64)
    n = centre // C
    start, size = tl.load(starts_ptr + n), tl.load(sizes_ptr + n)
    columns = tl.arange(0, BLOCK)
    real = columns < size
    row = points_ptr + 3 * (start + columns)
    at = centres_ptr + 3 * centre
    dx = tl.load(row, real, 0.0).to(tl.float32) - tl.load(at).to(tl.float32)
    dy = tl.load(row + 1, real, 0.0).to(tl.float32) - tl.load(at + 1).to(tl.float32)
    dz = tl.load(row + 2, real, 0.0).to(tl.float32) - tl.load(at + 2).to(tl.float32)
    distance = (dx * dx + dy * dy) + dz * dz
    distance = tl.where(real & (distance < float("inf")), distance, float("inf"))  # what is NaN is no neighbour
    # one whole number to sort by, as in the definition; its bits are turned over, since the largest are what can be asked for
    key = (distance.to(tl.int32, bitcast=True).to(tl.int64) << 32) + columns
    key = ~tl.topk(~key, KEPT)
    nearest = (key >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    column = tl.where(nearest < float("inf"), key & 0xFFFFFFFF, 0)
    places = tl.arange(0, KEPT)
    tl.store(rows_ptr + centre * K + places, start + column, places < K)
    tl.store(squared_ptr + centre * K + places, nearest, places < K)
