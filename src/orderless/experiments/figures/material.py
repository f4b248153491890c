"""What a figure is made of: the runs of a recipe, the results that are there, and the words that have to stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orderless.experiments.figures.curves import Line, stopped_at
from orderless.experiments.figures.page import Words
from orderless.experiments.grid import Cell, Plan, published_for
from orderless.experiments.naming import METRIC_TITLES, describe_option, title_of_model, title_of_run, varies
from orderless.experiments.sources import stand_in, title_of_data
from orderless.words import capitalized


@dataclass(frozen=True)
class Material:
    """What a figure is made of.

    Attributes:
        plan: The recipe and its runs.
        lines: The result lines that are there, by the run's key.
        options: What the drawing takes.
        data_dir: Folder with the publishers' files, as for `load_task`.
        cache_dir: Folder for prepared tasks, as for `load_task`.
    """

    plan: Plan
    lines: Mapping[str, Line] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    data_dir: Path | None = None
    cache_dir: Path | None = None

    def lines_of(self, cell: Cell) -> list[Line]:
        """The results of a cell's runs, those that are there."""
        return [self.lines[run.key] for run in cell.runs if run.key in self.lines]

    def cells(self, task: str) -> list[tuple[Cell, str]]:
        """The cells of a task that have runs, each with its label."""
        labels = label_cells(self.plan.cells)
        return [(cell, labels[n]) for n, cell in enumerate(self.plan.cells) if cell.runs and cell.task == task]

    @property
    def tasks(self) -> list[str]:
        """The tasks of the recipe, without their sources."""
        return list(dict.fromkeys(cell.task for cell in self.plan.cells))

    def words(self) -> Words:
        """Title, data, seeds; what is made up, what is less than the paper's; what is missing and what diverged."""
        runs = self.plan.runs
        titles = {run.task: title_of_data(run.task) for run in runs}
        titles |= {line["spec"]["task"]: line["title"] for line in self._results()}
        made_up = [task for task in titles if stand_in(task)]
        reduced = self.plan.describe_reduction()
        changed = ", ".join(f"{name}={value}" for name, value in self.plan.changed.items())
        return Words(
            self.plan.recipe.title,
            said=[*(title for task, title in titles.items() if task not in made_up), self._describe_seeds()],
            warned=[
                *(f"Not the published data: {titles[task]}" for task in made_up),
                *([capitalized(reduced)] if reduced else []),
                *([f"Other settings than the recipe's: {changed}"] if changed else []),
            ],
            notes=[*self._describe_gaps(), *self.plan.recipe.notes],
        )

    def _results(self) -> list[Line]:
        return [line for cell in self.plan.cells for line in self.lines_of(cell)]

    def _describe_seeds(self) -> str:
        most = max((len(self.lines_of(cell)) for cell in self.plan.cells), default=0)
        cross = "Cross: a run diverged." if any(line["status"] == "diverged" for line in self._results()) else ""
        if most > 1:
            alone = " Where a run diverged, each run has a line of its own." if cross else ""
            return f"Line: mean of up to {most} seeds. Band: from the lowest to the highest of them. {cross}{alone}".strip()
        return f"One run each. {cross}".strip() if most else "No run is finished yet."

    def _describe_gaps(self) -> list[str]:
        labels = label_cells(self.plan.cells)
        missing, refused, diverged = [], [], []
        for cell, label in zip(self.plan.cells, labels, strict=True):
            if cell.reason:
                refused.append(f"{label}{self._say_published(cell)}: {cell.reason}.")
            absent = [str(run.train.seed) for run in cell.runs if run.key not in self.lines]
            if absent:
                missing.append(f"{label} (seed{'s' * (len(absent) > 1)} {', '.join(absent)})")
            diverged += [
                f"{label}, seed {line['spec']['train']['seed']}: {stopped_at(line)}"
                for line in self.lines_of(cell)
                if line["status"] == "diverged"
            ]
        said = [f"Missing, not run yet: {'; '.join(missing)}."] if missing else []
        said += [f"Missing, {text}" for text in refused]
        return said + ([f"{'; '.join(diverged)}."] if diverged else [])

    def _say_published(self, cell: Cell) -> str:
        """The paper's figures of a network that there is no curve of."""
        recipe = self.plan.recipe
        rows = {metric: published_for(recipe, cell, metric) for metric in recipe.metrics_of(cell.task)}
        said = [f"{METRIC_TITLES[metric]} {row['mean']:g}" for metric, row in rows.items() if row is not None and "mean" in row]
        return f" (published: {', '.join(said)})" if said else ""


def label_cells(cells: Sequence[Cell]) -> list[str]:
    """Short names that tell cells apart: network and depth where they differ, and every other setting that does."""
    settings = [_settings(cell) for cell in cells]
    varying = [name for name in dict.fromkeys(name for one in settings for name in one) if varies(name, settings)]
    networks = {"model", "depth"} & {*varying} or len(cells) == 1 or not varying
    labels = []
    for cell, setting in zip(cells, settings, strict=True):
        parts = [_network(cell)] if networks else []
        parts += [describe_option(name, setting[name]) for name in varying if name in setting and name not in ("model", "depth")]
        labels.append(", ".join(parts))
    return labels


def _settings(cell: Cell) -> dict[str, Any]:
    """What may tell a cell apart: all but the task, which has panels of its own."""
    depth = {"depth": cell.runs[0].model_options.get("depth")} if cell.runs else {}
    return {name: value for name, value in {**depth, **cell.settings}.items() if name != "task"}


def _network(cell: Cell) -> str:
    return title_of_run(cell.runs[0]) if cell.runs else title_of_model(str(cell.settings["model"]))
