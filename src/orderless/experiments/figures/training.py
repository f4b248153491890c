"""Loss and metrics over the epochs of training, with a label at the end of each curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orderless.experiments.figures.curves import (
    Curve,
    Look,
    draw_curve,
    label_ends,
    read_curves,
    scale_axis,
    scale_share_axis,
)
from orderless.experiments.figures.material import Material
from orderless.experiments.figures.page import MARGIN, Drawn, Row, open_page, say_empty, styled
from orderless.experiments.grid import published_for
from orderless.experiments.naming import METRIC_TITLES, SHARES
from orderless.io.extras import require
from orderless.look import WIDTH
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.registry import get_task
from orderless.words import capitalized

TRAIN_LOSS: Final = "train_loss"
ROW_HEIGHT, PANEL_HEIGHT = 4.7, 3.75
AXIS_ROOM, LETTER = 0.62, 0.072  # left of a panel, and of each letter of the labels right of it


def draw_training(material: Material) -> Drawn:
    """A row for each task; in it the training loss and the test metrics of the recipe.

    Option `panels`: which of `train_loss` and the task's metrics, such as `["train_loss", "cross_entropy"]`. Without it they are
    the metrics of the recipe, and before them the training loss where the first of them is a loss, so that the two compare.
    """
    rows: list[Row] = []
    with styled():
        page = open_page(material.words(), ROW_HEIGHT * max(1, len(material.tasks)))
        for n, task in enumerate(material.tasks):
            panels = _panels(material, task)
            longest = max((len(label) for _, label in material.cells(task)), default=0)
            if material.plan.recipe.published:
                longest = max(longest, len("(published 0.0000)"))
            label_room = 0.3 + LETTER * longest
            space = (WIDTH - 2 * MARGIN) / len(panels)
            bottom = page.top - ROW_HEIGHT * (n + 1) + 0.56
            for m, name in enumerate(panels):
                left = MARGIN + m * space + AXIS_ROOM
                axes = page.panel(left, bottom, space - AXIS_ROOM - label_room, PANEL_HEIGHT)
                rows += _draw_panel(axes, material, task, name)
    return Drawn(page.figure, rows)


def _panels(material: Material, task: str) -> Sequence[str]:
    known = OBJECTIVES[get_task(task).objective].metrics
    chosen: Any = material.options["panels"]
    if chosen is None:
        metrics = material.plan.recipe.metrics_of(task)
        wanted = [name for name in metrics if name in known]
        return [*([TRAIN_LOSS] if wanted[:1] != ["accuracy"] else []), *wanted]
    if not isinstance(chosen, list) or not chosen or not all(name in (TRAIN_LOSS, *known) for name in chosen):
        raise ValueError(f"panels must be a list of {', '.join((TRAIN_LOSS, *known))}; got {chosen!r}.")
    return chosen


def _draw_panel(axes: Any, material: Material, task: str, name: str) -> list[Row]:
    title = "training loss" if name == TRAIN_LOSS else f"test {METRIC_TITLES[name]}"
    axes.set_title(f"{get_task(task).title}: {title}" if len(material.tasks) > 1 else capitalized(title))
    column = name if name == TRAIN_LOSS else f"test_{name}"
    labelled: list[tuple[Curve, Look, str]] = []
    drawn: list[Curve] = []
    for n, (cell, label) in enumerate(material.cells(task)):
        curves = read_curves(label, material.lines_of(cell), "epochs", "epoch", column)
        for curve in curves:
            draw_curve(axes, curve, Look(n))
        drawn += curves
        if curves:
            published = None if name == TRAIN_LOSS else published_for(material.plan.recipe, cell, name)
            text = label if published is None else f"{label}\n(published {published['mean']:g})"
            labelled.append((max(curves, key=lambda curve: curve.x[-1]), Look(n), text))
    if not drawn:
        say_empty(axes, "no finished run yet")
        return []
    (scale_share_axis if name in SHARES else scale_axis)(axes, drawn)
    last = max(float(curve.x[-1]) for curve in drawn)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(require("matplotlib.ticker", "plot").MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    label_ends(axes, labelled, PANEL_HEIGHT)
    return [row for curve in drawn for row in curve.rows(title, "epoch")]
