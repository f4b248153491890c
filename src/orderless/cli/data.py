"""`orderless data`: the paper's tasks, listed, prepared and drawn; and invented samples to try out."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from orderless.cli.errors import UsageError, exits_cleanly, wrong_usage
from orderless.cli.folders import check_writable
from orderless.cli.options import AsJson, CacheDir, DataDir, Debug, Seed, SetSize, TaskName, TestSets, TrainSets, check_seed
from orderless.cli.printing import print_columns
from orderless.cli.task_data import describe_sets, open_task, parse_task, tell_stand_in
from orderless.io.cache import default_cache_dir
from orderless.look import check_picture_path
from orderless.tasks.base import Task
from orderless.tasks.folders import default_data_dir, existing_folder
from orderless.tasks.registry import TASKS

app = typer.Typer(
    no_args_is_help=True,
    help="The paper's tasks: list them, prepare their data, look at them. And invented samples to try `orderless fit` on.\n\n"
    "Example: orderless data prepare normal_var",
)


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
    with wrong_usage():
        check_picture_path(path, ["png"])
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
            raise UsageError(f"{out / name} already exists, and may be yours: choose another folder (--out).")
    cells, labels = write_invented(out, seed=seed)
    typer.echo(f"{cells}: a row per cell. {labels}: a row per sample. Next:")
    typed = ["orderless", "fit", str(cells), "--set-id", "sample", "--labels", str(labels), "--target", "ill", "--out", "fitted"]
    typer.echo(f"  {shlex.join(typed)}")
    return 0


app.command("list")(exits_cleanly(list_tasks))
app.command()(exits_cleanly(prepare))
app.command()(exits_cleanly(show))
app.command()(exits_cleanly(invent))
