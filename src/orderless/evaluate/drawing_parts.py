"""Parts of the pictures of an evaluation: panels, colours, and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from orderless.evaluate.curves import model_of
from orderless.evaluate.evaluation import Evaluation
from orderless.io.extras import require
from orderless.look import GREEN, INK, MARK, PINK, SKY, SOFT, TEST, TRAIN
from orderless.words import counted, shortened

MOST_PANELS: Final = 4  # models that are drawn side by side
LONGEST_NAME: Final = 14  # letters of a class beside a matrix
LONGEST_TITLE: Final = 38  # letters of a model above a panel
GRID: Final = {"color": "#E6E6E6", "linewidth": 0.7}
# Okabe and Ito's: strong ones for models, and for baselines what is left of them, thin
MODELS: Final = (TRAIN, MARK, GREEN, PINK, INK)
BASELINES: Final = {
    "constant": "#999999",
    "covariates": "#B8860B",
    "moments": TEST,
    "moments_tuned": "#8C564B",
    "moments_boosted": SKY,
    "mean_embedding": "#9467BD",
}


def open_panels(
    rows: int,
    columns: int,
    width: float,
    height: float | tuple[float, ...],
    title: str,
    note: str,
    *,
    left: float = 0.75,
    right: float = 0.2,
    gap: float = 0.3,
    head: float = 0.55,
) -> tuple[Any, list[list[Any]]]:
    """A figure with a title, a note below it, and panels of this width and height in inches, with room for their heads."""
    heights = height if isinstance(height, tuple) else (height,) * rows
    between = 0.45
    above = 0.5 + 0.2 * (note.count("\n") + 1) + head
    full_width = max(left + columns * width + (columns - 1) * between + right, 6.4)
    full_height = above + sum(heights) + (rows - 1) * gap + 0.6
    figure = require("matplotlib.figure", "plot").Figure(figsize=(full_width, full_height))
    figure.text(0.2 / full_width, 1 - 0.28 / full_height, title, fontsize=13, fontweight="bold", va="center")
    figure.text(0.2 / full_width, 1 - 0.48 / full_height, note, fontsize=8.5, color=SOFT, va="top", linespacing=1.4)
    panels, top = [], full_height - above
    for height_of_row in heights:
        y = (top - height_of_row) / full_height
        panels.append(
            [
                figure.add_axes(((left + c * (width + between)) / full_width, y, width / full_width, height_of_row / full_height))
                for c in range(columns)
            ]
        )
        for ax in panels[-1]:
            ax.set_axisbelow(True)
        top -= height_of_row + gap
    return figure, panels


def open_square(title: str, note: str) -> tuple[Any, Any]:
    """A figure with one square panel from 0 to 1 and room for a legend."""
    figure, panels = open_panels(1, 1, 4.0, 4.0, title, note, right=3.9, head=0.25)
    ax = panels[0][0]
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-0.01, 1.01)
    ax.grid(**GRID)
    return figure, ax


def choose_models(evaluation: Evaluation, models: Sequence[str] | None) -> list[str]:
    """Names of the models to draw side by side."""
    if models is not None:
        if not 1 <= len(models) <= MOST_PANELS:
            raise ValueError(f"one to {MOST_PANELS} models are drawn side by side, got {len(models)}.")
        return [model_of(evaluation, name).name for name in models]
    given = [name for name, model in evaluation.models.items() if not model.is_baseline]
    if not given:
        looking = [name for name in evaluation.models if name not in ("constant", "covariates")]
        return looking[:MOST_PANELS]
    return [
        *given[: MOST_PANELS - 1],
        evaluation.best_baseline["log_loss" if evaluation.objective == "classification" else "mse"],
    ]


def drawn_models(evaluation: Evaluation) -> list[str]:
    """Models that have something to draw, baselines first, so that the others lie on top."""
    names = [name for name, model in evaluation.models.items() if model.has_probabilities and np.isfinite(model.output).any()]
    return sorted(names, key=lambda name: not evaluation.models[name].is_baseline)


def style_of(evaluation: Evaluation, name: str) -> dict[str, Any]:
    """Colour and width of a model's line."""
    if evaluation.models[name].is_baseline:
        return {"color": BASELINES[name], "linewidth": 1.2}
    given = [n for n, model in evaluation.models.items() if not model.is_baseline]
    return {"color": MODELS[given.index(name) % len(MODELS)], "linewidth": 2.4}


def note_on(evaluation: Evaluation) -> str:
    """What the pictures rest on, in a line."""
    folds = evaluation.fold_numbers
    count, repeats = int(folds.max()) + 1, len(folds)
    tested = (folds >= 0).any(0)
    split = "One split into train and test" if count == 1 else f"{count} folds{f', {repeats} repeats' if repeats > 1 else ''}"
    groups = 0 if evaluation.groups is None else len(set(evaluation.groups[tested].tolist()))
    by = "" if not groups else ", one of each group" if groups == tested.sum() else f" of {groups:,} groups, never divided"
    return f"{split}. {counted(int(tested.sum()), 'set')}{by}, each predicted by models that had not seen it."


def label_of(evaluation: Evaluation, name: str, metric: str) -> str:
    """A model in a legend: its title, and a metric with its interval."""
    found = evaluation.models[name].metrics[metric].interval
    return f"{evaluation.models[name].title}\n{number_text(found.value)} [{number_text(found.low)}, {number_text(found.high)}]"


def put_legend(ax: Any, title: str | None = None) -> None:
    """A legend on the right of a panel."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.03, 0.5), title=title, alignment="left",
                  labelspacing=0.8)  # fmt: skip


def class_words(evaluation: Evaluation) -> str:
    """Which class a rate is of."""
    assert evaluation.classes is not None
    return f", class {evaluation.classes[1]}" if len(evaluation.classes) == 2 else ", each class against the rest, averaged"


def scatter(ax: Any, x: Any, y: Any, color: str) -> None:
    """Points, paler where there are many."""
    many = len(x) > 500
    ax.scatter(x, y, s=7 if many else 16, color=color, alpha=0.35 if many else 0.65, linewidths=0, rasterized=len(x) > 5000)


def short_title(evaluation: Evaluation, name: str) -> str:
    """A title that fits above a panel."""
    return shortened(evaluation.models[name].title, LONGEST_TITLE)


def number_text(value: float) -> str:
    """A number with three digits, or three decimals."""
    if math.isnan(value):
        return "n/a"
    if 0 < abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
