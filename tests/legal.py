"""Every legal combination of options, and a small selection of them in which every pair of values meets."""

import itertools
from dataclasses import replace

import orderless as ol
from orderless.models.base import ModelConfig
from orderless.models.registry import CHOICES, MODELS, check_config

SMALL = {"width": 8, "num_heads": 2, "num_inducing": 3}
DEPTHS = {"deep_sets": 3, "deep_sets++": 4, "set_transformer": 2, "set_transformer++": 2}
OPTIONS = tuple(CHOICES)


def all_legal() -> list[dict[str, str]]:
    """Name and options of every network that `create_model` builds."""
    found = []
    for name, spec in MODELS.items():
        base = ModelConfig(
            name, 2, 3, spec.depth, 8, spec.norm[0], spec.residual[0], spec.pool[0], "released", "set", 4, 32, 1e-5
        )
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


def build(row: dict[str, str], *, in_features: int = 2, out_features: int = 3) -> ol.models.SetModel:
    """A small network with these options."""
    options = dict(row)
    name = options.pop("name")
    size = {"width": SMALL["width"]}
    if MODELS[name].attends or (options["pool"] == "attention" and options["output"] == "set"):
        size["num_heads"] = SMALL["num_heads"]
    if MODELS[name].attends:
        size["num_inducing"] = SMALL["num_inducing"]
    return ol.create_model(name, in_features, out_features, depth=DEPTHS.get(name), **size, **options)


def title(row: dict[str, str]) -> str:
    return "-".join(row.values())
