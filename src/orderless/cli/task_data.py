"""The paper's tasks by their names in a shell: opened with a word on a terminal, and described."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from orderless.cli.errors import UsageError
from orderless.io.cache import default_cache_dir
from orderless.io.errors import DataError
from orderless.tasks.base import Task
from orderless.tasks.folders import default_data_dir
from orderless.tasks.registry import get_task
from orderless.tasks.source import AUTO
from orderless.tasks.task_data import TaskData


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
