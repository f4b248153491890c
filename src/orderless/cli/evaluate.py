"""`orderless evaluate`: what simple models reach on a task, with intervals."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from orderless.cli.data import (
    AsJson,
    CacheDir,
    DataDir,
    Debug,
    Seed,
    SetSize,
    TestSets,
    TrainSets,
    describe_sets,
    open_task,
    print_columns,
    tell_stand_in,
)
from orderless.cli.errors import UsageError
from orderless.tasks.base import TaskData
from orderless.tasks.published import Published
from orderless.tasks.registry import TASKS

if TYPE_CHECKING:
    from orderless.evaluate import BaselineResult

PREFIX = "task:"


def evaluate(
    data: Annotated[str, typer.Argument(metavar="task:NAME[@SOURCE]", help="A task of `orderless data list`.")],
    baselines: Annotated[
        str | None, typer.Option(help="Which, as 'constant,moments'. Default: all that fit; the oracle where data are simulated.")
    ] = None,
    max_train: Annotated[int | None, typer.Option(help="Fit on so many training sets at most. Default: all.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    seed: Seed = 0,
    train_sets: TrainSets = None,
    test_sets: TestSets = None,
    set_size: SetSize = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Fit simple models on summaries of the training sets and report how they do on the test sets.

    Every figure has a 95 % bootstrap interval over the test sets, and stands beside what a constant scores: a network that does
    not beat these has learnt little. The task is prepared first where that was not done.

    Example: orderless evaluate task:hematocrit
    """
    from orderless.evaluate import BASELINES, evaluate_baselines
    from orderless.evaluate.baselines import ORACLE

    if data.partition("@")[0] in TASKS:
        raise UsageError(f"did you mean {PREFIX}{data}?")
    if not data.startswith(PREFIX):
        raise UsageError(f"say which task, as {PREFIX}normal_var; got {data!r}. Tasks: {', '.join(TASKS)}.")
    names = None if baselines is None else [name.strip() for name in baselines.split(",") if name.strip()]
    if names == []:
        raise UsageError(f"--baselines takes {', '.join([*BASELINES, ORACLE])}; got nothing.")
    if names is not None and (unknown := set(names) - {*BASELINES, ORACLE}):
        raise UsageError(f"--baselines takes {', '.join([*BASELINES, ORACLE])}; got {', '.join(sorted(unknown))}.")
    if max_train is not None and max_train < 1:
        raise UsageError(f"--max-train must be 1 or more, got {max_train}.")
    task = open_task(
        data.removeprefix(PREFIX),
        data_dir=data_dir,
        cache_dir=cache_dir,
        seed=seed,
        train_sets=train_sets,
        test_sets=test_sets,
        set_size=set_size,
    )
    if names is not None and ORACLE in names and ORACLE not in task.test.columns:
        raise UsageError(f"an oracle knows simulated data only, and {task.name} is not simulated: leave it out of --baselines.")
    console = Console(stderr=True)
    with console.status("") if console.is_terminal else nullcontext() as status:
        results = evaluate_baselines(
            task,
            names,
            seed=seed,
            max_train=max_train,
            progress=None if status is None else lambda title, number, count: status.update(f"{title} ({number} of {count})"),
        )
    if as_json:
        typer.echo(json.dumps(_as_json(task, results), indent=1))
        return 0
    typer.echo(f"{task.title}: {describe_sets(task)}")
    _print(task, results)
    tell_stand_in(task, data_dir, cache_dir)
    return 0


def _as_json(task: TaskData, results: list[BaselineResult]) -> dict[str, Any]:
    best = task.task.best_published
    return {
        "task": task.name,
        "title": task.title,
        "kind": task.source.kind,
        "num_train": len(task.train),
        "num_test": len(task.test),
        "best_published": best and asdict(best),
        "results": [result.as_json() for result in results],
    }


def _print(task: TaskData, results: list[BaselineResult]) -> None:
    run = [result for result in results if result.skipped is None]
    metric, interval, gain = f"test {task.task.metric}", "95 % interval", "better than constant by"
    columns = {
        "model": [result.title for result in run],
        metric: [f"{result.value:.4f}" for result in run],
        interval: [f"[{result.low:.4f}, {result.high:.4f}]" for result in run],
        gain: [
            "" if result.name == "constant" else f"{result.gain:.3f} [{result.gain_low:.3f}, {result.gain_high:.3f}]"
            for result in run
        ],
        "training sets": [f"{result.num_train:,}" for result in run],
        "seconds": [f"{result.seconds:.1f}" for result in run],
    }
    if run:
        print_columns(columns, right=[metric, interval, gain, "training sets", "seconds"], least=3)
    for result in results:
        if result.skipped is not None:
            typer.echo(f"{result.title}: skipped, {result.skipped}")
    if best := task.task.best_published:
        where = f"; on {task.task.sources[0].title}, which these data are not"
        made_up = task.source.kind in ("simulated", "substituted")
        typer.echo(f"Best published: {best.mean:g} ({_describe(best)}{where if made_up else ''}).")


def _describe(row: Published) -> str:
    depth = "" if row.depth is None else f", {row.depth} layers"
    return f"{row.model}{depth}, norm {row.norm}, residual {row.residual}"
