"""Synthetic result lines and run folders: what runs leave behind, without training anything."""

import json
import math
from dataclasses import asdict
from pathlib import Path

from orderless.experiments.spec import make_spec
from orderless.tasks.registry import get_task
from orderless.train.config import Execution
from orderless.train.history import History

FULL_HISTORY = 5  # how many epochs a line has unless others are asked for


def make_line(
    task="normal_var@exact",
    model="deep_sets++",
    options=None,
    *,
    value=0.0198,
    start=8.0,
    slope=0.0,
    status="finished",
    epochs=None,
):
    """The result line of a run whose test metric goes from `start` to `value`, as `experiments.run.execute` would return it.

    `slope` is the decimal logarithm of how much the gradient norm grows from the output to the input at the end: -6 vanishes.
    """
    options = {"epochs": FULL_HISTORY if epochs is None else epochs, **(options or {})}
    spec = make_spec(task, model, options)
    metric = get_task(task.partition("@")[0]).metric
    tested = {"mse": ("mse",), "accuracy": ("accuracy", "cross_entropy")}[metric]
    line = {
        "key": spec.key,
        "spec": spec.to_json(),
        "title": _title(task),
        "status": status,
        "message": None if status == "finished" else "the loss became NaN at step 12: `orderless diagnose` shows the gradients.",
        "metrics": {name: _metric(name, value) for name in tested},
        "intervals": {name: [0.9 * _metric(name, value), 1.1 * _metric(name, value)] for name in tested},
        "released": None,
        "epochs": [] if spec.is_baseline else _epochs(spec.train.epochs, tested, start, value),
        "steps": [] if spec.is_baseline else _steps(spec.train.epochs, start, value),
        "layers": None if spec.is_baseline else _layers(spec, slope),
        "num_parameters": None if spec.is_baseline else 898_689,
        "num_train": spec.data_options.get("num_train", 10_000),
        "num_test": spec.data_options.get("num_test", 1_000),
        "seconds": 123.4,
        "step_seconds": None if spec.is_baseline else 0.0123,
        "peak_memory_mib": None,
        "hardware": {"device": "cpu", "cpus": 2},
        "versions": {"orderless": "0.3.0", "torch": "2.13.0", "python": "3.11.7"},
        "commit": "abc1234",
        "finished": "2026-11-15T14:00:00Z",
    }
    if status == "diverged":
        line |= {"metrics": {}, "intervals": {}}
    return line


def write_run(folder: Path, line, *, finished=True) -> Path:
    """The run folder that a result line came from; without `result.json` where the run is not finished."""
    folder.mkdir(parents=True)
    config = {"spec": line["spec"], "execution": asdict(Execution())}
    (folder / "config.json").write_text(json.dumps(config))
    layers = line["layers"] or {"names": [], "moments": []}
    observed = [{"names": layers["names"], **moment} for moment in layers["moments"]]
    History(line["epochs"], line["steps"], {"layers": observed}).write(folder)
    if finished:
        (folder / "result.json").write_text(json.dumps(line))
    return folder


def write_results(folder: Path, lines) -> Path:
    """The results folder that `orderless table` leaves: every line in `results.jsonl`, every run in a folder of its own."""
    for line in lines:
        write_run(folder / "runs" / line["key"], line)
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def _title(name):
    task, _, source = name.partition("@")
    described = get_task(task)
    origin = described.source(source) if source else described.sources[-1]
    label = "" if origin.kind in ("published", "exact") else f"{origin.kind}: "
    return f"{described.title} ({label}{origin.title})"


def _metric(name, value):
    return 1 - value if name == "cross_entropy" else value


def _between(start, end, share):
    """From start to end along a curve that falls fast at first, as losses do."""
    return end + (start - end) * math.exp(-5 * share)


def _epochs(count, tested, start, value):
    rows = []
    for epoch in range(count + 1):
        share = epoch / count
        rows.append(
            {
                "epoch": epoch,
                "step": 10 * epoch,
                "train_loss": None if epoch == 0 else _between(start, value, share) * 1.1,
                "learning_rate": 1e-4,
                "gradient_norm": None if epoch == 0 else _between(5.0, 0.1, share),
                "seconds": None if epoch == 0 else 2.5,
                "sets_per_second": None if epoch == 0 else 4000.0,
                "elements_per_second": None if epoch == 0 else 4e6,
                **{f"test_{name}": _metric(name, _between(start, value, share)) for name in tested},
            }
        )
    return rows


def _steps(epochs, start, value):
    count = 10 * epochs
    return [
        {
            "step": step,
            "loss": _between(start, value, step / count) * (1 + 0.2 * math.sin(3 * step)),
            "gradient_norm": _between(5.0, 0.1, step / count) * (1 + 0.3 * math.cos(5 * step)),
            "learning_rate": 1e-4,
        }
        for step in range(1, count + 1)
    ]


def _layers(spec, slope):
    count = max(3, spec.model_options["depth"])
    names = [f"encoder.{n}" for n in range(count - 1)] + ["decoder"]
    epochs = sorted({round(n * spec.train.epochs / 4) for n in range(5)})
    moments = []
    for epoch in epochs:
        share = epoch / spec.train.epochs
        depth = [(count - 1 - n) / (count - 1) for n in range(count)]  # 1 at the input, 0 at the output
        moments.append(
            {
                "epoch": epoch,
                "step": 10 * epoch,
                "gradient": [10 ** (slope * (0.5 + 0.5 * share) * d) * (1.2 - share) for d in depth],
                "activation": [1.0 + 0.1 * n for n in range(count)],
            }
        )
    return {"names": names, "moments": moments}
