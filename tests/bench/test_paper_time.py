"""The time that the paper's main table takes (`bench/paper_time.py`)."""

import json
import sys
from pathlib import Path

import paper_time
import pytest
import torch

from orderless.experiments.recipe import load_recipe


def rows():
    """Ours takes a millisecond for each layer, the authors' computation ten."""
    return [
        {"network": case.network, "depth": case.depth, "elements": case.sizes[0], "who": who, "ms": case.depth * times}
        for case in paper_time.cases()
        for who, times in (("orderless", 1), ("released", 10))
    ]


def test_the_networks_are_those_of_the_main_table():
    axes = load_recipe("main_results").axes
    assert list(paper_time.NETWORKS) == axes["model"]
    assert {depth for depths in paper_time.NETWORKS.values() for depth in depths} == set(axes["depth"])
    assert set(paper_time.TASKS) < set(axes["task"])


def test_steps_are_whole_batches_of_all_epochs():
    assert paper_time.steps_of("point_cloud") == 153 * 50
    assert paper_time.steps_of("mnist_var") == 781 * 50
    assert paper_time.steps_of("hematocrit") == 1535 * 30


def test_times_are_multiplied_by_steps_and_seeds(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    monkeypatch.setattr(sys, "argv", ["paper_time.py", "--show", str(path)])
    paper_time.main()
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    seconds = 3 * 3 * (46050 + 7650 + 39050) / 1e3
    assert shown[2] == [
        "deep_sets",
        "3",
        "3.00",
        "30.00",
        "3.00",
        "30.00",
        f"{seconds // 60:.0f} min {seconds % 60:.0f} s",
        "2 h 19 min",
    ]
    assert shown[-1][0] == "all"
    assert shown[-1][-2:] == ["16 h 4 min", "6 d 16 h"]


def test_what_was_not_measured_is_in_no_sum():
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in paper_time.to_markdown(rows()[:-1]).splitlines()]
    assert shown[-2][-2:] == [shown[-2][-2], "-"]
    assert shown[-1][-2:] == ["16 h 4 min", "-"]


def test_the_page_shows_what_was_measured():
    docs = Path(__file__).parents[2] / "docs"
    measured = [json.loads(line) for line in (docs / "results" / "paper_time.jsonl").read_text().splitlines()]
    assert paper_time.to_markdown(measured) in (docs / "performance.md").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["paper_time.py"])
    with pytest.raises(SystemExit, match="measures on a GPU"):
        paper_time.main()
