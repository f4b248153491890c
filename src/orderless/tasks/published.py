"""The figures that the paper published. They stand in its recipes, `recipes/paper/*.toml`, each beside the runs that it is of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orderless.numbers import AsPrinted
from orderless.tasks.objectives import MetricName

BASELINE = "baseline:"  # what recipes write before the name of a model that is no network


@dataclass(frozen=True)
class Published:
    """A figure of the paper: mean and standard deviation over three seeds."""

    table: str
    model: str
    depth: int | None
    norm: str
    residual: str
    metric: MetricName
    mean: float
    std: float | None


@cache
def published_figures() -> Sequence[tuple[str, Published]]:
    """Every figure of the paper, with the name of its task."""
    return [
        (row["task"], _figure(path.stem, row))
        for path in sorted((recipes_folder() / "paper").glob("*.toml"))
        for row in read_published(read_toml(path))
        if "mean" in row  # a ratio is a figure of no task
    ]


def recipes_folder() -> Path:
    """Where the recipes are: in the installed package, or at the root of a clone."""
    here = Path(__file__).resolve()
    packaged, cloned = here.parents[1] / "recipes", here.parents[3] / "recipes"
    return packaged if packaged.is_dir() else cloned


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, whose numbers remember how they were written."""
    text = path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    return tomllib.loads(text, parse_float=AsPrinted)


def read_published(recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows under `[published]`: what each says, without the cells that are empty."""
    published = recipe.get("published", {})
    for row in published.get("rows", ()):
        yield {name: value for name, value in zip(published["columns"], row, strict=True) if value != ""}


def _figure(table: str, row: Mapping[str, Any]) -> Published:
    return Published(
        table=table,
        model=row["model"].removeprefix(BASELINE),
        depth=row.get("depth"),
        norm=row.get("norm", ""),
        residual=row.get("residual", ""),
        metric=row["metric"],
        mean=row["mean"],
        std=row.get("std"),
    )
