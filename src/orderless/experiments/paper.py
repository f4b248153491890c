"""The whole paper at once: a page with every table and figure of it, ours beside the published, and a verdict on each row."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orderless.experiments.agreement import WORDS, Verdict, judge
from orderless.experiments.grid import Plan, Recipe, Settings
from orderless.experiments.naming import HIGHER_IS_BETTER, METRIC_TITLES
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.experiments.render import markdown_grid
from orderless.experiments.table import Entry, Table, label_value

PAPER = "paper"  # the name by which all of it is asked for
_FIRST = "main_results"
_AXIS_TITLES = {"depth": "layers", "batch_size": "batch"}
_INTRODUCTION = """\
# The paper's tables and figures, and ours

Every table and figure of "Set Norm and Equivariant Skip Connections: Putting the Deep in Deep Sets" (Zhang, Tozzo, Higgins,
Ranganath, ICML 2022), as this software gives them. The lines behind it are in `paper.jsonl`. The command under each table does
its runs, and the commands folded up below it those of one row; with `--results paper.jsonl` those that are missing there. What
the main table takes on a GPU, beside the authors' code, is on the project's page on performance.

How to read it:

- **Ours** is the mean over seeds 0, 1 and 2 ± the sample standard deviation, after the last epoch, on all test sets. No epoch was
  chosen. A row with fewer seeds says so, and is preliminary. In square brackets are the same runs evaluated as the authors' code
  does, where that gives another figure.
- **reproduced**: ours differs from the published figure by no more than twice the standard error of the difference, or by no more
  than ours changes between epochs (a standard deviation, by the median change of the last ten), and half of the last digit that
  was printed. The figure of the authors' protocol is compared, where there is one. The error is that of seeds (their ± is over
  three; where we have one run, it is theirs), and of test sets where theirs are others than ours: in Normal Var and MNIST Var all
  of them, elsewhere those that their protocol leaves out. Rows of one task share their test sets, so they err together.
- **better**, **not reproduced**: it differs by more, to the good or to the bad; the row says by how much. A run that diverged is
  not reproduced. Runs that are in several tables are counted in each.
- **not testable here**: the data cannot be had (Flow-RBC's patients, CelebA), and others stand in for them. Such figures can be
  compared with each other alone.
- **not run**: there is no result yet. Of costs, which the paper gives as "about" so many times, there is no verdict."""


@dataclass(frozen=True)
class DrawnFigure:
    """A figure of the paper, and what there is of it.

    Attributes:
        plan: Its recipe and its runs.
        num_done: Runs that are finished or diverged.
        picture: Where it was drawn, from the page; None where it was not.
    """

    plan: Plan
    num_done: int
    picture: str | None


def paper_recipes() -> list[Recipe]:
    """The recipes of the paper's own tables and figures, the main table first."""
    found = [recipe for name in list_recipes() if (recipe := load_recipe(name)).path.parent.name == PAPER]
    return sorted(found, key=lambda recipe: recipe.name != _FIRST)


def write_page(path: Path, tables: Sequence[Table], figures: Sequence[DrawnFigure], options: Sequence[str] = ()) -> None:
    """Writes `paper_page` to a file."""
    path.write_text(paper_page(tables, figures, options), encoding="utf-8")


def paper_page(tables: Sequence[Table], figures: Sequence[DrawnFigure], options: Sequence[str] = ()) -> str:
    """The page as Markdown.

    Args:
        tables: In the order in which they are shown.
        figures: Likewise.
        options: Of the command line, that the runs were made with: they stand in every command.
    """
    parts = [_INTRODUCTION, _overview(tables, figures)]
    parts += [_table_part(table, options) for table in tables]
    parts += [_figure_part(figure, options) for figure in figures]
    return "\n\n".join(parts) + "\n"


# ------------------------------------------------------------------------------------------------------- overview


def _overview(tables: Sequence[Table], figures: Sequence[DrawnFigure]) -> str:
    head = ["table or figure", "in the paper", "runs done", *WORDS]
    body = []
    for table in tables:
        words = _count_words(table.entries.values())
        done = table.counts["finished"] + table.counts["diverged"]
        counts = [str(words[word] or "") for word in WORDS]
        body.append([*_names(table.recipe), f"{done} of {done + table.counts['missing']}", *counts])
    for figure in figures:
        num_runs = len(figure.plan.runs)
        body.append(
            [*_names(figure.plan.recipe), f"{figure.num_done} of {num_runs}" if num_runs else "needs none", *[""] * len(WORDS)]
        )
    return "## Overview\n\n" + markdown_grid(head, body, to_left=[i < 2 for i in range(len(head))])


def _names(recipe: Recipe) -> list[str]:
    return [f"[`{recipe.name}`](#{recipe.name})", recipe.label]


def _count_words(entries: Iterable[Entry]) -> Counter[str]:
    return Counter(verdict.word for entry in entries if (verdict := judge(entry)) is not None)


# ------------------------------------------------------------------------------------------------------- tables and figures


def _table_part(table: Table, options: Sequence[str]) -> str:
    recipe = table.recipe
    axes = [*recipe.rows, *(axis for axis in recipe.columns if axis not in recipe.rows)]
    head = [*(_AXIS_TITLES.get(axis, axis.replace("_", " ")) for axis in axes), "metric", "ours", "published", "verdict"]
    entries = list(table.entries.values())
    done = [entry for entry in entries if entry.ours or entry.num_diverged]
    body = [
        [*_labels(table, entry, axes), _keep(entry.say_ours()), _keep(entry.say_published()), _say(judge(entry))]
        for entry in done
    ]
    missing = [[*_labels(table, entry, axes), _keep(entry.say_published())] for entry in entries if entry not in done]
    commands = [_command("table", recipe, options, entry) for entry in entries]
    parts = [f'<a id="{recipe.name}"></a>\n\n## {recipe.title}', _code([_command("table", recipe, options)])]
    parts += [f"**{warning}**" for warning in (*table.conditions, *table.stand_ins)]
    if body:
        parts += [markdown_grid(head, body, to_left=[i <= len(axes) or title == "verdict" for i, title in enumerate(head)])]
    if missing:
        named = [*head[: len(axes) + 1], "published"]
        grid = markdown_grid(named, missing, to_left=[title != "published" for title in named])
        parts += [_folded(f"{len(missing)} of {len(entries)} rows that were not run yet", grid)]
    parts += ["\n".join(f"- {note}" for note in table.notes)] if table.notes else []
    parts += [_folded("One command for each row", _code(dict.fromkeys(commands)))]
    return "\n\n".join(parts)


def _figure_part(figure: DrawnFigure, options: Sequence[str]) -> str:
    recipe = figure.plan.recipe
    parts = [f'<a id="{recipe.name}"></a>\n\n## {recipe.title}']
    parts += [_code([_command("figure", recipe, options if recipe.blocks else ())])]
    parts += [f"![{recipe.title}]({figure.picture})"] if figure.picture else []
    return "\n\n".join(parts)


def _labels(table: Table, entry: Entry, axes: Sequence[str]) -> list[str]:
    settings = {**table.recipe.fixed, **entry.cell.settings}
    labels = [label_value(axis, settings.get(axis)) for axis in axes]
    return [*labels, f"{METRIC_TITLES[entry.metric]} {'↑' if entry.metric in HIGHER_IS_BETTER else '↓'}"]


def _keep(figures: str) -> str:
    """A narrow column breaks its lines between figures, not within one."""
    return figures.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def _say(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return f"**{verdict}**" if verdict.word == "not reproduced" else str(verdict)


def _command(verb: str, recipe: Recipe, options: Sequence[str], entry: Entry | None = None) -> str:
    words = ["orderless", verb, recipe.name]
    if entry is not None:
        words += [word for name, value in _telling(recipe, entry.cell.settings) for word in ("--only", f"{name}={value}")]
    return shlex.join([*words, *options])


def _telling(recipe: Recipe, settings: Settings) -> list[tuple[str, str]]:
    """As few settings as tell a cell from all others of its recipe."""
    cells = [cell for block in recipe.blocks for cell in block.settings()]
    told = [name for name, values in recipe.axes.items() if len(values) > 1 and name in settings]
    for name in reversed(told.copy()):
        fewer = [other for other in told if other != name]
        if sum(all(cell.get(other) == settings[other] for other in fewer) for cell in cells) == 1:
            told = fewer
    return [(name, str(settings[name]).lower() if isinstance(settings[name], bool) else str(settings[name])) for name in told]


def _folded(title: str, content: str) -> str:
    return f"<details markdown><summary>{title}</summary>\n\n{content}\n\n</details>"


def _code(commands: Iterable[str]) -> str:
    return "\n".join(["```sh", *commands, "```"])
