"""A table as it will be shown: what every place of it holds, ours beside the paper's, and all that has to be said about it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orderless.experiments.grid import MEASURES, Cell, Plan, Recipe, Value, choose_sources, is_base, published_for
from orderless.experiments.naming import METRIC_TITLES, describe_option, title_of_model
from orderless.experiments.results import Line
from orderless.experiments.sources import stand_in
from orderless.numbers import AsPrinted
from orderless.tasks.objectives import HIGHER_IS_BETTER
from orderless.tasks.registry import get_task

_LAST_EPOCHS = 10
_MEDIAN_TO_DEVIATION = 1.4826  # of the size of normal numbers
_NORMAL_QUANTILE = 1.96  # standard errors from the middle of an interval to its end
Spot = tuple[Value | None, ...]  # values of the axes of a row or a column, and the metric where it belongs to it


@dataclass(frozen=True)
class MeanAndStd:
    """Mean over runs, and their sample standard deviation where there are two or more."""

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True)
class Entry:
    """What one place of a table holds.

    Attributes:
        cell: What makes it.
        metric: Which figure of its runs.
        data: Title of the data, which says openly what they are; None where there is no result.
        source: Task and source of the data.
        ours: The figure, in eval mode on all test sets; None where no run has one.
        released: The same by the evaluation of the authors' code, where the runs have it.
        noise: How much the figure changes from one epoch to the next: the standard deviation over the last ten epochs' tests.
        test_error: Standard error of the figure of one run that comes from having so many test sets and not more.
        left_out: Share of the test sets that the authors' evaluation does not look at.
        num_diverged: Runs whose loss or gradient became NaN or infinite.
        num_missing: Runs that are not done.
        published: The paper's figure: `mean` with or without `std`, or `ratio`.
        ratio: Ours as a multiple of ours in the row that others are compared to.
    """

    cell: Cell
    metric: str
    data: str | None = None
    source: str | None = None
    ours: MeanAndStd | None = None
    released: MeanAndStd | None = None
    noise: float | None = None
    test_error: float = 0.0
    left_out: float = 0.0
    num_diverged: int = 0
    num_missing: int = 0
    published: Mapping[str, Any] | None = None
    ratio: float | None = None

    def say_ours(self) -> str:
        """Our figure in words: with its spread, how many runs it is of where that is fewer than planned, and what went wrong."""
        if self.cell.reason or not (self.ours or self.num_diverged or self.num_missing):
            return "-"
        said = "-"
        if self.ours is not None:
            said = self._with_released() + ("" if self.ratio is None else f" ({self.ratio:.2f} x)")
        aside = []
        if self.ours is not None and self.ours.count < self.cell.num_seeds:
            aside.append(f"n={self.ours.count}")
        if self.num_diverged:
            aside.append(f"{self.num_diverged} diverged")
        if self.ours is None and self.num_missing:
            aside.append(f"{self.num_missing} missing")
        return said + (f" ({', '.join(aside)})" if aside else "")

    def say_published(self) -> str:
        """The paper's figure, with its digits."""
        if self.published is None:
            return ""
        if "ratio" in self.published:
            return f"{_as_printed(self.published['ratio'])} x"
        std = self.published.get("std")
        return _as_printed(self.published["mean"]) + ("" if std is None else f" ± {_as_printed(std)}")

    @property
    def stand_in(self) -> str | None:
        """The kind of the data, where they are not the paper's: `simulated` or `substituted`."""
        return None if self.source is None else stand_in(self.source)

    @property
    def differs_by_protocol(self) -> bool:
        """Whether the authors' evaluation gives another figure, in the digits that are shown."""
        if self.ours is None or self.released is None:
            return False
        return say_figure(self.metric, self.ours) != say_figure(self.metric, self.released)

    def _with_released(self) -> str:
        assert self.ours is not None
        said = say_figure(self.metric, self.ours)
        if self.differs_by_protocol and self.released is not None:
            said += f" [{say_figure(self.metric, self.released)}]"
        return said


@dataclass(frozen=True)
class Table:
    """All that is shown.

    Attributes:
        recipe: Of what.
        conditions: What a reader must know first: that runs have less than the paper's, or other settings than the recipe's.
        stand_ins: Which data are not the paper's.
        axes: Titles of the columns that say what a row is.
        rows: What each row is.
        columns: What each column is.
        entries: By row and column; not every place need have one.
        notes: Sentences below.
        counts: How many runs are `finished`, `diverged`, `missing`.
    """

    recipe: Recipe
    conditions: tuple[str, ...]
    stand_ins: tuple[str, ...]
    axes: tuple[str, ...]
    rows: tuple[Spot, ...]
    columns: tuple[Spot, ...]
    entries: Mapping[tuple[Spot, Spot], Entry]
    notes: tuple[str, ...]
    counts: Mapping[str, int]

    def row_labels(self, row: Spot) -> list[str]:
        """What stands at the left of a row."""
        if self.recipe.row_changes:
            first = self.recipe.first_settings  # whichever rows are shown
            changed = [pair for pair in zip(self.recipe.rows, row, strict=True) if pair[1] not in (None, first.get(pair[0]))]
            return [", ".join(describe_option(axis, value) for axis, value in changed) or "nothing"]
        labels = [label_value(axis, value) for axis, value in zip(self.recipe.rows, row, strict=False)]
        if len(row) > len(self.recipe.rows):  # the metric goes with the task
            number = self.recipe.rows.index("task")
            labels[number] = self._with_metric(labels[number], str(row[-1]), str(row[number]))
        return labels

    def column_label(self, column: Spot) -> str:
        """What stands above a column."""
        axes = self.recipe.columns
        labels = [_self_explaining(axis, value) for axis, value in zip(axes, column, strict=False)]
        label = ", ".join(labels)
        if len(column) > len(axes):
            task = str(column[axes.index("task")]) if "task" in axes else str(self.recipe.fixed["task"])
            label = self._with_metric(label or label_value("task", task), str(column[-1]), task)
        return label or "ours"

    def has_published(self, column: Spot) -> bool:
        """Whether the paper has a figure in this column."""
        return any(entry.published for (_, of), entry in self.entries.items() if of == column)

    def _with_metric(self, label: str, metric: str, task: str) -> str:
        entries = [entry for entry in self.entries.values() if entry.cell.settings["task"] == task]
        kinds = {kind for entry in entries if (kind := entry.stand_in) is not None}
        flag = f" ({', '.join(sorted(kinds))})" if kinds else ""
        arrow = "↑" if metric in HIGHER_IS_BETTER else "↓"
        return f"{label}{flag}, {METRIC_TITLES[metric]} {arrow}"


def build_table(plan: Plan, lines: Iterable[Line]) -> Table:
    """What a plan's table shows with these results.

    A task without a source is shown as made from the source at hand; where there are no results of that, from the first source
    that there are results of. One table never mixes the sources of a task.
    """
    by_key = {line["key"]: line for line in lines}
    plan = choose_sources(plan, by_key)
    entries: dict[tuple[Spot, Spot], Entry] = {}
    counts = {"finished": 0, "diverged": 0, "missing": 0}
    used: list[Line] = []
    for cell in plan.cells:
        found = [by_key[spec.key] for spec in cell.runs if spec.key in by_key]
        used += found
        for status in ("finished", "diverged"):
            counts[status] += sum(line["status"] == status for line in found)
        counts["missing"] += len(cell.runs) - len(found)
        for metric in plan.recipe.metrics_of(cell.task):
            entries[_spots(plan.recipe, cell, metric)] = _make_entry(plan.recipe, cell, metric, found)
    rows, columns = (list(dict.fromkeys(spots)) for spots in zip(*entries, strict=True))
    entries = _with_ratios(plan.recipe, entries)
    return Table(
        recipe=plan.recipe,
        conditions=tuple(_conditions(plan)),
        stand_ins=tuple(_stand_ins(entries.values())),
        axes=_axis_titles(plan.recipe),
        rows=tuple(rows),
        columns=tuple(columns),
        entries=entries,
        notes=tuple(_notes(plan, entries.values(), used)),
        counts=counts,
    )


def say_figure(metric: str, figure: MeanAndStd) -> str:
    """A figure with its spread, in the digits of its metric."""
    scale = 1000 if metric == "step_seconds" else 1
    digits = _digits(metric, figure.mean)
    mean = f"{scale * figure.mean:{digits}}"
    return mean if figure.std is None or metric == "num_parameters" else f"{mean} ± {scale * figure.std:{digits}}"


def _digits(metric: str, value: float) -> str:
    """How a number is written: four decimals for what is learnt, as in the paper, unless they would say nothing."""
    if metric in ("num_parameters", "peak_memory_mib", "seconds"):
        return ",.0f"
    if metric == "step_seconds":
        return ",.2f"
    return ".1e" if value != 0 and not 5e-4 <= abs(value) < 1e6 else ".4f"


# ------------------------------------------------------------------------------------------------------- places and labels


def _spots(recipe: Recipe, cell: Cell, metric: str) -> tuple[Spot, Spot]:
    """Row and column of a cell's metric. The metric goes where the task is, and else into the column."""
    row = tuple(cell.settings.get(axis, recipe.fixed.get(axis)) for axis in recipe.rows)
    column = tuple(cell.settings.get(axis, recipe.fixed.get(axis)) for axis in recipe.columns)
    return ((*row, metric), column) if "task" in recipe.rows else (row, (*column, metric))


def _axis_titles(recipe: Recipe) -> tuple[str, ...]:
    if recipe.row_changes:
        return ("changed",)
    return tuple("layers" if axis == "depth" else axis.replace("_", " ") for axis in recipe.rows)


def label_value(axis: str, value: Value | None) -> str:
    """A value under the title of its axis."""
    if value is None:
        return ""
    if axis == "task":
        return get_task(str(value).partition("@")[0]).title
    if axis == "model":
        return title_of_model(str(value))
    if axis == "residual" and value != "none":
        return describe_option(axis, value)
    return str(value)


def _self_explaining(axis: str, value: Value | None) -> str:
    """A value that stands alone."""
    return label_value(axis, value) if axis in ("task", "model") or value is None else describe_option(axis, value)


def _as_printed(number: Any) -> str:
    return number.text if isinstance(number, AsPrinted) else f"{number:g}"


# ------------------------------------------------------------------------------------------------------- figures


def _make_entry(recipe: Recipe, cell: Cell, metric: str, found: Sequence[Line]) -> Entry:
    finished = [line for line in found if line["status"] == "finished"]
    return Entry(
        cell=cell,
        metric=metric,
        data=found[0]["title"] if found else None,
        source=cell.runs[0].task if cell.runs else None,
        ours=_figure(line.get(metric) if metric in MEASURES else line["metrics"].get(metric) for line in finished),
        released=_figure((line.get("released") or {}).get(metric) for line in finished),
        noise=_noise([[row.get(f"test_{metric}") for row in line["epochs"][-_LAST_EPOCHS:]] for line in finished]),
        test_error=statistics.fmean(_test_error(line, metric) for line in finished) if finished else 0.0,
        left_out=_left_out(finished[0]) if finished else 0.0,
        num_diverged=len(found) - len(finished),
        num_missing=len(cell.runs) - len(found),
        published=published_for(recipe, cell, metric),
    )


def _figure(values: Iterable[float | None]) -> MeanAndStd | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return MeanAndStd(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def _noise(tests: Iterable[Sequence[float | None]]) -> float | None:
    """How much the mean over runs changes from one test to the next, as a standard deviation.

    Of the mean itself, since runs that differ in their first weights alone take the same batches, and rise and fall together. By
    the median of the changes, not by their mean: one epoch that went wrong must not excuse a figure that is far off.
    """
    known = [[value for value in of_run if value is not None] for of_run in tests]
    latest_first = zip(*(reversed(of_run) for of_run in known), strict=False)
    changes = [abs(b - a) for a, b in itertools.pairwise(statistics.fmean(values) for values in latest_first)]
    return _MEDIAN_TO_DEVIATION * statistics.median(changes) / math.sqrt(2) if changes else None


def _test_error(line: Line, metric: str) -> float:
    low, high = line["intervals"].get(metric, (0.0, 0.0))
    return float(high - low) / (2 * _NORMAL_QUANTILE)


def _left_out(line: Line) -> float:
    """A batch that is not full is not looked at."""
    return (line["num_test"] % line["spec"]["train"]["batch_size"]) / line["num_test"]


def _with_ratios(recipe: Recipe, entries: dict[tuple[Spot, Spot], Entry]) -> dict[tuple[Spot, Spot], Entry]:
    """Each figure as a multiple of the one of its column, task and metric whose row has the settings of `relative_to`."""
    if not recipe.relative_to:
        return entries

    def kind(column: Spot, entry: Entry) -> tuple[Spot, Any, str]:
        return column, entry.cell.settings.get("task"), entry.metric

    bases: dict[tuple[Spot, Any, str], MeanAndStd | None] = {}
    for (_, column), entry in entries.items():
        if is_base(recipe, {**recipe.fixed, **entry.cell.settings}):
            bases[kind(column, entry)] = entry.ours
    compared = {}
    for (row, column), entry in entries.items():
        base = bases.get(kind(column, entry))
        ratio = entry.ours.mean / base.mean if entry.ours and base and base.mean else None
        compared[row, column] = replace(entry, ratio=ratio)
    return compared


# ------------------------------------------------------------------------------------------------------- what has to be said


def _conditions(plan: Plan) -> list[str]:
    said = []
    if reduced := plan.describe_reduction():
        said.append(f"{reduced}. Such figures say nothing about the published ones.")
    if plan.changed:
        said.append(f"Not as in the recipe: {', '.join(f'{name}={value}' for name, value in plan.changed.items())}.")
    return said


def _stand_ins(entries: Iterable[Entry]) -> list[str]:
    """What is to be said of data that are not the paper's, or of files that differ from those that the paper had."""
    known = [entry for entry in entries if entry.data is not None]
    others = dict.fromkeys(entry.data for entry in known if entry.stand_in)
    differing = dict.fromkeys(entry.data for entry in known if not entry.stand_in and ", but " in (entry.data or ""))
    said = {"Not the paper's data, so not the paper's figures": others, "Files that differ from the paper's": differing}
    return [f"{text}: {'; '.join(str(title) for title in titles)}." for text, titles in said.items() if titles]


def _notes(plan: Plan, entries: Iterable[Entry], lines: Sequence[Line]) -> list[str]:
    entries = list(entries)
    notes = []
    if any(entry.ours and entry.ours.count > 1 for entry in entries):
        notes.append(
            "Ours: mean ± sample standard deviation over seeds (n - 1 in the denominator; the paper does not say which it has)."
        )
    if any(entry.differs_by_protocol for entry in entries):
        notes.append(
            "In square brackets: the same runs evaluated as the authors' code does (in training mode, on whole batches of the "
            "test sets, at the last step that 20 divides), where that gives another figure. Before: eval mode, all test sets."
        )
    for model, reason in plan.recipe.missing.items():
        if any(entry.cell.settings["model"] == model for entry in entries):
            notes.append(f"{label_value('model', model)} was not run: {reason}.")
    if any(entry.metric in ("step_seconds", "seconds", "peak_memory_mib") for entry in entries) and lines:
        notes.append(f"Measured on {', '.join(sorted({line['hardware']['device'] for line in lines}))}.")
    if any(entry.metric == "peak_memory_mib" and entry.ours is None and entry.data for entry in entries):
        notes.append("Memory is measured on a GPU alone.")
    data = sorted({entry.data for entry in entries if entry.data is not None and not entry.stand_in})
    if data:
        notes.append(f"Data: {'; '.join(data)}.")
    return [*notes, *plan.recipe.notes]
