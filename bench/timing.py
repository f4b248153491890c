"""How long a call takes, and how much memory.

On a GPU calls are timed by events, in a row without waiting in between: what is measured is the GPU, and the host only where it
keeps the GPU waiting. On a CPU contenders take turns, because other work on the machine comes and goes: the ratio of neighbouring
calls is steadier than either time.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

Call = Callable[[], object]
WARM_UPS = 2
LONGEST_SECONDS = 1.0  # of measuring one contender, where the number of repeats is left to us
FEWEST, MOST = 5, 200  # repeats


def free_memory(device: torch.device) -> None:
    """Gives back what earlier contenders left."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def warm_up(step: Call, device: torch.device, times: int = WARM_UPS) -> None:
    """Calls that compile, choose and allocate, aside from the main stream, as recording a graph wants it."""
    if device.type != "cuda":
        for _ in range(times):
            step()
        return
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(times):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    torch.cuda.synchronize(device)


def record_graph(step: Call) -> Call:
    """The whole step as one CUDA graph. Gives the call that replays it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()

    def replay(kept: object = (step, out)) -> None:  # what the graph reads and writes must live as long as it does
        graph.replay()

    return replay


def time_on_gpu(call: Call, repeats: int | None) -> list[float]:
    """Milliseconds of each call."""
    first = _time_events(call, 1)[0]
    if repeats is None:
        repeats = min(MOST, max(FEWEST, int(LONGEST_SECONDS * 1e3 / first)))
    return _time_events(call, repeats)


def _time_events(call: Call, repeats: int) -> list[float]:
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    torch.cuda.synchronize()
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def time_in_turns(calls: Mapping[str, Call], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each call, one of every contender in each turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times


def quantiles(times: Sequence[float]) -> dict[str, float]:
    """The median, and a fifth of the calls on either side."""
    if len(times) == 1:
        return dict.fromkeys(("p20_ms", "p50_ms", "p80_ms"), times[0])
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {"p20_ms": tenths[1], "p50_ms": tenths[4], "p80_ms": tenths[7]}


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second that a large copy by a kernel reads and writes; a GPU's own copying is slower."""
    on_gpu = device.type == "cuda"
    source = torch.ones(2**28 if on_gpu else 2**24, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        torch.neg(source, out=target)

    copy()
    times = time_on_gpu(copy, 20) if on_gpu else time_in_turns({"copy": copy}, 20)["copy"]
    return 2 * source.numel() * source.element_size() / (statistics.median(times) / 1e3)
