"""What kernels share (`_slots.py`), each piece by a kernel that does nothing else."""
# ruff: noqa: N803

import pytest
import torch
import triton
import triton.language as tl
from kernels import DEVICE

from orderless.ops._slots import (
    add_parts_kernel,
    add_rows,
    merged_statistics,
    merged_sums,
    my_sets,
    my_slot,
    nearest,
    size_of_set,
    slots_of_set,
    store_statistics,
    tile_at,
    tiles_of_set,
)
from orderless.ops._tiles import cut_tiles

SIZES = {
    "ragged": [3, 0, 1, 17, 16, 0, 33, 2],
    "one set over all programs": [5 * 16],
    "more sets than programs": [1] * 9,
    "all empty": [0, 0],
}
ALL_SIZES = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
ROWS = 16


def tiles_of(sizes):
    return cut_tiles(torch.tensor([0, *sizes], device=DEVICE).cumsum(0), sum(sizes), ROWS)


@triton.jit
def _walk(offsets_ptr, first_ptr, set_of_ptr, N, seen_ptr, slots_ptr, sizes_ptr, M: tl.constexpr):
    start, stop, first_set, last_set = my_sets(first_ptr, set_of_ptr, N)
    for n in range(first_set, last_set):
        tl.store(sizes_ptr + n, size_of_set(n, offsets_ptr))
        begin, end, origin, end_row = tiles_of_set(n, start, stop, first_ptr, offsets_ptr, M)
        for k in range(begin, end):
            row, rows = tile_at(k, origin, end_row, M)
            inside = tl.arange(0, M) < rows
            at = seen_ptr + row + tl.arange(0, M)
            tl.store(at, tl.load(at, inside, 0) + 1 + n, inside)
        if begin < end:
            tl.store(slots_ptr + my_slot(n), n)


@triton.jit
def _list_slots(first_ptr, N, S, ranges_ptr):
    n = tl.program_id(0)
    begin, end = slots_of_set(n, first_ptr, N, S)
    tl.store(ranges_ptr + 2 * n, begin)
    tl.store(ranges_ptr + 2 * n + 1, end)


@ALL_SIZES
@pytest.mark.parametrize("programs", [1, 3, 50])
def test_programs_walk_over_every_row_once_and_a_sets_slots_are_found_again(sizes, programs):
    tiles, slots = tiles_of(sizes), programs + len(sizes)
    seen, used, found_sizes = (torch.full((n,), v, device=DEVICE) for n, v in ((sum(sizes), 0), (slots, -1), (len(sizes), -1)))
    _walk[(programs,)](tiles.offsets, tiles.first, tiles.set_of, len(sizes), seen, used, found_sizes, M=ROWS)
    assert seen.tolist() == [1 + n for n, size in enumerate(sizes) for _ in range(size)]
    assert all(found == size for found, size in zip(found_sizes.tolist(), sizes, strict=True) if size)
    if sum(sizes) == 0:
        assert (used == -1).all()
        return  # and nobody asks for slots
    ranges = torch.zeros(len(sizes), 2, dtype=torch.int64, device=DEVICE)
    _list_slots[(len(sizes),)](tiles.first, len(sizes), slots, ranges)
    for n, (begin, end) in enumerate(ranges.tolist()):
        assert list(range(begin, end)) == (used == n).nonzero().flatten().tolist()


@triton.jit
def _merge(stats_ptr, sums_ptr, S, first_ptr, N, eps, out_ptr):
    n = tl.program_id(0)
    near, rest, rstd = merged_statistics(stats_ptr, S, n, first_ptr, N, eps)
    total, along = merged_sums(sums_ptr, S, n, first_ptr, N)
    out = out_ptr + n * 5
    tl.store(out, near)
    tl.store(out + 1, rest)
    tl.store(out + 2, rstd)
    tl.store(out + 3, total)
    tl.store(out + 4, along)


@pytest.mark.parametrize("programs", [3, 31, 32, 33, 70], ids=lambda p: f"{p} programs")
def test_slots_of_a_set_are_merged_into_its_statistics_however_many_there_are(programs):
    sizes = [40, 0, ROWS * programs - 80, 5]  # the third is over most programs
    sizes[2] = max(sizes[2], 3)
    tiles, slots, eps = tiles_of(sizes), programs + len(sizes), 0.1
    num_tiles = int(tiles.first[-1])
    per = -(-num_tiles // programs)
    pairs = list(dict.fromkeys((k // per, int(tiles.set_of[k])) for k in range(num_tiles)))
    generator = torch.Generator().manual_seed(0)
    parts = {pair: 1e4 + torch.randn(7, generator=generator) for pair in pairs}  # numbers that a program has seen of a set
    stats, sums = torch.full((4, slots), torch.nan), torch.full((2, slots), torch.nan)
    for (p, n), part in parts.items():
        near, exact = part[0], part.double()
        statistics = [7, near, exact.mean() - near, (exact - exact.mean()).square().sum()]
        stats[:, p + n] = torch.tensor(statistics)
        sums[:, p + n] = torch.stack([part.sum(), part.square().sum()])
    out = torch.full((len(sizes), 5), torch.nan, device=DEVICE)
    _merge[(len(sizes),)](stats.to(DEVICE), sums.to(DEVICE), slots, tiles.first, len(sizes), eps, out)
    for n, size in enumerate(sizes):
        near, rest, rstd, total, along = out[n].double().tolist()
        if size == 0:
            assert (near, rest, total, along) == (0, 0, 0, 0)
            assert rstd == pytest.approx(eps**-0.5)
            continue
        mine = torch.cat([part for (_, m), part in parts.items() if m == n]).double()
        # float32 roundings of numbers around 1: the offset of 1e4 is in `near`
        assert near + rest == pytest.approx(mine.mean().item(), abs=4e-7)
        assert rstd == pytest.approx((mine.var(unbiased=False) + eps).rsqrt().item(), rel=2e-6)
        assert total == pytest.approx(mine.sum().item(), rel=1e-6)
        assert along == pytest.approx(mine.square().sum().item(), rel=1e-6)


@triton.jit
def _gather(x_ptr, near, rows, stats_ptr, S, n, D: tl.constexpr, BLOCK_D: tl.constexpr, M: tl.constexpr):
    cols = tl.arange(0, BLOCK_D)
    seen, mean, squares = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
    for start in range(0, rows, M):
        inside = start + tl.arange(0, M) < rows
        at = (start + tl.arange(0, M))[:, None] * D + cols[None, :]
        x = tl.load(x_ptr + at, inside[:, None] & (cols < D)[None, :], 0.0)
        seen, mean, squares = add_rows(seen, mean, squares, x - near, inside, cols < D, D)
    store_statistics(stats_ptr, S, n, near, seen, mean, squares, D)


@pytest.mark.parametrize("rows", [1, 15, 16, 40])
def test_rows_are_gathered_into_count_mean_and_squared_deviations(rows):
    width, slots, n = 5, 4, 2
    x = (1e4 + torch.randn(rows, width)).to(DEVICE)
    stats = torch.full((4, slots), torch.nan, device=DEVICE)
    near = x[0, 0].item()
    _gather[(1,)](x, near, rows, stats, slots, n, D=width, BLOCK_D=8, M=ROWS)
    count, found_near, rest, squares = stats[:, n].double().tolist()
    exact = x.double()
    assert (count, found_near) == (rows * width, near)
    assert near + rest == pytest.approx(exact.mean().item(), abs=4e-7)  # float32 roundings of numbers around 1
    assert squares == pytest.approx((exact - exact.mean()).square().sum().item(), rel=2e-6)
    assert stats[:, [0, 1, 3]].isnan().all()


@pytest.mark.parametrize(("programs", "numbers"), [(1, 1), (3, 33), (64, 32), (130, 100)])
def test_shares_of_all_programs_are_added_up(programs, numbers):
    parts = torch.randn(programs, numbers, device=DEVICE)
    out = torch.full((numbers + 7,), torch.nan, device=DEVICE)
    add_parts_kernel[(triton.cdiv(numbers, 32),)](parts, out, programs, numbers, BLOCK_P=64, BLOCK_Q=32)
    torch.testing.assert_close(out[:numbers], parts.double().sum(0).float(), rtol=1e-6, atol=1e-5)  # of sums of up to 130 numbers
    assert out[numbers:].isnan().all()


@triton.jit
def _round(x_ptr, y_ptr, PRECISION: tl.constexpr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, nearest(tl.load(x_ptr + at), PRECISION))


def test_numbers_for_tf32_are_rounded_to_the_nearest_not_cut():
    digits = 2.0**-10  # of a TF32 number between 1 and 2
    numbers = [1.0, 1 + 0.4 * digits, 1 + 0.6 * digits, -1 - 0.6 * digits, 3e38, 0.0, torch.inf, torch.nan]
    x = torch.tensor(numbers, device=DEVICE)
    y = torch.empty_like(x)
    _round[(1,)](x, y, PRECISION="tf32", SIZE=len(numbers))
    near = [1.0, 1.0, 1 + digits, -1 - digits]
    torch.testing.assert_close(y[:4].cpu(), torch.tensor(near), rtol=0, atol=0)
    assert y[4].item() == pytest.approx(3e38, rel=digits / 2)
    assert (y[5].item(), y[6].item()) == (0, torch.inf)
    assert y[7].isnan()
    _round[(1,)](x, y, PRECISION="ieee", SIZE=len(numbers))
    torch.testing.assert_close(y, x, rtol=0, atol=0, equal_nan=True)
