"""Measures the deep networks and the ops beside what others compute, on this machine. Rows go to a file of JSON lines.

    python bench/run.py                                     # everything, the most important first
    python bench/run.py --only table --budget-seconds 240   # the table of goals
    python bench/run.py --only training --peers none        # ours alone
    orderless bench show bench/results.jsonl                # the table and the plots

The tests of ops and layers run first, and a red one stops the bench: a time is worth nothing beside a wrong number. Every
contender is measured by itself; one that fails leaves a row that says why, and the others go on, in another process if need be.
Rows are written one by one, so whatever stops the bench, what was measured is there. Ours must run by its kernels on a GPU: a
case that fell back to plain PyTorch makes the exit code 1, unless ORDERLESS_BACKEND=reference asks for it.

Times are of this machine and this run; compare rows of one run only. Several calls with the same --run are one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import torch
from cases import CPU_CASES, GPU_CASES
from contenders import CONTENDERS, PEERS, on_device
from measure import Job, Row, against_bandwidth, answers, describe, measure_alone, measure_in_turns
from measured import ROOT
from timing import copy_bandwidth, free_memory

DEAD = 75  # exit code of a worker whose GPU no longer answers: the rest is for another process
GROUPS = ("table", "cpu", "size", "depth", "width")


def main() -> int:
    """Tests, measures, and says what fell back or failed."""
    options = parse()
    if options.worker is not None:
        return work(options)
    jobs = plan(options)
    if options.list:
        for job in jobs:
            print(f"{job.case.group:6} {job.case.name:32} {job.contender.name}")
        return 0
    if not options.skip_tests and not tests_are_green():
        print("the tests of ops and layers fail: nothing measured.", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"run {options.run}: {len(jobs)} measurements on {options.device}, to {options.out}", flush=True)
    run_workers(options, jobs)
    return conclude(rows_of_run(options.out, options.run), [job.key for job in jobs])


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = _Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="cases whose name contains this, or whose group it is; several by commas")
    parser.add_argument("--peers", default="all", help=f"all, none, or some of {', '.join(PEERS)}, by commas")
    parser.add_argument("--ours", default="all", help="all, or some of our own contenders, by commas")
    parser.add_argument("--repeats", type=int, default=None, help="calls of each contender; default: about a second of them")
    parser.add_argument("--budget-seconds", type=float, default=None, help="nothing is begun that would end later than this")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results.jsonl", help="rows are appended to this file")
    parser.add_argument("--run", default=None, help="name of the run; what it has rows of is not measured again")
    parser.add_argument("--git-rev", default=None, help="where the code is measured without its repository")
    parser.add_argument("--skip-tests", action="store_true", help="only where they have just been run")
    parser.add_argument("--list", action="store_true", help="say what would be measured")
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    own = [name for name, contender in CONTENDERS.items() if not contender.is_peer]
    options.names = [*_chosen(parser, options.ours, own), *_chosen(parser, options.peers, PEERS)]
    if options.repeats is not None and options.repeats < 1:
        parser.error(f"--repeats must be at least 1; got {options.repeats}.")
    if options.until is None and options.budget_seconds is not None:
        options.until = time.time() + options.budget_seconds
    if options.run is None:
        options.run = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if not plan(options):
        parser.error("nothing is left to measure: --list without --only and --peers shows every case.")
    return options


class _Parser(argparse.ArgumentParser):
    """Whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help shows the options)\n")


def _chosen(parser: argparse.ArgumentParser, text: str, known: Sequence[str]) -> list[str]:
    names = list(known) if text == "all" else [name for name in text.split(",") if name not in ("", "none")]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no contender {unknown[0]!r} among {', '.join(known)}.")
    return names


def plan(options: argparse.Namespace) -> list[Job]:
    """What is to be measured, the most important first: all of ours in a group of cases, then the peers, then ours otherwise."""
    device = torch.device(options.device)
    cases = GPU_CASES if device.type == "cuda" else CPU_CASES
    wanted = [word for word in options.only.split(",") if word]
    jobs = [
        Job(case, on_device(CONTENDERS[name], case, device))
        for case in cases
        if not wanted or any(word == case.group or word in case.name for word in wanted)
        for name in case.contenders
        if name in options.names
    ]
    if device.type == "cpu":  # contenders take turns there
        return jobs
    return sorted(jobs, key=lambda job: (GROUPS.index(job.case.group), job.contender.rank))


def tests_are_green() -> bool:
    """Runs the tests of ops and layers."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", str(ROOT / "tests" / "ops"), str(ROOT / "tests" / "nn")]
    if not all(map(importlib.util.find_spec, ("jaxtyping", "beartype"))):  # shapes are checked by them; without, values still are
        command += ["-p", "no:jaxtyping", "-o", "addopts=--import-mode=importlib --strict-markers"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


# ---------------------------------------------------------------------------------------------------- the one that waits


def run_workers(options: argparse.Namespace, jobs: Sequence[Job]) -> None:
    """Measures in another process, and in a new one when that dies, which leaves a row about the job that it died of."""
    with tempfile.TemporaryDirectory() as folder:
        at_work = Path(folder) / "job.json"
        command = [sys.executable, *sys.argv, "--run", options.run, "--worker", str(at_work)]
        if options.until is not None:
            command += ["--until", str(options.until)]
        for _ in jobs:  # each process does one at least, or says that it died of it
            at_work.unlink(missing_ok=True)
            code = start_worker(command)
            if code == 0:
                return
            if code != DEAD and at_work.exists():
                case, contender = json.loads(at_work.read_text())
                job = next(job for job in jobs if job.key == (case, contender))
                write(options.out, describe(job, options) | {"error": f"the process died with exit code {code}"})
            elif code != DEAD:
                sys.exit(f"the measuring process ended with exit code {code} before its first case.")


def start_worker(command: Sequence[str]) -> int:
    """Runs a process that measures. Gives its exit code."""
    return subprocess.run(command, check=False).returncode


def conclude(rows: Sequence[Row], wanted: Sequence[tuple[str, str]]) -> int:
    """Says which share of our cases ran by kernels, what failed and what there was no time for. Gives the exit code."""
    ours = [row for row in rows if row.get("expects_fused")]
    measured = [row for row in ours if "error" not in row]
    fallen = [row for row in measured if not row["fused"]]
    failed = [row for row in rows if "error" in row]
    missing = set(wanted) - {(row["case"], row["contender"]) for row in rows}
    if measured:
        print(f"{len(measured) - len(fallen)} of {len(measured)} cases that should run by kernels did.")
    for row in rows:
        if row.get("obstacle"):
            print(f"layer by layer: {row['case']}, {row['contender']}: {row['obstacle']}")
    for row in fallen:
        print(f"silent fallback: {row['case']}, {row['contender']} ran {_say_used(row['used'])}", file=sys.stderr)
    for row in failed:
        print(f"failed: {row['case']}, {row['contender']}: {row['error']}", file=sys.stderr)
    if missing:
        print(f"no time was left for {len(missing)} of {len(wanted)} measurements.")
    own_failures = [row for row in failed if row["code"] == "orderless"]
    return 1 if fallen or own_failures else 0


def _say_used(used: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count}x)" for name, count in used.items()) or "no op of ours"


def rows_of_run(path: Path, run: str) -> list[Row]:
    """The rows that a run has left so far."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [row for row in rows if row.get("run") == run]


# ---------------------------------------------------------------------------------------------------- the one that works


def work(options: argparse.Namespace) -> int:
    """Measures what is not measured yet, until the time is up."""
    device = torch.device(options.device)
    done = {(row["case"], row["contender"]) for row in rows_of_run(options.out, options.run)}
    jobs = [job for job in plan(options) if job.key not in done]
    bandwidth = copy_bandwidth(device)
    free_memory(device)
    print(f"a copy moves {bandwidth / 1e9:,.0f} GB/s. Milliseconds are medians, MiB peaks.", flush=True)
    print(f"{'case':28}{'contender':20}{'ms':>11}{'p20':>11}{'p80':>11}{'MiB':>10}  of copy speed, ops", flush=True)
    while jobs:
        together = [job for job in jobs if job.case == jobs[0].case] if device.type == "cpu" else jobs[:1]
        jobs = [job for job in jobs if job not in together]
        if options.until is not None and time.time() + together[0].contender.expected_seconds > options.until:
            continue  # something quicker may still fit
        options.worker.write_text(json.dumps(together[0].key))
        rows = measure_in_turns(together, options) if device.type == "cpu" else [measure_alone(together[0], options)]
        for row in rows:
            row |= against_bandwidth(row, bandwidth)
            write(options.out, row)
            print(say(row), flush=True)
        if not answers(device):
            return DEAD
    return 0


def say(row: Row) -> str:
    """A row as a line on the terminal."""
    start = f"{row['case']:28}{row['contender']:20}"
    if "error" in row:
        return f"{start}{row['error'][:100]}"
    peak = "" if row.get("peak_mib") is None else f"{row['peak_mib']:,.0f}"
    times = "".join(f"{row[name]:11.3f}" for name in ("p50_ms", "p20_ms", "p80_ms"))
    return f"{start}{times}{peak:>10}  {row['of_copy_bandwidth']:.0%} {_say_used(row['used']) if row['used'] else ''}"


def write(path: Path, row: Row) -> None:
    """Appends a row and sees it to the disk."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main())
