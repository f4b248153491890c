"""Shapes: the same numbers every time, uniform by area, and neither too easy nor too hard to tell apart."""

import numpy as np
import pytest
from scipy import stats

from orderless.tasks.sources.shapes import (
    OBJECTS_PER_BLOCK,
    SHAPE_NAMES,
    Boxes,
    Disc,
    Frustum,
    Triangle,
    Tube,
    Zone,
    make_shapes,
    sample_surface,
)

POINTS = 20_000


def all_shapes(num_objects, **options):
    points, classes = zip(*make_shapes(num_objects, **options), strict=True)
    return np.concatenate(points), np.concatenate(classes)


def draw(*parts, stretch=(1.0, 1.0, 1.0), num_points=POINTS):
    return sample_surface(np.random.default_rng(5), parts, np.array([stretch]), num_points)[0]


def is_uniform(cells, areas):
    """Pearson's chi-square of counts against areas; a right sampler fails one time in 10,000, and the seed is fixed."""
    counts = np.bincount(cells, minlength=len(areas))
    expected = counts.sum() * np.asarray(areas) / np.sum(areas)
    assert expected.min() > 5, "chi-square needs some counts in every cell"
    return ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-4, len(areas) - 1)


def bins(values, low, high, count):
    return np.clip(((values - low) / (high - low) * count).astype(int), 0, count - 1)


def azimuth(points, count):
    return bins(np.arctan2(points[:, 1], points[:, 0]), -np.pi, np.pi, count)


def ones(*values):
    return [np.array([float(value)]) for value in values]


# ------------------------------------------------------------------------------------------------- what is yielded


def test_the_same_arguments_give_the_same_objects():
    first, second = all_shapes(40, num_points=50, seed=3), all_shapes(40, num_points=50, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_an_object_does_not_depend_on_how_many_there_are():
    many = all_shapes(OBJECTS_PER_BLOCK + 30, num_points=20)
    few = all_shapes(OBJECTS_PER_BLOCK + 3, num_points=20)
    for a, b in zip(many, few, strict=True):
        np.testing.assert_array_equal(a[: len(b)], b)
        assert len(b) == OBJECTS_PER_BLOCK + 3


def test_the_number_of_points_changes_no_class():
    np.testing.assert_array_equal(all_shapes(200, num_points=5)[1], all_shapes(200, num_points=17)[1])


def test_splits_seeds_and_blocks_differ():
    train, test, other = (all_shapes(50, num_points=30, **o)[0] for o in ({}, {"split": "test"}, {"seed": 1}))
    assert not np.isclose(train, test).all((1, 2)).any()
    assert not np.isclose(train, other).all((1, 2)).any()
    blocks = [points for points, _ in make_shapes(2 * OBJECTS_PER_BLOCK, num_points=10)]
    assert not np.isclose(*blocks).all((1, 2)).any()


def test_points_are_finite_centred_and_inside_the_unit_sphere():
    points, classes = all_shapes(OBJECTS_PER_BLOCK, num_points=100)
    assert points.dtype == np.float32
    assert classes.dtype == np.int64
    assert points.shape == (OBJECTS_PER_BLOCK, 100, 3)
    radius = np.linalg.norm(points.astype(np.float64), axis=2)
    assert np.isfinite(points).all()
    assert radius.max() <= 1.0
    np.testing.assert_allclose(radius.max(1), 1.0, atol=1e-5)  # the margin is 1e-6, float32 rounds at 6e-8
    np.testing.assert_allclose(points.mean(1), 0.0, atol=1e-6)


def test_classes_occur_equally_often():
    _, classes = all_shapes(4 * OBJECTS_PER_BLOCK, num_points=1)
    assert len(SHAPE_NAMES) == len(set(SHAPE_NAMES)) >= 12
    assert is_uniform(classes, np.ones(len(SHAPE_NAMES)))


def test_a_cloud_of_one_point_is_at_the_centre():
    np.testing.assert_array_equal(all_shapes(3, num_points=1)[0], np.zeros((3, 1, 3)))


def test_no_objects_are_no_blocks():
    assert list(make_shapes(0)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_objects": -1}, "num_objects must be 0 or more; got -1"),
        ({"num_objects": 1, "num_points": 0}, "num_points must be 1 or more; got 0"),
        ({"num_objects": 1, "seed": -2}, "seed must be 0 or more; got -2"),
        ({"num_objects": 1, "split": "valid"}, "split must be one of train, test; got 'valid'"),
    ],
    ids=["objects", "points", "seed", "split"],
)
def test_bad_arguments_are_refused_before_anything_is_drawn(options, message):
    with pytest.raises(ValueError, match=message):
        make_shapes(**options)


# ------------------------------------------------------------------------------------------------ uniform by area


def test_a_sphere_is_uniform():
    points = draw(Zone(*ones(2, 0)))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 2.0)
    assert is_uniform(bins(points[:, 2], -2, 2, 8) * 8 + azimuth(points, 8), np.ones(64))


def test_a_stretched_sphere_is_uniform():
    """Bands of the spheroid x² + y² + (z/c)² = 1, whose area is that of a surface of revolution."""
    c = 1.7
    points = draw(Zone(*ones(1, 0)), stretch=(1.0, 1.0, c))
    z = np.linspace(-c, c, 16 * 1000 + 1)
    z = (z[1:] + z[:-1]) / 2
    radius, slope = np.sqrt(1 - (z / c) ** 2), z / c**2  # radius times its derivative is -slope
    areas = np.sqrt(radius**2 + slope**2).reshape(16, 1000).sum(1)
    assert is_uniform(bins(points[:, 2], -c, c, 16), areas)
    assert not is_uniform(bins(points[:, 2], -c, c, 16), np.ones(16)), "a merely stretched sphere would pass"


@pytest.mark.parametrize("stretch", [(1.0, 1.0, 1.0), (0.8, 1.3, 1.1)], ids=["plain", "stretched"])
def test_a_box_is_uniform(stretch):
    size = np.array([1.0, 2.0, 0.5])
    points = draw(Boxes(np.zeros((1, 1, 3)), size[None, None]), stretch=stretch)
    half = size * stretch / 2
    across = np.argmax(np.isclose(np.abs(points), half), axis=1)  # the axis whose face the point lies on
    side = points > 0
    cells = across * 8 + side @ np.array([4, 2, 1])  # each face in four quarters
    face = np.prod(2 * half) / (2 * half)
    assert is_uniform(cells, np.repeat(face, 8))


def test_a_torus_is_uniform():
    R, r = 1.0, 0.4
    points = draw(Tube(*ones(R, r, 0, 2 * np.pi, 0), np.zeros((1, 3))))
    outwards = np.hypot(points[:, 0], points[:, 1]) - R
    np.testing.assert_allclose(np.hypot(outwards, points[:, 2]), r)
    around = bins(np.arctan2(points[:, 2], outwards), -np.pi, np.pi, 12)
    edges = np.linspace(-np.pi, np.pi, 13)
    areas = np.diff(R * edges + r * np.sin(edges))  # the integral of R + r cos v
    assert is_uniform(around * 6 + azimuth(points, 6), np.repeat(areas, 6))
    assert not is_uniform(around, np.ones(12)), "uniform angles would pass"


def test_a_spring_lies_on_its_tube_and_is_uniform_along_it():
    radius, thickness, rise, turns = 1.0, 0.2, 0.15, 3.0
    tube = Tube(*ones(radius, thickness, 0, 2 * np.pi * turns, rise), np.zeros((1, 3)))
    points = draw(tube)
    phi = np.linspace(0, 2 * np.pi * turns, 4001)
    helix = np.stack([radius * np.cos(phi), radius * np.sin(phi), rise * phi], 1)
    distance = np.linalg.norm(points[:500, None] - helix, axis=2)
    np.testing.assert_allclose(distance.min(1), thickness, atol=1e-4)  # the helix is a chain of steps of 0.005
    assert is_uniform(azimuth(points, 12), np.ones(12))
    np.testing.assert_allclose(tube.area, 2 * np.pi * thickness * np.hypot(radius, rise) * 2 * np.pi * turns)


def test_the_side_of_a_cone_is_uniform():
    points = draw(Frustum(*ones(1, 0.3, -1, 2)))
    edges = np.linspace(1.0, 0.3, 11)
    cells = bins(points[:, 2], -1, 1, 10)
    assert is_uniform(cells * 4 + azimuth(points, 4), np.repeat(edges[:-1] ** 2 - edges[1:] ** 2, 4))


def test_a_disc_and_a_triangle_are_uniform():
    points = draw(Disc(*ones(2, 1)))
    assert is_uniform(bins((points[:, :2] ** 2).sum(1), 0, 4, 6) * 6 + azimuth(points, 6), np.ones(36))
    corner, first, second = np.eye(3)[:, None]
    points = draw(Triangle(corner, first - corner, second - corner))
    np.testing.assert_allclose(points.sum(1), 1.0)
    assert is_uniform(points.argmax(1), np.ones(3))  # thirds around the centre


def test_parts_get_points_by_area():
    """A box and a ball apart from each other, both stretched; the box's area is known, the spheroid's is a formula."""
    c = 1.5
    excentric = np.sqrt(1 - 1 / c**2)
    spheroid = 2 * np.pi * (1 + c / excentric * np.arcsin(excentric))
    box = 2 * (1 * 1 + 2 * 1 * c)
    center = np.array([[[5.0, 0.0, 0.0]]])
    points = draw(Zone(*ones(1, 0)), Boxes(center, np.ones((1, 1, 3))), stretch=(1.0, 1.0, c))
    assert is_uniform((points[:, 0] > 3).astype(int), [spheroid, box])


def test_absent_boxes_get_no_points():
    size = np.ones((1, 3, 3))
    size[:, 1:] = 0
    center = np.array([[[0.0, 0, 0], [9.0, 0, 0], [18.0, 0, 0]]])
    assert draw(Boxes(center, size)).max() <= 0.5


# ---------------------------------------------------------------------------------------------------- how hard it is


def test_moments_tell_classes_apart_but_not_perfectly():
    (x, y), (x_test, y_test) = (all_shapes(n, num_points=150, split=s) for n, s in ((1500, "train"), (500, "test")))
    mean, std = moments(x).mean(0), moments(x).std(0)
    known, asked = (moments(x) - mean) / std, (moments(x_test) - mean) / std
    centers = np.stack([known[y == c].mean(0) for c in range(len(SHAPE_NAMES))])
    guess = ((asked[:, None] - centers) ** 2).sum(2).argmin(1)
    assert 5 / len(SHAPE_NAMES) < (guess == y_test).mean() < 0.95


def moments(x):
    level, height = np.hypot(x[..., 0], x[..., 1]), x[..., 2]
    return np.stack([(level**a * height**b).mean(1) for a in range(4) for b in range(4) if a + b], 1)
