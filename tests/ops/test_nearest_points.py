"""The nearest points of a set to given places (`nearest_points/reference.py`), and what it shares (`_points.py`)."""

import torch
from batches import make_batch

from orderless import ops
from orderless.ops._points import room_for, spread_out, squared_length
from orderless.ops.nearest_points import reference

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
