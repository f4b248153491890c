"""`orderless train`: one network on one task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from orderless.claims import claim
from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.folders import check_writable
from orderless.cli.options import AsJson, CacheDir, Compile, CudaGraphs, DataDir, Debug, Device, TaskName
from orderless.cli.task_data import describe_sets, open_task, parse_task, tell_stand_in
from orderless.experiments.run import check_same_run, check_whole, execute
from orderless.experiments.spec import BASELINE, RunSpec, make_spec, parse_options
from orderless.tasks.task_data import TaskData
from orderless.train import Execution, TrainConfig, resolve_device
from orderless.train.checkpoint import Checkpoints
from orderless.train.processes import is_main_process
from orderless.train.progress import ProgressBar

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An option of the network (depth, norm, ...), of training (epochs, learning_rate, precision, ...) or of the data "
        "(num_train, set_size, ...); training=default trains as estimators do, on standardised elements. May be repeated.",
    ),
]


def train(
    task: TaskName,
    model: Annotated[str, typer.Option(help="A network of `create_model`, such as deep_sets++.")] = "deep_sets++",
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(help="Of the weights and the order of sets. Default: 0.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/ and a name made of its settings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    device: Device = "auto",
    devices: Annotated[int, typer.Option(help="Processes that share each batch.")] = 1,
    compiled: Compile = False,
    cuda_graphs: CudaGraphs = False,
    workers: Annotated[int, typer.Option(help="Processes that gather batches.")] = 0,
    checkpoint_seconds: Annotated[float, typer.Option(help="Time from one checkpoint to the next; 0: every step.")] = 30.0,
    logger: Annotated[list[str] | None, typer.Option(help="tensorboard, wandb or mlflow, beside the CSV files.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Train a network with the paper's settings, or others, and test it on the whole test set.

    The folder of a run holds its checkpoints, its history as CSV and JSON, the network (`model.safetensors`) and `result.json`.
    --resume continues a run that was stopped or killed, bit for bit on the same hardware.

    Example: orderless train normal_var --model deep_sets++ --set depth=50 --set epochs=3
    """
    with wrong_usage():
        execution = Execution(
            device=device,
            num_devices=devices,
            compile=compiled,
            cuda_graphs=cuda_graphs,
            num_workers=workers,
            checkpoint_seconds=checkpoint_seconds,
            loggers=tuple(logger or ()),  # type: ignore[arg-type]
        )
        resolve_device(device)
        options = parse_options(settings or [])
        if seed is not None and options.setdefault("seed", seed) != seed:
            raise UsageError(f"the seed is given twice: --seed {seed} and --set seed={options['seed']}.")
        make_spec(task, model, options)  # a slip in the options should not cost the time of preparing data
        if model.startswith(BASELINE):
            _check_baseline(model, options, execution)
    data = _open(task, options, data_dir, cache_dir)
    speaks = is_main_process(devices)
    with wrong_usage():
        spec = make_spec(data.name, model, options)
        folder = out.expanduser() if out else Path("runs") / spec.key
        if (folder / "config.json").exists():
            check_same_run(folder, spec, resume=resume or not speaks)
        elif resume:
            raise UsageError(f"there is no run in {folder} to resume.")
        check_writable(folder)
    if speaks and not as_json:
        typer.echo(f"{data.title}: {describe_sets(data)}")
        tell_stand_in(data, data_dir, cache_dir)
    with claim(folder) if speaks else nullcontext(True) as is_mine:
        if not is_mine:
            raise UsageError(f"another process is working on the run in {folder}: wait for it, or choose another folder (--out).")
        if (folder / "result.json").exists() and not spec.is_baseline:
            check_whole(folder)
        with ProgressBar(model) as bar, wrong_usage(), _keeping(folder):
            line = execute(spec, folder, execution=execution, progress=bar, data=data)
    if speaks and as_json:
        typer.echo(json.dumps(line))
    elif speaks:
        _tell(line, spec, data, folder)
    return 0 if line["status"] == "finished" else 1


# of `Execution`, all but the device, which is a matter of the machine
_FLAGS = {
    "num_devices": "--devices",
    "compile": "--compile",
    "cuda_graphs": "--cuda-graphs",
    "num_workers": "--workers",
    "checkpoint_seconds": "--checkpoint-seconds",
    "loggers": "--logger",
}


def _check_baseline(model: str, options: dict[str, Any], execution: Execution) -> None:
    """Refuses what a baseline would ignore. `make_spec` cannot: a recipe has one `[fixed]` for its networks and its baselines."""
    idle = [f.name for f in fields(TrainConfig) if f.name in options and f.name != "seed"]  # trees of a baseline draw from it
    idle += [_FLAGS[f.name] for f in fields(Execution) if f.name in _FLAGS and getattr(execution, f.name) != f.default]
    if idle:
        raise UsageError(f"{model} is not trained, so {', '.join(idle)} would have no effect: leave out what is about training.")


def _open(task: str, options: dict[str, Any], data_dir: Path | None, cache_dir: Path | None) -> TaskData:
    parse_task(task)
    try:
        return open_task(
            task,
            data_dir=data_dir,
            cache_dir=cache_dir,
            seed=options.get("data_seed", 0),
            train_sets=options.get("num_train"),
            test_sets=options.get("num_test"),
            set_size=options.get("set_size"),
        )
    except UsageError as error:
        raise UsageError(str(error).replace("--set-size", "set_size")) from error  # which is an option of other verbs


@contextmanager
def _keeping(folder: Path) -> Iterator[None]:
    """Ctrl-C says what is left of the run."""
    try:
        yield
    except KeyboardInterrupt:
        if not Checkpoints(folder / "checkpoints"):
            raise
        raise KeyboardInterrupt(f"{folder} keeps the run up to its last checkpoint; --resume continues from there.") from None


def _tell(line: dict[str, Any], spec: RunSpec, data: TaskData, folder: Path) -> None:
    if line["status"] == "diverged":
        typer.echo(f"orderless: {line['message']}", err=True)
        return
    metric = data.task.metric
    low, high = line["intervals"][metric]
    figure = f"{line['metrics'][metric]:.4g} [{low:.4g}, {high:.4g}]"
    typer.echo(f"{metric} {figure} on {line['num_test']:,} test sets, after {line['seconds']:.0f} s")
    if line["released"]:
        released = line["released"][metric]
        typer.echo(f"by the released protocol: {'not finite' if released is None else f'{released:.4g}'}")
    made_up = data.source.kind in ("simulated", "substituted")
    where = f", on {data.task.sources[0].title}, which these data are not" if made_up else ""
    for row in data.task.published:
        options = spec.model_options
        same = (row.model, row.depth, row.norm, row.residual) == (spec.model, *map(options.get, ("depth", "norm", "residual")))
        if same and row.metric == metric:
            std = "" if row.std is None else f" ± {row.std:g}"
            typer.echo(f"published ({row.table}): {row.mean:g}{std}, over three seeds with the paper's settings{where}")
            from orderless.experiments.report.verdict import differences  # loads what draws

            if others := differences(spec):
                typer.echo(f"this run has others: {'; '.join(others)}")
    typer.echo(f"{folder} holds everything; `orderless report {shlex.quote(str(folder))}` makes a page of it.")
