"""How long the paper's main table takes on a GPU: ours beside the authors' computation, step time by number of steps.

    python bench/paper_time.py --out docs/results/paper_time.jsonl
    python bench/paper_time.py --show docs/results/paper_time.jsonl

Measured is a training step of every network of the table on the two kinds of batches: 64 sets of 1,000 points or cells, and 64
sets of 10 images. Set anomaly, whose images go through a convolution first, and Anemia are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from cases import SETS, BenchCase, equal_sizes
from contenders import CONTENDERS, prepare, settings_of
from measured import describe_machine
from timing import free_memory, record_graph, time_on_gpu, warm_up

from orderless.experiments.recipe import load_recipe
from orderless.experiments.render import markdown_grid
from orderless.numbers import duration
from orderless.tasks.registry import get_task

NETWORKS = {"deep_sets": (3, 25, 50), "deep_sets++": (3, 25, 50), "set_transformer": (2, 8, 16), "set_transformer++": (2, 8, 16)}
TASKS = {"hematocrit": (1000, 2), "point_cloud": (1000, 3), "mnist_var": (10, 784)}  # elements of a set, and features
WHO = ("orderless", "released")
WITHOUT_KERNELS = ("deep_sets", "set_transformer")  # ours are compiled, layer by layer, as `--compile --cuda-graphs` does
TITLES = {"orderless": "ours", "released": "the authors' computation"}


def main() -> None:
    """Measures, or shows what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="append rows to this JSONL file")
    parser.add_argument("--show", type=Path, default=None, help="print the table of rows that were measured before")
    parser.add_argument("--repeats", type=int, default=None)
    options = parser.parse_args()
    if options.show is not None:
        print(to_markdown(json.loads(line) for line in options.show.read_text().splitlines()))
        return
    if not torch.cuda.is_available():
        sys.exit("paper_time.py measures on a GPU, and there is none; --show FILE prints what was measured elsewhere.")
    rows = []
    for case in cases():
        for who in WHO:
            rows.append(measure(case, who, options.repeats))
            print(f"{case.name:32} {TITLES[who]:26} {rows[-1]['ms']:10.3f} ms", flush=True)
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(to_markdown(rows))


def cases() -> list[BenchCase]:
    """Every network on every kind of batch. Points and cells differ in one feature, so they are one."""
    return [
        BenchCase(f"{network}-{depth}-{elements}x{features}", "table", network, "training", equal_sizes(SETS, elements),
                  in_features=features, depth=depth)
        for elements, features in dict.fromkeys([TASKS["point_cloud"], TASKS["mnist_var"]])
        for network, depths in NETWORKS.items()
        for depth in depths
    ]  # fmt: skip


def measure(case: BenchCase, who: str, repeats: int | None) -> dict[str, Any]:
    """The median time of a step."""
    compiled = who == "orderless" and case.network in WITHOUT_KERNELS
    device, contender = torch.device("cuda"), CONTENDERS["orderless-compiled" if compiled else who]
    free_memory(device)
    with settings_of(contender):
        step = prepare(case, contender, device)
        warm_up(step, device)
        times = time_on_gpu(record_graph(step) if contender.graph else step, repeats)
    kept = {"network": case.network, "depth": case.depth, "elements": case.sizes[0], "features": case.in_features}
    return {**kept, "who": who, "ms": statistics.median(times), "repeats": len(times), **describe_machine("cuda")}


def steps_of(task: str) -> int:
    """Steps of one run in the paper: whole batches alone."""
    described = get_task(task)
    return described.num_train // described.batch_size * described.epochs


def to_markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Step times, and what all runs of the table take: three seeds of each."""
    known = {(row["network"], row["depth"], row["elements"], row["who"]): row["ms"] for row in rows}
    num_seeds = len(load_recipe("main_results").seeds)
    body, totals = [], dict.fromkeys(WHO, 0.0)
    for network, depths in NETWORKS.items():
        for depth in depths:
            cells = [network, str(depth)]
            for elements in (1000, 10):
                times = [known.get((network, depth, elements, who)) for who in WHO]
                cells += ["-" if ms is None else f"{ms:.2f}" for ms in times]
            seconds = {who: num_seeds * _seconds_of_runs(known, network, depth, who) for who in WHO}
            for who in WHO:
                totals[who] += seconds[who]
            body.append([*cells, *(_say(seconds[who]) for who in WHO)])
    body.append(["all", "", "", "", "", "", *(_say(totals[who]) for who in WHO)])
    head = ["network", "layers", "1,000 points: ours, ms", "authors', ms", "10 images: ours, ms", "authors', ms",
            "nine runs: ours", "authors'"]  # fmt: skip
    return markdown_grid(head, body, to_left=[True, *[False] * 7])


def _seconds_of_runs(known: dict[Any, float], network: str, depth: int, who: str) -> float:
    """NaN where a step was not measured: a sum without it would be too small."""
    times = {task: known.get((network, depth, elements, who), math.nan) for task, (elements, _) in TASKS.items()}
    return sum(steps_of(task) * ms / 1e3 for task, ms in times.items())


def _say(seconds: float) -> str:
    return "-" if math.isnan(seconds) else duration(seconds)


if __name__ == "__main__":
    main()
