"""Tables of bags whose character is known: stand-ins for the tables that people bring. `bags.py` runs estimators on them.

What the label hangs on differs from family to family, so that no one way of looking at sets is right for all:

    witness      one element of a rare kind makes a set positive
    conformers   so does one shape that a molecule may take; the shapes of a molecule resemble each other
    shift        all elements are moved, stretched, mixed or turned a little
    sparse       many features, most of them zero and few that matter, as of words or image codes
    size         the number of elements tells, beside what they are
    pictures     handwritten digits, patches of photographs, points of objects
    cells        mass cytometry: a few cells of a donor

The last two are made of files in `ORDERLESS_DATA`. Every task draws as many sets as it is asked for; test sets are drawn apart
from training sets, and from other images, objects or cells.

Letters: N sets, D features.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Rng = np.random.Generator
Bags = tuple[list[Floats], NDArray[Any]]
Split = Literal["train", "test"]


@dataclass(frozen=True)
class BagTask:
    """One table of bags.

    Attributes:
        family: What the label hangs on.
        num_train: Sets to learn from.
        make: Draws training and test sets, given a seed; takes the data folder where `needs_files`.
        num_test: Sets to test on: drawn, so there may be more than of any real table.
        noise: Share of labels that are flipped, in training and test alike.
        positive: Share of sets that are positive.
        needs_files: Made of files in `ORDERLESS_DATA`.
        objective: What is predicted.
    """

    family: str
    num_train: int
    make: Callable[..., Bags]
    num_test: int = 300
    noise: float = 0.0
    positive: float = 0.5
    needs_files: bool = False
    objective: Literal["classification", "regression"] = "classification"

    def draw(self, seed: int, data: Path | None = None, *, num_train: int | None = None, num_test: int | None = None) -> Any:
        """(training sets, their labels), (test sets, their labels)."""
        parts = []
        counts = {"train": num_train or self.num_train, "test": num_test or self.num_test}
        for number, (split, count) in enumerate(counts.items()):
            rng = np.random.default_rng([seed, number])
            most = int(np.ceil(2 * count * max(self.positive, 1 - self.positive))) if self.positive != 0.5 else count
            sets, y = self.make(rng, most, data, split) if self.needs_files else self.make(rng, most)
            if most > count:
                ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
                num_ones = round(self.positive * count)
                chosen = rng.permutation(np.concatenate([ones[:num_ones], zeros[: count - num_ones]]))
                sets, y = [sets[i] for i in chosen], y[chosen]
            if self.noise:
                y = np.where(rng.random(count) < self.noise, 1 - y, y)
            parts.append((sets, y))
        return tuple(parts)


# ---------------------------------------------------------------------------------------------------------- witnesses


def log_sizes(rng: Rng, count: int, low: int, high: int) -> NDArray[np.int64]:
    """Sizes between two bounds, small ones as likely as large ones on a scale of ratios."""
    drawn: NDArray[np.int64] = np.exp(rng.uniform(np.log(low), np.log(high + 1), count)).astype(np.int64).clip(low, high)
    return drawn


def labels(rng: Rng, count: int) -> NDArray[np.int64]:
    """Half of each class, in any order."""
    y: NDArray[np.int64] = rng.permutation(np.arange(count) % 2)
    return y


def witness(rng: Rng, count: int, *, dim: int, sizes: tuple[int, int], rate: float, distance: float) -> Bags:
    """Background of three clusters; positive sets have some elements, at least one, of a fourth."""
    world = np.random.default_rng(dim)  # the same for training and test sets
    centres = world.normal(size=(4, dim)) * 1.5
    few = world.permutation(dim)[: max(2, dim // 4)]
    centres[3] = centres[0]
    centres[3, few] += distance / np.sqrt(len(few)) * world.choice([-1, 1], len(few))
    y, sets = labels(rng, count), []
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        kind = rng.integers(0, 3, size)
        if label:
            kind[: max(1, rng.binomial(size, rate))] = 3
        sets.append(centres[kind] + rng.normal(size=(size, dim)))
    return sets, y


def conformers(rng: Rng, count: int, *, dim: int, sizes: tuple[int, int]) -> Bags:
    """A molecule varies around its own mean in a few directions; it is active if one shape of it fits."""
    world = np.random.default_rng(7)
    mixing, mixing_more = world.normal(size=(6, dim)), world.normal(size=(6, dim))
    y, sets = labels(rng, count), []
    pocket = world.normal(size=6)
    pocket *= 2 / np.linalg.norm(pocket)
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        own = rng.normal(size=6) * 1.2 + 0.6 * label * pocket
        shapes = own + rng.normal(size=(size, 6)) * 0.7
        near = np.linalg.norm(shapes - pocket, axis=1) < 1.6
        if label and not near.any():
            shapes[rng.integers(size)] = pocket + rng.normal(size=6) * 0.4
        if not label:
            shapes[near] = own - pocket * 0.5 + rng.normal(size=(int(near.sum()), 6)) * 0.3
        seen = shapes @ mixing + np.tanh(shapes) @ mixing_more + 0.5 * rng.normal(size=(size, dim))
        sets.append(np.round(40 * seen))
    return sets, y


# ------------------------------------------------------------------------------------------------------------- shifts


def shift(rng: Rng, count: int, *, kind: str, dim: int, sizes: tuple[int, int], by: float) -> Bags:
    """All elements of a positive set differ a little in one respect. Every set has an offset of its own besides."""
    world = np.random.default_rng(dim + len(kind))
    touched = world.permutation(dim)[: max(2, dim // 4)]
    clusters = world.normal(size=(3, dim)) * 2
    y, sets = labels(rng, count), []
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        x = rng.normal(size=(size, dim))
        if kind == "mean":
            x[:, touched] += by * label
        elif kind == "spread":
            x[:, touched] *= 1 + by * label
        elif kind == "mixture":
            weights = np.array([1.0, 1.0, 1.0]) + by * label * np.array([1, 0, -0.5])
            x += clusters[rng.choice(3, size, p=rng.dirichlet(12 * weights / weights.sum()))]
        elif kind == "correlation":
            a, b = touched[:2]
            x[:, b] = (by if label else -by) * x[:, a] + np.sqrt(1 - by**2) * x[:, b]
        elif kind == "tails":
            if label:
                x[:, touched] = rng.standard_t(by, size=(size, len(touched))) * np.sqrt((by - 2) / by)
        elif kind == "lognormal":
            x = np.exp(1.5 * x + 0.5 * rng.normal(size=dim))
            x[:, touched] *= np.exp(by * label)
        if kind != "lognormal":
            x += 0.3 * rng.normal(size=dim)
        sets.append(x)
    return sets, y


# ------------------------------------------------------------------------------------------------------ sparse, sizes


def sparse(rng: Rng, count: int, *, dim: int, sizes: tuple[int, int], rate: float, strength: float) -> Bags:
    """Topics of features that are mostly zero. Some elements of a positive set are of topics that the others rarely have."""
    world = np.random.default_rng(dim + sizes[1])
    topics = world.gamma(0.08, size=(20, dim))
    topics /= topics.sum(1, keepdims=True)
    common = np.ones(20)
    telling = common.copy()
    telling[:3] += strength
    scale = np.exp(world.normal(size=dim))
    y, sets = labels(rng, count), []
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        own = rng.dirichlet(common)
        kinds = rng.choice(20, size, p=own)
        if label:
            some = rng.random(size) < rate
            some[rng.integers(size)] = True
            kinds[some] = rng.choice(20, int(some.sum()), p=telling / telling.sum())
        sets.append(rng.poisson(25 * topics[kinds]) * scale)
    return sets, y


def size_tells(rng: Rng, count: int, *, dim: int, ratio: float, by: float) -> Bags:
    """Positive sets are larger, and moved a little."""
    y, sets = labels(rng, count), []
    for label in y:
        size = max(1, int(np.exp(rng.normal(np.log(20) + np.log(ratio) * label, 0.5))))
        sets.append(rng.normal(size=(size, dim)) + by * label * (np.arange(dim) < 2) + 0.3 * rng.normal(size=dim))
    return sets, y


# ----------------------------------------------------------------------------------------------------------- pictures


@cache
def _mnist(data: Path) -> Any:
    from orderless.tasks.sources.mnist import find, read_mnist

    found = find(data)
    assert found is not None, f"no MNIST in {data}"
    return read_mnist(found)


@cache
def _modelnet(data: Path) -> Any:
    from orderless.tasks.sources.modelnet40 import find, read_modelnet40

    found = find(data)
    assert found is not None, f"no ModelNet40 in {data}"
    return read_modelnet40(found)


@cache
def _cifar(data: Path) -> Any:
    from orderless.tasks.sources.cifar10 import find, read_cifar10

    found = find(data)
    assert found is not None, f"no CIFAR-10 in {data}"
    return read_cifar10(found)


def digits(rng: Rng, count: int, data: Path, split: Split, *, digit: int, sizes: tuple[int, int]) -> Bags:
    """Sets of handwritten digits, 7 x 7 pixels: does it have a certain digit?"""
    source = _mnist(data)
    images, known = (source.train_images, source.train_labels) if split == "train" else (source.test_images, source.test_labels)
    small = images.reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(len(images), 49)
    there, others = np.flatnonzero(known == digit), np.flatnonzero(known != digit)
    y, sets = labels(rng, count), []
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        rows = rng.choice(others, size)
        if label:
            rows[0] = rng.choice(there)
        sets.append(small[rows])
    return sets, y


def clouds(
    rng: Rng, count: int, data: Path, split: Split, *, classes: tuple[str, str], sizes: tuple[int, int], turned: bool = False
) -> Bags:
    """Points of objects of two classes: coordinates, squares and products."""
    source = _modelnet(data)
    points, known = (source.train_points, source.train_labels) if split == "train" else (source.test_points, source.test_labels)
    y, sets = labels(rng, count), []
    of_class = [rng.permutation(np.flatnonzero(known == source.class_names.index(name))) for name in classes]
    taken = [0, 0]
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        mine = of_class[label]
        cloud = points[mine[taken[label] % len(mine)]]
        taken[label] += 1
        x = cloud[rng.choice(len(cloud), size, replace=False)].astype(np.float64)
        if turned:
            angle = rng.uniform(0, 2 * np.pi)
            x = x @ np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        sets.append(x)
    return sets, y


def patches(rng: Rng, count: int, data: Path, split: Split, *, classes: tuple[str, str], side: int) -> Bags:
    """A photograph as its patches, a random half of them: means, spreads and slopes of three colours, and the place."""
    source = _cifar(data)
    images, known = (source.train_images, source.train_labels) if split == "train" else (source.test_images, source.test_labels)
    y, sets = labels(rng, count), []
    of_class = [rng.permutation(np.flatnonzero(known == source.class_names.index(name))) for name in classes]
    step = 32 // side
    edge = side * step
    for number, label in enumerate(y):
        image = images[of_class[label][number]].transpose(1, 2, 0)[:edge, :edge].astype(np.float64)
        tiles = image.reshape(side, step, side, step, 3).transpose(0, 2, 1, 3, 4).reshape(side * side, step, step, 3)
        down, across = np.abs(np.diff(tiles, axis=1)).mean((1, 2)), np.abs(np.diff(tiles, axis=2)).mean((1, 2))
        x = np.concatenate([tiles.mean((1, 2)), tiles.std((1, 2)), down, across], axis=1)
        sets.append(x[rng.permutation(len(x))[: rng.integers(len(x) // 2, len(x) + 1)]])
    return sets, y


# -------------------------------------------------------------------------------------------------------------- cells


@cache
def _nk_cells(data: Path) -> tuple[list[Floats], NDArray[np.int64]]:
    """The cells of each donor, and who has the virus."""
    import pandas as pd

    cells = pd.read_parquet(data / "nk_cmv" / "cells.parquet")
    donors = pd.read_csv(data / "nk_cmv" / "donors.csv")
    by_donor = dict(tuple(cells.groupby("donor")))
    return [by_donor[d].drop(columns="donor").to_numpy() for d in donors["donor"]], donors["cmv"].to_numpy(dtype=np.int64)


@cache
def _bcr_cells(data: Path) -> tuple[list[Floats], NDArray[np.int64]]:
    """The cells of each file in raw intensities, and which were stimulated."""
    from orderless.io import open_samples

    samples = open_samples(data / "bcr_xl" / "fcs", transform=None)
    with (data / "bcr_xl" / "labels.csv").open() as file:
        known = {Path(row["file"]).stem: int(row["label"]) for row in csv.DictReader(file)}
    places = [next(v for k, v in known.items() if k in name or name in k) for name in samples.ids]
    return [np.array(samples[i]) for i in range(len(samples))], np.array(places)


def cells(rng: Rng, count: int, data: Path, split: Split, *, source: str, sizes: tuple[int, int]) -> Bags:
    """A few cells of a donor, who may be in both parts, while no cell is."""
    of_donor, status = _nk_cells(data) if source == "nk_cmv" else _bcr_cells(data)
    y, sets = labels(rng, count), []
    for label, size in zip(y, log_sizes(rng, count, *sizes), strict=True):
        mine = of_donor[rng.choice(np.flatnonzero(status == label))]
        half = mine[::2] if split == "train" else mine[1::2]
        sets.append(half[rng.choice(len(half), min(size, len(half)), replace=False)])
    return sets, y


# --------------------------------------------------------------------------------------------------------- regression


def statistic(rng: Rng, count: int, *, kind: str, dim: int, sizes: tuple[int, int], noise: float) -> Bags:
    """A number that a set's distribution has, with noise."""
    sets, y = [], []
    for size in log_sizes(rng, count, *sizes):
        if kind == "mean":
            centre = rng.normal(size=dim)
            x, value = rng.normal(size=(size, dim)) + centre, centre[0] - centre[1]
        elif kind == "spread":
            deviation = np.exp(rng.normal(size=dim) * 0.5)
            x, value = rng.normal(size=(size, dim)) * deviation + rng.normal(size=dim), np.log(deviation[0])
        elif kind == "quantile":
            shape = rng.uniform(0.5, 4, size=dim)
            x, value = rng.gamma(shape, size=(size, dim)), shape[0] ** 0.5
        elif kind == "entropy":
            corners = np.random.default_rng(3).normal(size=(6, dim)) * 3
            weights = rng.dirichlet(np.full(6, rng.uniform(0.2, 3)))
            x = corners[rng.choice(6, size, p=weights)] + rng.normal(size=(size, dim)) * 0.5
            value = -float((weights * np.log(weights + 1e-12)).sum())
        elif kind == "share":
            share = rng.uniform(0, 0.3)
            rare = rng.random(size) < share
            x, value = rng.normal(size=(size, dim)) + 2.5 * rare[:, None] * (np.arange(dim) < 3), share * 10
        else:
            slope = rng.uniform(-0.9, 0.9)
            x = rng.normal(size=(size, dim))
            x[:, 1] = slope * x[:, 0] + np.sqrt(1 - slope**2) * x[:, 1]
            value = slope
        sets.append(x)
        y.append(value)
    known = np.array(y)
    return sets, known + noise * known.std() * rng.normal(size=count)


TASKS: Mapping[str, BagTask] = {
    "witness_small": BagTask("witness", 120, partial(witness, dim=8, sizes=(3, 30), rate=0.1, distance=5.0)),
    "witness_wide": BagTask("witness", 200, partial(witness, dim=100, sizes=(5, 40), rate=0.2, distance=7.0)),
    "witness_large": BagTask("witness", 200, partial(witness, dim=5, sizes=(100, 1000), rate=0.02, distance=4.0), num_test=200),
    "witness_most": BagTask("witness", 2000, partial(witness, dim=8, sizes=(50, 1000), rate=0.03, distance=3.5), num_test=500),
    "witness_noisy": BagTask("witness", 1000, partial(witness, dim=10, sizes=(5, 50), rate=0.1, distance=5.0), noise=0.15),
    "witness_rare": BagTask("witness", 190, partial(witness, dim=8, sizes=(35, 190), rate=0.05, distance=4.5), positive=0.15),
    "conformers": BagTask("conformers", 92, partial(conformers, dim=166, sizes=(2, 40))),
    "conformers_many": BagTask("conformers", 102, partial(conformers, dim=166, sizes=(1, 1000)), num_test=150),
    "shift_mean": BagTask("shift", 200, partial(shift, kind="mean", dim=20, sizes=(10, 50), by=0.3)),
    "shift_spread": BagTask("shift", 150, partial(shift, kind="spread", dim=8, sizes=(10, 100), by=0.25)),
    "shift_mixture": BagTask("shift", 400, partial(shift, kind="mixture", dim=12, sizes=(10, 60), by=0.8)),
    "shift_correlation": BagTask("shift", 300, partial(shift, kind="correlation", dim=6, sizes=(20, 100), by=0.5)),
    "shift_tails": BagTask("shift", 500, partial(shift, kind="tails", dim=6, sizes=(30, 200), by=3.0)),
    "shift_lognormal": BagTask("shift", 150, partial(shift, kind="lognormal", dim=15, sizes=(5, 60), by=0.6)),
    "sparse_images": BagTask("sparse", 200, partial(sparse, dim=230, sizes=(2, 13), rate=0.7, strength=40.0), noise=0.05),
    "sparse_noisy": BagTask("sparse", 200, partial(sparse, dim=230, sizes=(2, 13), rate=0.6, strength=20.0), noise=0.2),
    "sparse_text": BagTask("sparse", 110, partial(sparse, dim=200, sizes=(4, 100), rate=0.4, strength=30.0)),
    "size_tells": BagTask("size", 150, partial(size_tells, dim=10, ratio=2.0, by=0.2)),
    "digits": BagTask("pictures", 400, partial(digits, digit=9, sizes=(3, 12)), needs_files=True),
    "digits_few": BagTask("pictures", 100, partial(digits, digit=0, sizes=(3, 20)), needs_files=True),
    "clouds_plain": BagTask("pictures", 100, partial(clouds, classes=("chair", "table"), sizes=(10, 50)), 200, needs_files=True),
    "clouds_turned": BagTask(
        "pictures", 300, partial(clouds, classes=("desk", "dresser"), sizes=(30, 200), turned=True), 170, needs_files=True
    ),
    "patches_animals": BagTask("pictures", 200, partial(patches, classes=("horse", "deer"), side=4), needs_files=True),
    "patches_vehicles": BagTask("pictures", 1000, partial(patches, classes=("ship", "truck"), side=4), needs_files=True),
    "patches_rare": BagTask(
        "pictures", 2000, partial(patches, classes=("truck", "frog"), side=3), 500, positive=0.1, needs_files=True
    ),
    "cells_virus": BagTask("cells", 200, partial(cells, source="nk_cmv", sizes=(30, 150)), needs_files=True),
    "cells_raw": BagTask("cells", 150, partial(cells, source="bcr_xl", sizes=(5, 20)), needs_files=True),
}

REGRESSIONS: Mapping[str, BagTask] = {
    name: BagTask("statistic", count, make, objective="regression")
    for name, count, make in (
        ("regress_mean", 200, partial(statistic, kind="mean", dim=10, sizes=(5, 50), noise=0.2)),
        ("regress_spread", 300, partial(statistic, kind="spread", dim=5, sizes=(20, 200), noise=0.1)),
        ("regress_quantile", 200, partial(statistic, kind="quantile", dim=5, sizes=(20, 100), noise=0.2)),
        ("regress_entropy", 400, partial(statistic, kind="entropy", dim=4, sizes=(20, 100), noise=0.1)),
        ("regress_share", 300, partial(statistic, kind="share", dim=10, sizes=(20, 200), noise=0.1)),
        ("regress_slope", 500, partial(statistic, kind="slope", dim=5, sizes=(20, 100), noise=0.1)),
    )
}
