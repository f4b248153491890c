"""What do more cells of each sample bring? `SetClassifier()` as it comes on two real cohorts, cut to fewer and fewer cells.

    ORDERLESS_DATA=... python bench/more_elements.py --out rows.jsonl       the whole grid: 75 minutes on one core
    python bench/more_elements.py --data DIR --out rows.jsonl --only nk_cmv --cells 100,1000,all --seeds 0,1
    python bench/more_elements.py --show rows.jsonl --picture curve.png     tables and picture, without measuring

Every sample keeps n of its cells, drawn at random, and all of them where it has no more; so it is for training and for testing.
Then donors or patients are cross-validated beside two of the baselines, on the same cells and the same folds. A seed deals the
folds and puts the cells of each sample in order, of which the first n are kept: within a seed, 100 cells are among the 300, and
folds are the same for every n.

Rows are appended as JSON lines, one for each cohort, n, seed and model, with all out-of-fold probabilities. What the file has is
not measured again, so a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from measured import describe_machine
from numpy.typing import NDArray
from sklearn.base import clone

import orderless as ol
from orderless.estimators.defaults import MOST_DRAWN
from orderless.evaluate import cross_validate
from orderless.evaluate.drawing_parts import BASELINES as BASELINE_COLORS
from orderless.evaluate.drawing_parts import GRID
from orderless.evaluate.metrics import METRICS
from orderless.evaluate.resampling import Draws, Resampler, interval_of
from orderless.io import DataError, Samples, join_labels, open_samples
from orderless.io.extras import require
from orderless.look import SOFT, STYLE, TRAIN, move_apart
from orderless.version import versions

Rows = Sequence[Mapping[str, Any]]

CELLS: tuple[int | str, ...] = (30, 100, 300, 1000, 3000, "all")
MODELS = {"deep_sets++": "Deep Sets++", "moments": "Moments, linear", "mean_embedding": "Mean embedding, linear"}
MEAN_ALONE = "deep_sets++ mean"  # what the defaults do with samples of more than MOST_DRAWN cells, done with fewer
TITLES = {**MODELS, MEAN_ALONE: "Deep Sets++, mean alone"}
OURS = ol.SetClassifier()  # all defaults
SCORES = ("accuracy", "roc_auc", "log_loss")
GUESSES = {"roc_auc": 0.5, "log_loss": float(np.log(2))}  # what a constant gets, about
COLORS = {"deep_sets++": TRAIN, **BASELINE_COLORS}  # those of the pictures of evaluations


@dataclass(frozen=True)
class Cohort:
    """Where samples lie below the folder of data, how they are read, and what is predicted of them."""

    title: str
    cells: str
    labels: str
    target: str
    num_folds: int
    reading: Mapping[str, Any]
    group: str | None = None

    def open(self, data: Path) -> Samples:
        """The samples with their labels, as `orderless evaluate` reads them."""
        return join_labels(open_samples(data / self.cells, **self.reading), data / self.labels)


COHORTS = {
    "nk_cmv": Cohort("NK-CMV", "nk_cmv/cells.parquet", "nk_cmv/donors.csv", "cmv", 5, {"set_id": "donor"}),
    "bcr_xl": Cohort("BCR-XL", "bcr_xl/fcs", "bcr_xl/labels.csv", "condition", 4, {"transform": "arcsinh"}, "patient"),
}


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> None:
    """Measures what is missing and writes it, or shows."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", default=os.environ.get("ORDERLESS_DATA"), help="default: ORDERLESS_DATA")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append the rows to this JSONL file")
    parser.add_argument("--only", metavar="COHORT", choices=COHORTS, help=" or ".join(COHORTS))
    parser.add_argument("--cells", type=read_cells, default=CELLS, metavar="N,N", help="cells of a sample, or all")
    parser.add_argument("--seeds", type=read_seeds, default=(0, 1, 2), metavar="S,S", help="random cuts, each with its own folds")
    parser.add_argument("--mean-alone", action="store_true", help="measure the network with pool='mean' instead, no baselines")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of such a file instead")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="with --show: draw the curves")
    given = parser.parse_args()
    try:
        if given.show is not None:
            show(given.show, given.picture)
            return
        if given.picture is not None or given.out is None:
            parser.error("give --out FILE to measure, or --show FILE, with --picture PNG if you like")
        if not given.data:
            parser.error("where are nk_cmv and bcr_xl? Give --data DIR, or set ORDERLESS_DATA")
        for name in [given.only] if given.only else COHORTS:
            run(name, Path(given.data), given.out, given.cells, given.seeds, [MEAN_ALONE] if given.mean_alone else list(MODELS))
    except (DataError, OSError) as error:
        parser.error(str(error))
    except json.JSONDecodeError as error:
        parser.error(f"{given.show or given.out} must hold lines of JSON: {error}")


def read_cells(text: str) -> list[int | str]:
    """`100,1000,all`."""
    words = text.split(",")
    if not all(word == "all" or (word.isdecimal() and int(word) > 0) for word in words):
        raise argparse.ArgumentTypeError(f"numbers of cells or all, such as 100,1000,all; got {text!r}")
    return list(dict.fromkeys(word if word == "all" else int(word) for word in words))


def read_seeds(text: str) -> list[int]:
    """`0,1`."""
    if not all(word.isdecimal() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"whole numbers, such as 0,1,2; got {text!r}")
    return list(dict.fromkeys(int(word) for word in text.split(",")))


# ----------------------------------------------------------------------------------------------------------- measuring


def run(name: str, data: Path, out: Path, cells: Sequence[int | str], seeds: Sequence[int], models: Sequence[str]) -> None:
    """Appends the rows of one cohort that `out` has not, all seeds of an n before the next n."""
    samples = COHORTS[name].open(data)
    known = {(row["cohort"], row["cells"], row["seed"], row["model"]) for row in resume(out)}
    for n in cells:
        for seed in seeds:
            if all((name, n, seed, model) in known for model in models):
                continue
            for row in measure(name, samples, n, seed, models):
                if (name, n, seed, row["model"]) not in known:
                    with out.open("a") as file:
                        file.write(json.dumps({**row, **versions(), **describe_machine("cpu")}) + "\n")
                    print(describe(row), flush=True)


def resume(out: Path) -> list[dict[str, Any]]:
    """The rows of a file, which is made if there is none. A last line that was cut off in writing is taken out of it."""
    out.touch()  # a place where nothing can be written is told before anything is measured
    text = out.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        out.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def cut(x: NDArray[Any], n: int | str, rng: np.random.Generator) -> NDArray[Any]:
    """`n` of the cells at random, none twice, in the order in which they came; all where there are no more."""
    order = rng.permutation(len(x))
    return np.array(x if n == "all" else x[np.sort(order[: int(n)])])


def measure(name: str, samples: Samples, n: int | str, seed: int, models: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each model, all fitted to the same cells of the same folds."""
    cohort = COHORTS[name]
    sets = [cut(samples[i], n, np.random.default_rng([seed, i])) for i in range(len(samples))]
    ours = clone(OURS).set_params(pool="mean" if models[0] == MEAN_ALONE else None)
    groups = None if cohort.group is None else samples.columns[cohort.group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # baselines that do not converge say so
        found = cross_validate(
            {models[0]: ours}, sets, samples.columns[cohort.target], objective="classification", groups=groups,
            num_folds=cohort.num_folds, num_bootstrap=1, seed=seed,
        )  # fmt: skip
    rows = []
    for model in models:
        its = found.models[model]
        if its.failures:
            raise RuntimeError(f"{name}, {n} cells, seed {seed}: {model} failed: {its.failures[0].reason}")
        rows.append({
            "op": "more_elements", "cohort": name, "cells": n, "seed": seed, "model": model,
            **{score: round(its.metrics[score].value, 6) for score in SCORES},
            "seconds": round(its.seconds, 2), "folds": len(found.folds), "samples": len(sets),
            "mean_cells": round(float(np.mean([len(x) for x in sets])), 1), "ids": list(samples.ids),
            "groups": list(samples.ids if groups is None else groups.tolist()),
            "target": found.target.tolist(), "fold": found.fold_numbers[0].tolist(),
            "probabilities": [[float(f"{p:.4g}") for p in both] for both in its.output[0].tolist()],
        })  # fmt: skip
    return rows


def describe(row: Mapping[str, Any]) -> str:
    """A line for whoever waits."""
    scores = "  ".join(f"{score} {row[score]:.3f}" for score in SCORES)
    return f"{row['cohort']:7} {row['cells']!s:>5} cells  seed {row['seed']}  {row['model']:14} {scores}  {row['seconds']:6.1f} s"


# ------------------------------------------------------------------------------------------------ tables and a picture


def show(path: Path, picture: Path | None) -> None:
    """Prints the tables of a file and draws it."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    if not rows or any(row.get("op") != "more_elements" for row in rows):
        raise DataError(path, expected="rows of more_elements.py", found="others" if rows else "none")
    for name in cohorts_of(rows):
        print(f"{COHORTS[name].title}\n\n{render(rows, name)}\n")
    if picture is not None:
        draw(rows, picture)


def cohorts_of(rows: Rows) -> list[str]:
    """Those that there are rows of."""
    return [name for name in COHORTS if any(row["cohort"] == name for row in rows)]


def rows_of(rows: Rows, cohort: str, model: str) -> dict[int | str, Rows]:
    """The rows of one model by the number of cells, few first: a row for each seed."""
    mine = [row for row in rows if (row["cohort"], row["model"]) == (cohort, model)]
    counts = sorted({row["cells"] for row in mine}, key=lambda n: (n == "all", n if n != "all" else 0))
    return {n: sorted((row for row in mine if row["cells"] == n), key=lambda row: row["seed"]) for n in counts}


def in_words(n: int | str) -> str:
    """`1,000` or `all`."""
    return n if isinstance(n, str) else f"{n:,}"


def mean(rows: Rows, score: str) -> float:
    """Over seeds."""
    return float(np.mean([row[score] for row in rows]))


def resample(rows: Rows, score: str) -> Draws:
    """A score, averaged over seeds, in bootstrap samples of the donors or patients: the same samples for all models and n."""
    output = np.array([row["probabilities"] for row in rows])  # (R, N, 2), R seeds, N samples
    output /= output.sum(2, keepdims=True)  # both were rounded to four digits; the smaller one knows the larger one better
    members = np.unique(rows[0]["groups"], return_inverse=True)[1]
    folds = np.array([row["fold"] for row in rows])
    resampler = Resampler("classification", np.array(rows[0]["target"]), folds, members, 1000, 0)
    return resampler.draw(METRICS["classification"][score], output, np.isfinite(output).all(2))


def with_interval(value: float, draws: Draws, *, sign: str = "") -> str:
    """`0.912 [0.684, 1.000]`."""
    found = interval_of(value, draws.over_groups, 0.95)
    assert found is not None
    middle, low, high = (round(number, 3) + 0.0 for number in (value, found.low, found.high))  # 0.0: no minus before nothing
    return f"{middle:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def render(rows: Rows, cohort: str) -> str:
    """A Markdown table of one cohort: means over seeds, with 95 % intervals over donors or patients."""
    lines = ["| model | cells | accuracy | ROC AUC | log loss | all cells less these, ROC AUC | log loss | seconds a fit |"]
    lines.append("|---" * 8 + "|")
    for model, title in TITLES.items():
        of = rows_of(rows, cohort, model)
        for n, mine in of.items():
            parts = [f"{mean(mine, 'accuracy'):.3f}"]
            parts += [with_interval(mean(mine, score), resample(mine, score)) for score in GUESSES]
            for score in GUESSES:
                if n == "all" or "all" not in of:
                    parts.append("")
                    continue
                gain = mean(of["all"], score) - mean(mine, score)
                parts.append(with_interval(gain, resample(of["all"], score).minus(resample(mine, score), 1), sign="+"))
            seconds = mean(mine, "seconds") / mine[0]["folds"]
            lines.append(f"| {title} | {in_words(n)} | {' | '.join(parts)} | {seconds:.1f} |")
    return "\n".join(lines)


def draw(rows: Rows, path: Path) -> None:
    """Curves over the number of cells, a column for each cohort: ROC AUC above, log loss below. Each seed is a faint dot."""
    figure_module, names = require("matplotlib.figure", "plot"), cohorts_of(rows)
    with require("matplotlib", "plot").rc_context(STYLE):
        figure = figure_module.Figure(figsize=(1.6 + 4.2 * len(names), 5.8), layout="constrained")
        panels = figure.subplots(2, len(names), sharex="col", squeeze=False)
        for (score, guess), row in zip(GUESSES.items(), panels, strict=True):
            for ax, name in zip(row, names, strict=True):
                draw_panel(ax, rows, name, score)
                if score == "roc_auc":
                    ax.set(title=COHORTS[name].title, ylim=(0.45, 1.02))
                else:
                    ax.set_xlabel("cells of a sample")
                    ax.set_ylim(bottom=0)
            row[0].axhline(guess, color=SOFT, linewidth=0.9, linestyle=(0, (2, 2)), label="Constant")
            row[0].set_ylabel(METRICS["classification"][score].title)
            label_curves(row[0])
        figure.savefig(path, dpi=150)


def draw_panel(ax: Any, rows: Rows, cohort: str, score: str) -> None:
    """One score of one cohort."""
    ax.set_xscale("log")
    ax.grid(axis="y", **GRID)
    for model, title in reversed(MODELS.items()):  # ours on top
        of = rows_of(rows, cohort, model)
        places = [mine[0]["mean_cells"] for mine in of.values()]
        dots = [(place, row[score]) for place, mine in zip(places, of.values(), strict=True) for row in mine]
        ax.plot(*zip(*dots, strict=True), "o", color=COLORS[model], alpha=0.25, mew=0, markersize=4)
        width = 2.2 if model == "deep_sets++" else 1.4
        ax.plot(places, [mean(mine, score) for mine in of.values()], color=COLORS[model], linewidth=width, label=title)
        ax.set_xticks(places, [in_words(n) for n in of])
    ax.minorticks_off()
    ax.axvline(MOST_DRAWN, color=SOFT, linewidth=0.7, alpha=0.5)
    if score == "roc_auc":
        note = "larger samples:\nlearned in parts,\nmean alone"
        ax.annotate(note, (MOST_DRAWN, 0.53), (4, 0), textcoords="offset points", fontsize=7.5, color=SOFT, va="bottom")


def label_curves(ax: Any) -> None:
    """The name of each curve at its end, moved where another name is."""
    curves = [line for line in ax.lines if not line.get_label().startswith("_")]
    ends = ax.transData.transform([(1, line.get_ydata()[-1]) for line in curves])
    heights = move_apart(ax.transAxes.inverted().transform(ends)[:, 1].tolist(), gap=0.075)
    for line, height in zip(curves, heights, strict=True):
        ax.annotate(line.get_label(), (1.01, height), xycoords="axes fraction", color=line.get_color(), va="center", fontsize=8.5)


if __name__ == "__main__":
    main()
