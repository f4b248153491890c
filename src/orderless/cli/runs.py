"""What `orderless table` and `orderless figure` share: the runs of a recipe, chosen, listed, and done with a word about each."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from orderless.cli.errors import UsageError
from orderless.cli.folders import check_writable
from orderless.cli.given import given, refuse
from orderless.cli.printing import print_columns
from orderless.experiments.grid import Plan, Recipe, expand, parse_only
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import Event, Summary, run_missing
from orderless.experiments.spec import RunSpec
from orderless.numbers import duration
from orderless.train import Execution, resolve_device


def choose_runs(
    recipe: Recipe,
    *,
    only: list[str] | None,
    seeds: str | None,
    quick: bool,
    precision: str | None,
    data_dir: Path | None,
    cache_dir: Path | None,
) -> Plan:
    """The runs of a recipe, as options of the command line choose and change them."""
    return expand(
        recipe,
        quick=quick,
        seeds=parse_seeds(seeds),
        only=parse_only(only or ()),
        settings={} if precision is None else {"precision": precision},
        data_dir=data_dir,
        cache_dir=cache_dir,
    )


def parse_seeds(text: str | None) -> list[int] | None:
    """The seeds in a text such as 0,1,2; None for None."""
    if text is None:
        return None
    seeds = [part.strip() for part in text.split(",")]
    if not all(seed.isdecimal() for seed in seeds):
        raise UsageError(f"--seeds takes whole numbers, such as 0,1,2; got {text!r}.")
    return [int(seed) for seed in seeds]


def check_asked(context: typer.Context, name: str | None, *, dry_run: bool, no_run: bool) -> None:
    """That nothing was typed that would be ignored. How to run may stay when --dry-run or --no-run is added to a command."""
    if name is None:
        typed = [option for option in given(context) if option not in ("as_json", "debug")]
        refuse(context, typed, "without a NAME recipes are listed")
    if dry_run and no_run:
        raise UsageError("--dry-run lists runs and --no-run renders what is there: leave out one of them.")


def check_can_run(execution: Execution, jobs: int, *, nothing_runs: bool) -> None:
    """That there is a device for what is to be run, and someone to run it."""
    if jobs < 1:
        raise UsageError(f"--jobs must be 1 or more, got {jobs}.")
    if not nothing_runs:
        resolve_device(execution.device)


def list_all(as_json: bool) -> int:
    """Shows every recipe that comes with the package."""
    recipes = [load_recipe(name) for name in list_recipes()]
    rows = [
        {"name": r.name, "kind": r.kind, "runs": len(expand(r).runs), "label": r.label, "title": r.title, "file": str(r.path)}
        for r in recipes
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return 0
    print_columns({column: [str(row[column]) for row in rows] for column in ("name", "kind", "runs", "title")}, right=["runs"])
    typer.echo("\n`orderless table NAME` makes a table, `orderless figure NAME` a figure; a recipe of your own is a .toml file.")
    return 0


def list_runs(plan: Plan, store: ResultStore, as_json: bool) -> int:
    """Shows the runs of a plan, and which of them are done."""
    if not plan.runs and not as_json:
        typer.echo(f"{plan.recipe.name} shows no runs: there is nothing to be done before it is drawn.")
        return 0
    return list_specs(plan.runs, store, as_json, remark=plan.describe_reduction())


def list_specs(runs: Sequence[RunSpec], store: ResultStore, as_json: bool, *, remark: str = "") -> int:
    """Shows runs, and which of them are done."""
    known, names = store.by_key(), name_runs(runs)
    rows = []
    for spec in runs:
        state = known[spec.key]["status"] if spec.key in known else "begun" if _is_begun(spec, store) else "missing"
        rows.append({"state": state, "run": names[spec.key], "key": spec.key})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return 0
    print_columns({column: [row[column] for row in rows] for column in ("state", "run", "key")})
    left = Counter(spec.task for spec, row in zip(runs, rows, strict=True) if row["state"] not in ("finished", "diverged"))
    by_task = ", ".join(f"{number} of {task}" for task, number in left.most_common())
    to_do = f" To do: {by_task}." if by_task else ""
    typer.echo(f"\n{len(rows) - left.total()} of {len(rows)} runs are done.{to_do}{f' {remark}.' if remark else ''}")
    return 0


def open_results(out: Path, also: Iterable[Path] | None = None, *, to_write: bool = True) -> ResultStore:
    """The results in a folder, which is made and must let itself be written where that is needed."""
    out = out.expanduser()
    if to_write:
        check_writable(out)
    elif out.exists():
        try:
            next(out.iterdir(), None)
        except OSError as error:
            what = f"nothing can be read from {out}: {error.strerror or error}"
            raise UsageError(f"{what}. Choose another folder (--out).") from error
    return ResultStore(out, also or ())


def do_runs(
    runs: list[RunSpec],
    store: ResultStore,
    *,
    jobs: int,
    execution: Execution,
    data_dir: Path | None,
    cache_dir: Path | None,
) -> Summary:
    """Does the runs that are missing, with a line for each on the error channel, and a bar on a terminal.

    Raises:
        KeyboardInterrupt: After Ctrl-C, with what is kept and how to go on.
    """
    known = store.by_key()
    missing = [spec for spec in runs if spec.key not in known]
    if not missing:
        return Summary()
    try:
        with RunScreen(missing, done_before=len(runs) - len(missing)) as screen:
            return run_missing(
                missing, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir, tell=screen.tell
            )
    except KeyboardInterrupt:
        known = store.by_key()
        done = sum(spec.key in known for spec in runs)
        begun = sum(spec.key not in known and _is_begun(spec, store) for spec in runs)
        raise KeyboardInterrupt(
            f"{done} of {len(runs)} runs are done and kept in {store.path}; {begun} that were begun will continue from their "
            "last checkpoints. Run the same command to go on; with --no-run it shows what there is."
        ) from None


def tell_failures(summary: Summary, store: ResultStore) -> int:
    """Says which runs failed and why. Gives the exit code."""
    for key, message in summary.failed.items():
        typer.echo(f"orderless: {key} failed: {message} (all of it: {store.run_folder(key) / 'error.txt'})", err=True)
    return 1 if summary.failed else 0


class RunScreen:
    """Says on the error channel what happens to runs: a line for each that ends, and on a terminal a bar.

    Args:
        runs: Those that are to do.
        done_before: How many more were done before.
        console: Where to write. Default: the standard error.
    """

    def __init__(self, runs: Sequence[RunSpec], *, done_before: int = 0, console: Console | None = None) -> None:
        self.names, self.num_runs, self.done_before, self.ended = name_runs(runs), len(runs), done_before, 0
        self.shares: dict[str, float] = {}  # of runs under way
        self.waiting: set[str] = set()
        self.start = time.monotonic()
        self.console = console or Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self.bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.line = self.bar.add_task("", total=self.num_runs, left="")

    def __enter__(self) -> RunScreen:
        before = f" ({self.done_before} were done before)" if self.done_before else ""
        self._say(f"{self.num_runs} {'run' if self.num_runs == 1 else 'runs'} to do{before}")
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def tell(self, event: Event) -> None:
        """Shows what happened."""
        key = event.spec.key
        if event.state in ("begun", "step"):
            self.shares[key] = event.share
        elif event.state == "waiting":
            if key not in self.waiting:
                self.waiting.add(key)
                self._say(f"another runner is at {self.names[key]}: looked at again later")
        else:
            self.shares.pop(key, None)
            self.ended += 1
            left = "" if self.ended == self.num_runs else f"; {self.time_left()}"
            self._say(f"{self.ended} of {self.num_runs}: {self.names[key]}: {_describe_end(event)}{left}")
        under_way = f"{len(self.shares)} under way" if self.shares else ""
        done = self.ended + sum(self.shares.values())
        self.bar.update(self.line, completed=done, description=under_way, left=self.time_left())

    def time_left(self) -> str:
        """By what was done so far: runs differ, so this is rough."""
        done = self.ended + sum(self.shares.values())
        if done == 0:
            return ""
        seconds = (time.monotonic() - self.start) / done * (self.num_runs - done)
        return f"about {duration(seconds)} left"

    def _say(self, text: str) -> None:
        self.console.print(escape(text), soft_wrap=True)


def name_runs(runs: Sequence[RunSpec]) -> dict[str, str]:
    """Runs in words, by key: the network, the task, the seed, and the settings in which these runs of that network differ."""
    settings = {
        spec.key: {**spec.model_options, **spec.data_options, **({} if spec.is_baseline else asdict(spec.train))} for spec in runs
    }
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for spec in runs:
        alike.setdefault((spec.task, spec.model), []).append(settings[spec.key])
    varied = dict.fromkeys(
        name
        for of_network in alike.values()
        for name in dict.fromkeys(name for of_run in of_network for name in of_run)
        if name == "depth" or len({of_run.get(name) for of_run in of_network}) > 1  # some runs may leave it at its default
    )
    varied.pop("seed", None)
    return {
        spec.key: ", ".join(
            [
                f"{spec.model} on {spec.task}",
                *(f"{name} {settings[spec.key][name]}" for name in varied if name in settings[spec.key]),
                f"seed {spec.train.seed}",
            ]
        )
        for spec in runs
    }


def _is_begun(spec: RunSpec, store: ResultStore) -> bool:
    return (store.run_folder(spec.key) / "config.json").exists()


def _describe_end(event: Event) -> str:
    if event.state == "failed":
        return f"failed, {event.message}"
    assert event.line is not None
    if event.line["status"] == "diverged":
        return f"diverged, {event.line['message']}"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in event.line["metrics"].items() if value is not None)
    seconds = event.line.get("seconds")
    where = " by another runner" if event.state == "elsewhere" else ""
    return metrics + (f" in {duration(seconds)}" if seconds is not None else "") + where
