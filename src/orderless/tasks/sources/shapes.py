"""Parametric objects in three dimensions: they stand in for ModelNet40 where its files are not at hand.

There are 16 classes, from `ellipsoid` to `dumbbell`. An object is a list of smooth parts. Points are drawn uniformly by area:

1. a part is drawn with probability proportional to its area, and a point uniformly on it, in closed form;
2. the object is stretched by s = (s_x, s_y, s_z). That multiplies the area around a point with unit normal n by
   s_x s_y s_z |n / s|, so the point is kept with probability |n / s| min(s), which is at most 1, and else drawn again.

The second step makes an ellipsoid of a sphere, an elliptic torus of a round one and so on, all exactly uniform. Then each object
is turned, gets noise, is centred, and is scaled so that its farthest point lies on the unit sphere.

Parts are surfaces that touch, as in files of CAD programs: where a leg meets a table, the faces of both are there.

Letters: N objects, P points of an object, m points drawn at once, K boxes of an object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "test"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
Floats = NDArray[np.float64]
Which = NDArray[np.int64]

OBJECTS_PER_BLOCK: Final = 512  # objects that share a stream of random numbers; changing it changes every object
STRETCH: Final = 0.2  # each axis is stretched by a factor between exp(-0.2) and exp(0.2)
# Objects of ModelNet40 stand upright and face anywhere, so which way is up tells something and which way is front does not. The
# tilt keeps planes from being exactly level: a single layer could tell a table top by counting points of equal height.
TILT_SD: Final = np.radians(6.0)
NOISE_SD: Final = 0.02  # of the largest distance from the centre


def make_shapes(
    num_objects: int, *, num_points: int = 1000, seed: int = 0, split: Split = "train"
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Draws objects of classes that are equally likely, a block at a time.

    Object `i` of a seed and split is the same whatever `num_objects` is. With another `num_points` it has the same class,
    proportions and pose, and other points.

    Args:
        num_objects: How many in all.
        num_points: Points of each object.
        seed: At least 0. Another seed draws other objects.
        split: "train" or "test". They have no object in common and are equally distributed.

    Yields:
        Points (n, num_points, 3) within the unit sphere around their mean, and classes (n,), which number `SHAPE_NAMES`.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}.")
    for name, value, least in (("num_objects", num_objects, 0), ("num_points", num_points, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} must be {least} or more; got {value}.")
    return _blocks(num_objects, num_points, seed, SPLITS.index(split))


def sample_surface(rng: np.random.Generator, parts: Sequence[Part], stretch: Floats, num_points: int) -> Floats:
    """Points of N objects, uniform by area over all their parts after stretching.

    Args:
        rng: Random numbers.
        parts: What the objects are made of.
        stretch: (N, 3) positive factors for the axes.
        num_points: Points of each object, P.

    Shapes: -> (N, P, 3).
    """
    areas = np.stack([part.area for part in parts], 1)  # (N, parts)
    least = stretch.min(1)
    points = np.empty((len(stretch) * num_points, 3))
    missing = np.arange(len(points))
    while missing.size:
        which = missing // num_points  # (m,) the object of each point
        chosen = _choose(rng, areas, which)
        kept = []
        for number, part in enumerate(parts):
            places = np.flatnonzero(chosen == number) if len(parts) > 1 else slice(None)
            objects = which[places]
            if not objects.size:
                continue
            drawn, normals = part.sample(rng, objects)
            scale = stretch[objects]
            normals /= scale
            keep = rng.random(len(objects)) < np.sqrt(np.einsum("md,md->m", normals, normals)) * least[objects]
            here = missing[places][keep]
            points[here] = (drawn * scale)[keep]
            kept.append(here)
        missing = np.setdiff1d(missing, np.concatenate(kept), assume_unique=True)
    return points.reshape(len(stretch), num_points, 3)


# --------------------------------------------------------------------------------------------------------- parts


class Part(ABC):
    """The same piece of surface of N objects, with the proportions of each."""

    @property
    @abstractmethod
    def area(self) -> Floats:
        """(N,) area."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        """Points (m, 3), uniform by area on the pieces of objects `which` (m,), and unit normals there (m, 3)."""


@dataclass(frozen=True)
class Boxes(Part):
    """The faces of K boxes whose edges are along the axes. A box of size 0 is not there."""

    center: Floats  # (N, K, 3)
    size: Floats  # (N, K, 3)

    @property
    def _faces(self) -> Floats:
        """(N, 3 K) area of the two faces across each axis of each box."""
        x, y, z = np.moveaxis(self.size, 2, 0)
        return 2 * np.stack([y * z, z * x, x * y], 2).reshape(len(x), -1)

    @property
    def area(self) -> Floats:
        return self._faces.sum(1)

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        box, across = np.divmod(_choose(rng, self._faces, which), 3)
        rows = np.arange(len(which))
        points = rng.random((len(which), 3)) - 0.5
        points[rows, across] = np.where(points[rows, across] < 0, -0.5, 0.5)
        normals = np.zeros_like(points)
        normals[rows, across] = 1.0
        return self.center[which, box] + self.size[which, box] * points, normals


@dataclass(frozen=True)
class Frustum(Part):
    """The side of a cone around the z axis that is cut level at both ends; a cylinder where both radii are the same."""

    bottom: Floats  # (N,) radius
    top: Floats
    low: Floats  # z of the lower end
    height: Floats

    @property
    def area(self) -> Floats:
        return np.pi * (self.bottom + self.top) * np.hypot(self.height, self.bottom - self.top)

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        bottom, top, height = self.bottom[which], self.top[which], self.height[which]
        u = rng.random(len(which))
        radius = np.sqrt(bottom**2 + u * (top**2 - bottom**2))  # the radius has a density proportional to itself
        along = u * (bottom + top) / (bottom + radius)  # (radius - bottom) / (top - bottom), also where these are equal
        cos, sin = _circle(rng, len(which))
        slant = np.hypot(height, bottom - top)
        normals = np.stack([cos * height / slant, sin * height / slant, (bottom - top) / slant], 1)
        return np.stack([radius * cos, radius * sin, self.low[which] + along * height], 1), normals


@dataclass(frozen=True)
class Disc(Part):
    """A level disc around the z axis."""

    radius: Floats  # (N,)
    level: Floats

    @property
    def area(self) -> Floats:
        return np.pi * self.radius**2

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        radius = self.radius[which] * np.sqrt(rng.random(len(which)))
        cos, sin = _circle(rng, len(which))
        normals = np.zeros((len(which), 3))
        normals[:, 2] = 1.0
        return np.stack([radius * cos, radius * sin, self.level[which]], 1), normals


@dataclass(frozen=True)
class Zone(Part):
    """The part of a sphere between two levels: equal heights have equal areas, as Archimedes found."""

    radius: Floats  # (N,)
    level: Floats  # z of the centre
    low: float = -1.0  # in radii from the centre
    high: float = 1.0

    @property
    def area(self) -> Floats:
        return 2 * np.pi * self.radius**2 * (self.high - self.low)

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        z = self.low + (self.high - self.low) * rng.random(len(which))
        cos, sin = _circle(rng, len(which))
        around = np.sqrt(1 - z**2)
        normals = np.stack([around * cos, around * sin, z], 1)
        points = self.radius[which, None] * normals
        points[:, 2] += self.level[which]
        return points, normals


@dataclass(frozen=True)
class Tube(Part):
    """A tube around a helix; around a circle, and so a torus, where the helix does not rise.

    With curvature k of the helix and thickness r, the area at angle v around the tube, counted from the inner side, is
    proportional to 1 - r k cos(v), and the area of the tube is 2 pi r times the length of the helix.
    """

    radius: Floats  # (N,) of the helix
    thickness: Floats  # radius of the tube; smaller than that
    start: Floats  # angle where the helix begins
    angle: Floats  # that it covers
    rise: Floats  # in z, for each radian
    shift: Floats  # (N, 3)
    axes: tuple[int, int, int] = (0, 1, 2)  # where x, y and z are taken from: (0, 2, 1) is upright instead of level

    @property
    def area(self) -> Floats:
        return 2 * np.pi * self.thickness * np.hypot(self.radius, self.rise) * self.angle

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        radius, thickness, rise = self.radius[which], self.thickness[which], self.rise[which]
        speed = np.hypot(radius, rise)
        phi = self.start[which] + self.angle[which] * rng.random(len(which))
        cos_v, sin_v = _circle(rng, len(which))
        # the densities at v and pi - v add up to the same for every v: swapping them at the right rate makes each one right
        swap = 2 * rng.random(len(which)) > 1 - thickness * radius / speed**2 * cos_v
        cos_v = np.where(swap, -cos_v, cos_v)
        cos, sin = np.cos(phi), np.sin(phi)
        # inwards (-cos, -sin, 0) and sideways (rise sin, -rise cos, radius) / speed are perpendicular to the helix
        across = sin_v * rise / speed
        normals = np.stack([-cos_v * cos + across * sin, -cos_v * sin - across * cos, sin_v * radius / speed], 1)
        points = np.stack([radius * cos, radius * sin, rise * phi], 1) + thickness[:, None] * normals
        return points[:, self.axes] + self.shift[which], normals[:, self.axes]


@dataclass(frozen=True)
class Triangle(Part):
    """A triangle by one corner and its two edges from there."""

    corner: Floats  # (N, 3)
    first: Floats
    second: Floats

    @property
    def _normal(self) -> Floats:
        return np.cross(self.first, self.second)

    @property
    def area(self) -> Floats:
        return np.linalg.norm(self._normal, axis=1) / 2

    def sample(self, rng: np.random.Generator, which: Which) -> tuple[Floats, Floats]:
        u = rng.random((2, len(which), 1))
        u = np.where(u.sum(0) > 1, 1 - u, u)  # the other half of the parallelogram, folded over
        normal = self._normal
        normal = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        return self.corner[which] + u[0] * self.first[which] + u[1] * self.second[which], normal[which]


def _choose(rng: np.random.Generator, weights: Floats, which: Which) -> NDArray[np.int64]:
    """For each of `which` (m,) a column of `weights` (N, columns), drawn in proportion to that row."""
    columns = weights.shape[1]
    if columns == 1:
        return np.zeros(len(which), dtype=np.int64)
    upto = weights.cumsum(1)
    upto /= upto[:, -1:]
    # one ascending list for all rows, row i in (i, i + 1]
    found = np.searchsorted((upto + np.arange(len(weights))[:, None]).ravel(), which + rng.random(len(which)), side="right")
    return np.minimum(found - which * columns, columns - 1)


def _circle(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Cosine and sine of angles drawn uniformly."""
    angle = 2 * np.pi * rng.random(count)
    return np.cos(angle), np.sin(angle)


# ------------------------------------------------------------------------------------------------------- classes
# Sizes are relative: every object is scaled in the end. Ranges overlap on purpose: a flat cone comes close to a flat pyramid, a
# stout capsule to an ellipsoid, a low chair to a table.


@dataclass(frozen=True)
class Random:
    """Random proportions of N objects: `between(a, b)` is uniform, (N,)."""

    rng: np.random.Generator
    num_objects: int

    def between(self, low: float, high: float) -> Floats:
        """(N,) uniform numbers."""
        return low + (high - low) * self.rng.random(self.num_objects)


def _ellipsoid(r: Random) -> list[Part]:
    one = np.ones(r.num_objects)
    return [Zone(one, 0 * one)]


def _box(r: Random) -> list[Part]:
    size = np.stack([r.between(0.5, 1.0), r.between(0.5, 1.0), r.between(0.4, 1.6)], 1)[:, None]
    return [Boxes(0 * size, size)]


def _cylinder(r: Random) -> list[Part]:
    radius, height = r.between(0.4, 0.7), r.between(0.5, 2.0)
    return [Frustum(radius, radius, 0 * height, height), Disc(radius, 0 * height), Disc(radius, height)]


def _cone(r: Random) -> list[Part]:
    radius, height = r.between(0.5, 1.0), r.between(0.8, 2.0)
    return [Frustum(radius, 0 * radius, 0 * height, height), Disc(radius, 0 * height)]


def _pyramid(r: Random) -> list[Part]:
    half, height = np.stack([r.between(0.5, 0.9), r.between(0.5, 0.9)], 1), r.between(0.8, 2.0)
    corners = [_stack(x * half[:, 0], y * half[:, 1], 0 * height) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    top = _stack(0 * height, 0 * height, height)
    sides: list[Part] = [Triangle(a, b - a, top - a) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    a, b, c, d = corners
    return [*sides, Triangle(a, b - a, d - a), Triangle(c, b - c, d - c)]


def _torus(r: Random) -> list[Part]:
    radius, thickness = np.ones(r.num_objects), r.between(0.15, 0.45)
    return [Tube(radius, thickness, 0 * radius, 2 * np.pi * radius, 0 * radius, np.zeros((r.num_objects, 3)))]


def _capsule(r: Random) -> list[Part]:
    radius, height = r.between(0.4, 0.7), r.between(0.3, 1.5)
    zero = 0 * height
    return [Frustum(radius, radius, zero, height), Zone(radius, zero, -1.0, 0.0), Zone(radius, height, 0.0, 1.0)]


def _spring(r: Random) -> list[Part]:
    radius, turns, height = r.between(0.4, 0.8), r.between(2.0, 5.0), r.between(1.0, 2.2)
    thickness = 0.35 * height / turns * r.between(0.3, 0.9)  # neighbouring turns never touch
    angle = 2 * np.pi * turns
    return [Tube(radius, thickness, 0 * angle, angle, height / angle, np.zeros((r.num_objects, 3)))]


def _table(r: Random) -> list[Part]:
    width, depth, height = r.between(0.8, 2.0), r.between(0.7, 1.2), r.between(0.4, 1.2)
    board, leg = r.between(0.05, 0.15), r.between(0.06, 0.16)
    top = _stack(0 * height, 0 * height, height + board / 2), _stack(width, depth, board)
    return [_boxes([top, *_legs(width, depth, height, leg)])]


def _chair(r: Random) -> list[Part]:
    width, depth, height = r.between(0.7, 1.2), r.between(0.7, 1.1), r.between(0.5, 1.0)
    board, leg, back = r.between(0.05, 0.15), r.between(0.06, 0.16), r.between(0.4, 1.2)
    seat = _stack(0 * height, 0 * height, height + board / 2), _stack(width, depth, board)
    upright = _stack(0 * height, (depth - board) / 2, height + board + back / 2), _stack(width, board, back)
    return [_boxes([seat, upright, *_legs(width, depth, height, leg)])]


def _stairs(r: Random) -> list[Part]:
    num_steps = np.floor(r.between(3, 7))
    width, depth, height = r.between(0.6, 1.6), r.between(0.25, 0.45), r.between(0.2, 0.4)
    steps = []
    for step in range(6):  # each touches the next along an edge; those beyond the number of steps have no size
        there = (step < num_steps).astype(np.float64)
        steps.append((_stack(step * depth, 0 * width, step * height), _stack(there * depth, there * width, there * height)))
    return [_boxes(steps)]


def _cross(r: Random) -> list[Part]:
    thick, deep, height, arm = r.between(0.15, 0.4), r.between(0.15, 0.4), r.between(1.2, 2.0), r.between(0.3, 0.8)
    level = r.between(0.45, 0.75) * height
    zero = 0 * height
    beam = zero, zero, height / 2
    sides = [(_stack(side * (thick + arm) / 2, zero, level), _stack(arm, deep, thick)) for side in (-1, 1)]
    return [_boxes([(_stack(*beam), _stack(thick, deep, height)), *sides])]


def _lamp(r: Random) -> list[Part]:
    foot, plate, rod, height = r.between(0.25, 0.5), r.between(0.04, 0.12), r.between(0.03, 0.08), r.between(0.8, 1.6)
    wide, narrow, shade = r.between(0.4, 0.8), r.between(0.15, 0.4), r.between(0.3, 0.7)
    zero = 0 * height
    stand = [Frustum(foot, foot, zero, plate), Disc(foot, zero), Disc(foot, plate), Frustum(rod, rod, plate, height)]
    return [*stand, Frustum(wide, narrow, plate + height - shade / 2, shade)]


def _cup(r: Random) -> list[Part]:
    bottom, top, height = r.between(0.35, 0.6), r.between(0.5, 0.7), r.between(0.7, 1.4)
    handle, thickness = height * r.between(0.2, 0.32), r.between(0.04, 0.09)
    half = np.full(r.num_objects, np.pi)
    shift = _stack((bottom + top) / 2, 0 * height, height / 2)
    return [
        Frustum(bottom, top, 0 * height, height),
        Disc(bottom, 0 * height),
        Tube(handle, thickness, -half / 2, half, 0 * height, shift, axes=(0, 2, 1)),
    ]


def _bottle(r: Random) -> list[Part]:
    body, neck = r.between(0.35, 0.6), r.between(0.1, 0.22)
    height, shoulder, length = r.between(0.7, 1.4), r.between(0.1, 0.5), r.between(0.3, 0.7)
    return [
        Disc(body, 0 * height),
        Frustum(body, body, 0 * height, height),
        Frustum(body, neck, height, shoulder),
        Frustum(neck, neck, height + shoulder, length),
    ]


def _dumbbell(r: Random) -> list[Part]:
    lower, upper, rod, length = r.between(0.3, 0.55), r.between(0.3, 0.55), r.between(0.08, 0.2), r.between(0.3, 1.0)
    return [Zone(lower, -lower), Zone(upper, length + upper), Frustum(rod, rod, 0 * length, length)]


def _stack(x: Floats, y: Floats, z: Floats) -> Floats:
    return np.stack([x, y, z], 1)


def _boxes(centers_and_sizes: Sequence[tuple[Floats, Floats]]) -> Boxes:
    return Boxes(np.stack([c for c, _ in centers_and_sizes], 1), np.stack([s for _, s in centers_and_sizes], 1))


def _legs(width: Floats, depth: Floats, height: Floats, leg: Floats) -> list[tuple[Floats, Floats]]:
    """Centres and sizes of four legs under the corners."""
    size = _stack(leg, leg, height)
    return [(_stack(x * (width - leg) / 2, y * (depth - leg) / 2, height / 2), size) for x in (-1, 1) for y in (-1, 1)]


_CLASSES: Final[dict[str, Callable[[Random], list[Part]]]] = {
    "ellipsoid": _ellipsoid,
    "box": _box,
    "cylinder": _cylinder,
    "cone": _cone,
    "pyramid": _pyramid,
    "torus": _torus,
    "capsule": _capsule,
    "spring": _spring,
    "table": _table,
    "chair": _chair,
    "stairs": _stairs,
    "cross": _cross,
    "lamp": _lamp,
    "cup": _cup,
    "bottle": _bottle,
    "dumbbell": _dumbbell,
}
SHAPE_NAMES: tuple[str, ...] = tuple(_CLASSES)
_WIDER_STRETCH: Final = {"ellipsoid": 0.5}  # all of its proportions come from stretching


# -------------------------------------------------------------------------------------------------------- blocks


def _blocks(num_objects: int, num_points: int, seed: int, split: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    for start in range(0, num_objects, OBJECTS_PER_BLOCK):
        # a full block is drawn even where fewer objects are wanted: object i is the same however many there are
        points, classes = _block(_stream(seed, split, start // OBJECTS_PER_BLOCK), num_points)
        yield points[: num_objects - start], classes[: num_objects - start]


def _stream(seed: int, split: int, block: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(split, block)))


def _block(rng: np.random.Generator, num_points: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    count = OBJECTS_PER_BLOCK
    classes = rng.integers(len(_CLASSES), size=count)
    limit = np.array([_WIDER_STRETCH.get(name, STRETCH) for name in SHAPE_NAMES])[classes]  # (N,)
    stretch = np.exp(limit[:, None] * rng.uniform(-1, 1, (count, 3)))
    poses = _poses(rng, count)
    members = [np.flatnonzero(classes == number) for number in range(len(_CLASSES))]
    # all proportions before all points, so that they do not depend on the number of points
    built = [build(Random(rng, len(who))) for build, who in zip(_CLASSES.values(), members, strict=True)]
    points = np.empty((count, num_points, 3), dtype=np.float32)
    for parts, who in zip(built, members, strict=True):
        surface = sample_surface(rng, parts, stretch[who], num_points)
        turned = _into_unit_sphere(surface) @ poses[who].transpose(0, 2, 1)
        noise = NOISE_SD * rng.standard_normal(turned.shape)
        points[who] = _into_unit_sphere(turned + noise)
    return points, classes


def _poses(rng: np.random.Generator, count: int) -> Floats:
    """(N, 3, 3) rotations: any angle about z, then a small one about a level axis."""
    turn, about, tilt = 2 * np.pi * rng.random(count), 2 * np.pi * rng.random(count), TILT_SD * rng.standard_normal(count)
    return _about_z(about) @ _about_x(tilt) @ _about_z(turn - about)


def _about_z(angle: Floats) -> Floats:
    cos, sin, zero, one = np.cos(angle), np.sin(angle), 0 * angle, 0 * angle + 1
    return np.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], 1).reshape(-1, 3, 3)


def _about_x(angle: Floats) -> Floats:
    cos, sin, zero, one = np.cos(angle), np.sin(angle), 0 * angle, 0 * angle + 1
    return np.stack([one, zero, zero, zero, cos, -sin, zero, sin, cos], 1).reshape(-1, 3, 3)


def _into_unit_sphere(points: Floats) -> Floats:
    """Objects (N, P, 3) around their mean, the farthest point at distance 1."""
    centred = points - points.mean(1, keepdims=True)
    farthest: Any = np.sqrt(np.einsum("npd,npd->np", centred, centred).max(1))
    farthest = np.where(farthest > 0, farthest * (1 + 1e-6), 1.0)  # float32 must not round it to the outside
    return centred / farthest[:, None, None]
