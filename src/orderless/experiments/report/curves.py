"""The part of a report that shows how training went: losses, metrics and gradients of all runs, over epochs and steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal

from orderless.experiments.naming import METRIC_TITLES, SHARES
from orderless.experiments.report.comparison import Named, mark_of
from orderless.experiments.report.runs import Row
from orderless.experiments.report.verdict import Score
from orderless.look import evenly
from orderless.pages.charts import Level, Series, line_chart
from orderless.pages.html import Html, element, join
from orderless.tasks.base import Task
from orderless.tasks.objectives import OBJECTIVES

_MOST_POINTS: Final = 200  # of a line


def curves_part(runs: Named, task: Task, baselines: Sequence[Score]) -> Html | None:
    """A legend and the charts; None where no run has come as far as its first row.

    Args:
        runs: Networks that were tested on the same sets.
        task: What they were trained on.
        baselines: Simple models on the same sets, of which the constant is drawn.
    """
    charts = [_chart(runs, "epochs", "train_loss", "Training loss", "Mean over the steps of an epoch.")]
    for metric in OBJECTIVES[task.objective].metrics:
        levels = [Level(row.value, "constant") for row in baselines if row.is_constant and metric == task.metric]
        title = f"Test {METRIC_TITLES[metric]}"
        charts.append(_chart(runs, "epochs", f"test_{metric}", title, "On the whole test set.", levels))
    charts.append(_chart(runs, "steps", "loss", "Training loss, step by step", "Of single batches."))
    charts.append(_chart(runs, "steps", "gradient_norm", "Gradient norm, step by step", "Of all weights."))
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    return join(legend(runs) if len(runs) > 1 else None, element("div", drawn, class_="charts"))


def legend(runs: Named) -> Html:
    """Which number and colour is which run; seeds of one configuration share an entry."""
    entries = []
    for _, alike in groupby(runs, key=lambda pair: pair[1].place):
        group = list(alike)
        seeds = ", ".join(str(run.spec.train.seed) for run, _ in group)
        entries.append(
            element("li", [mark_of(name) for _, name in group], group[0][1].text, f", seeds {seeds}" if len(group) > 1 else None)
        )
    return element("ul", entries, class_="legend")


def _chart(
    runs: Named, rows: Literal["epochs", "steps"], y: str, title: str, note: str, levels: Sequence[Level] = ()
) -> Html | None:
    """Lines of all runs over epochs or steps."""
    x = rows.removesuffix("s")
    lines = [
        Series(points, name.text, name.mark, name.place, ended=run.status == "diverged")
        for run, name in runs
        if (points := _points(getattr(run, rows), x, y))
    ]
    y_name = y.removeprefix("test_").removeprefix("train_").replace("_", " ").replace("mse", "MSE")
    log = False if y.removeprefix("test_") in SHARES else None
    return line_chart(title, lines, x_name=x, y_name=y_name, note=note, levels=levels, log=log)


def _points(rows: Sequence[Row], x: str, y: str) -> list[tuple[float, float]]:
    """What can be drawn, first and last included: a run may have more rows than the page has pixels."""
    known = [(float(row[x]), float(row[y])) for row in rows if row.get(y) is not None]
    return [known[n] for n in evenly(len(known), _MOST_POINTS)]
