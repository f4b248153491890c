"""Farthest point sampling: the definition, and the kernel (`farthest_points/triton.py`) against it, to the last choice."""

import pytest
import torch
from batches import make_batch
from kernels import DEVICE

from orderless import ops
from orderless.ops.farthest_points.reference import farthest_points_reference

CUBE = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5])] * 3)  # its corners are equally far from the middle


def one_set(points):
    return points, torch.zeros(1, dtype=torch.int64), torch.tensor([len(points)])


def several(sizes, dtype=torch.float32, *, seed=0):
    """Points, starts and sizes of sets; behind all there is a row, which an empty set begins at."""
    batch = make_batch(sizes, 3, dtype=dtype, seed=seed)
    starts = torch.where(batch.sizes > 0, batch.offsets[:-1], batch.num_elements)
    return torch.nn.functional.pad(batch.x, (0, 0, 0, 1)).to(DEVICE), starts.to(DEVICE), batch.sizes.to(DEVICE)


def test_each_point_chosen_is_the_farthest_from_those_before_it():
    points, starts, sizes = one_set(torch.randn(200, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    chosen, num_different = ops.farthest_points(points, starts, sizes, 20, 0)
    (rows,) = chosen
    middle = (points.amin(0) + points.amax(0)) / 2
    assert rows[0] == (points - middle).norm(dim=1).argmax()
    for i in range(1, 20):
        assert rows[i] == torch.cdist(points, points[rows[:i]]).amin(1).argmax()
    assert num_different.tolist() == [20]


def test_points_are_repeated_where_there_are_too_few_and_counted_once():
    points, starts, sizes = one_set(torch.cat([CUBE, CUBE]))  # sixteen points, eight of them different
    chosen, num_different = ops.farthest_points(points, starts, sizes, 20, 0)
    assert num_different.tolist() == [8]
    assert len(points[chosen[0, :8]].unique(dim=0)) == 8
    assert (points[chosen[0, 8:]] == points[chosen[0, 8]]).all()


def test_room_that_is_known_changes_no_choice():
    points, starts, sizes = several([30, 4, 0, 1])
    free, roomy = (ops.farthest_points(points, starts, sizes, 8, room) for room in (0, 64))
    assert all(map(torch.equal, free, roomy))
    assert free[1].tolist() == [8, 4, 0, 1]


SIZES = {"one": [1], "odd": [37, 5, 64, 1], "empty": [0, 20, 0], "many": [3] * 40, "large": [1025, 300]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_kernel_makes_every_choice_of_the_definition(kernels, sizes, dtype):
    points, starts, sizes = several(sizes, dtype)
    with ops.backend.recording() as used:
        chosen, different = ops.farthest_points(points, starts, sizes, 12, 0)
    assert dict(used) == {("farthest_points", "triton"): 1}
    expected, how_many = farthest_points_reference(points, starts, sizes, 12, int(sizes.max()))
    assert chosen.tolist() == expected.tolist()
    assert different.tolist() == how_many.tolist()


@pytest.mark.parametrize("points", [CUBE, CUBE.repeat(2, 1), torch.zeros(9, 3), 0.1 * torch.ones(5, 3)], ids=range(4))
def test_the_kernel_breaks_ties_as_the_definition_does(kernels, points):
    given = [t.to(DEVICE) for t in one_set(points)]
    found = ops.farthest_points(*given, 10, 0)
    assert [t.tolist() for t in found] == [t.tolist() for t in farthest_points_reference(*given, 10, len(points))]


def test_points_on_a_grid_are_chosen_alike(kernels):
    """Rounded coordinates, as those of files are, are full of ties that a fused multiplication would decide otherwise."""
    points, starts, sizes = several([200, 100, 150])
    points = (points * 1000).round() / 1000
    found = ops.farthest_points(points, starts, sizes, 60, 256)
    assert [t.tolist() for t in found] == [t.tolist() for t in farthest_points_reference(points, starts, sizes, 60, 256)]


def test_no_sets_give_no_points(kernels):
    points, starts, sizes = several([])
    chosen, different = ops.farthest_points(points, starts, sizes, 4, 0)
    assert chosen.shape == (0, 4)
    assert different.shape == (0,)


def test_sets_too_large_for_a_program_take_the_definition(kernels, monkeypatch):
    from orderless.ops.farthest_points import triton

    monkeypatch.setattr(triton, "LARGEST", 16)
    points, starts, sizes = several([17])
    with ops.backend.recording() as used:
        ops.farthest_points(points, starts, sizes, 4, 0)
    assert dict(used) == {("farthest_points", "reference"): 1}
