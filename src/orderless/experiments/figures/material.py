"""What a figure is made of: the runs of a recipe, the results that are there, and the words that have to stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from orderless.experiments.figures.curves import Line, stopped_at
from orderless.experiments.figures.page import Words
from orderless.experiments.grid import Cell, Plan
from orderless.experiments.report.naming import MODEL_TITLES, title_of
from orderless.experiments.spec import RunSpec
from orderless.tasks.registry import get_task

MADE_UP: Final = ("simulated", "substituted")
_VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("norm", "none"): "no norm",
    ("residual", "none"): "no residual",
    ("residual", "non_clean"): "non-clean",
    ("residual", "freq_add"): "FreqAdd",
}


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
        """Title, data, seeds; what was shrunk, what is made up; what is missing and what diverged."""
        runs = self.plan.runs
        titles = {run.task: data_title(run) for run in runs} | {line["spec"]["task"]: line["title"] for line in self._results()}
        made_up = [task for task in titles if _kind(task) in MADE_UP]
        shrunk = self.plan.describe_shrinking()
        changed = ", ".join(f"{name}={value}" for name, value in self.plan.changed.items())
        return Words(
            self.plan.recipe.title,
            said=[*(title for task, title in titles.items() if task not in made_up), self._describe_seeds()],
            warned=[
                *(f"Not the published data: {titles[task]}" for task in made_up),
                *([f"{shrunk[0].upper()}{shrunk[1:]}"] if shrunk else []),
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
                refused.append(f"{label}: {cell.reason}.")
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


def choose_sources(plan: Plan, lines: Mapping[str, Line]) -> Plan:
    """The plan with each task from the source at hand, or where that has no result, from the first source that has one.

    A task that was named with its source keeps it. One figure never mixes the sources of a task.
    """
    chosen = {}
    for task in {str(cell.settings["task"]) for cell in plan.cells if cell.runs and "@" not in str(cell.settings["task"])}:
        runs = [run for cell in plan.cells if cell.settings["task"] == task for run in cell.runs]
        sources = [runs[0].task, *(f"{task}@{source.name}" for source in get_task(task).sources)]
        chosen[task] = next((s for s in sources if any(replace(run, task=s).key in lines for run in runs)), runs[0].task)
    cells = [
        replace(cell, runs=tuple(replace(run, task=chosen.get(str(cell.settings["task"]), run.task)) for run in cell.runs))
        for cell in plan.cells
    ]
    return replace(plan, cells=tuple(cells))


def label_cells(cells: Sequence[Cell]) -> list[str]:
    """Short names that tell cells apart: network and depth where they differ, and every other setting that does."""
    settings = [_settings(cell) for cell in cells]
    varying = [name for name in dict.fromkeys(name for one in settings for name in one) if _varies(name, settings)]
    networks = {"model", "depth"} & {*varying} or len(cells) == 1 or not varying
    labels = []
    for cell, setting in zip(cells, settings, strict=True):
        parts = [_network(cell)] if networks else []
        parts += [_describe(name, setting[name]) for name in varying if name in setting and name not in ("model", "depth")]
        labels.append(", ".join(parts))
    return labels


def data_title(run: RunSpec) -> str:
    """What a run's data are, before they were opened: says openly if they are made up."""
    task, source = _source(run.task)
    return f"{task.title} ({source.kind + ': ' if source.kind in MADE_UP else ''}{source.title})"


def _settings(cell: Cell) -> dict[str, Any]:
    """What may tell a cell apart: all but the task, which has panels of its own."""
    depth = {"depth": cell.runs[0].model_options.get("depth")} if cell.runs else {}
    return {name: value for name, value in {**depth, **cell.settings}.items() if name != "task"}


def _varies(name: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    return len({repr(one.get(name)) for one in settings}) > 1


def _network(cell: Cell) -> str:
    model = str(cell.settings["model"])
    return title_of(cell.runs[0]) if cell.runs else MODEL_TITLES.get(model, model)


def _describe(name: str, value: Any) -> str:
    if (name, value) in _VALUES:
        return _VALUES[name, value]
    if name == "norm":
        return f"{value} norm"
    return str(value) if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"


def _source(task: str) -> tuple[Any, Any]:
    name, _, source = task.partition("@")
    described = get_task(name)
    return described, described.source(source)


def _kind(task: str) -> str:
    return str(_source(task)[1].kind)
