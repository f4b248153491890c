"""Loss and gradient norms of shallow and deep networks: a row of panels for each family of networks.

Gradients that vanish with depth, and those that explode, show in the size of a step's gradient and in its size layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from orderless.experiments.figures.curves import (
    Curve,
    Line,
    Look,
    Series,
    draw_curve,
    join,
    legend_handles,
    make_series,
    read_curves,
    scale_axis,
)
from orderless.experiments.figures.material import Material
from orderless.experiments.figures.page import MARGIN, Drawn, Page, Row, open_page, say_empty, styled
from orderless.experiments.grid import Cell
from orderless.io.extras import require
from orderless.look import WIDTH
from orderless.models.registry import MODELS, Family
from orderless.numbers import tick
from orderless.tasks.registry import get_task

FAMILIES: Final[Mapping[Family, str]] = {
    "deep_sets": "Deep Sets",
    "set_transformer": "Set Transformer",
    "point_cloud": "Networks for point clouds",
}
ROW_HEIGHT, PANEL_HEIGHT, GAP = 3.5, 2.2, 0.78
PANELS: Final = (
    ("training loss", "step"),
    ("gradient norm of a step", "step"),
    ("gradient norm of each layer", "layer, from input (0) to output (1)"),
)


def draw_gradients(material: Material) -> Drawn:
    """Training loss, gradient norm of each step, and gradient norm of each layer before training and at the end.

    A row for each task and each family, such as Deep Sets with Deep Sets++.
    """
    groups = [
        (f"{title}{f' on {get_task(task).title}' if len(material.tasks) > 1 else ''}", cells)
        for task in material.tasks
        for family, title in FAMILIES.items()
        if (cells := [(cell, label) for cell, label in material.cells(task) if _family(cell) == family])
    ]
    if not groups:
        raise ValueError(f"{material.plan.recipe.name}: only gradients of networks can be drawn, and it has no network.")
    rows: list[Row] = []
    with styled():
        page = open_page(material.words(), ROW_HEIGHT * len(groups))
        for n, (title, cells) in enumerate(groups):
            rows += _draw_row(page, page.top - ROW_HEIGHT * (n + 1), title, cells, material)
    return Drawn(page.figure, rows)


def _family(cell: Cell) -> Family | None:
    """None for baselines, which have no gradients."""
    model = cell.runs[0].model
    return MODELS[model].family if model in MODELS else None


def _draw_row(page: Page, bottom: float, title: str, cells: Sequence[tuple[Cell, str]], material: Material) -> list[Row]:
    looks = {label: Look(n) for n, (_, label) in enumerate(cells)}
    width = (WIDTH - 2 * MARGIN - 0.45 - 2 * GAP) / 3
    panels = [page.panel(MARGIN + 0.45 + n * (width + GAP), bottom + 0.62, width, PANEL_HEIGHT) for n in range(3)]
    top = bottom + ROW_HEIGHT
    page.figure.text(MARGIN / WIDTH, (top - 0.16) / page.height, title, fontsize=12, fontweight="bold", va="center")
    page.figure.legend(
        handles=legend_handles(list(looks.items())),
        loc="center left",
        bbox_to_anchor=((MARGIN + 0.14 + 0.125 * len(title)) / WIDTH, (top - 0.17) / page.height),
        ncols=6,
        handlelength=3.2,
        columnspacing=1.6,
    )
    rows: list[Row] = []
    results = {label: material.lines_of(cell) for cell, label in cells}
    for axes, (name, unit), column in zip(panels[:2], PANELS[:2], ("loss", "gradient_norm"), strict=True):
        axes.set_title(name)
        curves = [
            (curve, looks[label])
            for label, lines in results.items()
            for curve in read_curves(label, lines, "steps", "step", column)
        ]
        for curve, look in curves:
            draw_curve(axes, curve, look)
        _finish(axes, [curve for curve, _ in curves], unit)
        rows += [row for curve, _ in curves for row in curve.rows(f"{title}: {name}", unit)]
    return rows + _draw_layers(panels[2], results, looks, title)


def _draw_layers(axes: Any, results: dict[str, list[Line]], looks: dict[str, Look], title: str) -> list[Row]:
    """The mean over runs: thin before training, thick at the last moment that was seen."""
    name, unit = PANELS[2]
    axes.set_title(name)
    curves: list[Curve] = []
    for label, lines in results.items():
        for when, moment, style in (
            ("before training", 0, {"linewidth": 1.0, "alpha": 0.8, "markersize": 3.5}),
            ("at the end", -1, {"linewidth": 2.3}),
        ):
            for curve in join(f"{label}, {when}", [_by_layer(line, moment) for line in lines]):
                axes.plot(curve.x, curve.mean, **{**looks[label].line(curve.x.size), **style})
                curves.append(curve)
    _finish(axes, curves, f"{unit}\nthin: before training, thick: at the end")
    return [row for curve in curves for row in curve.rows(f"{title}: {name}", unit)]


def _finish(axes: Any, curves: Sequence[Curve], label: str) -> None:
    if curves:
        scale_axis(axes, curves)
        ticker = require("matplotlib.ticker", "plot")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: tick(value)))
        axes.set_xlabel(label)
    else:
        say_empty(axes, "no finished run yet")


def _by_layer(line: Line, moment: int) -> Series:
    """Gradient norms at a moment, over the place of each layer between input and output. Zero has no place on such a scale."""
    seen = (line["layers"] or {}).get("moments") or [{"gradient": []}]
    norms = seen[moment]["gradient"]
    places = np.linspace(0.0, 1.0, len(norms)) if len(norms) > 1 else np.full(len(norms), 0.5)
    return make_series((x, norm or None) for x, norm in zip(places.tolist(), norms, strict=True))
