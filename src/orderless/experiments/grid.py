"""The grid of a recipe: its cells, and the runs of each, by rule and without data, a GPU, or the runs to be done."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from orderless.experiments.sizes import SIZES, say_size, sizes_of
from orderless.experiments.sources import Resolve, SourcesAtHand, preferred_source, stand_in
from orderless.experiments.spec import BASELINE, STANDARDIZE, RunSpec, make_spec
from orderless.io.errors import ContentError
from orderless.models import ModelConfig
from orderless.tasks.registry import get_task
from orderless.words import did_you_mean

Kind = Literal["table", "figure"]
Value = str | int | float | bool
Settings = Mapping[str, Value]

TIMES = ("step_seconds", "seconds")
MEASURES = ("num_parameters", "step_seconds", "seconds", "peak_memory_mib")  # of a run, beside the metrics of its task
_AT_ANY_EPOCH = tuple(name for name in MEASURES if name != "seconds")  # more epochs would not change them
_OF_NETWORKS = {*(f.name for f in fields(ModelConfig)), STANDARDIZE}
FIGURE_COLUMNS = ("metric", "mean", "std", "ratio")  # of published figures: what is not a setting


class RecipeError(ContentError):
    """A recipe cannot be used: the message names the file, the key, and what is allowed."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")


@dataclass(frozen=True)
class Block:
    """One `[[grid]]`: axes whose values are multiplied. An axis of several settings has values that go together."""

    axes: Mapping[tuple[str, ...], Sequence[tuple[Value, ...]]]
    seeds: tuple[int, ...] | None = None

    def settings(self) -> Iterator[dict[str, Value]]:
        """Every combination, the last axis fastest."""
        for values in itertools.product(*self.axes.values()):
            yield {name: v for names, value in zip(self.axes, values, strict=True) for name, v in zip(names, value, strict=True)}


@dataclass(frozen=True)
class Conclusion:
    """What the paper concludes from a table: some of its cells are better than others that are like them in all else.

    Attributes:
        says: The conclusion, as a sentence.
        ahead: Settings of the better ones, each with the values that it may have.
        behind: Those of the others.
        where: Settings that both must have, where it is not said of all.
    """

    says: str
    ahead: Mapping[str, Sequence[Value]]
    behind: Mapping[str, Sequence[Value]]
    where: Mapping[str, Sequence[Value]]

    def compares(self, one: Settings, other: Settings) -> bool:
        """Whether it says that a cell with settings `one` is better than a cell with settings `other`."""
        alike = (one.keys() & other.keys()) - self.ahead.keys() - self.behind.keys()
        return (
            _fits(one, {**self.where, **self.ahead})
            and _fits(other, {**self.where, **self.behind})
            and all(one[name] == other[name] for name in alike)
        )


def _fits(settings: Settings, wanted: Mapping[str, Sequence[Value]]) -> bool:
    return all(settings.get(name) in values for name, values in wanted.items())


@dataclass(frozen=True)
class Recipe:
    """What a table or figure is made of.

    Attributes:
        path: The file.
        name: By which it is asked for.
        kind: `table` or `figure`.
        title: For people.
        label: The paper's label of it, such as `tab:layer_norm`; empty where it is not the paper's.
        seeds: Each cell has a run for each of these.
        blocks: The grid.
        rows: Axes that make the rows of a table.
        columns: Axes that make its columns.
        row_changes: Whether rows are called by what they change of the first instead of by all their settings.
        fixed: Settings of all runs.
        metrics: Which figures of a run are shown, by task; others show the metric of their task.
        quick: Upper limits for `--quick`: `epochs`, `num_train`, `num_test`, `set_size`, and by the name of a task others for
            it; and `seeds`.
        stand_in: Upper limits, by task, for data that are not the paper's.
        published: The paper's figures: settings that say which cell, `metric`, and `mean` with or without `std`, or `ratio`.
        missing: Why a model of the grid cannot be run here, by model.
        relative_to: Settings of the cells to which others are compared by ratio.
        notes: Sentences below the table.
        conclusions: What the paper concludes from it.
        drawing: What draws a figure.
        options: What the drawing takes.
    """

    path: Path
    name: str
    kind: Kind
    title: str
    label: str = ""
    seeds: tuple[int, ...] = (0,)
    blocks: tuple[Block, ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_changes: bool = False
    fixed: Settings = field(default_factory=dict)
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    stand_in: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    published: tuple[Mapping[str, Any], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    relative_to: Settings = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    drawing: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_own_training(self) -> bool:
        """Whether it says how to train, instead of leaving that to the paper."""
        return not {"training", "optimizer", "learning_rate", "schedule"}.isdisjoint([*self.fixed, *self.axes])

    @property
    def first_settings(self) -> Settings:
        """Those of the first cell."""
        return {**self.fixed, **next(self.blocks[0].settings())}

    @property
    def axes(self) -> dict[str, list[Value]]:
        """Every setting of the grid with its values, in order."""
        axes: dict[str, list[Value]] = {}
        for block in self.blocks:
            for settings in block.settings():
                for name, value in settings.items():
                    if value not in axes.setdefault(name, []):
                        axes[name].append(value)
        return axes

    @property
    def is_timed(self) -> bool:
        """Whether it shows how long runs took: these must be done one at a time, since runs side by side slow each other down."""
        return any(metric in TIMES for metrics in self.metrics.values() for metric in metrics)

    def metrics_of(self, task: str) -> tuple[str, ...]:
        """The figures that are shown of a run on this task, which may have a source after an @."""
        name = task.partition("@")[0]
        return self.metrics.get(name, (get_task(name).metric,))


@dataclass(frozen=True)
class Cell:
    """One place of a table: what makes it, and its runs.

    Attributes:
        settings: Values of the axes, and of the fixed `task` and `model`.
        runs: One for each seed.
        num_seeds: How many the recipe has, which may be more.
        reason: Why there are no runs, where there are none.
        asked: Sizes that the recipe itself asks for, which `--quick` may have lowered, or a stand-in.
    """

    settings: Settings
    runs: tuple[RunSpec, ...]
    num_seeds: int
    reason: str | None = None
    asked: Mapping[str, int] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """The task, without a source."""
        return str(self.settings["task"]).partition("@")[0]


@dataclass(frozen=True)
class Plan:
    """A recipe expanded to runs.

    Attributes:
        recipe: Of what.
        cells: In the order of the grid.
        quick: Whether data and epochs were shrunk.
        changed: Settings that differ from the recipe in all runs.
    """

    recipe: Recipe
    cells: tuple[Cell, ...]
    quick: bool = False
    changed: Settings = field(default_factory=dict)

    @property
    def limits(self) -> Mapping[str, Any]:
        """Numbers above these were lowered to them: as `Recipe.quick`."""
        return self.recipe.quick if self.quick else {}

    @property
    def runs(self) -> list[RunSpec]:
        """All runs, each once, the first seed of every cell first: a table fills evenly."""
        longest = max((len(cell.runs) for cell in self.cells), default=0)
        return [cell.runs[i] for i in range(longest) for cell in self.cells if i < len(cell.runs)]

    def describe_reduction(self) -> str:
        """Where the runs have less than the paper's, or than the recipe asks for; task by task if tasks differ in that.

        Empty where they have as much.
        """
        tasks = list(dict.fromkeys(cell.task for cell in self.cells))
        said = {task: self._describe_sizes(task) for task in tasks}
        alike = len(set(said.values())) == 1
        parts = [said[tasks[0]]] if alike else [f"{get_task(task).title} {text}" for task, text in said.items() if text]
        seeds = max((len(cell.runs) for cell in self.cells), default=0)
        if self.quick and seeds < len(self.recipe.seeds):
            parts.append(f"{seeds} of {len(self.recipe.seeds)} seeds")
        text = (", " if alike else "; ").join(part for part in parts if part)
        return f"reduced: {text}" if text else ""

    def _describe_sizes(self, task: str) -> str:
        own = self.recipe.has_own_training
        sizes = [sizes_of(c.runs[0], c.asked, own_training=own) for c in self.cells if c.task == task and c.runs]
        matter = [*SIZES]
        if all(metric in _AT_ANY_EPOCH for metric in self.recipe.metrics_of(task)):
            matter.remove("epochs")
        found = {name: [size[name] for size in sizes if name in size] for name in matter}
        return ", ".join(say_size(name, of) for name, of in found.items() if any(size.is_smaller for size in of))


def expand(
    recipe: Recipe,
    *,
    quick: bool = False,
    seeds: Sequence[int] | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    settings: Settings | None = None,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
) -> Plan:
    """The runs of a recipe, each tied to its cell.

    Args:
        recipe: What to expand.
        quick: Shrink data, epochs and seeds as its `[quick]` says.
        seeds: Other seeds than the recipe's.
        only: Cells with these values alone, by axis; as texts. A task may be given without its source.
        settings: Settings that override the recipe's, such as `{"precision": "bf16-mixed"}`.
        data_dir: Where publishers' files are: a task without a source takes the first that is at hand.
        cache_dir: Where prepared tasks are.
    """
    if quick and recipe.blocks and not recipe.quick:
        raise RecipeError(recipe.path, "it has no [quick], which would say what to shrink.")
    if seeds is not None and (not seeds or len(set(seeds)) < len(seeds)):
        raise ValueError(f"seeds must be whole numbers, each once; got {list(seeds)}.")
    chosen = _filter(recipe, only or {})
    sources = SourcesAtHand(data_dir, cache_dir)
    cells = []
    for block, axes in chosen:
        wanted = seeds or (quick and recipe.quick.get("seeds")) or block.seeds or recipe.seeds
        if block.seeds is not None:  # what does not depend on a seed is not run more often because others do
            wanted = wanted[: len(block.seeds)]
        cell = make_cell(recipe, axes, wanted, sources.resolve, recipe.quick if quick else {}, settings or {})
        cells.append(replace(cell, num_seeds=len(block.seeds or recipe.seeds)))
    return Plan(recipe, tuple(cells), quick, dict(settings or {}))


def choose_sources(plan: Plan, known: Container[str]) -> Plan:
    """The plan with each task from the source at hand, or where that has no result, from the first source that has one.

    So results of the published data are shown on a machine that does not have them. A task that was named with its source keeps
    it, and the sources of a task are never mixed.

    Args:
        plan: What is to be shown.
        known: Keys of the runs that have results.
    """
    chosen: dict[str, str] = {}
    for at_hand in {cell.runs[0].task for cell in plan.cells if _may_change_source(cell)}:
        cells = [cell for cell in plan.cells if _may_change_source(cell) and cell.runs[0].task == at_hand]
        name = at_hand.partition("@")[0]
        for source in (at_hand, *(f"{name}@{source.name}" for source in get_task(name).sources)):
            if any(run.key in known for cell in cells for run in _from_source(plan, cell, source).runs):
                chosen[at_hand] = source
                break
    cells = [
        _from_source(plan, cell, chosen[cell.runs[0].task]) if _may_change_source(cell) and cell.runs[0].task in chosen else cell
        for cell in plan.cells
    ]
    return replace(plan, cells=tuple(cells))


def _may_change_source(cell: Cell) -> bool:
    return bool(cell.runs) and "@" not in str(cell.settings["task"])


def _from_source(plan: Plan, cell: Cell, source: str) -> Cell:
    """The cell with its runs on data of that source, which may be fewer where it is a stand-in."""
    seeds = [run.train.seed for run in cell.runs]
    made = make_cell(plan.recipe, cell.settings, seeds, lambda *_: source, plan.limits, plan.changed)
    return replace(made, num_seeds=cell.num_seeds)


def parse_only(texts: Iterable[str]) -> dict[str, list[str]]:
    """Reads `axis=value,value` texts, as given to `--only`."""
    only: dict[str, list[str]] = {}
    for text in texts:
        axis, equals, values = text.partition("=")
        chosen = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not axis.strip() or not chosen:
            raise ValueError(f"--only takes axis=value, such as task=normal_var or depth=25,50; got {text!r}.")
        only.setdefault(axis.strip(), []).extend(chosen)
    return only


def make_cell(
    recipe: Recipe, axes: Settings, seeds: Sequence[int], resolve: Resolve, limits: Mapping[str, Any], changes: Settings
) -> Cell:
    """The cell that these values of the axes make.

    Args:
        recipe: What else is set.
        axes: Values of the axes.
        seeds: One run for each.
        resolve: Which source a task is made from.
        limits: Numbers above these are lowered to them: as `Recipe.quick`.
        changes: Settings that override all others.
    """
    options = {**recipe.fixed, **axes}
    name, model = str(options.pop("task")), str(options.pop("model"))
    settings = {"task": name, "model": model, **axes}
    if model.startswith(BASELINE):  # what is fixed for all networks is not meant for it
        options = {key: value for key, value in options.items() if key in axes or key not in _OF_NETWORKS}
    if model in recipe.missing:
        return Cell(settings, (), len(seeds), recipe.missing[model])
    task_name, _, source = name.partition("@")
    task = get_task(task_name)
    asked: dict[str, Any] = {key: options[key] for key in SIZES if key in options}
    has_epochs = not model.startswith(BASELINE)

    def lower(limits: Mapping[str, Any]) -> None:
        for key in SIZES:
            full: Any = options.get(key, max(task.set_size) if key == "set_size" else getattr(task, key))
            if key in limits and limits[key] < full and (key != "epochs" or has_epochs):
                options[key] = limits[key]

    lower({**limits, **limits.get(task_name, {})})
    options |= changes
    resolved = resolve(task, source, options)
    if stand_in(resolved):
        lower(recipe.stand_in.get(task_name, {}))
    runs = tuple(make_spec(resolved, model, {**options, "seed": seed}) for seed in seeds)
    return Cell(settings, runs, len(seeds), asked=asked)


def value_names(recipe: Recipe, axis: str) -> list[str]:
    """What `--only` may call the values of an axis, or the one that is fixed; nothing where there is no such axis."""
    values = recipe.axes.get(axis, [recipe.fixed[axis]] if axis in recipe.fixed else [])
    return list(dict.fromkeys(name for value in values for name in _names(axis, value)))


def _filter(recipe: Recipe, only: Mapping[str, Sequence[str]]) -> list[tuple[Block, dict[str, Value]]]:
    axes = {**{name: [value] for name, value in recipe.fixed.items()}, **recipe.axes}
    for axis, values in only.items():
        if axis not in axes:
            raise ValueError(f"{recipe.name} has no axis {axis!r}.{did_you_mean(axis, axes)} Axes: {', '.join(axes) or 'none'}.")
        known = value_names(recipe, axis)
        for value in values:
            if value not in known:
                raise ValueError(
                    f"{recipe.name} has no {axis} {value!r}.{did_you_mean(value, known)} "
                    f"Values of {axis}: {', '.join(str(v) for v in axes[axis])}."
                )
    every = [(block, settings) for block in recipe.blocks for settings in block.settings()]
    chosen = [(block, settings) for block, settings in every if _is_chosen({**recipe.fixed, **settings}, only)]
    if every and not chosen:
        said = " ".join(f"{axis}={','.join(values)}" for axis, values in only.items())
        raise ValueError(f"{recipe.name} has no cell with {said}: each value occurs, but not together.")
    return chosen


def _is_chosen(settings: Settings, only: Mapping[str, Sequence[str]]) -> bool:
    return all(axis in settings and set(_names(axis, settings[axis])) & set(values) for axis, values in only.items())


def _names(axis: str, value: Value) -> list[str]:
    """What a value may be called: a task also without its source, true as TOML writes it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return [text, text.partition("@")[0]] if axis == "task" else [text]


def published_for(recipe: Recipe, cell: Cell, metric: str) -> Mapping[str, Any] | None:
    """The paper's figure for a cell of this recipe, if it gives one: the first that fits."""
    for row in recipe.published:
        if row["metric"] == metric and is_of(row, _identity(recipe, cell)):
            return row
    return None


def is_of(row: Mapping[str, Any], identity: Mapping[str, Any]) -> bool:
    """Whether a published figure is of this cell: all that the figure says must be so."""
    return all(identity.get(name) == value for name, value in row.items() if name not in FIGURE_COLUMNS)


def _identity(recipe: Recipe, cell: Cell) -> dict[str, Any]:
    """All that a published figure may say of a cell: its settings, and what its network has by default."""
    defaults = cell.runs[0].model_options if cell.runs else {}
    return {**recipe.fixed, **defaults, **cell.settings, "task": cell.task}


def identities(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """All that a published figure may say of each cell, cell by cell."""
    for block in recipe.blocks:
        for axes in block.settings():
            yield _identity(recipe, make_cell(recipe, axes, recipe.seeds[:1], preferred_source, {}, {}))


def is_base(recipe: Recipe, settings: Settings) -> bool:
    """Whether the others are compared to the cell with these settings, `recipe.fixed` included."""
    return all(settings.get(name) == value for name, value in recipe.relative_to.items())


def say(settings: Mapping[str, Any]) -> str:
    """Settings as one would type them."""
    return " ".join(f"{name}={value}" for name, value in settings.items())
