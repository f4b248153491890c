"""One run from its description to its result: data, network, training or baseline, and the line that records it."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import shlex
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from orderless.diagnose import LayerObserver
from orderless.experiments.spec import BASELINE, RunSpec
from orderless.files import remove_leftovers, write_json
from orderless.io.errors import DataError, MissingDataError
from orderless.models import SetModel, save_model
from orderless.tasks.registry import load_task
from orderless.tasks.task_data import TaskData
from orderless.train import Execution, History, Trained, TrainingDiverged, resolve_device, train_model
from orderless.train.checkpoint import Checkpoints, keeping
from orderless.train.device import describe_device
from orderless.train.history import Moment
from orderless.train.loop import Progress
from orderless.train.processes import is_main_process
from orderless.version import versions

_OBSERVED_SETS = 32  # training sets on which gradients and activations are read
_MOST_STEPS, _MOST_MOMENTS = 200, 9  # rows of a result line; the run's folder has all
_DIGITS = 6  # of the numbers in these rows, which keeps result files small
_OBSERVED_EPOCHS = 10  # about so many; each takes a pass forward and backward, layer by layer
_NEEDED = ("key", "spec", "status", "metrics", "intervals")  # of a line
Line = dict[str, Any]


def execute(
    spec: RunSpec,
    folder: Path,
    *,
    execution: Execution | None = None,
    resume: bool = True,
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    data: TaskData | None = None,
) -> Line:
    """Does a run and gives its result line, which is in `folder/result.json`, too. A run that was finished is only read.

    Args:
        spec: Which run.
        folder: Where it keeps everything; made if it is not there.
        execution: Where and how it is computed.
        resume: Continue what is in the folder. If False, a run that is there is an error.
        data_dir: Folder with the publishers' files, as for `load_task`.
        cache_dir: Folder for prepared tasks, as for `load_task`.
        progress: Called after every step.
        data: The prepared task, where it is open already.
    """
    execution = execution or Execution()
    if (folder / "config.json").exists():
        check_same_run(folder, spec, resume=resume)
        if (folder / "result.json").exists():
            return read_result(folder)
    resolve_device(execution.device)  # before anything is prepared or written
    data = data or open_data(spec, data_dir=data_dir, cache_dir=cache_dir)
    if is_main_process(execution.num_devices):
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        config = {"spec": spec.to_json(), "execution": dataclasses.asdict(execution), "title": data.title}
        write_json(folder / "config.json", config)
    line = _run_baseline(spec, data) if spec.is_baseline else _run_network(spec, data, folder, execution, progress)
    if is_main_process(execution.num_devices):
        with keeping("the result", folder):
            write_json(folder / "result.json", line)
    return line


def open_data(spec: RunSpec, *, data_dir: Path | None = None, cache_dir: Path | None = None, **options: Any) -> TaskData:
    """Prepares and opens the task that a run is about. `options` as for `load_task`."""
    wanted = {("seed" if name == "data_seed" else name): value for name, value in spec.data_options.items()}
    return load_task(spec.task, data_dir=data_dir, cache_dir=cache_dir, **(wanted | options))


def build_model(spec: RunSpec, data: TaskData) -> SetModel:
    """The run's network with its first weights, which the seed decides."""
    torch.manual_seed(spec.train.seed)
    return data.create_model(spec.model, **spec.model_options)


def read_result(folder: Path) -> Line:
    """The result line of a finished run.

    Raises:
        DataError: If it is damaged.
    """
    path = folder / "result.json"
    try:
        line: Line = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(path, expected="JSON", found=f"something else ({error})", fix=_again(folder)) from None
    lacking = [name for name in _NEEDED if name not in line] if isinstance(line, dict) else list(_NEEDED)
    if lacking:
        raise DataError(path, expected="the result of a run", found=f"something without {lacking[0]!r}", fix=_again(folder))
    return line


def read_spec(folder: Path) -> RunSpec:
    """Which run a folder holds."""
    path = folder / "config.json"
    try:
        return RunSpec.from_json(json.loads(path.read_text())["spec"])
    except (KeyError, TypeError, ValueError) as error:
        expected, fix = "a run as this version writes it", "Put the file back, or choose another folder."
        raise DataError(path, expected=expected, found=f"something else ({type(error).__name__}: {error})", fix=fix) from error


def check_same_run(folder: Path, spec: RunSpec, *, resume: bool) -> None:
    """That the run in the folder may be resumed as this one. One that failed before its first checkpoint may be overwritten.

    Raises:
        ValueError: If it is another one, or is not to be resumed.
    """
    there = read_spec(folder)
    if not (folder / "result.json").exists() and not Checkpoints(folder / "checkpoints"):
        return
    if not resume:
        raise ValueError(f"{folder} already holds a run. Resume it (--resume), or choose another folder (--out).")
    if there.key == spec.key:
        return
    before, now = _flat(there), _flat(spec)
    differ = [
        f"{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    raise ValueError(f"{folder} holds another run: {'; '.join(differ)}. Choose another folder (--out).")


def check_whole(folder: Path) -> None:
    """Fails where a file of a run with a result is missing or cut short. Of the weights only the header is read.

    Raises:
        DataError: It names the file and says what to do.
    """
    from safetensors import SafetensorError, safe_open

    line = read_result(folder)
    path = folder / "history.json"
    try:
        History.read(folder)
        if line.get("status") == "finished":
            path = folder / "model.safetensors"
            with safe_open(path, framework="pt"):
                pass
    except FileNotFoundError:
        raise MissingDataError(path, expected="a file of a finished run", found="no such file", fix=_again(folder)) from None
    except (SafetensorError, TypeError, ValueError) as error:
        raise DataError(path, expected="a whole file", found=f"a damaged one ({error})", fix=_again(folder)) from None


def _again(folder: Path) -> str:
    return f"Remove {folder / 'result.json'} and run the same command again: it writes every file again."


def _flat(spec: RunSpec) -> Line:
    content = spec.to_json()
    return {**content.pop("train"), **content.pop("model_options"), **content.pop("data_options"), **content}


def _run_network(spec: RunSpec, data: TaskData, folder: Path, execution: Execution, progress: Progress | None) -> Line:
    model = build_model(spec, data)
    observed = data.train[: min(_OBSERVED_SETS, len(data.train))]
    common = {
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "hardware": _hardware(execution),
    }
    try:
        trained = train_model(
            model,
            data.task,
            data.training_sets(spec.train.seed),
            data.test,
            spec.train,
            folder=folder,
            execution=execution,
            observers={"layers": _SomeEpochs(LayerObserver(observed, data.task.loss), spec.train.epochs)},
            resume=True,
            progress=progress,
        )
    except TrainingDiverged as error:
        history = History.read(folder)
        seconds = sum(row["seconds"] or 0.0 for row in history.epochs)  # of the epochs that were finished
        return _line(spec, data, history, status="diverged", message=str(error), seconds=seconds, **common)
    figures = [*trained.metrics.items(), *(trained.released or {}).items()]
    if wrong := [name for name, value in figures if not math.isfinite(value)]:
        message = (
            f"training ended, but the {wrong[0]} on the test sets is not finite: the last steps broke the weights. "
            f"`orderless diagnose {shlex.quote(str(folder))}` shows the gradients of every layer; a lower learning_rate may "
            "cure it."
        )
        known = {"seconds": trained.seconds, "peak_memory_mib": trained.peak_memory_mib}
        return _line(spec, data, trained.history, status="diverged", message=message, **common, **known)
    assert isinstance(trained.model, SetModel)
    if is_main_process(execution.num_devices):
        with keeping("the network", folder):
            save_model(trained.model.eval(), folder / "model.safetensors")
    return _line(spec, data, trained.history, status="finished", message=None, **common, **_measured(trained))


class _SomeEpochs:
    """An observer that looks before the first step, after the first two epochs and the last, and evenly between them."""

    def __init__(self, observer: Callable[[Moment], Mapping[str, Any]], epochs: int) -> None:
        self.observer, self.last, self.every = observer, epochs, -(-epochs // _OBSERVED_EPOCHS)

    def __call__(self, moment: Moment) -> Mapping[str, Any] | None:
        due = moment.epoch <= 2 or moment.epoch == self.last or moment.epoch % self.every == 0
        return self.observer(moment) if due else None


def _measured(trained: Trained) -> Line:
    from orderless.evaluate import bootstrap_mean  # loads scikit-learn, as below

    intervals = {name: bootstrap_mean(values) for name, values in trained.scores.items()}
    return {
        "metrics": trained.metrics,
        "intervals": {name: [interval.low, interval.high] for name, interval in intervals.items()},
        "released": trained.released,
        "seconds": trained.seconds,
        "peak_memory_mib": trained.peak_memory_mib,
    }


def _run_baseline(spec: RunSpec, data: TaskData) -> Line:
    from orderless.evaluate import evaluate_baselines

    name = spec.model.removeprefix(BASELINE)
    (found,) = evaluate_baselines(data, names=[name], seed=spec.train.seed)
    if found.skipped:
        raise ValueError(f"{name} does not apply to {data.name}: {found.skipped}.")
    return _line(
        spec,
        data,
        History(),
        status="finished",
        message=None,
        metrics={found.metric: found.value},
        intervals={found.metric: [found.low, found.high]},
        seconds=found.seconds,
        hardware=_hardware(Execution(device="cpu")),
    )


def _line(spec: RunSpec, data: TaskData, history: History, **known: Any) -> Line:
    steps = [row["step_seconds"] for row in history.epochs if row.get("step_seconds")]
    nothing = dict.fromkeys(("released", "num_parameters", "seconds", "peak_memory_mib"))
    return {
        "key": spec.key,
        "spec": spec.to_json(),
        "title": data.title,
        "metrics": {},
        "intervals": {},
        **nothing,
        "num_train": len(data.train),
        "num_test": len(data.test),
        "step_seconds": statistics.median(steps) if steps else None,
        "epochs": [_rounded_row(row) for row in history.epochs],
        "steps": [_rounded_row(row) for row in _thinned(history.steps, _MOST_STEPS)],
        "layers": _layers(history.observed.get("layers", [])),
        "versions": versions(),
        "commit": _commit(),
        "finished": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **known,
    }


def _layers(rows: Sequence[Mapping[str, Any]]) -> Line | None:
    """What the observer saw, at the first moment, the last and a few between."""
    if not rows:
        return None
    moments = _thinned(list(rows), _MOST_MOMENTS)
    return {
        "names": moments[0]["names"],
        "moments": [
            {
                "epoch": row["epoch"],
                "step": row["step"],
                "gradient": [_rounded(value, 4) for value in row["gradient"]],
                "activation": [_rounded(value, 4) for value in row["activation"]],
            }
            for row in moments
        ],
    }


def _thinned(rows: list[Any], most: int) -> list[Any]:
    """At most so many of them, evenly spread, the first and the last included."""
    if len(rows) <= most:
        return rows
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def _rounded_row(row: Mapping[str, Any]) -> Line:
    return {name: _rounded(value, _DIGITS) for name, value in row.items()}


def _rounded(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) and math.isfinite(value) else value


def _hardware(execution: Execution) -> Line:
    device = resolve_device(execution.device)
    return {
        "device": describe_device(device),
        "num_devices": execution.num_devices,
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "compile": execution.compile,
        "cuda_graphs": execution.cuda_graphs,
    }


def _commit() -> str | None:
    """The version of this source, where it lies in a repository; with a + where files were changed since."""
    here = Path(__file__)

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here.parent, capture_output=True, text=True, timeout=10, check=False)
        return done.stdout.strip()

    try:
        if not git("ls-files", here.name):  # the repository around a virtual environment is another project's
            return None
        return git("describe", "--always", "--dirty=+", "--exclude=*") or None
    except (OSError, subprocess.SubprocessError):
        return None
