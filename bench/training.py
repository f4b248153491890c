"""Measures what our training loop costs over a bare PyTorch loop, and what recordings save. `make bench` appends its rows to
bench/results.jsonl.

Both train the same network with the same optimizer on the same batches from the same loader; the bare loop is what one would
write in ten lines: no checkpoints, no history, no check for NaN, no gradient norm. They take turns in one run, an epoch each, and
the figure is the median over turns of seconds per step. On a GPU ours runs once more with `cuda_graphs`, whose
first epoch, in which recordings are made, is not counted. The tests of the loop run first, and a red one stops the bench.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measured import ROOT, describe_machine

from orderless import tasks
from orderless.tasks.order import BySets
from orderless.train import Execution, TrainConfig, train_model

BATCH_SIZE = 64
CASES: dict[str, list[dict[str, Any]]] = {
    "cpu": [
        {"model": "deep_sets++", "depth": 50, "set_size": 50, "steps": 12},
        {"model": "set_transformer++", "depth": 4, "set_size": 50, "steps": 12},
        {"model": "deep_sets", "depth": 3, "set_size": 100, "steps": 100},
    ],
    "cuda": [
        {"model": "deep_sets++", "depth": 50, "set_size": 1000, "steps": 60},
        {"model": "set_transformer++", "depth": 16, "set_size": 1000, "steps": 40},
        {"model": "deep_sets", "depth": 3, "set_size": 1000, "steps": 150},
        {"model": "deep_sets++", "depth": 50, "set_size": 10, "steps": 100},
        {"model": "deep_sets++", "depth": 50, "task": "mnist_var_6_10", "set_size": None, "steps": 100},
    ],
}


def main() -> None:
    """Tests, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results.jsonl")
    parser.add_argument("--only", default="", help="cases whose network's name contains this")
    parser.add_argument("--skip-tests", action="store_true", help="only where they have just been run")
    options = parser.parse_args()
    if not options.skip_tests:
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(ROOT / "tests" / "train")], cwd=ROOT, check=False)
        if done.returncode:
            sys.exit("the tests of training fail: nothing measured.")
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    print(f"milliseconds per step, batches of {BATCH_SIZE} sets, median of {options.turns} turns, {device.type}")
    loops = {"bare": bare_loop, "ours": our_loop} | ({"graphs": our_recorded_loop} if device.type == "cuda" else {})
    print(f"{'network':24}{'elements':>9}" + "".join(f"{name:>9}" for name in loops) + "   over bare")
    with tempfile.TemporaryDirectory() as folder, options.out.open("a") as file:
        for case in (case for case in CASES[device.type] if options.only in case["model"]):
            found = measure(case, device, options.turns, Path(folder), loops)
            times = {f"{name}_ms": seconds * 1e3 for name, seconds in found.items()}
            ratios = {name: seconds / found["bare"] for name, seconds in found.items() if name != "bare"}
            row = {"op": "training", **case, **times, "ratio": ratios["ours"], "ratios": ratios}
            file.write(json.dumps(row | describe_machine(device.type)) + "\n")
            title = f"{case['model']} {case['depth']}"
            figures = "".join(f"{ms:9.2f}" for ms in times.values()) + "   " + ", ".join(f"{r:.3f}" for r in ratios.values())
            print(f"{title:24}{case['set_size'] or 'ragged':>9}{figures}")


def measure(
    case: dict[str, Any], device: torch.device, turns: int, folder: Path, loops: dict[str, Callable[..., float]]
) -> dict[str, float]:
    """Seconds per step of each loop: the median of turns taken one after the other."""
    sets, task = case["steps"] * BATCH_SIZE, case.get("task", "normal_var")
    data = tasks.load_task(task, num_train=sets, num_test=64, set_size=case["set_size"], cache_dir=folder)
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(turns + 1):  # the first warms up
        for name, run in loops.items():
            torch.manual_seed(0)
            model = data.create_model(case["model"], depth=case["depth"])
            found = run(model, data, device, folder / f"{task}-{case['model']}-{case['set_size']}-{name}-{turn}")
            if turn:
                seconds[name].append(found)
    return {name: statistics.median(found) for name, found in seconds.items()}


def bare_loop(model: torch.nn.Module, data: tasks.TaskData, device: torch.device, folder: Path) -> float:
    """What one would write without us."""
    model = model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    loader = data.train.loader(order=BySets(len(data.train), BATCH_SIZE, shuffle=True), pin_memory=device.type == "cuda")
    times: list[float] = []
    for sets, target in loader:
        optimizer.zero_grad()
        loss = data.task.loss(model(sets.to(device, non_blocking=True)), target.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        if not times and device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter())
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - times[0]) / (len(times) - 1)


def our_loop(
    model: torch.nn.Module, data: tasks.TaskData, device: torch.device, folder: Path, *, cuda_graphs: bool = False
) -> float:
    """Ours, with a folder to write to and somebody who listens to its progress."""
    times: list[float] = []
    epochs = 2 if cuda_graphs else 1
    train_model(
        model,
        data.task,
        data.train,
        data.test,
        TrainConfig(epochs=epochs, batch_size=BATCH_SIZE),
        folder=folder,
        execution=Execution(device=str(device), cuda_graphs=cuda_graphs),
        progress=lambda **_: times.append(time.perf_counter()),
    )
    counted = times[-(len(times) // epochs) :]
    return (counted[-1] - counted[0]) / (len(counted) - 1)


def our_recorded_loop(model: torch.nn.Module, data: tasks.TaskData, device: torch.device, folder: Path) -> float:
    """Ours, from recordings."""
    return our_loop(model, data, device, folder, cuda_graphs=True)


if __name__ == "__main__":
    main()
