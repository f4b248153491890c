"""What networks of several seeds answer together (`bench/ensembles.py`)."""

import json
import sys
from pathlib import Path

import ensembles
import pytest
import torch

from orderless.experiments.run import execute, open_data
from orderless.experiments.spec import make_spec
from orderless.models import load_model
from orderless.train import Execution

SMALL = {"width": 8, "depth": 2, "epochs": 1, "num_train": 40, "num_test": 30, "set_size": 20}


@pytest.fixture
def do_runs(tmp_path, monkeypatch):
    """Does small runs of a task and gives the folder that holds them."""
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))

    def do(task, *seeds, **options):
        for seed in seeds:
            spec = make_spec(task, "deep_sets++", {**SMALL, **options, "seed": seed})
            execute(spec, tmp_path / "runs" / spec.key, execution=Execution(device="cpu"))
        return tmp_path / "runs"

    return do


def test_the_mean_of_what_networks_predict_is_measured(do_runs):
    runs = do_runs("normal_var@exact", 0, 1, 2)
    (folders,) = ensembles.together(runs)
    line = ensembles.measure(folders)
    data = open_data(make_spec("normal_var@exact", "deep_sets++", SMALL))
    sets, target = data.test[:]
    with torch.no_grad():
        answers = torch.stack([load_model(folder / "model.safetensors")(sets) for folder in folders])
    alone = (answers - target).square().mean((1, 2))
    assert line["together"] == pytest.approx((answers.mean(0) - target).square().mean().item(), rel=1e-5)
    assert line["alone"] == pytest.approx(alone.tolist(), rel=1e-4)
    assert line["together"] < sum(line["alone"]) / 3  # which holds of squared errors whatever the networks are
    assert line["seeds"] == [0, 1, 2]


def test_of_classes_the_mean_of_probabilities_decides(do_runs):
    (folders,) = ensembles.together(do_runs("point_cloud@shapes", 0, 1, learning_rate=0.01))
    line = ensembles.measure(folders)
    sets, target = open_data(make_spec("point_cloud@shapes", "deep_sets++", SMALL)).test[:]
    with torch.no_grad():
        chances = [load_model(folder / "model.safetensors")(sets).softmax(1) for folder in folders]
    right = (sum(chances).argmax(1) == target).float().mean().item()
    assert (line["metric"], line["together"]) == ("accuracy", pytest.approx(right))


def test_only_runs_that_differ_in_the_seed_alone_belong_together(do_runs):
    runs = do_runs("normal_var@exact", 0, 1)
    do_runs("normal_var@exact", 0, learning_rate=0.01)
    do_runs("normal_var@exact", 1, depth=3)
    (runs / "unfinished").mkdir()
    (folders,) = ensembles.together(runs)
    assert ["-2-s" in folder.name for folder in folders] == [True, True]


def test_lines_are_kept_and_shown(do_runs, tmp_path, monkeypatch, capsys):
    runs, lines = do_runs("normal_var@exact", 0, 1), tmp_path / "lines.jsonl"
    monkeypatch.setattr(sys, "argv", ["ensembles.py", str(runs), "--out", str(lines)])
    ensembles.main()
    measured = capsys.readouterr().out
    assert len(lines.read_text().splitlines()) == 1
    monkeypatch.setattr(sys, "argv", ["ensembles.py", "--show", str(lines)])
    ensembles.main()
    assert capsys.readouterr().out == measured
    assert "| Deep Sets++ 2 | mse " in measured


def test_without_runs_it_says_what_it_wants(tmp_path, monkeypatch, capsys):
    for wrong in ([], [str(tmp_path / "nowhere")]):
        monkeypatch.setattr(sys, "argv", ["ensembles.py", *wrong])
        with pytest.raises(SystemExit):
            ensembles.main()
        assert "name a folder of runs" in capsys.readouterr().err


def test_the_page_shows_what_the_lines_say():
    docs = Path(__file__).parents[2] / "docs"
    lines = [json.loads(line) for line in (docs / "results" / "ensembles.jsonl").read_text().splitlines()]
    assert ensembles.show(lines) in (docs / "past-the-paper.md").read_text()
