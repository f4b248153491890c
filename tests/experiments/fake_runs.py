"""Runs that take a moment instead of training, and write down when they were begun and done. Called as `run.execute` is.

The seed decides what becomes of a run: 13 fails as long as there is a file `broken` beside the results, 66 diverges, 99 kills its
process, 77 and 78 warn, and from 100 on a run takes until there is a file `go`.
"""

import os
import signal
import time
import warnings
from pathlib import Path

from experiments.lines import make_line

from orderless.experiments.spec import make_spec

STEPS = 4


def make_runs(*seeds):
    """Runs that differ in their seeds."""
    return [make_spec("normal_var@exact", "deep_sets", {"seed": seed, "epochs": 1}) for seed in seeds]


def execute(spec, folder, *, resume, progress, execution, data_dir, cache_dir):
    assert resume
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    results = folder.parents[1]
    note(results, "begin", spec)
    for step in range(1, STEPS + 1):
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0")) / STEPS)
        progress(step=step, num_steps=STEPS, epoch=1, loss=0.0, sets_per_second=1.0, elements_per_second=1.0)
    seed = spec.train.seed
    while seed >= 100 and not (results / "go").exists():
        time.sleep(0.01)
    if seed == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed in (77, 78):
        warnings.warn("it is late", stacklevel=1)
    if seed == 13 and (results / "broken").exists():
        raise RuntimeError("it is\nbroken")
    note(results, "end", spec)
    options = {"seed": seed, "epochs": 1}
    return make_line(spec.task, spec.model, options, value=seed / 10, status="diverged" if seed == 66 else "finished")


def note(results: Path, what, spec):
    """One short write at the end of a file is whole, whoever else writes."""
    with (results / "log.txt").open("a") as file:
        file.write(f"{what} {spec.train.seed} {os.getpid()}\n")


def read_log(results):
    """(begin or end, seed, process) of everything that happened."""
    path = results / "log.txt"
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(what, int(seed), int(pid)) for what, seed, pid in rows]


def ended(results):
    """Seeds of the runs that were done, in order."""
    return [seed for what, seed, _ in read_log(results) if what == "end"]
