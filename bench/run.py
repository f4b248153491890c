"""Measures the ops and the deep models on this machine. `make bench`; rows are appended to bench/results.jsonl.

About a minute. The tests of the ops run first, and a red one stops the bench: a time is worth nothing beside a wrong number.
Times are of this machine and this run; compare rows of one run only.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from cases import BenchCase, cases
from measured import ROOT, describe_machine
from torch import Tensor

import orderless as ol
from orderless import ops

NUM_INDUCING, NUM_HEADS, SCALE = 32, 4, 128**-0.5


def main() -> None:
    """Tests, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--num-sets", type=int, default=None, help="default: 64 on a GPU, 4 on a CPU")
    parser.add_argument("--set-size", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=None, help="default: 30 on a GPU, 5 on a CPU")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results.jsonl")
    parser.add_argument("--skip-tests", action="store_true", help="only where they have just been run")
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    num_sets = options.num_sets or (64 if on_gpu else 4)
    repeats = options.repeats or (30 if on_gpu else 5)
    if not options.skip_tests:
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(ROOT / "tests" / "ops")], cwd=ROOT, check=False)
        if done.returncode:
            sys.exit("the tests of the ops fail: nothing measured.")
    print(f"{num_sets} sets of {options.set_size} elements, or as many in Zipf sizes; float32 on {options.device}")
    print(f"{'op':24}{'sizes':8}{'direction':18}{'time':>13}  {'peak MiB':>8}")
    with options.out.open("a") as file:
        for case in cases(num_sets, options.set_size):
            for direction in ("forward", "forward+backward"):
                row = {**describe(case, direction, options.device), **measure(case, direction, options.device, repeats)}
                file.write(json.dumps(row) + "\n")
                peak = "" if row["peak_mib"] is None else f"{row['peak_mib']:.0f}"
                print(f"{case.op:24}{case.shape:8}{direction:18}{row['p50_ms']:10.3f} ms  {peak:>8}")


def measure(case: BenchCase, direction: str, device: str, repeats: int) -> dict[str, float | None]:
    """Quantiles of the time of one call, after three calls to warm up, and the peak memory on a GPU."""
    on_gpu = device.startswith("cuda")
    call = prepare(case, direction, device)
    for _ in range(3):
        call()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        if on_gpu:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    low, middle, high = (statistics.quantiles(times, n=10)[i] for i in (1, 4, 7))
    peak = round(torch.cuda.max_memory_allocated() / 2**20, 1) if on_gpu else None
    return {"p20_ms": low, "p50_ms": middle, "p80_ms": high, "peak_mib": peak}


def prepare(case: BenchCase, direction: str, device: str) -> Callable[[], None]:
    """One call of the case, ready to be timed."""
    torch.manual_seed(0)
    offsets = torch.tensor([0, *case.sizes]).cumsum(0)
    x = torch.randn(int(offsets[-1]), case.dim, device=device)
    batch = ol.SetBatch(x, offsets)
    if case.dense:
        batch = ol.SetBatch.from_padded(x.reshape(len(case.sizes), case.sizes[0], case.dim))
    backward = direction != "forward"
    if case.op in ol.list_models():
        model = ol.create_model(case.op, case.dim, 1, depth=case.depth).to(device)
        return lambda: run_model(model, batch, backward)
    return lambda: run_op(case.op, batch, backward)


def run_model(model: ol.models.SetModel, batch: ol.SetBatch, backward: bool) -> None:
    """One inference, or one pass forward and back."""
    if not backward:
        with torch.no_grad():
            model(batch)
        return
    out = model(batch)
    assert isinstance(out, Tensor)
    torch.autograd.grad(out.square().mean(), list(model.parameters()))


def run_op(op: str, batch: ol.SetBatch, backward: bool) -> None:
    """One call of an op, forward or forward and back."""
    x = batch.x.detach().requires_grad_(backward)
    dim = x.shape[1]
    points = x.new_ones(batch.num_sets, NUM_INDUCING, dim)
    if op == "set_norm":
        out = ops.set_norm(x, batch.offsets, x.new_ones(dim), x.new_zeros(dim), set_size=batch.set_size)
    elif op == "dense_query_attention":
        out = ops.dense_query_attention(points, x, x, batch.offsets, num_heads=NUM_HEADS, scale=SCALE, set_size=batch.set_size)
    elif op == "dense_key_attention":
        out = ops.dense_key_attention(x, points, points, batch.offsets, num_heads=NUM_HEADS, scale=SCALE, set_size=batch.set_size)
    else:
        raise ValueError(f"no op {op!r}")
    if backward:
        torch.autograd.grad(out.sum(), x)


def describe(case: BenchCase, direction: str, device: str) -> dict[str, object]:
    """What a row needs to be understood later."""
    return {
        "op": case.op,
        "backend": "pytorch",
        "direction": direction,
        "shape": case.shape,
        "num_sets": len(case.sizes),
        "num_elements": sum(case.sizes),
        "largest_set": max(case.sizes),
        "dim": case.dim,
        "depth": case.depth,
        "dtype": "float32",
        **describe_machine(device),
    }


if __name__ == "__main__":
    main()
