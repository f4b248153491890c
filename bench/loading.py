"""Measures how fast batches reach a training loop. `make bench`; rows are appended to bench/results.jsonl.

Beside ours stand two that most projects have, each a Dataset that returns one set at a time, with the default collate:

- one by one: does what the task needs for each set as it is asked for: images of a set taken from all images and made float32, a
  cloud standardised. The authors' code works like this.
- ready-made: everything was done beforehand and lies in memory as float32, which takes four times the memory for images.

All are measured with no workers and with two, in turns in one run; the figure is of each one's best. The tests of the tasks run
first, and a red one stops the bench.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from measured import ROOT, describe_machine
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from orderless import tasks

TASKS: dict[str, dict[str, int]] = {
    "normal_var": {},
    "mnist_var": {"num_train": 10_000},
    "point_cloud": {},
    "hematocrit": {"num_train": 10_000},
}
BATCH_SIZE = 64
WAYS = ("one_by_one", "ready_made", "ours")


class OneByOne(Dataset[Any]):
    """One set at a time from arrays in memory."""

    def __init__(self, take: Callable[[int], NDArray[np.float32]], target: NDArray[Any]) -> None:
        self.take, self.target = take, target

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: int) -> tuple[NDArray[np.float32], Any]:
        return self.take(index), self.target[index]


def one_by_one(name: str, dataset: tasks.SetDataset) -> OneByOne:
    """What a task needs, done for each set as it is asked for."""
    target = dataset.target.numpy()
    if dataset.stored.pool is not None:
        images = dataset.stored.pool.take(np.arange(len(dataset.stored.pool)))
        rows = dataset.stored.pool_rows(range(len(dataset))).reshape(len(dataset), -1)
        return OneByOne(lambda i: images[rows[i]].astype(np.float32), target)
    sets = dataset.raw[:].sets.to_padded()[0].numpy()
    if name == "hematocrit":
        mean, std = sets.mean((0, 1)), sets.std((0, 1))
        return OneByOne(lambda i: (sets[i] - mean) / std, target)
    if name == "point_cloud":
        return OneByOne(lambda i: (sets[i] - sets[i].mean()) / sets[i].std(), target)
    return OneByOne(lambda i: sets[i], target)


def ready_made(dataset: tasks.SetDataset) -> OneByOne:
    """Everything done beforehand."""
    whole = dataset[:]
    sets = whole.sets.to_padded()[0].numpy()
    return OneByOne(lambda i: sets[i], whole.target.numpy())


def main() -> None:
    """Tests, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results.jsonl")
    parser.add_argument("--skip-tests", action="store_true", help="only where they have just been run")
    options = parser.parse_args()
    if not options.skip_tests:
        tests = [str(ROOT / "tests" / "tasks" / name) for name in ("test_dataset.py", "test_base.py")]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, check=False)
        if done.returncode:
            sys.exit("the tests of the tasks fail: nothing measured.")
    print(f"sets per second that reach the loop, batches of {BATCH_SIZE}, median of {options.repeats} epochs")
    print(f"{'task':26}{'one by one':>12}{'ready-made':>12}{'ours':>12}{'ratios':>14}")
    with tempfile.TemporaryDirectory() as cache, options.out.open("a") as file:
        for name, sizes in TASKS.items():
            data = tasks.load_task(name, cache_dir=cache, **sizes)
            row = measure(name, data.train, options.repeats)
            file.write(json.dumps({"op": "loading", "task": data.name, **row, **describe_machine("cpu")}) + "\n")
            speeds = "".join(f"{row[way]:12,.0f}" for way in WAYS)
            print(f"{data.name:26}{speeds}{row['ours'] / row['one_by_one']:8.1f}{row['ours'] / row['ready_made']:6.1f}")


def measure(name: str, dataset: tasks.SetDataset, repeats: int) -> dict[str, float]:
    """Sets per second, each way with no workers and with two, in turns."""
    others = {"one_by_one": one_by_one(name, dataset), "ready_made": ready_made(dataset)}

    def loader(way: str, workers: int) -> Iterable[Any]:
        if way == "ours":
            return dataset.loader(BATCH_SIZE, shuffle=True, num_workers=workers)
        return DataLoader(others[way], batch_size=BATCH_SIZE, shuffle=True, num_workers=workers)

    speeds: dict[tuple[str, int], list[float]] = {(way, workers): [] for way in WAYS for workers in (0, 2)}
    for _ in range(repeats + 1):  # the first round warms up
        for (way, workers), seen in speeds.items():
            seen.append(len(dataset) / seconds(loader(way, workers)))
    medians = {key: statistics.median(seen[1:]) for key, seen in speeds.items()}
    every = {f"{way}_{workers}_workers": speed for (way, workers), speed in medians.items()}
    return {way: max(medians[way, 0], medians[way, 2]) for way in WAYS} | every


def seconds(loader: Iterable[Any]) -> float:
    """Time of one epoch, in which every batch is asked for and nothing is done with it."""
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
