"""`orderless data`: the paper's tasks, listed, prepared and drawn; and invented samples to try out."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from orderless.cli.errors import UsageError, exits_cleanly
from orderless.cli.folders import check_writable
from orderless.io.errors import DataError
from orderless.tasks.base import AUTO, Task, TaskData, default_cache_dir, default_data_dir, existing_folder
from orderless.tasks.registry import TASKS, get_task

_WIDTH = 160  # columns where there is no terminal
app = typer.Typer(
    no_args_is_help=True,
    help="The paper's tasks: list them, prepare their data, look at them.\n\nExample: orderless data prepare normal_var",
)

TaskName = Annotated[str, typer.Argument(metavar="TASK[@SOURCE]", help="A task of `orderless data list`, and where from.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the publishers' files. Default: $ORDERLESS_DATA.")]
CacheDir = Annotated[
    Path | None, typer.Option(help="Folder for prepared tasks. Default: $ORDERLESS_CACHE or ~/.cache/orderless.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn at random.")]
TrainSets = Annotated[int | None, typer.Option(help="Sets for training. Default: as in the paper.")]
TestSets = Annotated[int | None, typer.Option(help="Sets for testing. Default: as in the paper.")]
SetSize = Annotated[int | None, typer.Option(help="Elements of every set. Default: as in the paper.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def list_tasks(data_dir: DataDir = None, cache_dir: CacheDir = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """Show every task, its size, and which data it would be made from here.

    Example: orderless data list --data-dir ~/datasets
    """
    cache = default_cache_dir() if cache_dir is None else cache_dir.expanduser()
    files = default_data_dir(cache) if data_dir is None else existing_folder(data_dir)
    rows = [_describe(task, files, cache) for task in TASKS.values()]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return 0
    columns = {
        "task": [row["name"] for row in rows],
        "sets": [f"{row['num_train']:,} + {row['num_test']:,}" for row in rows],
        "elements": [row["set_size"] for row in rows],
        "made from (here)": [_made_from(row) for row in rows],
        "prepared": ["yes" if row["prepared"] else "" for row in rows],
        "metric": [row["metric"] for row in rows],
        "best published": ["" if row["best_published"] is None else f"{row['best_published']:g}" for row in rows],
    }
    print_columns(columns)
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
    for name in tasks:
        parse_task(name)  # a slip in the last name should not cost the time of the first
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
            tell_stand_in(data, data_dir, cache_dir)
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
    tell_stand_in(data, data_dir, cache_dir)
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
    task, source = parse_task(name)
    with _Bar(f"preparing {name}") as bar:
        try:
            return task.load(
                source=source,
                data_dir=data_dir,
                cache_dir=cache_dir,
                seed=seed,
                num_train=train_sets,
                num_test=test_sets,
                set_size=set_size,
                rebuild=rebuild,
                show_progress=True,
                progress=bar.advance,
            )
        except DataError:
            raise
        except ValueError as error:  # a number that will not do
            said = str(error)
            options = {"num_train": "--train-sets", "num_test": "--test-sets", "set_size": "--set-size", "seed": "--seed"}
            for argument, option in options.items():
                said = said.replace(argument, option)
            raise UsageError(said) from error


def check_seed(seed: int) -> None:
    """Fails where not all that draws takes the seed: scikit-learn and NumPy's older generators want 32 bits."""
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed must be a whole number from 0 to {2**32 - 1}, got {seed}.")


def parse_task(name: str) -> tuple[Task, str]:
    """The task and the source that a name on the command line means."""
    task_name, at, source = name.partition("@")
    try:
        task = get_task(task_name)
        if at and source != AUTO:
            task.source(source)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return task, source or AUTO


def describe_sets(data: TaskData) -> str:
    """How many sets of which size, in words."""
    low, high = int(data.train.sizes.min()), int(data.train.sizes.max())
    sizes = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    shape = " x ".join(str(side) for side in data.element_shape)
    return f"{len(data.train):,} training and {len(data.test):,} test sets of {sizes} elements ({shape})"


def tell_stand_in(data: TaskData, data_dir: Path | None, cache_dir: Path | None) -> None:
    """Says on the error channel that data are not the published ones, whether those are at hand, and how to get them."""
    original = data.task.sources[0]
    if data.source.kind in ("simulated", "substituted") and original.files is not None:
        folder = data_dir or default_data_dir(cache_dir or default_cache_dir())
        there = "are files" if original.files.find(folder) else "are no files"
        command = f"orderless data prepare {data.task.name}@{original.name}"
        typer.echo(
            f"These are {data.source.kind} data: there {there} of {original.title} in {folder}. "
            f"`{command}` uses them, or says how to get them.",
            err=True,
        )


def print_columns(columns: dict[str, list[str]], *, right: Collection[str] = (), least: int = 2) -> None:
    """Prints a table whose cells are never cut: where the terminal is too narrow, columns are left out from the last on."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, markup=False, highlight=False)
    shown: list[str] = []
    used = 0
    for name, cells in columns.items():
        used += max(len(name), *(len(cell) for cell in cells)) + 2
        if len(shown) >= least and used > console.width + 2:
            break
        shown.append(name)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in zip(*(columns[name] for name in shown), strict=True):
        table.add_row(*row)
    console.print(table)


def _describe(task: Task, files: Path, cache: Path) -> dict[str, Any]:
    source = task.source_at_hand(files, cache)
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


def _made_from(row: dict[str, Any]) -> str:
    return row["source"] if row["kind"] in ("published", row["source"]) else f"{row['source']} ({row['kind']})"


class _Bar:
    """Counts sets and images as they are written, on a terminal; elsewhere nothing.

    It appears with the first of them: a download before that has a bar of its own.
    """

    def __init__(self, what: str) -> None:
        console = Console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,} written"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._what = what
        self._task: TaskID | None = None

    def __enter__(self) -> _Bar:
        return self

    def advance(self, count: int) -> None:
        """So many more were written."""
        if self._bar is None:
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=None)
        self._bar.advance(self._task, count)

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.stop()


def invent(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for cells.csv and labels.csv.")] = Path(),
    seed: Seed = 0,
    debug: Debug = False,
) -> int:
    """Write invented samples of forty visits as files, to try `orderless fit` on and to see what it takes.

    Example: orderless data invent --out try
    """
    from orderless.studies.invented import CELLS, LABELS, write_invented

    check_seed(seed)
    check_writable(out)
    for name in (CELLS, LABELS):
        if (out / name).exists():
            raise UsageError(f"{out / name} is there already, and may be yours: choose another folder (--out).")
    cells, labels = write_invented(out, seed=seed)
    typer.echo(f"{cells}: a row per cell. {labels}: a row per sample. Next:")
    typed = ["orderless", "fit", str(cells), "--set-id", "sample", "--labels", str(labels), "--target", "ill", "--out", "fitted"]
    typer.echo(f"  {shlex.join(typed)}")
    return 0


app.command("list")(exits_cleanly(list_tasks))
app.command()(exits_cleanly(prepare))
app.command()(exits_cleanly(show))
app.command()(exits_cleanly(invent))
