"""`orderless evaluate`: what a model and simple ones reach on people's own files; what simple ones reach on a task."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from orderless.cli.errors import UsageError
from orderless.cli.evaluate_files import evaluate_files
from orderless.cli.given import given, refuse
from orderless.cli.options import (
    AsJson,
    CacheDir,
    Cofactor,
    Compensate,
    Covariates,
    DataDir,
    Debug,
    Device,
    EstimatorOptions,
    Features,
    Folds,
    Group,
    Ignore,
    LabelId,
    Labels,
    Layer,
    MaxElements,
    Missing,
    ModelName,
    Repeats,
    Seed,
    SetId,
    SetSize,
    Split,
    TaskKind,
    TestSets,
    TrainSets,
    Transform,
)
from orderless.cli.printing import print_columns
from orderless.cli.samples import typed_reading
from orderless.cli.studies import choose_settings
from orderless.cli.task_data import describe_sets, open_task, tell_stand_in
from orderless.tasks.published import Published
from orderless.tasks.registry import TASKS
from orderless.tasks.task_data import TaskData
from orderless.words import did_you_mean

if TYPE_CHECKING:
    from orderless.evaluate import BaselineResult

PREFIX = "task:"


# options by what they are for: those of the other kind are refused, not ignored
_OF_TASKS = ("baselines", "max_train", "data_dir", "train_sets", "test_sets", "set_size")
_OF_BOTH = ("data", "seed", "cache_dir", "as_json", "debug")


def evaluate(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(metavar="DATA|task:NAME[@SOURCE]", help="Your files, as for `orderless fit`, or a task of the paper.")
    ],
    target: Annotated[str | None, typer.Option(metavar="COL", help="The outcome: a column with one value per set.")] = None,
    set_id: SetId = None,
    labels: Labels = None,
    label_id: LabelId = None,
    group: Group = None,
    covariates: Covariates = None,
    split: Split = None,
    features: Features = None,
    ignore: Ignore = None,
    layer: Layer = None,
    missing: Missing = None,
    transform: Transform = None,
    cofactor: Cofactor = None,
    compensate: Compensate = None,
    kind: TaskKind = "auto",
    model: ModelName = "deep_sets++",
    settings: EstimatorOptions = None,
    max_elements: MaxElements = None,
    folds: Folds = 5,
    repeats: Repeats = 1,
    baselines_only: Annotated[bool, typer.Option("--baselines-only", help="Simple models alone, in seconds.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for evaluation.json and pictures.")] = None,
    device: Device = "auto",
    baselines: Annotated[
        str | None, typer.Option(help="Of a task: which, as 'constant,moments'. Default: all that fit; the oracle if simulated.")
    ] = None,
    max_train: Annotated[int | None, typer.Option(help="Of a task: fit on so many training sets at most. Default: all.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    seed: Seed = 0,
    train_sets: TrainSets = None,
    test_sets: TestSets = None,
    set_size: SetSize = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Cross-validate a model beside simple ones on your own samples, or fit simple models to a task of the paper.

    On your files: folds by group, everything fitted inside the fold, 95 % intervals. On a task: its training and test sets. A
    network that does not beat the simple models has learnt little.

    Example: orderless evaluate cells.parquet --set-id donor --labels donors.csv --target cmv
    """
    if data.partition("@")[0] in TASKS and not Path(data).exists():
        raise UsageError(f"did you mean {PREFIX}{data}?")
    if data.startswith(PREFIX):
        refuse(context, [name for name in given(context) if name not in (*_OF_TASKS, *_OF_BOTH)], f"{data} is a task")
        return _evaluate_task(
            data.removeprefix(PREFIX),
            baselines,
            max_train,
            as_json=as_json,
            data_dir=data_dir,
            cache_dir=cache_dir,
            seed=seed,
            train_sets=train_sets,
            test_sets=test_sets,
            set_size=set_size,
        )
    refuse(context, _OF_TASKS, f"{data} is no task")
    if target is None:
        if not Path(data).exists():
            raise UsageError(f"there is no file {data}. For a task of the paper, say {PREFIX}NAME; tasks are {', '.join(TASKS)}.")
        raise UsageError("--target is missing: name the column to predict.")
    reading = typed_reading(context)
    if baselines_only:
        refuse(context, ("model", "settings", "max_elements", "device"), "--baselines-only fits no network")
    if split is not None:
        refuse(context, ("folds", "repeats"), "--split gives the folds")
    chosen = choose_settings(
        model, settings, max_elements=max_elements, folds=folds, repeats=repeats, evaluate=True, seed=seed, device=device
    )
    return evaluate_files(
        Path(data),
        target,
        reading,
        chosen,
        out=out,
        baselines_only=baselines_only,
        as_json=as_json,
        labels=labels,
        label_id=label_id,
        group=group,
        covariates=covariates,
        split=split,
        task=kind,
        cache_dir=cache_dir,
    )


def _evaluate_task(name: str, baselines: str | None, max_train: int | None, *, as_json: bool, **asked: Any) -> int:
    from orderless.evaluate import BASELINES, evaluate_baselines
    from orderless.evaluate.baselines import ORACLE

    names = None if baselines is None else [name.strip() for name in baselines.split(",") if name.strip()]
    known = [*BASELINES, ORACLE]
    if names == []:
        raise UsageError(f"--baselines takes {', '.join(known)}; got nothing.")
    if names is not None and (unknown := sorted(set(names) - set(known))):
        hint = did_you_mean(unknown[0], known)
        raise UsageError(f"--baselines takes {', '.join(known)}; got {', '.join(unknown)}.{hint}")
    if max_train is not None and max_train < 1:
        raise UsageError(f"--max-train must be 1 or more, got {max_train}.")
    task = open_task(name, **asked)
    if names is not None and ORACLE in names and ORACLE not in task.test.columns:
        raise UsageError(f"an oracle knows simulated data only, and {task.name} is not simulated: leave it out of --baselines.")
    console = Console(stderr=True)
    with console.status("") if console.is_terminal else nullcontext() as status:
        results = evaluate_baselines(
            task,
            names,
            seed=asked["seed"],
            max_train=max_train,
            progress=None if status is None else lambda title, number, count: status.update(f"{title} ({number} of {count})"),
        )
    if as_json:
        typer.echo(json.dumps(_as_json(task, results), indent=1))
        return 0
    typer.echo(f"{task.title}: {describe_sets(task)}")
    _print(task, results)
    tell_stand_in(task, asked["data_dir"], asked["cache_dir"])
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
