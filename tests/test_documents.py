"""README and docs are run: every Python block, in order, one namespace a page; every command of a console block."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orderless import ops

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TRACED = ROOT / "docs" / "compile.md"


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def surroundings(folder):
    """An empty cache and nobody's files: a page prepares tasks from their stand-ins, and leaves nothing behind."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "ORDERLESS_DATA"}
    return {**kept, "PATH": path, "ORDERLESS_CACHE": str(folder / "cache")}


def run_python(page, folder):
    """From a seed, so that what a page asserts to rounding holds in every run or in none."""
    code = "\n".join(["import torch as _torch", "_torch.manual_seed(0)", *blocks(page, "python")])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=surroundings(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{page.relative_to(ROOT)}:\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if p != TRACED], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path):
    run_python(page, tmp_path)


def test_the_network_that_fails_fails_as_the_page_about_symmetry_shows(tmp_path):
    """Numbers of rounding differ between machines; those of violations do not."""
    page = ROOT / "docs" / "symmetry.md"
    printed, table = blocks(page, "text")
    assert printed in run_python(page, tmp_path)
    network = next(block for block in blocks(page, "python") if "class Centered(" in block).partition("\n\nnetwork =")[0]
    (tmp_path / "my_network.py").write_text(network)
    command = "orderless check my_network.py:Centered"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=surroundings(tmp_path), check=False
    )
    assert done.returncode == 1
    shown = [line.split() for line in table.splitlines() if " FAIL " in line]
    assert len(shown) == 3
    assert all(line in [row.split() for row in done.stdout.splitlines()] for line in shown)


@pytest.mark.traced
def test_python_blocks_about_tracing_run(tmp_path):
    run_python(TRACED, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_console_blocks_run(page, tmp_path):
    for block in blocks(page, "console"):
        for command in re.findall(r"^\$ (.*)$", block, re.M):
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=surroundings(tmp_path), check=False
            )
            assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
            shown = [line.split()[:2] for line in block.splitlines() if re.match(r"\w+ +(pass|FAIL)", line)]
            printed = [line.split()[:2] for line in done.stdout.splitlines()]
            assert all(row in printed for row in shown)


def test_every_block_is_one_that_is_run():
    for page in PAGES:
        languages = re.findall(r"^```(\w*)$", page.read_text(), re.M)[::2]
        shown_only = set() if page.name == "README.md" else {"sh", "text"}
        assert set(languages) <= {"python", "console"} | shown_only, page


def test_the_readme_keeps_its_promises():
    text = (ROOT / "README.md").read_text()
    first = text.split("\n\n")[1].splitlines()
    assert len(first) == 3, "what it is, in three lines"
    assert "`make demo`" in text
    assert "`make test`" in text
    ten_lines = text.partition("## Ten lines")[2].partition("```python\n")[2].partition("```")[0]
    assert 8 < len(ten_lines.strip().splitlines()) <= 11


def test_the_readme_lists_every_model():
    import orderless as ol

    rows = re.findall(r"^\| `([^`]+)` \|", (ROOT / "README.md").read_text(), re.M)
    assert rows == ol.list_models()


def test_the_readme_shows_the_recorded_demo():
    shown = (ROOT / "README.md").read_text().partition("## What the demo shows")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("|")]
    printed = {}
    for network, layers, normal_var, _, hematocrit, _ in rows[2:]:
        printed |= {(network, layers, "normal_var"): normal_var, (network, layers, "hematocrit"): hematocrit}
    recorded = {}
    for line in map(json.loads, (ROOT / "docs" / "results" / "demo.jsonl").read_text().splitlines()):
        task, model = line["spec"]["task"].partition("@")[0], line["spec"]["model"]
        network = "a constant" if model == "baseline:constant" else model.replace("_", " ").title()
        layers = str(line["spec"]["model_options"].get("depth", ""))
        recorded[network, layers, task] = f"{line['metrics']['mse']:.2f}"
    assert printed == recorded


def test_the_legal_table_of_the_docs_is_the_codes():
    from orderless.models.registry import CHOICES, MODELS

    text = (ROOT / "docs" / "models.md").read_text()
    rows = {
        cells[0].strip("`"): [re.findall(r"`([^`]+)`", cell) for cell in cells[1:]]
        for line in text.splitlines()
        if line.startswith("| `") and len(cells := [c.strip() for c in line.strip("|").split("|")]) == 1 + len(CHOICES)
    }
    assert rows == {name: [list(getattr(spec, option)) for option in CHOICES] for name, spec in MODELS.items()}


def test_the_docs_list_every_task():
    from orderless import tasks

    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\w ]+) \| ([\d, +]+) \| (.+) \|$", (ROOT / "docs" / "tasks.md").read_text(), re.M)
    listed = [(name, metric.lower(), sets, re.findall(r"`(\w+)`", sources)) for name, metric, sets, sources in rows]
    assert listed == [
        (name, task.metric, f"{task.num_train:,} + {task.num_test:,}", [source.name for source in task.sources])
        for name, task in ((name, tasks.get_task(name)) for name in tasks.list_tasks())
    ]


def test_the_docs_describe_every_baseline():
    from orderless.evaluate import BASELINES

    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "baselines.md").read_text(), re.M)
    assert rows == [*BASELINES, "oracle"]


def test_the_docs_describe_every_training_option():
    from dataclasses import fields

    from orderless.train import Execution, TrainConfig

    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", (ROOT / "docs" / "training.md").read_text(), re.M)
    assert rows == [(f.name, repr(f.default)) for kind in (TrainConfig, Execution) for f in fields(kind)]


def test_local_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "src").rglob("README.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_api_page_names_functions_that_have_the_name_of_their_folder():
    """What reads the code for the page takes the folder for what `orderless.ops` exports under its name."""
    page = (ROOT / "docs" / "api.md").read_text()
    folders = {path.parent.name for path in (ROOT / "src/orderless/ops").glob("*/__init__.py")}
    hidden = [name for name in ops.__all__ if name in folders]
    assert hidden
    assert [name for name in hidden if f"::: orderless.ops.{name}.{name}\n" not in page] == []


def test_the_speed_that_is_told_first_was_measured():
    """In the README and at the top of the page on performance, in whose tables it stands."""
    page = (ROOT / "docs" / "performance.md").read_text()

    def cells(row):
        line = next(line for line in page.splitlines() if line.startswith(f"| {row} "))
        return [cell.strip(" *") for cell in line.split("|")]

    def times(row):
        return cells(row)[7].split()[0]

    deep_sets, transformer = "Deep Sets++ 50, training step", "Set Transformer++ 16, training step"
    memory = "Deep Sets++ 50, peak memory in training"
    zipf = [f"{name}, Zipf sizes against equal ones, training step" for name in ("Deep Sets++ 50", "Set Transformer++ 16")]
    readme = (ROOT / "README.md").read_text().partition("- **Fast.**")[2].partition("\n\n")[0]
    lead = page.partition("## ")[0]
    for text, said in (
        (readme, f"takes {cells(deep_sets)[4]} and {cells(memory)[4]} in bfloat16 with CUDA graphs"),
        (readme, f"in float32, takes {cells(deep_sets)[2]} and {cells(memory)[2]}"),
        (lead, f"is {times(deep_sets)} times as fast and takes {times(memory)} times less memory"),
        (lead, f"is {times(transformer)} times as fast and takes {times('Set Transformer++ 16, peak memory in training')} times"),
        (lead, f"are {times(zipf[0])} and {times(zipf[1])} times as fast"),
        (lead, f"is {times('Deep Sets++ 50, 16 sets of 1,000 on two CPU cores, training step')} times as fast"),
    ):
        assert said in " ".join(text.split()), said
