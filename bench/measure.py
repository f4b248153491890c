"""Measuring one job: a contender on a case. Whatever goes wrong, there is a row."""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import torch
from cases import BenchCase
from contenders import Contender, expects_fused, obstacle, prepare, settings_of
from measured import describe_machine
from timing import free_memory, quantiles, record_graph, time_in_turns, time_on_gpu, warm_up
from traffic import least_bytes

from orderless.ops import backend

Row = dict[str, Any]
CPU_TURNS = 7
FUSED_OPS: dict[str, set[str]] = {  # by kernels layer after layer would be a fallback, too
    "deep_sets++": {"clean_blocks", "norm_relu_pool"},
    "set_transformer++": {"induced_blocks", "norm_attention_pool"},
    "set_norm": {"set_norm"},
}


class Job(NamedTuple):
    """One contender on one case."""

    case: BenchCase
    contender: Contender

    @property
    def key(self) -> tuple[str, str]:
        return self.case.name, self.contender.name


def measure_alone(job: Job, options: argparse.Namespace) -> Row:
    """Time and memory of one contender on a GPU."""
    device = torch.device(options.device)
    row = describe(job, options)
    try:
        free_memory(device)
        before = torch.cuda.memory_allocated(device)
        with settings_of(job.contender):
            step = prepare(job.case, job.contender, device)
            with backend.recording() as used:
                warm_up(step, device, 1)
            warm_up(step, device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)  # not before: choosing a kernel may take memory once
            call = record_graph(step) if job.contender.graph else step
            times = time_on_gpu(call, options.repeats)
        row |= quantiles(times) | {"repeats": len(times)} | say_backend(job, used)
        row["peak_mib"] = (torch.cuda.max_memory_allocated(device) - before) / 2**20
        row["reserved_mib"] = torch.cuda.max_memory_reserved(device) / 2**20
    except Exception as error:
        row["error"] = describe_error(error)
    finally:
        call = step = lambda: None  # a graph and its memory go before the next contender comes
        if job.contender.compiled:
            torch._dynamo.reset()
    return row


def measure_in_turns(jobs: Sequence[Job], options: argparse.Namespace) -> list[Row]:
    """Times of several contenders on a CPU, a call of each in every turn, and by how much each is faster than the others."""
    device = torch.device(options.device)
    rows: dict[str, Row] = {}
    calls = {}
    for job in jobs:
        row = rows[job.contender.name] = describe(job, options)
        try:
            with settings_of(job.contender):
                step = prepare(job.case, job.contender, device)
                with backend.recording() as used:
                    warm_up(step, device, 1)
                warm_up(step, device)
            calls[job.contender.name] = step
            row |= say_backend(job, used)
        except Exception as error:
            row["error"] = describe_error(error)
    times = time_in_turns(calls, options.repeats or CPU_TURNS)
    for name, own in times.items():
        rows[name] |= quantiles(own) | {"repeats": len(own)}
        rows[name]["times_faster_than"] = {
            other: statistics.median(b / a for a, b in zip(own, theirs, strict=True))
            for other, theirs in times.items()
            if other != name
        }
    return list(rows.values())


def describe(job: Job, options: argparse.Namespace) -> Row:
    """What a row needs to be understood later."""
    device = torch.device(options.device)
    contender = job.contender
    machine = describe_machine(options.device)
    if options.git_rev is not None:
        machine["git_rev"] = options.git_rev
    return {
        "run": options.run,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        **job.case.describe(),
        "contender": contender.name,
        "code": contender.code,
        "dtype": contender.dtype,
        "graph": contender.graph,
        "compiled": contender.compiled,
        "expects_fused": expects_fused(contender, job.case, device),
        "obstacle": obstacle(contender, job.case),
        "least_bytes": least_bytes(job.case, contender.dtype),
        **machine,
    }


def say_backend(job: Job, used: Counter[tuple[str, str]]) -> Row:
    """Which ops of ours ran, and by what. Fused: all by kernels, and among them those that take many layers at once."""
    if job.contender.is_peer:
        return {"backend": "pytorch", "used": {}, "fused": None}
    backends = {name for _, name in used}
    backend_name = backends.pop() if len(backends) == 1 else "mixed" if backends else "pytorch"
    return {
        "backend": backend_name,
        "used": {f"{op}:{name}": count for (op, name), count in used.items()},
        "fused": backend_name == "triton" and {op for op, _ in used} >= FUSED_OPS[job.case.network],
    }


def against_bandwidth(row: Row, bandwidth: float) -> Row:
    """The least time that moving the least bytes would take, and the share of the copy's speed that was reached."""
    least_ms = row["least_bytes"] / bandwidth * 1e3
    reached = {} if "error" in row else {"of_copy_bandwidth": least_ms / row["p50_ms"]}
    return {"copy_gb_per_s": bandwidth / 1e9, "least_ms": least_ms} | reached


def describe_error(error: Exception) -> str:
    """One line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:300]}"


def answers(device: torch.device) -> bool:
    """Whether the GPU still computes: after some errors nothing does, in this process."""
    if device.type != "cuda":
        return True
    try:
        torch.zeros(1, device=device).add_(1).item()
    except Exception:
        return False
    return True
