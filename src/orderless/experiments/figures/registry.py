"""Every drawing by its name, and how a recipe of kind figure becomes files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from orderless.diagnose.collapse import make_shapes, normalize_shapes
from orderless.diagnose.picture import draw_collapse
from orderless.experiments.figures.cells import draw_cells
from orderless.experiments.figures.diagrams import IN_THE_PAPER, arrangements, draw_arrangements
from orderless.experiments.figures.gradients import draw_gradients
from orderless.experiments.figures.material import Material
from orderless.experiments.figures.page import Drawn, write_drawn
from orderless.experiments.figures.training import draw_training
from orderless.experiments.grid import Recipe, RecipeError, choose_sources
from orderless.experiments.spec import parse_value
from orderless.words import did_you_mean


@dataclass(frozen=True)
class Drawing:
    """A way to draw.

    Attributes:
        draw: From the material to the figure and its numbers.
        of_runs: Whether it shows results, so that its recipe must have a grid.
        of_data: Whether it shows sets of a task.
        options: What it takes under `[options]` of a recipe, with what it does without.
    """

    draw: Callable[[Material], Drawn]
    of_runs: bool = False
    of_data: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def _draw_arrangements(material: Material) -> Drawn:
    """Options: `order`, released or paper; `panels`, names of arrangements, or `all`."""
    order, panels = material.options["order"], material.options["panels"]
    if list(panels) == ["all"]:
        panels = list(arrangements(order))
    return Drawn(draw_arrangements(order, panels))


def _draw_layer_norm(material: Material) -> Drawn:
    """What two norms leave of shapes. The numbers are the points."""
    shapes = make_shapes()
    found = {"none": shapes, **normalize_shapes(shapes)}
    rows = [
        {"norm": norm, "shape": shape, "x": f"{x:.6g}", "y": f"{y:.6g}"}
        for norm, of in found.items()
        for shape, points in of.items()
        for x, y in points.tolist()
    ]
    return Drawn(draw_collapse(), rows)


DRAWINGS: Final[Mapping[str, Drawing]] = {
    "curves": Drawing(draw_training, of_runs=True, options={"panels": None}),
    "gradients": Drawing(draw_gradients, of_runs=True),
    "layer_norm_2d": Drawing(_draw_layer_norm),
    "rbc_distribution": Drawing(draw_cells, of_data=True, options={"task": "hematocrit", "num_patients": 3}),
    "residual_arrangements": Drawing(_draw_arrangements, options={"order": "released", "panels": IN_THE_PAPER}),
}


def find_drawing(recipe: Recipe) -> Drawing:
    """The drawing of a recipe, which must be a figure and have what the drawing needs."""
    if recipe.kind != "figure":
        raise ValueError(f"{recipe.name} is a table: `orderless table {recipe.name}` makes it.")
    if recipe.drawing is None or recipe.drawing not in DRAWINGS:
        raise RecipeError(recipe.path, f"there is no drawing {recipe.drawing!r}. Drawings: {', '.join(DRAWINGS)}.")
    drawing = DRAWINGS[recipe.drawing]
    if drawing.of_runs != bool(recipe.blocks):
        needs = "shows results, and needs [[grid]]" if drawing.of_runs else "shows no results, and has no use for [[grid]]"
        raise RecipeError(recipe.path, f"the drawing {recipe.drawing!r} {needs}.")
    return drawing


def check_options(recipe: Recipe, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All options of a recipe's drawing: its defaults, the recipe's, and these, which override both."""
    known = find_drawing(recipe).options
    given = {**recipe.options, **(options or {})}
    for name in given:
        if name not in known:
            takes = f"It takes {', '.join(known)}" if known else "It takes none"
            raise ValueError(f"the drawing {recipe.drawing!r} has no option {name!r}.{did_you_mean(name, known)} {takes}.")
    return {**known, **given}


def parse_drawing_options(texts: Iterable[str]) -> dict[str, Any]:
    """Reads `key=value` texts: numbers as such, `panels` as a list with commas, anything else as a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"expected key=value, such as order=paper; got {text!r}.")
        options[name] = [part.strip() for part in value.split(",")] if name == "panels" else parse_value(value)
    return options


def rehearse(material: Material) -> None:
    """Draws a figure without results and throws it away: what is wrong with it is found before the runs, and not after them."""
    recipe = material.plan.recipe
    find_drawing(recipe).draw(replace(material, lines={}, options=check_options(recipe, material.options)))


def draw_figure(material: Material, folder: Path) -> list[Path]:
    """Draws a recipe's figure from what is there and writes it to `folder`, as PNG, PDF, and CSV where it shows numbers.

    Args:
        material: The recipe with its runs, results, and options that override the recipe's.
        folder: Made if it is not there. Files of an earlier drawing are replaced.
    """
    recipe = material.plan.recipe
    plan = choose_sources(material.plan, material.lines)
    complete = replace(material, plan=plan, options=check_options(recipe, material.options))
    return write_drawn(find_drawing(recipe).draw(complete), folder, recipe.name)
