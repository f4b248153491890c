"""How elements, targets and sizes are distributed: training and test sets over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.io.extras import require
from orderless.look import TEST, TRAIN
from orderless.sets import SetBatch
from orderless.tasks.picture.binning import edges_of, finite
from orderless.tasks.picture.drawers import Drawer, hide_scale
from orderless.tasks.picture.reading import is_ragged, splits_of
from orderless.tasks.task_data import TaskData
from orderless.words import shortened

LONGEST_NAME: Final = 14  # letters of a class
LETTERS_IN_A_ROW: Final = 60  # of class names; where there are more, the names stand upright
COLORS: Final = {"training": TRAIN, "test": TEST}


def draw_distributions(
    figure: Any, data: TaskData, drawer: Drawer, samples: dict[str, SetBatch], span: tuple[float, float]
) -> None:
    """Elements of some sets, targets and sizes of all, side by side in that part of the height."""
    bottom, top = span
    figure.text(0.03, top - 0.012, "All sets", fontsize=11, fontweight="bold", va="center")
    patch = require("matplotlib.patches", "plot").Patch
    handles = [patch(facecolor=color, alpha=0.6, edgecolor=color, label=name) for name, color in COLORS.items()]
    figure.legend(handles=handles, loc="center left", bbox_to_anchor=(0.095, top - 0.011), ncols=2, handlelength=1.4)
    by_split = {name: drawer.summarize(sample.x.numpy()) for name, sample in samples.items()}
    labels = [label for label, _ in by_split["training"]]
    names = [shortened(name, LONGEST_NAME) for name in data.class_names] if data.task.objective == "classification" else []
    upright = sum(map(len, names)) + 2 * len(names) > LETTERS_IN_A_ROW
    target_width = max(1.2, len(names) / 12)
    widths = [1.2 / len(labels) ** 0.5] * len(labels) + [target_width] + [0.8] * is_ragged(data)
    low = bottom + (0.135 if upright else 0.075)
    grid = figure.add_gridspec(
        1, len(widths), left=0.06, right=0.97, bottom=low, top=top - 0.075, width_ratios=widths, wspace=0.22
    )
    axes = [figure.add_subplot(grid[0, n]) for n in range(len(widths))]
    for d, label in enumerate(labels):
        _draw_overlaid(axes[d], {name: pairs[d][1] for name, pairs in by_split.items()})
        axes[d].set_xlabel(label)
    shown = [len(sample) for sample in samples.values()]
    whole = shown == [len(split) for split in splits_of(data).values()]
    axes[0].set_title("Elements" if whole else f"Elements (of {shown[0]:,} training and {shown[1]:,} test sets)")
    _draw_targets(axes[len(labels)], data, names, upright=upright)
    if is_ragged(data):
        _draw_overlaid(axes[-1], {name: split.sizes for name, split in splits_of(data).items()})
        axes[-1].set_title("Sizes")
        axes[-1].set_xlabel("elements of a set")
    axes[0].set_ylabel("share of elements")


def _draw_targets(ax: Any, data: TaskData, names: Sequence[str], *, upright: bool) -> None:
    targets = {name: split.target.numpy() for name, split in splits_of(data).items()}
    ax.set_title("Targets")
    if data.task.objective == "regression":
        _draw_overlaid(ax, targets)
        ax.set_xlabel("target")
        ax.set_ylabel("share of sets")
        return
    ax.set_title("Targets (share of sets)")
    if data.task.objective == "element_choice":
        last = max((int(target.max()) for target in targets.values() if target.size), default=0)
        names = [str(n + 1) if last < 30 or n % 10 == 9 else "" for n in range(last + 1)]
        ax.set_xlabel("place of the odd one")
    for n, (name, target) in enumerate(targets.items()):
        share = np.bincount(target, minlength=len(names)) / max(len(target), 1)
        ax.bar(np.arange(len(names)) + 0.4 * n - 0.2, share, width=0.4, color=COLORS[name], alpha=0.85)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xticks(np.arange(len(names)), names, rotation=90 if upright else 0, fontsize=8 if len(names) <= 24 else 7)
    ax.tick_params(axis="x", length=0)
    ax.yaxis.set_major_formatter(require("matplotlib.ticker", "plot").PercentFormatter(1.0, decimals=None))


def _draw_overlaid(ax: Any, numbers: dict[str, NDArray[Any]]) -> None:
    """Histograms of both splits over the same bins, each with area 1."""
    parts = {name: finite(values) for name, values in numbers.items()}
    fewest = min(part.size for part in parts.values())
    edges = edges_of(list(parts.values()), int(np.clip(2 * fewest ** (1 / 3), 8, 50)), most_outside=1.5)  # Rice's rule
    for name, part in parts.items():
        if part.size:
            weights = np.full(part.size, 1 / part.size)
            ax.hist(part, bins=edges, weights=weights, histtype="stepfilled", color=COLORS[name], alpha=0.35)
            ax.hist(part, bins=edges, weights=weights, histtype="step", color=COLORS[name], linewidth=1.3)
    ax.set_xlim(edges[0], edges[-1])
    hide_scale(ax)
