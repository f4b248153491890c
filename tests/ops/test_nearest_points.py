"""The nearest points to given places: the definition, the kernel (`triton.py`) held to it, and what ops on points share."""

import pytest
import torch
from batches import make_batch
from kernels import DEVICE

from orderless import ops
from orderless.ops._points import room_for, spread_out, squared_length
from orderless.ops.nearest_points import reference
from orderless.ops.nearest_points.reference import nearest_points_reference

CUBE = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5])] * 3)  # its corners are equally far from the middle


def one_set(points):
    return points, torch.zeros(1, dtype=torch.int64), torch.tensor([len(points)])


def test_neighbours_are_the_nearest_first_and_ties_go_to_the_earlier_row():
    points, starts, sizes = one_set(torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    rows, squared = ops.nearest_points(points, starts, sizes, points[None, :3], 10, 0)
    distances = torch.cdist(points[:3], points, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(rows[0], distances.argsort(1)[:, :10])
    torch.testing.assert_close(squared[0], distances.sort(1).values[:, :10].square().float())
    corners, starts, sizes = one_set(CUBE)
    rows, squared = ops.nearest_points(corners, starts, sizes, torch.zeros(1, 1, 3), 5, 0)
    assert rows.flatten().tolist() == [0, 1, 2, 3, 4]
    assert squared.unique().tolist() == [0.75]


def test_many_distances_are_taken_in_parts(monkeypatch):
    points, starts, sizes = one_set(torch.randn(30, 3))
    whole = ops.nearest_points(points, starts, sizes, points[None], 4, 0)
    monkeypatch.setattr(reference, "_DISTANCES_AT_ONCE", 100)
    assert all(map(torch.equal, ops.nearest_points(points, starts, sizes, points[None], 4, 0), whole))


def test_room_that_is_known_changes_no_neighbour():
    batch = make_batch([30, 4, 0, 1], 3)
    points, starts, sizes = torch.nn.functional.pad(batch.x, (0, 0, 0, 1)), batch.offsets[:-1], batch.sizes
    centres = points[starts[:, None] + torch.zeros(4, 5, dtype=torch.int64)]
    free, roomy = (ops.nearest_points(points, starts, sizes, centres, 6, room) for room in (0, 64))
    assert all(map(torch.equal, free, roomy))
    assert free[1].isfinite().sum(2).unique(dim=1).flatten().tolist() == [6, 4, 0, 1]


def test_places_without_a_point_lead_to_the_first_row():
    where, real = spread_out(torch.tensor([0, 3]), torch.tensor([3, 1]), room_for(torch.tensor([3, 1]), 0))
    assert where.tolist() == [[0, 1, 2], [3, 3, 3]]
    assert real.tolist() == [[True] * 3, [True, False, False]]
    assert room_for(torch.tensor([], dtype=torch.int64), 0) == 1
    assert squared_length(torch.tensor([1.0, 2.0, 2.0])) == 9


def around(sizes, *, num_centres, dtype=torch.float32):
    """Points, starts and sizes of sets, and centres of each that need not be among its points."""
    batch = make_batch(sizes, 3, dtype=dtype)
    starts = torch.where(batch.sizes > 0, batch.offsets[:-1], batch.num_elements)
    centres = make_batch([num_centres] * len(sizes), 3, dtype=dtype, seed=1).x.reshape(len(sizes), num_centres, 3)
    points = torch.nn.functional.pad(batch.x, (0, 0, 0, 1))
    return tuple(t.to(DEVICE) for t in (points, starts, batch.sizes, centres))


SIZES = {"one": [1], "odd": [37, 5, 64, 1], "empty": [0, 20, 0], "many": [3] * 40, "large": [1025, 300]}


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_kernel_finds_every_neighbour_of_the_definition(kernels, sizes, dtype, count):
    given = around(sizes, num_centres=5, dtype=dtype)
    with ops.backend.recording() as used:
        found = ops.nearest_points(*given, count, 0)
    assert dict(used) == {("nearest_points", "triton"): 1}
    assert_alike(found, nearest_points_reference(*given, count, max(sizes)))


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


def test_the_kernel_gives_ties_to_the_earlier_row(kernels):
    points, starts, sizes = (t.to(DEVICE) for t in one_set(CUBE.repeat(2, 1)))
    centres = torch.tensor([[[0.0, 0, 0], [0.5, 0, 0]]], device=DEVICE)
    assert_alike(
        ops.nearest_points(points, starts, sizes, centres, 9, 0),
        nearest_points_reference(points, starts, sizes, centres, 9, len(points)),
    )


def test_points_on_a_grid_have_the_same_neighbours(kernels):
    """Rounded coordinates, as those of files are, are full of ties that a fused multiplication would decide otherwise."""
    points, starts, sizes, centres = around([200, 100], num_centres=9)
    given = (points * 1000).round() / 1000, starts, sizes, (centres * 1000).round() / 1000
    assert_alike(ops.nearest_points(*given, 32, 256), nearest_points_reference(*given, 32, 256))


def test_more_neighbours_than_points_and_points_that_are_no_numbers(kernels):
    points, starts, sizes, centres = around([6, 9], num_centres=2)
    points[1], points[8] = torch.inf, torch.nan
    rows, squared = found = ops.nearest_points(points, starts, sizes, centres, 20, 0)
    assert_alike(found, nearest_points_reference(points, starts, sizes, centres, 20, 9))
    assert squared.isfinite().sum(2).tolist() == [[5, 5], [8, 8]]
    assert (rows[squared.isinf()] == starts[:, None, None].expand_as(rows)[squared.isinf()]).all()


@pytest.mark.parametrize(("sizes", "num_centres"), [([], 3), ([4, 2], 0)], ids=["no sets", "no centres"])
def test_nothing_to_look_for_gives_nothing(kernels, sizes, num_centres):
    rows, squared = ops.nearest_points(*around(sizes, num_centres=num_centres), 4, 0)
    assert rows.shape == squared.shape == (len(sizes), num_centres, 4)


@pytest.mark.parametrize(("size", "count"), [(17, 4), (10, 17)], ids=["points", "neighbours"])
def test_more_than_a_program_can_sort_takes_the_definition(kernels, monkeypatch, size, count):
    from orderless.ops.nearest_points import triton

    monkeypatch.setattr(triton, "LARGEST", 16)
    with ops.backend.recording() as used:
        ops.nearest_points(*around([size], num_centres=2), count, 0)
    assert dict(used) == {("nearest_points", "reference"): 1}
