"""The whole paper at once: a page with every table and figure of it, ours beside the published, and a verdict on each row."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orderless.experiments.agreement import WORDS, Agreement, Order, Pair, Word, judge, pairs_told_apart
from orderless.experiments.conclusions import find
from orderless.experiments.grid import Plan, Recipe, Settings
from orderless.experiments.naming import METRIC_TITLES, describe_option
from orderless.experiments.recipe import PAPER, list_recipes, load_recipe
from orderless.experiments.render import markdown_grid
from orderless.experiments.table import Entry, Table, label_value
from orderless.files import write_text
from orderless.tasks.objectives import HIGHER_IS_BETTER

_FIRST = "main_results"
_AXIS_TITLES = {"depth": "layers", "batch_size": "batch"}
_INTRODUCTION = """\
# The paper's tables and figures, and ours

Every table and figure of "Set Norm and Equivariant Skip Connections: Putting the Deep in Deep Sets" (Zhang, Tozzo, Higgins,
Ranganath, ICML 2022), as this software gives it. What the main table takes on a GPU, beside the authors' code, is on the
project's page on performance."""
_READING = """\
## How to read the tables

- **Ours** is the mean over seeds 0, 1 and 2 ± the sample standard deviation, after the last epoch, on all test sets. No epoch was
  chosen. Seeds differ in the first weights alone, as they do in the authors' code: the order of the batches is the same for all,
  so ± says nothing about another order. A row with fewer seeds says so, and is preliminary. In square brackets are the same runs
  evaluated as the authors' code does, where that gives another figure; that is the one to compare, since the paper's are
  evaluated so.
- **reproduced**: the two figures differ by no more than chance explains: twice the standard error of the difference, or the usual
  change of our figure from one epoch to the next, whichever is larger, and half of the last digit that was printed. The row has
  both numbers. Where chance explains more than a quarter of the figure, it says that this says little. The change from epoch to
  epoch is counted once, though the published figure has its own: where that decides, a network that does the same as the authors'
  can well be called not reproduced, or better.
- **better**, **not reproduced**: they differ by more, to the good or to the bad. Where the paper shows that a network fails,
  better means that it fails less here. A run that diverged is not reproduced. Runs of several tables are counted in each.
- **The standard error** has two parts. Seeds: the paper's ± is over three; where we have one run, we assume that ours scatter as
  much as theirs. Test sets, where theirs are others than ours: in Normal Var and MNIST Var all of them, elsewhere those that
  their protocol leaves out. All rows of a task use the same test sets. If these happen to be hard, all rows look worse together,
  which no single row can tell: "Task by task" below counts them.
- **not testable here**: the data were not at hand (Flow-RBC, CelebA), and others stand in for them. Compare such figures only
  with each other.
- **not run**: there is no result yet. Without Flow-RBC and CelebA, rows of Hematocrit, Anemia and Set anomaly could only become
  "not testable here". Of costs, which the paper gives as "about" so many times, there is no verdict.

Three of the paper's tables list layers: tab:deepsets_pointcloud, tab:settransformer_pointcloud and tab:more_frequent_res. Here
they are networks: `deep_sets_pointcloud`, `set_transformer_pointcloud`, and `residual=freq_add`.

## How to run them

The command under a table does all its runs; the folded commands do one row each. First name the folder with the publishers' files
in the variable `ORDERLESS_DATA`: without it, tasks come from their stand-ins. `--results docs/results/paper.jsonl` skips the runs
that are here already, with `--precision bf16-mixed`, as most of them are. Commands are written for a GPU; on a CPU leave
`--compile` and `--cuda-graphs` out. A line of that file has the settings, versions and hardware of its run, and the commit; a `+`
behind it says that files had been changed since, as they had for two of three lines."""
_CONCLUSIONS = """\
A conclusion says that some networks are better than others that differ from them in nothing else. Every such comparison, of one
task and one metric, is **for** it, **against** it, or too **close** to tell: a difference below twice the standard error over
seeds, or below what the figures usually change from one epoch to the next. A conclusion **holds** here if some comparison on the
paper's data is for it and none against it; it **mostly holds** if more are for it than against it, and is **mixed** if as many
are. It is preliminary where some of the runs compared lack a seed. The paper's own figures are counted in the same way, except
that it does not print how epochs differ."""
_ORDERS = """\
The paper concludes from which network is better, more than from figures. Of all pairs of rows of a table, of one task and one
metric, whose published figures differ by more than twice their standard error over seeds, so many are in the same order here. A
pair that is close may change places by chance, and rows that are preliminary more easily."""
_SIDES: dict[Order, str] = {"ahead": "for", "behind": "against", "close": "close"}
_JUDGED: tuple[Word, ...] = ("reproduced", "better", "not reproduced")


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
    write_text(path, paper_page(tables, figures, options))


def paper_page(tables: Sequence[Table], figures: Sequence[DrawnFigure], options: Sequence[str] = ()) -> str:
    """The page as Markdown.

    Args:
        tables: In the order in which they are shown.
        figures: Likewise.
        options: Of the command line, that the runs were made with: they stand in every command.
    """
    parts = [_INTRODUCTION, *_conclusions(tables), _overview(tables, figures), _READING]
    parts += [_table_part(table, options) for table in tables]
    parts += [_figure_part(figure, options) for figure in figures]
    return "\n\n".join(parts) + "\n"


# ------------------------------------------------------------------------------------------------------- conclusions


def _conclusions(tables: Sequence[Table]) -> list[str]:
    """What the paper says in words, and how many comparisons of ours are for it and against it."""
    findings = [(table, finding) for table in tables for finding in find(table)]
    if not findings:
        return []
    head = ["the paper concludes", "its figures", "our runs", "verdict", "our runs on stand-in data"]
    body, against = [], []
    for table, finding in findings:
        made = finding.made(on_stand_in=False)
        counts = [_count_sides(finding.ours(on_stand_in=on_stand_in)) for on_stand_in in (False, True)]
        answer = f"**{finding.answer}**" if made else finding.answer
        if any(comparison.is_preliminary for comparison in made):
            answer += ", preliminary"
        says = f"[{finding.conclusion.says}](#{table.recipe.name})"
        body.append([says, _count_sides(finding.published), counts[0], answer, counts[1]])
        against += [_say_pair(table, Pair(c.better, c.worse)) for c in made if c.ours == "behind"]
    parts = [
        "## What the paper concludes, and what our runs say",
        _CONCLUSIONS,
        markdown_grid(head, body, to_left=[True] * len(head)),
    ]
    if against:
        these = "1 comparison that is" if len(against) == 1 else f"{len(against)} comparisons that are"
        parts += [_folded(f"{these} against a conclusion here", "\n".join(against))]
    return parts


def _count_sides(orders: Mapping[Order, int]) -> str:
    return ", ".join(f"{orders[order]} {side}" for order, side in _SIDES.items() if order in orders)


# ------------------------------------------------------------------------------------------------------- overview


def _overview(tables: Sequence[Table], figures: Sequence[DrawnFigure]) -> str:
    head = ["table or figure", "in the paper", "runs done", *WORDS]
    body = []
    for table in tables:
        done = table.counts["finished"] + table.counts["diverged"]
        words = Counter(verdict.word for entry in table.entries.values() if (verdict := judge(entry)) is not None)
        counts = [str(words[word] or "") for word in WORDS]
        body.append([*_names(table.recipe), f"{done} of {done + table.counts['missing']}", *counts])
    for figure in figures:
        num_runs = len(figure.plan.runs)
        body.append(
            [*_names(figure.plan.recipe), f"{figure.num_done} of {num_runs}" if num_runs else "needs none", *[""] * len(WORDS)]
        )
    parts = ["## Overview", markdown_grid(head, body, to_left=[i < 2 for i in range(len(head))])]
    judged = [entry for table in tables for entry in table.entries.values() if _is_judged(entry)]
    if judged:
        whole = sum(not entry.num_missing for entry in judged)
        parts += [f"{whole} of the {len(judged)} rows that are judged have all their seeds. The others are preliminary."]
        parts += ["### Task by task", _by_task(judged)]
    return "\n\n".join([*parts, *_orders(tables)])


def _is_judged(entry: Entry) -> bool:
    verdict = judge(entry)
    return verdict is not None and verdict.word in _JUDGED and entry.ours is not None


def _by_task(judged: Iterable[Entry]) -> str:
    """Whether rows of a task are all a little better or worse than the published ones, which no single row can tell."""
    networks = {(entry.cell.runs[0].key, entry.metric): entry for entry in judged}  # one that is in several tables counts once
    kinds: dict[tuple[str, str], list[float]] = {}
    for entry in networks.values():
        ours = entry.released or entry.ours
        assert ours is not None
        assert entry.published is not None
        kinds.setdefault((entry.cell.task, entry.metric), []).append(ours.mean / entry.published["mean"])
    head = ["task", "metric", "networks", "ours is worse in", "ours divided by published: median", "from", "to"]
    body = []
    for (task, metric), ratios in sorted(kinds.items()):
        worse = sum(ratio < 1 if metric in HIGHER_IS_BETTER else ratio > 1 for ratio in ratios)
        figures = [f"{number:.2f}" for number in (statistics.median(ratios), min(ratios), max(ratios))]
        body.append([label_value("task", task), _say_metric(metric), str(len(ratios)), str(worse), *figures])
    return markdown_grid(head, body, to_left=[i < 2 for i in range(len(head))])


def _orders(tables: Sequence[Table]) -> list[str]:
    """Whether networks are in the order that the paper has them in, which is what it concludes from, table by table."""
    head = ["table", "pairs of networks", "in the same order here", "pairs on stand-in data", "in the same order"]
    body, reversed_here = [], []
    for table in tables:
        pairs = pairs_told_apart(table.entries.values())
        real, invented = ([pair for pair in pairs if (pair.first.stand_in is not None) == is_so] for is_so in (False, True))
        counts = [number for some in (real, invented) for number in (len(some), sum(pair.is_kept for pair in some))]
        if pairs:
            body.append([_names(table.recipe)[0], *(str(number) for number in counts)])
        reversed_here += [_say_pair(table, pair) for pair in real if not pair.is_kept]
    if not body:
        return []
    parts = ["### Which network is better", _ORDERS, markdown_grid(head, body, to_left=[i == 0 for i in range(len(head))])]
    if reversed_here:
        these = "1 pair that is" if len(reversed_here) == 1 else f"{len(reversed_here)} pairs that are"
        parts += [_folded(f"{these} the other way round here", "\n".join(reversed_here))]
    return parts


def _say_pair(table: Table, pair: Pair) -> str:
    axes = [axis for axis in (*table.recipe.rows, *table.recipe.columns) if axis != "task"]
    sides = [{**table.recipe.fixed, **entry.cell.settings} for entry in (pair.first, pair.second)]
    telling = [axis for axis in axes if axis == "model" or sides[0].get(axis) != sides[1].get(axis)]
    first, second = (", ".join(describe_option(axis, side[axis]) for axis in telling if axis in side) for side in sides)
    shared = [describe_option(axis, sides[0][axis]) for axis in axes if axis not in telling and axis in sides[0]]
    places = [f"`{table.recipe.name}`", label_value("task", pair.first.cell.task), METRIC_TITLES[pair.first.metric], *shared]
    where = ", ".join(places)
    published = f"{pair.first.say_published()} and {pair.second.say_published()}"
    ours = f"{pair.first.say_ours()} and {pair.second.say_ours()}"
    return f"- {where}: {first}, before {second}: published {published}, ours {ours}"


def _names(recipe: Recipe) -> list[str]:
    return [f"[`{recipe.name}`](#{recipe.name})", recipe.label]


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
    return [*labels, _say_metric(entry.metric)]


def _say_metric(metric: str) -> str:
    return f"{METRIC_TITLES[metric]} {'↑' if metric in HIGHER_IS_BETTER else '↓'}"


def _keep(figures: str) -> str:
    """A narrow column breaks its lines between figures, not within one."""
    return figures.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def _say(verdict: Agreement | None) -> str:
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
