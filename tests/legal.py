"""Every legal combination of options, and a small selection of them in which every pair of values meets."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import orderless as ol
from orderless.models import pointnet, simpleview
from orderless.models.base import ModelConfig
from orderless.models.registry import CHOICES, MODELS, check_config

SMALL = {"width": 8, "num_heads": 2, "num_inducing": 3}
DEPTHS = {"deep_sets": 3, "deep_sets++": 4, "set_transformer": 2, "set_transformer++": 2}
OPTIONS = tuple(CHOICES)
NOT_IN_CHUNKS = ("pointnet++", "simpleview")  # what they look at instead of elements depends on whole sets


def all_legal() -> list[dict[str, str]]:
    """Name and options of every network that `create_model` builds."""
    found = []
    for name, spec in MODELS.items():
        defaults = (spec.depth, spec.width, spec.norm[0], spec.residual[0], spec.pool[0])
        base = ModelConfig(name, dim_of(name), 3, *defaults, "released", "set", 4, 32, 1e-5)
        for values in itertools.product(*(CHOICES[option] for option in OPTIONS)):
            try:
                check_config(replace(base, **dict(zip(OPTIONS, values, strict=True))))
            except ValueError:
                continue
            found.append({"name": name, **dict(zip(OPTIONS, values, strict=True))})
    return found


def pairwise(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """A greedy choice of rows in which every pair of values that meets anywhere meets."""

    def pairs(row):
        return {(a, row[a], b, row[b]) for a, b in itertools.combinations(("name", *OPTIONS), 2)}

    open_pairs = set().union(*map(pairs, rows))
    chosen = []
    while open_pairs:
        best = max(rows, key=lambda row: len(pairs(row) & open_pairs))
        chosen.append(best)
        open_pairs -= pairs(best)
    return chosen


def dim_of(name: str) -> int:
    """Features of an element: 2, or as many as the network must have."""
    return MODELS[name].in_features or 2


@contextmanager
def few_centroids_and_pixels() -> Iterator[None]:
    """Inside, networks for point clouds are built with fewer centroids, neighbours and pixels. Their weights are the same."""
    levels = tuple(
        (num_centroids // 32, tuple(replace(scale, num_neighbours=scale.num_neighbours // 8) for scale in scales))
        for num_centroids, scales in pointnet.LEVELS
    )
    with mock.patch.object(pointnet, "LEVELS", levels), mock.patch.object(simpleview, "RESOLUTION", 16):
        yield


def build(row: dict[str, str], *, out_features: int = 3) -> ol.models.SetModel:
    """A small network with these options, for elements of `dim_of(row["name"])` features."""
    options = dict(row)
    name = options.pop("name")
    size = {"width": max(SMALL["width"], MODELS[name].width_unit)}
    if MODELS[name].attends or (options["pool"] == "attention" and options["output"] == "set"):
        size["num_heads"] = SMALL["num_heads"]
    if MODELS[name].attends:
        size["num_inducing"] = SMALL["num_inducing"]
    with few_centroids_and_pixels():
        return ol.create_model(name, dim_of(name), out_features, depth=DEPTHS.get(name), **size, **options)


def title(row: dict[str, str]) -> str:
    return "-".join(row.values())
