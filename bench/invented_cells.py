"""Draws what more cells of invented patients bring: the lines of `orderless table more_elements` as curves.

    python bench/invented_cells.py docs/results/more_elements_simulated.jsonl --picture curve.png

Two dashed lines say what there is to gain: the error of a constant, and that of whoever knew what the cells were drawn from.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from more_elements import COLORS, in_words, label_curves

from orderless.evaluate.drawing_parts import GRID
from orderless.experiments.results import read_results
from orderless.io.extras import require
from orderless.look import SOFT, STYLE
from orderless.tasks import get_task
from orderless.tasks.sources.simulated_flow_rbc import simulate_patients

STYLES: Mapping[tuple[str, str], tuple[str, str, str]] = {  # (model, pool): title, color, dashes
    ("deep_sets++", "mean"): ("Deep Sets++, mean", "#56b4e9", "--"),  # dashed and on top: it may lie on the sum
    ("deep_sets++", "sum"): ("Deep Sets++, sum", COLORS["deep_sets++"], "-"),
    ("baseline:moments", ""): ("Moments, linear", COLORS["moments"], "-"),
}
_NUM_TEST = 5000  # patients
Curves = dict[tuple[str, str], dict[int, list[float]]]  # (model, pool): MSE of each seed by the number of cells


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path, metavar="FILE", help="result lines of the recipe more_elements")
    parser.add_argument("--picture", type=Path, required=True, metavar="PNG")
    given = parser.parse_args()
    if not given.lines.is_file():
        parser.error(f"{given.lines}: expected result lines, found no such file")
    curves = curves_of(read_results(given.lines))
    if not curves:
        parser.error(f"{given.lines}: expected lines of `orderless table more_elements`, found none")
    draw(curves, given.picture)


def curves_of(lines: Sequence[Mapping[str, Any]]) -> Curves:
    """The errors of all seeds, few cells first. Lines of other tasks and models are passed over."""
    usual = get_task("hematocrit")
    found: Curves = {name: defaultdict(list) for name in STYLES}
    for line in lines:
        spec = line["spec"]
        is_network = not spec["model"].startswith("baseline:")
        name = (spec["model"], spec["model_options"].get("pool", usual.model_options["pool"]) if is_network else "")
        if spec["task"] == "hematocrit@simulated" and name in found:
            found[name][spec["data_options"].get("set_size", usual.set_size[0])].append(line["metrics"]["mse"])
    return {name: dict(sorted(by_cells.items())) for name, by_cells in found.items() if by_cells}


def limits() -> tuple[float, float]:
    """MSE on the test patients of a constant, and of the expectation given everything but chance."""
    blocks = list(simulate_patients("hematocrit", _NUM_TEST, num_cells=0, split="test"))
    target = np.concatenate([block.target for block in blocks]).astype(np.float64)
    oracle = np.concatenate([block.oracle for block in blocks])
    return float(target.var()), float(((target - oracle) ** 2).mean())


def draw(curves: Curves, path: Path) -> None:
    """One panel: MSE over the number of cells. Each seed is a faint dot."""
    with require("matplotlib", "plot").rc_context(STYLE):
        figure = require("matplotlib.figure", "plot").Figure(figsize=(6.4, 4.0), layout="constrained")
        ax = figure.subplots()
        ax.set_xscale("log")
        ax.grid(axis="y", **GRID)
        for name, by_cells in reversed(curves.items()):  # the first on top
            title, color, dashes = STYLES[name]
            dots = [(cells, value) for cells, values in by_cells.items() for value in values]
            ax.plot(*zip(*dots, strict=True), "o", color=color, alpha=0.35, mew=0, markersize=4)
            means = [float(np.mean(values)) for values in by_cells.values()]
            ax.plot(list(by_cells), means, dashes, color=color, linewidth=1.8, label=title)
        for value, title in zip(limits(), ("Constant", "What can be known"), strict=True):
            ax.axhline(value, color=SOFT, linewidth=0.9, linestyle=(0, (2, 2)), label=title)
        cells = sorted({n for by_cells in curves.values() for n in by_cells})
        ax.set_xticks(cells, [in_words(n) for n in cells])
        ax.minorticks_off()
        ax.set(xlabel="cells of a patient, in training and testing", ylabel="MSE of hematocrit")
        label_curves(ax)
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
