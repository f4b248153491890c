"""A table or figure as data: a TOML file that says which runs it is of, how they are laid out, and what the paper published.

`load_recipe` reads and checks one; `expand` makes its runs. Nothing here needs data, a GPU, or the runs to be done.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import torch

from orderless.experiments.grid import (
    FIGURE_COLUMNS,
    MEASURES,
    Block,
    Conclusion,
    Kind,
    Recipe,
    RecipeError,
    Settings,
    Value,
    identities,
    is_base,
    is_of,
    make_cell,
    say,
)
from orderless.experiments.sizes import SIZES
from orderless.experiments.sources import preferred_source
from orderless.experiments.spec import STANDARDIZE
from orderless.models import create_model
from orderless.models.registry import MODELS
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.published import read_published, read_toml, recipes_folder
from orderless.tasks.registry import TASKS, get_task
from orderless.words import did_you_mean

PAPER = "paper"  # the name by which all recipes of the paper are asked for at once

_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "a text"),
    "kind": (str, "a text"),
    "title": (str, "a text"),
    "label": (str, "a text"),
    "drawing": (str, "a text"),
    "seeds": (list, "a list of whole numbers"),
    "rows": (list, "a list of axes"),
    "columns": (list, "a list of axes"),
    "notes": (list, "a list of texts"),
    "grid": (list, "[[grid]], once or more"),
    "fixed": (dict, "a table of settings"),
    "metrics": (dict, "a table of metrics by task"),
    "quick": (dict, "a table of limits"),
    "stand_in": (dict, "a table of limits by task"),
    "missing": (dict, "a table of reasons by model"),
    "options": (dict, "a table of what the drawing takes"),
    "row_changes": (bool, "true or false"),
    "relative_to": (dict, "a table of settings"),
    "published": (dict, "columns and rows, or from"),
    "conclusions": (list, "[[conclusions]], once or more"),
}
_LONGEST_NAME = 60  # letters, of up to four bytes each: names of files may have 255
_REQUIRED = ("name", "kind", "title")
_SIDES = ("ahead", "behind", "where")  # of a conclusion
_OF_KINDS = {"drawing": "figure", "options": "figure", "row_changes": "table", "conclusions": "table"}


def list_recipes() -> list[str]:
    """Names of the recipes that come with the package: the paper's tables, its figures, and others."""
    return [path.stem for path in _shipped()]


def load_recipe(name: str | Path) -> Recipe:
    """Reads and checks a recipe.

    Args:
        name: One of `list_recipes()`, or a TOML file.

    Raises:
        ValueError: If there is no such recipe, or something in it is wrong; the message says what is allowed.
    """
    path = _find(name)
    return _Reader(path, _read(path)).recipe()


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(path, f"this is not TOML: {error}.") from error
    except (OSError, ValueError, RecursionError) as error:  # no text, or numbers and nesting beyond what Python takes
        raise RecipeError(path, f"cannot be read: {error}.") from error


def _shipped() -> list[Path]:
    """Recipes of the package: the paper's first."""
    folder = recipes_folder()
    return [*sorted((folder / "paper").glob("*.toml")), *sorted(folder.glob("*.toml"))]


def _find(name: str | Path) -> Path:
    for path in _shipped():
        if path.stem == str(name):
            return path
    path = Path(name).expanduser()
    if path.suffix == ".toml" or len(path.parts) > 1:
        if not path.is_file():
            raise ValueError(f"there is no recipe file {path}.")
        return path
    known = list_recipes()
    raise ValueError(
        f"there is no recipe {str(name)!r}.{did_you_mean(str(name), [*known, PAPER])} Recipes: {', '.join(known)}; {PAPER} is "
        "all of the paper's; or give a .toml file."
    )


class _Reader:
    """Checks what a recipe says, key by key, and that every cell of it is a run that can be made."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.content = path, content

    def recipe(self) -> Recipe:
        self._check_keys()
        content = self.content
        kind = content["kind"]
        if kind not in get_args(Kind):
            raise self._error(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}.")
        blocks = tuple(self._block(number, block) for number, block in enumerate(content.get("grid", []), start=1))
        if kind == "table" and not blocks:
            raise self._error("a table needs runs: add [[grid]].")
        recipe = Recipe(
            path=self.path,
            name=content["name"],
            kind=kind,
            title=content["title"],
            label=content.get("label", ""),
            seeds=self._seeds(content.get("seeds", [0]), "seeds"),
            blocks=blocks,
            rows=self._texts("rows"),
            columns=self._texts("columns"),
            row_changes=content.get("row_changes", False),
            fixed=self._settings(content.get("fixed", {}), "[fixed]"),
            quick=self._quick(content.get("quick", {})),
            stand_in=self._stand_in(content.get("stand_in", {})),
            missing=self._missing(content.get("missing", {})),
            relative_to=self._settings(content.get("relative_to", {}), "[relative_to]"),
            notes=self._texts("notes"),
            drawing=content.get("drawing", content["name"]) if kind == "figure" else None,
            options=content.get("options", {}),
        )
        recipe = self._check_layout(recipe)
        self._check_cells(recipe)
        recipe = replace(recipe, metrics=self._metrics(recipe))
        return replace(recipe, published=self._published(recipe), conclusions=self._conclusions(recipe))

    def _check_keys(self) -> None:
        for key, value in self.content.items():
            if key not in _TYPES:
                raise self._error(f"there is no key {key!r}.{did_you_mean(key, _TYPES)} Keys: {', '.join(_TYPES)}.")
            expected, words = _TYPES[key]
            if not isinstance(value, expected):
                raise self._error(f"{key} must be {words}; got {value!r}.")
        for key in _REQUIRED:
            if key not in self.content:
                raise self._error(f"it has no {key!r}. Every recipe needs {', '.join(_REQUIRED)}.")
        if not re.fullmatch(rf"[\w.-]{{1,{_LONGEST_NAME}}}", self.content["name"]):
            raise self._error(
                f"name must consist of letters, digits, _, . and -, at most {_LONGEST_NAME} of them: files are named after it; "
                f"got {self.content['name']!r}."
            )
        for key, kind in _OF_KINDS.items():
            if key in self.content and self.content["kind"] != kind:
                raise self._error(f"{key} belongs to {kind}s, and this is a {self.content['kind']}.")

    def _block(self, number: int, block: Any) -> Block:
        where = f"[[grid]] {number}"
        if not isinstance(block, dict):
            raise self._error(f"{where} must be a table of axes; got {block!r}.")
        axes: dict[tuple[str, ...], list[tuple[Value, ...]]] = {}
        seeds = None
        for key, value in block.items():
            if key == "seeds":
                seeds = self._seeds(value, f"seeds of {where}")
                continue
            names = tuple(name.strip() for name in key.split(","))
            values = value if isinstance(value, list) else [value]
            if not values:
                raise self._error(f"{key} of {where} has no values.")
            axes[names] = [self._joint(names, v, f"{key} of {where}") for v in values]
        named = [name for names in axes for name in names]
        if twice := {name for name in named if named.count(name) > 1}:
            raise self._error(f"{where} has {', '.join(sorted(twice))} twice.")
        return Block(axes, seeds)

    def _joint(self, names: tuple[str, ...], value: Any, where: str) -> tuple[Value, ...]:
        values = (value,) if len(names) == 1 else value
        if not isinstance(values, list | tuple) or len(values) != len(names):
            raise self._error(f"{where} takes lists of {len(names)} values, one for each of its settings; got {value!r}.")
        return tuple(self._value(v, where) for v in values)

    def _value(self, value: Any, where: str) -> Value:
        if not isinstance(value, str | int | float | bool):
            raise self._error(f"{where} must have texts, numbers, true or false as values; got {value!r}.")
        return float(value) if isinstance(value, float) else value  # how a setting was written does not matter

    def _settings(self, table: Mapping[str, Any], where: str) -> dict[str, Value]:
        return {name: self._value(value, f"{name} of {where}") for name, value in table.items()}

    def _seeds(self, seeds: Any, where: str) -> tuple[int, ...]:
        good = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
        if not good or not seeds or len(set(seeds)) < len(seeds):
            raise self._error(f"{where} must be a list of whole numbers of at least 0, each once; got {seeds!r}.")
        return tuple(seeds)

    def _texts(self, key: str) -> tuple[str, ...]:
        texts = self.content.get(key, [])
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise self._error(f"{key} must be a list of texts; got {wrong[0]!r} in it.")
        return tuple(texts)

    def _quick(self, quick: Mapping[str, Any]) -> dict[str, Any]:
        read: dict[str, Any] = {}
        known = [*SIZES, "seeds"]
        for key, value in quick.items():
            if key == "seeds":
                read[key] = self._seeds(value, "seeds of [quick]")
            elif key in TASKS and isinstance(value, dict):
                read[key] = {name: self._limit(name, limit, f"{key} of [quick]", [*SIZES]) for name, limit in value.items()}
            else:
                read[key] = self._limit(key, value, "[quick]", known)
        return read

    def _stand_in(self, table: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        for task, limits in table.items():
            if task not in TASKS or not isinstance(limits, dict):
                raise self._error(
                    f"[stand_in] takes tasks with limits, such as hematocrit = {{ num_train = 20000 }}; got {task!r}."
                )
        known = [size for size in SIZES if size != "epochs"]  # what stands in are data
        return {
            task: {name: self._limit(name, limit, f"{task} of [stand_in]", known) for name, limit in limits.items()}
            for task, limits in table.items()
        }

    def _limit(self, key: str, value: Any, where: str, known: Sequence[str]) -> int:
        if key not in known:
            tasks = "; or a task with limits" if where == "[quick]" else ""
            raise self._error(f"{where} has no key {key!r}.{did_you_mean(key, known)} Keys: {', '.join(known)}{tasks}.")
        if type(value) is not int or value < 1:
            raise self._error(f"{key} of {where} must be a whole number of at least 1; got {value!r}.")
        return value

    def _missing(self, missing: Mapping[str, Any]) -> dict[str, str]:
        for model, reason in missing.items():
            if not isinstance(reason, str):
                raise self._error(f"{model} of [missing] must be a text that says why; got {reason!r}.")
        return dict(missing)

    def _check_layout(self, recipe: Recipe) -> Recipe:
        """Every axis that is named must be there, and no two cells may share one place of a table."""
        axes = {**{name: [value] for name, value in recipe.fixed.items()}, **recipe.axes}
        for key, names in (("rows", recipe.rows), ("columns", recipe.columns), ("relative_to", recipe.relative_to)):
            for name in names:
                if name not in axes:
                    raise self._error(f"{key} names {name!r}, which the grid does not have. Axes: {', '.join(axes)}.")
        if both := set(recipe.rows) & set(recipe.columns):
            raise self._error(f"{', '.join(sorted(both))} cannot make both rows and columns.")
        for model in recipe.missing:
            if model not in axes.get("model", ()):
                raise self._error(f"[missing] names {model!r}, which is not a model of the grid.")
        for name, value in recipe.relative_to.items():
            if value not in axes[name]:
                raise self._error(f"relative_to has {name}={value!r}, which the grid does not have.")
        if recipe.kind == "figure":
            return recipe
        columns = recipe.columns or (("task",) if "task" in recipe.axes and "task" not in recipe.rows else ())
        rows = recipe.rows or tuple(name for name in recipe.axes if name not in columns)
        if recipe.row_changes and "task" in rows:
            raise self._error("row_changes is for rows of settings: make columns of the tasks.")
        places: dict[tuple[Any, ...], Settings] = {}
        for block in recipe.blocks:
            for settings in block.settings():
                place = tuple(settings.get(name) for name in (*rows, *columns))
                if place in places:
                    differ = [name for name in recipe.axes if places[place].get(name) != settings.get(name)]
                    fix = f"add {' or '.join(differ)} to rows or columns" if differ else "the grid has them twice"
                    raise self._error(f"two cells share one place of the table, {say(settings)}: {fix}.")
                places[place] = settings
        if recipe.relative_to:
            self._check_base(recipe, columns)
        return replace(recipe, rows=rows, columns=columns)

    def _check_base(self, recipe: Recipe, columns: Sequence[str]) -> None:
        """Figures are compared within a column and a task, so there may be one row of each that they are compared to."""
        for name in recipe.relative_to:
            if name in columns:
                raise self._error(
                    f"relative_to names {name!r}, which makes columns, but it must name a row, for all columns alike."
                )
        bases: dict[tuple[Any, ...], Settings] = {}
        for settings in ({**recipe.fixed, **axes} for block in recipe.blocks for axes in block.settings()):
            if is_base(recipe, settings):
                kind = (*(settings.get(name) for name in columns), settings.get("task"))
                if kind in bases:
                    differ = [name for name in recipe.axes if bases[kind].get(name) != settings.get(name)]
                    raise self._error(f"relative_to fits several rows: add {' or '.join(differ)} to it.")
                bases[kind] = settings

    def _check_cells(self, recipe: Recipe) -> None:
        """Makes every run, so that a slip is found now and not after hours."""
        keys: dict[str, Settings] = {}
        for number, block in enumerate(recipe.blocks, start=1):
            for axes in block.settings():
                where = f"[[grid]] {number}"
                self._check_settings({**recipe.fixed, **axes}, where)
                try:
                    cell = make_cell(recipe, axes, block.seeds or recipe.seeds, preferred_source, {}, {})
                    if cell.runs and not cell.runs[0].is_baseline:
                        _check_network(cell.runs[0].model, tuple(cell.runs[0].model_options.items()))
                except ValueError as error:
                    raise self._error(f"{where}, {say(axes)}: {str(error).splitlines()[0]}") from error
                for spec in cell.runs:
                    if spec.key in keys:
                        raise self._error(f"one run occurs twice: {say(keys[spec.key])}, and {say(axes)}.")
                    keys[spec.key] = axes

    def _check_settings(self, settings: Settings, where: str) -> None:
        for name in ("task", "model"):
            if name not in settings:
                raise self._error(f"{where} has no {name}: it belongs in the grid or in [fixed].")
            if not isinstance(settings[name], str):
                raise self._error(f"{name} of {where} must be a text; got {settings[name]!r}.")
        if "seed" in settings:
            raise self._error(f"seed of {where}: a recipe names its seeds under the key seeds.")
        for name in ("num_train", "num_test", "set_size", "data_seed"):
            least = 0 if name == "data_seed" else 1
            value = settings.get(name, least)
            if type(value) is not int or value < least:
                raise self._error(f"{name} of {where} must be a whole number of at least {least}; got {value!r}.")

    def _metrics(self, recipe: Recipe) -> dict[str, tuple[str, ...]]:
        tasks = {str(value).partition("@")[0] for value in [*recipe.axes.get("task", []), recipe.fixed.get("task", "")]} - {""}
        metrics = {}
        for task, value in self.content.get("metrics", {}).items():
            if task not in tasks:
                raise self._error(f"[metrics] names {task!r}, which is not a task of this recipe: {', '.join(sorted(tasks))}.")
            known = (*OBJECTIVES[get_task(task).objective].metrics, *MEASURES)
            metrics[task] = tuple(value) if isinstance(value, list) else (value,)
            if not metrics[task]:
                raise self._error(f"{task} of [metrics] has no values: name one of {', '.join(known)}.")
            for metric in metrics[task]:
                if metric not in known:
                    raise self._error(
                        f"{task} of [metrics] must be of {', '.join(known)}; got {metric!r}.{did_you_mean(str(metric), known)}"
                    )
        return metrics

    def _published(self, recipe: Recipe) -> tuple[Mapping[str, Any], ...]:
        table, cells = self.content.get("published", {}), list(identities(recipe))
        if unknown := [key for key in table if key not in ("columns", "rows", "from")]:
            raise self._error(f"[published] has no key {unknown[0]!r}. Keys: columns and rows, or from.")
        if "from" in table:
            if len(table) > 1 or not isinstance(table["from"], list):
                raise self._error("from of [published] is a list of recipes, and stands alone.")
            rows = [row for name in table["from"] for row in self._figures_of(str(name))]
            return tuple(row for row in rows if any(is_of(row, cell) for cell in cells))
        known = [*FIGURE_COLUMNS, *dict.fromkeys(["task", "model", "depth", "norm", "residual", *recipe.axes])]
        published = self._figures(known)
        for number, entry in enumerate(published, start=1):
            if not any(is_of(entry, cell) and entry["metric"] in recipe.metrics_of(cell["task"]) for cell in cells):
                raise self._error(f"row {number} of [published], {say(entry)}, fits no cell of the grid.")
        return published

    def _figures_of(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """The figures that stand in another recipe, which are checked as if they stood here."""
        try:
            path = _find(name)
        except ValueError as error:
            raise self._error(f"from of [published]: {error}") from error
        figures = _Reader(path, _read(path))._figures()
        if not figures:
            raise self._error(f"from of [published]: {path} has no figures of its own.")
        return figures

    def _figures(self, known: Sequence[str] | None = None) -> tuple[Mapping[str, Any], ...]:
        """The rows of [published]: what each says, with columns that are known, or any."""
        table = self.content.get("published", {})
        if not isinstance(table, dict):
            raise self._error(f"published must be {_TYPES['published'][1]}; got {table!r}.")
        for key in ("columns", "rows"):
            if not isinstance(table.get(key, []), list):
                raise self._error(f"{key} of [published] must be a list; got {table[key]!r}.")
        columns, rows = table.get("columns", []), table.get("rows", [])
        for column in columns:
            if not isinstance(column, str) or (known is not None and column not in known):
                meant = f"{did_you_mean(str(column), known)} Columns: {', '.join(known)}." if known else ""
                raise self._error(f"[published] has no column {column!r}.{meant}")
        if rows and not columns:
            raise self._error("[published] has rows but no columns, which say what the values of a row are.")
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, list) or len(row) != len(columns):
                raise self._error(f"row {number} of [published] must have {len(columns)} values, one for each column.")
        figures = tuple(read_published(self.content))
        for number, entry in enumerate(figures, start=1):
            if "metric" not in entry or ("mean" in entry) == ("ratio" in entry):
                raise self._error(f"row {number} of [published] needs a metric, and a mean or a ratio.")
            for name in ("mean", "std", "ratio"):
                if not isinstance(entry.get(name, 0), int | float):
                    raise self._error(f"{name} in row {number} of [published] must be a number; got {entry[name]!r}.")
        return figures

    def _conclusions(self, recipe: Recipe) -> tuple[Conclusion, ...]:
        cells = [{**recipe.fixed, **settings} for block in recipe.blocks for settings in block.settings()]
        conclusions = []
        for number, table in enumerate(self.content.get("conclusions", []), start=1):
            where = f"[[conclusions]] {number}"
            if not isinstance(table, dict) or not {"says", "ahead", "behind"} <= table.keys() <= {*_SIDES, "says"}:
                raise self._error(f"{where} takes says, ahead, behind and, if it is not about all cells, where; got {table!r}.")
            if not isinstance(table["says"], str):
                raise self._error(f"says of {where} must be a text; got {table['says']!r}.")
            ahead, behind, both = (self._choice(table.get(side, {}), f"{side} of {where}") for side in _SIDES)
            conclusion = Conclusion(table["says"], ahead, behind, both)
            if not any(conclusion.compares(one, other) for one in cells for other in cells):
                raise self._error(f"{where} compares no two cells of the grid.")
            conclusions.append(conclusion)
        return tuple(conclusions)

    def _choice(self, table: Any, where: str) -> dict[str, tuple[Value, ...]]:
        """Settings, each with one value or a list of them."""
        if not isinstance(table, dict):
            raise self._error(f"{where} must be a table of settings; got {table!r}.")
        return {
            name: tuple(self._value(v, f"{name} of {where}") for v in (value if isinstance(value, list) else [value]))
            for name, value in table.items()
        }

    def _error(self, what: str) -> RecipeError:
        return RecipeError(self.path, what)


@cache
def _check_network(model: str, options: tuple[tuple[str, Any], ...]) -> None:
    """Builds the network without memory, once, so that options that do not fit it are errors."""
    with torch.device("meta"):
        create_model(model, MODELS[model].in_features or 1, 1, **{n: value for n, value in options if n != STANDARDIZE})
