"""What networks of several seeds answer together (`bench/ensembles.py`)."""

import json
import sys
from pathlib import Path

import ensembles
import pytest
import torch

from orderless.experiments.grid import expand
from orderless.experiments.recipe import load_recipe
from orderless.experiments.run import execute, open_data
from orderless.models import load_model
from orderless.tasks import load_task
from orderless.train import Execution

RECIPE = """
name = "small"
kind = "table"
title = "Small"
seeds = [0, 1]
rows = ["depth"]
columns = ["task"]
[fixed]
model = "deep_sets++"
width = 8
epochs = 1
num_train = 40
num_test = 30
set_size = 20
learning_rate = 0.01
[[grid]]
depth = [2, 3]
task = ["normal_var@exact", "point_cloud@shapes"]
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A recipe, and a folder with the runs of its networks of two layers, and one of its networks of three."""
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    recipe, runs = tmp_path / "small.toml", tmp_path / "runs"
    recipe.write_text(RECIPE)
    plan = expand(load_recipe(recipe))
    chosen = [spec for cell in plan.cells for spec in (cell.runs if cell.settings["depth"] == 2 else cell.runs[:1])]
    for spec in chosen:
        execute(spec, runs / spec.key, execution=Execution(device="cpu"))
    (runs / "unfinished").mkdir()
    return recipe, runs


def predictions(group):
    """What each network answers for all test sets, and what is right."""
    sets, target = open_data(group[0][0]).test[:]
    with torch.no_grad():
        return torch.stack([load_model(folder / "model.safetensors")(sets) for _, folder in group]), target


def test_networks_of_all_seeds_are_taken_together(small):
    groups = ensembles.together(*small)
    assert [[spec.train.seed for spec, _ in group] for group in groups] == [[0, 1], [0, 1]]
    assert {spec.model_options["depth"] for group in groups for spec, _ in group} == {2}
    assert ensembles.together(*small, "bf16-mixed") == []  # these are other runs


def test_the_mean_of_what_networks_predict_is_measured(small):
    group = ensembles.together(*small)[0]
    line = ensembles.measure(group)
    answers, target = predictions(group)
    assert line["together"] == pytest.approx((answers.mean(0) - target).square().mean().item(), rel=1e-5)
    assert line["alone"] == pytest.approx((answers - target).square().mean((1, 2)).tolist(), rel=1e-5)
    reported = [json.loads((folder / "result.json").read_text())["metrics"]["mse"] for _, folder in group]
    assert line["alone"] == pytest.approx(reported, rel=1e-5)
    assert line["together"] < sum(line["alone"]) / 2  # which holds of squared errors whatever the networks are


def test_of_classes_the_mean_of_probabilities_decides(small):
    group = ensembles.together(*small)[1]
    line = ensembles.measure(group)
    answers, target = predictions(group)
    right = (answers.softmax(-1).mean(0).argmax(1) == target).float().mean().item()
    assert (line["metric"], line["together"]) == ("accuracy", pytest.approx(right))


def test_answers_for_elements_have_no_mean(tmp_path):
    data = load_task("set_anomaly@digits", cache_dir=tmp_path, num_train=2, num_test=2)
    with pytest.raises(ValueError, match="answer for elements, not for sets"):
        ensembles.answer(data, tmp_path, torch.device("cpu"))


def test_lines_are_kept_and_shown(small, tmp_path, monkeypatch, capsys):
    lines, (recipe, runs) = tmp_path / "lines.jsonl", small
    for _ in range(2):  # the second time takes the place of the first
        monkeypatch.setattr(sys, "argv", ["ensembles.py", str(recipe), str(runs), "--out", str(lines)])
        ensembles.main()
        measured = capsys.readouterr().out
    assert len(lines.read_text().splitlines()) == 4
    monkeypatch.setattr(sys, "argv", ["ensembles.py", "--show", str(lines)])
    ensembles.main()
    assert capsys.readouterr().out == measured
    assert measured.count("| Deep Sets++ 2, width 8 |") == 2


def test_without_runs_it_says_what_it_wants(tmp_path, monkeypatch, capsys):
    for wrong in ([], ["past_the_paper"], ["past_the_paper", str(tmp_path / "nowhere")]):
        monkeypatch.setattr(sys, "argv", ["ensembles.py", *wrong])
        with pytest.raises(SystemExit):
            ensembles.main()
        assert "name a recipe and a folder of its runs" in capsys.readouterr().err


def test_the_page_shows_what_the_lines_say():
    docs = Path(__file__).parents[2] / "docs"
    lines = [json.loads(line) for line in (docs / "results" / "ensembles.jsonl").read_text().splitlines()]
    assert ensembles.show(lines) in (docs / "past-the-paper.md").read_text()
