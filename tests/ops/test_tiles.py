"""How kernels walk over packed sets: every row in one tile of its own set, and no two programs in one slot."""

import random

import pytest
import torch
from kernels import DEVICE

from orderless.ops import _tiles
from orderless.ops._tiles import capacity, cut_tiles, cut_tiles_reference, num_programs

SIZES = {
    "ragged": [3, 1, 17, 16, 0, 33],
    "exactly full": [16, 32, 16],
    "empty at both ends": [0, 0, 5, 0],
    "one set": [100],
    "all empty": [0, 0, 0],
    "no sets": [],
    "many": [random.Random(1).choice([0, 1, 2, 15, 16, 17, 40]) for _ in range(200)],
}
ALL_SIZES = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())


def offsets_of(sizes):
    return torch.tensor([0, *sizes], device=DEVICE).cumsum(0)


@ALL_SIZES
@pytest.mark.parametrize("block", [1, 16, 64])
def test_one_launch_cuts_the_tiles_of_the_definition(sizes, block):
    found, expected = (cut(offsets_of(sizes), sum(sizes), block) for cut in (cut_tiles, cut_tiles_reference))
    assert [a.dtype for a in found[:3]] == [a.dtype for a in expected[:3]]
    assert all(torch.equal(mine, its) for mine, its in zip(found[:3], expected[:3], strict=True))
    assert found.block == expected.block


@pytest.mark.parametrize("num_sets", [1023, 1024, 1025])
def test_many_sets_are_cut_as_few_are(num_sets):
    sizes = [n % 5 for n in range(num_sets)]
    found, expected = (cut(offsets_of(sizes), sum(sizes), 2) for cut in (cut_tiles, cut_tiles_reference))
    assert torch.equal(found.first, expected.first)
    assert torch.equal(found.set_of, expected.set_of)


@ALL_SIZES
def test_tiles_have_every_row_once_and_rows_of_one_set_only(sizes):
    tiles = cut_tiles(offsets_of(sizes), sum(sizes), 16)
    expected = [n for n, size in enumerate(sizes) for _ in range(-(-size // 16))]  # the set of each tile, in order
    num_tiles = int(tiles.first[-1])
    assert num_tiles == len(expected)
    assert tiles.set_of[:num_tiles].tolist() == expected
    assert [tiles.first[n].item() for n in range(len(sizes))] == [sum(e < n for e in expected) for n in range(len(sizes))]
    assert tiles.num_sets == len(sizes)
    assert tiles.first.dtype == tiles.set_of.dtype == torch.int32


@ALL_SIZES
@pytest.mark.parametrize("block", [1, 16, 64])
def test_there_is_room_for_every_tile_and_its_number_is_a_set(sizes, block):
    tiles = cut_tiles(offsets_of(sizes), sum(sizes), block)
    assert int(tiles.first[-1]) <= len(tiles.set_of) == capacity(sum(sizes), len(sizes), block)
    assert tiles.block == block
    assert ((tiles.set_of >= 0) & (tiles.set_of < max(len(sizes), 1))).all()


@ALL_SIZES
@pytest.mark.parametrize("programs", [1, 3, 7, 300])
def test_no_two_programs_leave_anything_in_one_slot_and_those_of_a_set_are_consecutive(sizes, programs):
    """What the docstring of `_tiles.py` promises of slot p + n: it is what the kernels rest on."""
    tiles = cut_tiles(offsets_of(sizes), sum(sizes), 16)
    num_tiles = int(tiles.first[-1])
    per = -(-num_tiles // programs)
    pairs = dict.fromkeys((k // per, int(tiles.set_of[k])) for k in range(num_tiles))  # program and set, without repetition
    slots = [p + n for p, n in pairs]
    assert len(set(slots)) == len(slots)
    assert all(0 <= slot < programs + len(sizes) for slot in slots)
    for n in range(len(sizes)):
        mine = [p + m for p, m in pairs if m == n]
        assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else sizes[n] == 0


def test_programs_without_tiles_are_not_launched():
    tiles = cut_tiles(offsets_of([100, 1]), 101, 16)  # 8 tiles, and room for as many
    assert [tiles.share(programs) for programs in (3, 8, 132)] == [3, 8, 8]
    assert [tiles.share(programs, least=3) for programs in (1, 2, 132)] == [1, 2, 2]
    assert cut_tiles(offsets_of([0]), 0, 16).share(132, least=3) == 1  # a grid of none is an error


def test_the_interpreter_has_few_programs_and_a_gpu_some_for_each_processor(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert num_programs(torch.device("cpu"), 8) == _tiles.INTERPRETED_PROGRAMS
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(_tiles, "_num_processors", lambda index: 132 + index)
    assert num_programs(torch.device("cuda"), 8) == 8 * 132
    assert num_programs(torch.device("cuda:1"), 2) == 2 * 133
