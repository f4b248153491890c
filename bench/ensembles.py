"""What the networks of several seeds answer together, as those of an estimator do: the mean of their answers.

    orderless table past_the_paper --precision bf16-mixed --out results
    python bench/ensembles.py past_the_paper results/runs --precision bf16-mixed --out docs/results/ensembles.jsonl
    python bench/ensembles.py --show docs/results/ensembles.jsonl

Letters: E networks, N sets.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measured import describe_machine
from torch import Tensor

from orderless.experiments.grid import choose_sources, expand
from orderless.experiments.naming import title_of_run
from orderless.experiments.recipe import load_recipe
from orderless.experiments.render import markdown_grid
from orderless.experiments.run import open_data
from orderless.experiments.spec import RunSpec
from orderless.models import load_model
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.task_data import TaskData

BATCH_SETS = 64
Group = list[tuple[RunSpec, Path]]  # runs that differ in the seed alone, and their folders


def main() -> None:
    """Measures, or shows what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", help="a recipe, by its name or its file")
    parser.add_argument("runs", nargs="?", type=Path, help="folder of its runs, which `orderless table` keeps in --out")
    parser.add_argument("--precision", default="32-true", help="of the runs")
    parser.add_argument("--out", type=Path, help="file that lines are appended to")
    parser.add_argument("--show", type=Path, help="measure nothing; show these lines")
    chosen = parser.parse_args()
    if chosen.show:
        print(show([json.loads(line) for line in chosen.show.read_text().splitlines()]))
        return
    if chosen.runs is None or not chosen.runs.is_dir():
        parser.error("name a recipe and a folder of its runs, such as past_the_paper results/runs, or lines to --show.")
    lines = []
    for group in together(chosen.recipe, chosen.runs, chosen.precision):
        lines.append(measure(group))
        if chosen.out:
            with chosen.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    print(show(lines))


def together(recipe: str, runs: Path, precision: str = "32-true") -> list[Group]:
    """The networks of each cell of a recipe, where those of all its seeds are there."""
    folders = {folder.name: folder for folder in runs.iterdir() if (folder / "model.safetensors").is_file()}
    plan = choose_sources(expand(load_recipe(recipe), settings={"precision": precision}), folders)
    groups = [[(spec, folders[spec.key]) for spec in cell.runs if spec.key in folders] for cell in plan.cells]
    return [group for group in groups if len(group) == len(plan.recipe.seeds) > 1]


def measure(group: Group) -> dict[str, Any]:
    """What each network is worth alone, and the mean of their answers: all in float32."""
    spec = group[0][0]
    data = open_data(spec)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    answers = torch.stack([answer(data, folder, device) for _, folder in group]).double()  # (E, N, outputs)
    # the mean of probabilities, not of logits: as estimators do
    mean = answers.softmax(-1).mean(0).log() if data.task.objective == "classification" else answers.mean(0)
    width = f", width {spec.model_options['width']}" if "width" in spec.model_options else ""
    noise = f", noise {spec.train.noise:g}" if spec.train.noise is not None else ""
    return {
        "key": spec.key,
        "task": data.title,
        "network": title_of_run(spec) + width + noise,
        "epochs": spec.train.epochs,
        "metric": data.task.metric,
        "seeds": [of.train.seed for of, _ in group],
        "alone": [_figure(data, alone) for alone in answers],
        "together": _figure(data, mean),
        "machine": describe_machine(device.type),
    }


@torch.inference_mode()
def answer(data: TaskData, folder: Path, device: torch.device) -> Tensor:
    """(N, outputs) of one network for all test sets, on the CPU, in float32."""
    if OBJECTIVES[data.task.objective].output != "set":
        raise ValueError(f"networks of {data.task.name} answer for elements, not for sets: there is no mean of that here.")
    model = load_model(folder / "model.safetensors").eval().to(device)
    return torch.cat([model(batch.sets.to(device)).float().cpu() for batch in data.test.batches(BATCH_SETS)])


def _figure(data: TaskData, answers: Tensor) -> float:
    target = data.test.target.double() if data.test.target.is_floating_point() else data.test.target
    return data.task.per_set(answers, target)[data.task.metric].mean().item()


def show(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each network and task; of several lines about the same networks the last."""
    header = ["task", "network", "epochs", "metric", "networks", "one alone, mean", "together"]
    rows = [
        [
            line["task"].partition(" (")[0],
            line["network"],
            str(line["epochs"]),
            line["metric"],
            str(len(line["seeds"])),
            f"{statistics.mean(line['alone']):.4g}",
            f"{line['together']:.4g}",
        ]
        for line in {line["key"]: line for line in lines}.values()
    ]
    return markdown_grid(header, rows, to_left=[True, True, False, True, False, False, False])


if __name__ == "__main__":
    main()
