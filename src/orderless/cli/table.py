"""`orderless table`: a table of the paper, or one of your own, from its recipe."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from orderless.cli.data import AsJson, CacheDir, DataDir, Debug, print_columns
from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.train import Compile, CudaGraphs, Device
from orderless.experiments.recipe import Plan, Recipe, expand, list_recipes, load_recipe, parse_only
from orderless.experiments.render import say_counts, to_markdown, to_rows, write_table
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import Event, Summary, run_missing
from orderless.experiments.spec import RunSpec
from orderless.experiments.table import Table, build_table
from orderless.train import Execution, resolve_device

Only = Annotated[
    list[str] | None,
    typer.Option(metavar="AXIS=VALUE,...", help="Only cells with these values, such as task=normal_var. May be given often."),
]
Seeds = Annotated[str | None, typer.Option(metavar="0,1", help="Other seeds than the recipe's.")]
Quick = Annotated[bool, typer.Option("--quick", help="Shrink data, epochs and seeds as the recipe's [quick] says.")]
Jobs = Annotated[int, typer.Option(help="Runs side by side, each in a process of its own.")]
Out = Annotated[Path, typer.Option(help="Folder for results and renderings. Tables share it.")]
Results = Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Result lines to be shown as well. May be given often.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs, and which are done; run nothing.")]
NoRun = Annotated[bool, typer.Option("--no-run", help="Render what is there; run nothing.")]
PrecisionName = Annotated[
    str | None, typer.Option("--precision", help="32-true, tf32 or bf16-mixed. Other runs than the recipe's.")
]


def table(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE.toml]", help="A recipe. Without one, they are listed.")
    ] = None,
    only: Only = None,
    seeds: Seeds = None,
    quick: Quick = False,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("results"),
    results: Results = None,
    precision: PrecisionName = None,
    compiled: Compile = False,
    cuda_graphs: CudaGraphs = False,
    dry_run: DryRun = False,
    no_run: NoRun = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Do the runs of a table that are missing, and show ours beside the published figures.

    Every finished run is kept as one line of results.jsonl in --out and never done again. The command may be stopped, killed and
    started again at any time, and started several times at once. Renderings go to --out/tables.

    Example: orderless table clean_path --only task=normal_var --seeds 0 --jobs 4
    """
    if name is None:
        return list_all(as_json)
    with wrong_usage():
        recipe = load_recipe(name)
        if recipe.kind != "table":
            raise UsageError(f"{recipe.name} is a figure: `orderless figure {name}` draws it.")
        plan = expand(
            recipe,
            quick=quick,
            seeds=parse_seeds(seeds),
            only=parse_only(only or ()),
            settings={} if precision is None else {"precision": precision},
            data_dir=data_dir,
            cache_dir=cache_dir,
        )
        execution = Execution(device=device, compile=compiled, cuda_graphs=cuda_graphs)
        if jobs < 1:
            raise UsageError(f"--jobs must be 1 or more, got {jobs}.")
        if not (dry_run or no_run):
            resolve_device(device)
    if dry_run:
        return list_runs(plan, open_results(out, results, to_write=False), as_json)
    store = open_results(out, results)
    summary = Summary()
    if not no_run:
        try:
            summary = do_runs(plan.runs, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir)
        except KeyboardInterrupt:
            tell_stopped(plan.runs, store)
            return 130
    _show(build_table(plan, store.lines()), store, summary, as_json)
    for key, message in summary.failed.items():
        typer.echo(f"orderless: {key} failed: {message} (all of it: {store.run_folder(key) / 'error.txt'})", err=True)
    return 1 if summary.failed else 0


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
    known, names = store.by_key(), name_runs(plan.runs)
    rows = []
    for spec in plan.runs:
        is_begun = (store.run_folder(spec.key) / "config.json").exists()
        state = known[spec.key]["status"] if spec.key in known else "begun" if is_begun else "missing"
        rows.append({"state": state, "run": names[spec.key], "key": spec.key})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return 0
    print_columns({column: [row[column] for row in rows] for column in ("state", "run", "key")})
    done = sum(row["state"] in ("finished", "diverged") for row in rows)
    typer.echo(f"\n{done} of {len(rows)} runs are done.{' ' + plan.describe_shrinking() if plan.quick else ''}")
    return 0


def parse_seeds(text: str | None) -> list[int] | None:
    """The seeds in a text such as 0,1,2; None for None."""
    if text is None:
        return None
    seeds = [part.strip() for part in text.split(",")]
    if not all(seed.isdecimal() for seed in seeds):
        raise UsageError(f"--seeds takes whole numbers, such as 0,1,2; got {text!r}.")
    return [int(seed) for seed in seeds]


def open_results(out: Path, also: Iterable[Path] | None = None, *, to_write: bool = True) -> ResultStore:
    """The results in a folder, which is made and must let itself be written where that is needed."""
    out = out.expanduser()
    try:
        if to_write:
            out.mkdir(parents=True, exist_ok=True)
            probe = out / ".writable"
            probe.touch()
            probe.unlink()
        elif out.exists():
            next(out.iterdir(), None)
    except OSError as error:
        what = "written to" if to_write else "read from"
        raise UsageError(f"nothing can be {what} {out}: {error.strerror or error}. Choose another folder (--out).") from error
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
    """Does the runs that are missing, with a line for each on the error channel, and a bar on a terminal."""
    known = store.by_key()
    missing = [spec for spec in runs if spec.key not in known]
    if not missing:
        return Summary()
    with RunScreen(missing, done_before=len(runs) - len(missing)) as screen:
        return run_missing(
            missing, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir, tell=screen.tell
        )


def tell_stopped(runs: list[RunSpec], store: ResultStore) -> None:
    """After Ctrl-C: what is kept, and how to go on."""
    known = store.by_key()
    done = sum(spec.key in known for spec in runs)
    begun = sum(spec.key not in known and (store.run_folder(spec.key) / "config.json").exists() for spec in runs)
    typer.echo(
        f"orderless: stopped. {done} of {len(runs)} runs are done and kept in {store.path}; {begun} that were begun go on from "
        "their last checkpoints. The same command goes on; with --no-run it shows what there is.",
        err=True,
    )


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
        return f"about {describe_seconds(seconds)} left"

    def _say(self, text: str) -> None:
        self.console.print(escape(text), soft_wrap=True)


def name_runs(runs: Sequence[RunSpec]) -> dict[str, str]:
    """Runs in words, by key: the network, the task, the seed, and the settings in which these runs of that network differ."""
    settings = {
        spec.key: {**spec.model_options, **spec.data_options, **({} if spec.is_baseline else asdict(spec.train))} for spec in runs
    }
    said: dict[tuple[str, str, str], set[Any]] = {}
    for spec in runs:
        for name, value in settings[spec.key].items():
            said.setdefault((spec.task, spec.model, name), set()).add(value)
    varied = dict.fromkeys(name for (_, _, name), values in said.items() if name == "depth" or len(values) > 1)
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


def describe_seconds(seconds: float) -> str:
    """A time span in the two units that matter."""
    minutes, hours = round(seconds / 60), int(seconds // 3600)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    if hours < 36:
        return f"{hours} h {round(seconds % 3600 / 60)} min"
    return f"{hours // 24} d {hours % 24} h"


def _describe_end(event: Event) -> str:
    if event.state == "failed":
        return f"failed, {event.message}"
    assert event.line is not None
    if event.line["status"] == "diverged":
        return f"diverged, {event.line['message']}"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in event.line["metrics"].items() if value is not None)
    seconds = event.line.get("seconds")
    where = " by another runner" if event.state == "elsewhere" else ""
    return metrics + (f" in {describe_seconds(seconds)}" if seconds is not None else "") + where


def _show(made: Table, store: ResultStore, summary: Summary, as_json: bool) -> None:
    can_draw = importlib.util.find_spec("matplotlib") is not None
    paths = write_table(made, store.folder / "tables", picture=can_draw)
    if as_json:
        typer.echo(json.dumps(_as_json(made, paths, summary), indent=1))
        return
    typer.echo(to_markdown(made), nl=False)
    typer.echo(f"\n{say_counts(made)} Written to {', '.join(str(path) for path in paths.values())}.", err=True)
    if not can_draw:
        typer.echo("No picture was drawn: pip install 'orderless[plot]'.", err=True)


def _as_json(made: Table, paths: dict[str, Path], summary: Summary) -> dict[str, Any]:
    recipe: Recipe = made.recipe
    return {
        "name": recipe.name,
        "title": recipe.title,
        "label": recipe.label,
        "conditions": list(made.conditions),
        "stand_ins": list(made.stand_ins),
        "runs": dict(made.counts),
        "failed": summary.failed,
        "figures": to_rows(made),
        "notes": list(made.notes),
        "files": {ending: str(path) for ending, path in paths.items()},
    }
