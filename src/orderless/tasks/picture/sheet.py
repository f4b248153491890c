"""The whole picture: what the task is, a few of its sets, and below them the distributions of all.

Targets and sizes are shown for all sets: they are in memory anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from orderless.files import written_aside
from orderless.io.extras import require
from orderless.look import DPI, MARK, SOFT, STYLE, WIDTH, check_picture_path
from orderless.tasks.picture.distributions import draw_distributions
from orderless.tasks.picture.drawers import Drawer, drawer_for
from orderless.tasks.picture.reading import Example, is_ragged, read_examples, read_sample, splits_of
from orderless.tasks.task_data import TaskData
from orderless.words import counted

HEIGHT: Final = 8.0  # inches
MOST_SETS: Final = 12  # drawn one by one
USUAL_SETS: Final = {"histogram": 6, "scatter": 6, "points": 12, "images": 4}
KINDS: Final = {
    "published": "the published data",
    "substituted": "NOT the published data: other real data in their place",
    "simulated": "NOT the published data: simulated in their place",
    "exact": "exact by construction",
}


def draw_task(data: TaskData, path: str | Path, *, num_sets: int | None = None, seed: int = 0) -> Path:
    """Draws what a task looks like into a PNG file.

    Args:
        data: The prepared task.
        path: The file to write; it ends in `.png`, and its folder exists. A file of that name is replaced.
        num_sets: Training sets that are drawn one by one, 1 to 12. They are spread over the targets. Default: as many as look
            good.
        seed: Of the choice of sets. The same seed gives the same picture.

    Returns:
        The path.

    Raises:
        ValueError: If the path, the number or the seed is none of those, or if elements cannot be drawn as the task says.
        ImportError: If matplotlib is not installed; the message says how to install it.
    """
    path = check_picture_path(path, ["png"])
    num_sets = USUAL_SETS[data.task.drawing] if num_sets is None else num_sets
    if not 1 <= num_sets <= MOST_SETS:
        raise ValueError(f"num_sets must be 1 to {MOST_SETS}, got {num_sets}.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    drawer = drawer_for(data)
    matplotlib = require("matplotlib", "plot")
    figure_module = require("matplotlib.figure", "plot")
    agg = require("matplotlib.backends.backend_agg", "plot")
    examples = read_examples(data, num_sets, np.random.default_rng([seed, 0]))
    samples = {
        name: read_sample(split, np.random.default_rng([seed, 1 + n])) for n, (name, split) in enumerate(splits_of(data).items())
    }
    with matplotlib.rc_context(STYLE):
        figure = figure_module.Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        agg.FigureCanvasAgg(figure)
        top = _draw_header(figure, data)
        middle = 0.40
        _draw_examples(figure, drawer, examples, (middle, top))
        draw_distributions(figure, data, drawer, samples, (0.0, middle))
        with written_aside(path) as beside:
            figure.savefig(beside, format="png", dpi=DPI)
    return path


def _draw_header(figure: Any, data: TaskData) -> float:
    """Title, what it is about, counts and provenance; returns where they end, as a fraction of the height."""
    title, about = data.title, data.task.about
    figure.text(0.03, 0.965, title, fontsize=_fitting(title, 17, 95), fontweight="bold", va="center")
    figure.text(0.03, 0.928, about, fontsize=_fitting(about, 11, 150), va="center")
    shape = data.element_shape
    features = counted(shape[0], "feature") if len(shape) == 1 else f"elements of shape {' x '.join(map(str, shape))}"
    counts = f"{len(data.train):,} training and {len(data.test):,} test sets  ·  {_sizes_in_words(data)}  ·  {features}"
    figure.text(0.03, 0.897, counts, fontsize=_fitting(counts, 10, 150), color=SOFT, va="center")
    real = data.source.kind in ("published", "exact")
    provenance = f"{data.name}  ·  {KINDS[data.source.kind]}"
    weight = "normal" if real else "bold"
    figure.text(
        0.03,
        0.868,
        provenance,
        fontsize=_fitting(provenance, 10, 150),
        color=SOFT if real else MARK,
        fontweight=weight,
        va="center",
    )
    return 0.845


def _sizes_in_words(data: TaskData) -> str:
    said = {}
    for name, split in splits_of(data).items():
        low, high = (int(split.sizes.min()), int(split.sizes.max())) if len(split) else (0, 0)
        said[name] = counted(low, "element") if low == high else f"{low:,} to {high:,} elements"
    if said["training"] == said["test"]:
        return f"{said['test']} in a set" if is_ragged(data) else f"{said['test']} in every set"
    return ", ".join(f"{words} in a {name} set" for name, words in said.items())


def _draw_examples(figure: Any, drawer: Drawer, examples: Sequence[Example], span: tuple[float, float]) -> None:
    bottom, top = span
    figure.text(0.03, top - 0.012, "Some of the training sets", fontsize=11, fontweight="bold", va="center")
    if not examples:
        figure.text(0.5, (bottom + top) / 2, "there are no training sets", ha="center", color=SOFT)
        return
    columns = len(examples) if len(examples) <= 6 else ceil(len(examples) / 2)
    rows = ceil(len(examples) / columns)
    left, low = (0.03, bottom + 0.02) if drawer.bare else (0.07, bottom + 0.065)
    space = {"wspace": 0.12, "hspace": 0.22} if drawer.bare else {"wspace": 0.14, "hspace": 0.55}
    grid = figure.add_gridspec(rows, columns, left=left, right=0.97, bottom=low, top=top - 0.07, **space)
    axes = [figure.add_subplot(grid[n // columns, n % columns], projection=drawer.projection) for n in range(len(examples))]
    for ax, example in zip(axes, examples, strict=True):
        ax.set_title(example.caption, loc="center", fontsize=_fitting(example.caption, 10, 24))
        if not len(example.x):
            ax.annotate("empty set", (0.5, 0.5), xycoords="axes fraction", ha="center", color=SOFT)
    drawer.draw(axes, examples)


def _fitting(text: str, size: float, letters: int) -> float:
    """A font size at which the text stays on one line, which holds that many letters at the size given."""
    return size * min(1.0, letters / max(len(text), 1))
