"""What the networks of several seeds answer together, as those of an estimator do: the mean of their answers.

    orderless table past_the_paper --out results
    python bench/ensembles.py results/runs --out docs/results/ensembles.jsonl
    python bench/ensembles.py --show docs/results/ensembles.jsonl

Letters: E networks, N sets.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measured import describe_machine
from torch import Tensor

from orderless.experiments.naming import title_of_run
from orderless.experiments.render import markdown_grid
from orderless.experiments.run import open_data, read_result, read_spec
from orderless.models import load_model
from orderless.tasks.base import TaskData

BATCH_SETS = 64


def main() -> None:
    """Measures, or shows what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, help="folder of runs, which `orderless table` keeps in --out")
    parser.add_argument("--out", type=Path, help="file that lines are appended to")
    parser.add_argument("--show", type=Path, help="measure nothing; show these lines")
    chosen = parser.parse_args()
    if chosen.show:
        print(show([json.loads(line) for line in chosen.show.read_text().splitlines()]))
        return
    if chosen.runs is None or not chosen.runs.is_dir():
        parser.error("name a folder of runs, such as results/runs, or lines to --show.")
    lines = []
    for folders in together(chosen.runs):
        lines.append(measure(folders))
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    print(show(lines))


def together(runs: Path) -> list[list[Path]]:
    """Folders of finished runs that differ in the seed alone, where there are several."""
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in sorted(runs.iterdir()):
        if (folder / "model.safetensors").is_file() and (folder / "result.json").is_file():
            spec = read_spec(folder)
            same = dataclasses.replace(spec, train=dataclasses.replace(spec.train, seed=0))
            found[same.key].append(folder)
    return [folders for folders in found.values() if len(folders) > 1]


def measure(folders: Sequence[Path]) -> dict[str, Any]:
    """The figure of each network, as its run reported it, and that of the mean of their answers."""
    spec = read_spec(folders[0])
    data = open_data(spec)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    answers = torch.stack([answer(data, folder, device) for folder in folders])  # (E, N, outputs)
    classes = data.task.objective == "classification"
    # the mean of probabilities, not of logits: as estimators do
    mean = answers.double().softmax(-1).mean(0).log() if classes else answers.double().mean(0)
    metric = data.task.metric
    return {
        "task": data.title,
        "network": title_of_run(spec),
        "metric": metric,
        "seeds": [read_spec(folder).train.seed for folder in folders],
        "alone": [read_result(folder)["metrics"][metric] for folder in folders],
        "together": data.task.per_set(mean, _target(data))[metric].mean().item(),
        "spec": spec.to_json(),
        "machine": describe_machine(device.type),
    }


@torch.inference_mode()
def answer(data: TaskData, folder: Path, device: torch.device) -> Tensor:
    """(N, outputs) of one network for all test sets, on the CPU, in float32."""
    model = load_model(folder / "model.safetensors").eval().to(device)
    return torch.cat([model(batch.sets.to(device)).float().cpu() for batch in data.test.batches(BATCH_SETS)])


def _target(data: TaskData) -> Tensor:
    target = data.test.target
    return target.double() if target.is_floating_point() else target


def show(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each network and task."""
    header = ["task", "network", "metric", "networks", "one alone, mean", "together"]
    rows = [
        [
            line["task"],
            line["network"],
            line["metric"],
            str(len(line["seeds"])),
            f"{statistics.mean(line['alone']):.4g}",
            f"{line['together']:.4g}",
        ]
        for line in lines
    ]
    return markdown_grid(header, rows, to_left=[True, True, True, False, False, False])


if __name__ == "__main__":
    main()
