"""Runs `SetClassifier()` and `SetRegressor()` as they come on tables of bags, beside the baselines.

    python bench/bags.py                                   every task; those of files need ORDERLESS_DATA
    python bench/bags.py digits shift_mean --seeds 0 1 2   some tasks, drawn three times
    python bench/bags.py --set patience=30 --set pool=max  other options than the defaults
    python bench/bags.py --show docs/results/bags.jsonl    the table of rows measured before, without measuring

`bag_tasks.py` says what the tasks are. Each is one split: training sets as few as people have, and test sets drawn beside them.
The measure of defaults is ours less the best baseline, in accuracy, or in R2 where numbers are predicted: 0 is level, above 0 is
better. The best of several baselines is chosen by the test sets, which flatters it a little.

Rows are appended as JSON lines: task, seed, options, a score for each model, seconds of fit and predict, machine.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bag_tasks import REGRESSIONS, TASKS, BagTask
from measured import describe_machine

import orderless as ol
from orderless.estimators import defaults
from orderless.evaluate import Fold, cross_validate

ALL_TASKS = {**TASKS, **REGRESSIONS}
METRIC = {"classification": "accuracy", "regression": "r2"}


def main() -> None:
    """Measures, writes, shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(ALL_TASKS)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", dest="options", action="append", default=[], metavar="NAME=VALUE", help="of the estimator")
    parser.add_argument("--heavy-tail", type=float, default=None, help="from where on tails are bent; inf: never")
    parser.add_argument("--label", default="defaults", help="what the rows call these options")
    parser.add_argument("--most-sets", type=int, default=None, help="no task has more, to try things")
    parser.add_argument("--out", type=Path, default=None, help="append the rows to this JSONL file")
    parser.add_argument("--show", type=Path, default=None, help="print the table of such a file instead")
    given = parser.parse_args()
    if given.show is not None:
        rows = [json.loads(line) for line in given.show.read_text().splitlines()]
        print(render(rows, given.label), compare(rows), sep="\n\n")
        return
    if given.heavy_tail is not None:
        defaults.HEAVY_TAIL = given.heavy_tail
    if unknown := set(given.tasks) - set(ALL_TASKS):
        parser.error(f"no task {', '.join(sorted(unknown))}; there are {', '.join(ALL_TASKS)}")
    folder = os.environ.get("ORDERLESS_DATA")
    chosen = given.tasks or [name for name, task in ALL_TASKS.items() if folder or not task.needs_files]
    if not folder and (missing := [name for name in chosen if ALL_TASKS[name].needs_files]):
        parser.error(f"{', '.join(missing)} need files: set ORDERLESS_DATA to their folder")
    options = dict(read_option(text) for text in given.options)
    rows = []
    for name in chosen:
        for seed in given.seeds:
            row = measure(name, seed, options, data=None if folder is None else Path(folder), most_sets=given.most_sets)
            row["label"] = given.label
            rows.append(row)
            print(describe(row), flush=True)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps({**row, **describe_machine("cpu")}) + "\n")
    print(render(rows, given.label))


def read_option(text: str) -> tuple[str, Any]:
    """`pool=max` or `depth=2`."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def measure(
    name: str, seed: int, options: Mapping[str, Any], *, data: Path | None = None, most_sets: int | None = None
) -> dict[str, Any]:
    """One row: the estimator and every baseline, fitted to the same sets and tested on the same."""
    task: BagTask = ALL_TASKS[name]
    most = most_sets or 10**9
    train, test = task.draw(seed, data, num_train=min(task.num_train, most), num_test=min(task.num_test, most))
    sets = [np.asarray(x, dtype=np.float32) for x in (*train[0], *test[0])]
    target = np.concatenate([train[1], test[1]])
    fold = Fold(np.arange(len(train[0])), np.arange(len(train[0]), len(sets)))
    kind = ol.SetClassifier if task.objective == "classification" else ol.SetRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # baselines that do not converge say so
        found = cross_validate(
            {"ours": kind(**options)}, sets, target, objective=task.objective, folds=[fold], num_bootstrap=1, seed=seed
        )
    metric = METRIC[task.objective]
    scores = {model: its.metrics[metric].value for model, its in found.models.items()}
    if found.models["ours"].failures:
        raise RuntimeError(f"{name}: {found.models['ours'].failures[0]}")
    sizes = [len(x) for x in train[0]]
    return {
        "op": "bags",
        "task": name,
        "family": task.family,
        "objective": task.objective,
        "seed": seed,
        "options": dict(options),
        "sets": len(train[0]),
        "test_sets": len(test[0]),
        "features": int(sets[0].shape[1]),
        "sizes": [min(sizes), max(sizes)],
        "scores": {model: round(float(score), 4) for model, score in scores.items()},
        "seconds": round(found.models["ours"].seconds, 2),
    }


# -------------------------------------------------------------------------------------------------------------- tables


def lead(row: Mapping[str, Any]) -> float:
    """How far ours is above the best baseline."""
    return float(row["scores"]["ours"] - best_baseline(row))


def best_baseline(row: Mapping[str, Any]) -> float:
    """The highest score of a baseline."""
    return max(float(score) for name, score in row["scores"].items() if name != "ours")


def describe(row: Mapping[str, Any]) -> str:
    """A line for whoever waits."""
    return f"{row['task']:20} ours {row['scores']['ours']:.3f}  best baseline {best_baseline(row):.3f}  {row['seconds']:6.1f} s"


def render(rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """A Markdown table of the rows of one label, a line per task, averaged over seeds; then the means."""
    mine = [row for row in rows if row["label"] == label]
    lines = [
        "| task | sets | features | elements | ours | best baseline | difference | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys(row["task"] for row in mine):
        of = [row for row in mine if row["task"] == task]
        ours, best = (
            float(np.mean(values)) for values in zip(*((r["scores"]["ours"], best_baseline(r)) for r in of), strict=True)
        )
        low, high = min(r["sizes"][0] for r in of), max(r["sizes"][1] for r in of)
        seconds = float(np.mean([r["seconds"] for r in of]))
        lines.append(
            f"| {task} | {of[0]['sets']:,} | {of[0]['features']} | {low} to {high:,} | {ours:.3f} | {best:.3f} "
            f"| {ours - best:+.3f} | {seconds:.0f} |"
        )
    for objective, metric in METRIC.items():
        leads = [lead(row) for row in mine if row["objective"] == objective]
        if leads:
            lines.append(f"\nOurs less the best baseline, mean {metric} of {len(leads)} rows: {float(np.mean(leads)):+.3f}")
    return "\n".join(lines)


def compare(rows: Sequence[Mapping[str, Any]], reference: str = "defaults") -> str:
    """A Markdown table of all labels, each on its own tasks and seeds beside what `reference` had on the same."""
    known = {(row["task"], row["seed"]): row for row in rows if row["label"] == reference}
    lines = ["| options | tables | score | less than the defaults by | seconds | those of the defaults |", "|---" * 6 + "|"]
    for label in dict.fromkeys(row["label"] for row in rows if row["label"] != reference):
        mine = [row for row in rows if row["label"] == label and (row["task"], row["seed"]) in known]
        theirs = [known[row["task"], row["seed"]] for row in mine]
        if not mine:
            continue
        score, other = (float(np.mean([row["scores"]["ours"] for row in part])) for part in (mine, theirs))
        seconds, others = (float(np.mean([row["seconds"] for row in part])) for part in (mine, theirs))
        lines.append(f"| {label} | {len(mine)} | {score:.3f} | {other - score:+.3f} | {seconds:.0f} | {others:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
