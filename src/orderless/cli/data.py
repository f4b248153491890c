"""`orderless data`: the paper's tasks, listed, prepared and drawn."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orderless.cli.errors import UsageError, exits_cleanly
from orderless.tasks.base import AUTO, Source, Task, TaskData, default_cache_dir, default_data_dir
from orderless.tasks.registry import TASKS, get_task

app = typer.Typer(no_args_is_help=True, help="The paper's tasks: list them, prepare their data, look at them.")

TaskName = Annotated[str, typer.Argument(metavar="TASK[@SOURCE]", help="A task of `orderless data list`, and where from.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the publishers' files. Default: $ORDERLESS_DATA.")]
CacheDir = Annotated[
    Path | None, typer.Option(help="Folder for prepared tasks. Default: $ORDERLESS_CACHE or ~/.cache/orderless.")
]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn at random.")]
TrainSets = Annotated[int | None, typer.Option(help="Sets for training. Default: as in the paper.")]
TestSets = Annotated[int | None, typer.Option(help="Sets for testing. Default: as in the paper.")]
SetSize = Annotated[int | None, typer.Option(help="Elements of every set. Default: as in the paper.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def list_tasks(data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """Show every task, its size, and which data it would be made from here.

    Example: orderless data list --data-dir ~/datasets
    """
    cache = cache_dir or default_cache_dir()
    files = data_dir or default_data_dir(cache)
    rows = [_describe(task, files, cache) for task in TASKS.values()]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("task", "sets", "elements", "metric", "best published", "made from (here)", "prepared"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        best = "" if row["best_published"] is None else f"{row['best_published']:g}"
        prepared = "yes" if row["prepared"] else ""
        made_from = row["source"] if row["kind"] in ("published", row["source"]) else f"{row['source']} ({row['kind']})"
        sets = f"{row['num_train']:,} + {row['num_test']:,}"
        table.add_row(row["name"], sets, row["set_size"], row["metric"], best, made_from, prepared)
    _print(table)
    typer.echo(f"\nFiles are looked for in {files}, prepared tasks in {cache / 'tasks'}.")
    typer.echo("`orderless data prepare TASK@SOURCE` downloads what its publisher lets one download. Sources:")
    for sources in dict.fromkeys(tuple(row["sources"]) for row in rows if len(row["sources"]) > 1):
        typer.echo(f"  {', '.join(row['name'] for row in rows if tuple(row['sources']) == sources)}: {', '.join(sources)}")
    return 0


def prepare(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK[@SOURCE]...", help="Tasks of `orderless data list`.")],
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    seed: Seed = 0,
    train_sets: TrainSets = None,
    test_sets: TestSets = None,
    set_size: SetSize = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Prepare again even if that was done.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Make a task's training and test sets, once; later uses open them at once.

    Without @SOURCE the publisher's files are used where they are at hand, and a stand-in that needs no files where they are
    not. With @SOURCE they are downloaded where that is possible.

    Example: orderless data prepare point_cloud@modelnet40 --data-dir ~/datasets
    """
    report = []
    for name in tasks:
        start = time.perf_counter()
        data = open_task(
            name,
            data_dir=data_dir,
            cache_dir=cache_dir,
            seed=seed,
            train_sets=train_sets,
            test_sets=test_sets,
            set_size=set_size,
            rebuild=rebuild,
        )
        seconds = time.perf_counter() - start
        said = data.store.manifest
        report.append({**said, "title": data.title, "folder": str(data.store.folder), "seconds": round(seconds, 3)})
        if not as_json:
            typer.echo(f"{data.title}: {describe_sets(data)}, in {data.store.folder} ({seconds:.1f} s)")
            tell_stand_in(data)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    return 0


def show(
    task: TaskName,
    out: Annotated[Path | None, typer.Option(help="The picture. Default: TASK.png here.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    seed: Seed = 0,
    train_sets: TrainSets = None,
    test_sets: TestSets = None,
    set_size: SetSize = None,
    debug: Debug = False,
) -> int:
    """Draw a few sets, the distribution of elements, targets and sizes, to a PNG.

    Example: orderless data show hematocrit --out hematocrit.png
    """
    from orderless.tasks.picture import draw_task

    path = out or Path(f"{task}.png")
    if path.suffix != ".png":
        raise UsageError(f"--out must end in .png, got {path}.")
    if not path.parent.is_dir():
        raise UsageError(f"--out lies in {path.parent}, which is not a folder: make it first.")
    data = open_task(
        task,
        data_dir=data_dir,
        cache_dir=cache_dir,
        seed=seed,
        train_sets=train_sets,
        test_sets=test_sets,
        set_size=set_size,
    )
    typer.echo(f"{data.title}: drawn to {draw_task(data, path, seed=seed)}")
    tell_stand_in(data)
    return 0


def open_task(
    name: str,
    *,
    data_dir: Path | None,
    cache_dir: Path | None,
    seed: int,
    train_sets: int | None,
    test_sets: int | None,
    set_size: int | None,
    rebuild: bool = False,
) -> TaskData:
    """Loads a task by its name on the command line, with a progress bar on a terminal."""
    task_name, at, source = name.partition("@")
    try:
        task = get_task(task_name)
        if at:
            task.source(source)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for option, value in (("--train-sets", train_sets), ("--test-sets", test_sets), ("--set-size", set_size)):
        if value is not None and value < 1:
            raise UsageError(f"{option} must be 1 or more, got {value}.")
    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, got {seed}.")
    with _progress(f"preparing {name}") as bar:
        return task.load(
            source=source or AUTO,
            data_dir=data_dir,
            cache_dir=cache_dir,
            seed=seed,
            num_train=train_sets,
            num_test=test_sets,
            set_size=set_size,
            rebuild=rebuild,
            show_progress=True,
            progress=bar,
        )


def describe_sets(data: TaskData) -> str:
    """How many sets of which size, in words."""
    low, high = int(data.train.sizes.min()), int(data.train.sizes.max())
    sizes = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    shape = " x ".join(str(side) for side in data.element_shape)
    return f"{len(data.train):,} training and {len(data.test):,} test sets of {sizes} elements ({shape})"


def tell_stand_in(data: TaskData) -> None:
    """Says on the error channel that data are not the published ones, and how to get those."""
    if data.source.kind in ("simulated", "substituted"):
        original = f"orderless data prepare {data.task.name}@{data.task.sources[0].name}"
        typer.echo(f"These are {data.source.kind} data. `{original}` uses the original files.", err=True)


def _describe(task: Task, files: Path, cache: Path) -> dict[str, Any]:
    source = _source_here(task, files)
    best = task.best_published
    low, high = task.set_size
    return {
        "name": task.name,
        "title": task.title,
        "about": task.about,
        "num_train": task.num_train,
        "num_test": task.num_test,
        "set_size": f"{low:,}" if low == high else f"{low:,}-{high:,}",
        "metric": task.metric,
        "best_published": best and best.mean,
        "source": source.name,
        "kind": source.kind,
        "sources": [s.name for s in task.sources],
        "prepared": task.is_prepared(source, cache),
    }


def _source_here(task: Task, files: Path) -> Source:
    return next(s for s in task.sources if s.files is None or s.files.find(files) is not None)


def _progress(what: str) -> AbstractContextManager[Any]:
    """A bar on a terminal, nothing elsewhere. Yields a function to call with what was done, or None."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return nullcontext(None)
    return _Bar(console, what)


class _Bar:
    """Counts sets and images as they are written."""

    def __init__(self, console: Console, what: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True)
        self._what = what

    def __enter__(self) -> Any:
        self._bar.__enter__()
        task = self._bar.add_task(self._what, total=None)
        return lambda count: self._bar.advance(task, count)

    def __exit__(self, *exception: Any) -> None:
        self._bar.__exit__(*exception)


def _print(table: Table) -> None:
    Console(width=None if sys.stdout.isatty() else 140).print(table)


app.command("list")(exits_cleanly(list_tasks))
app.command()(exits_cleanly(prepare))
app.command()(exits_cleanly(show))
