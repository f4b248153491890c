"""The bench of defaults (`bench/bags.py`) and its tasks: labels that hang on what they say, splits apart, rows that add up."""

import json
import sys
from pathlib import Path

import bag_tasks
import bags
import numpy as np
import pytest

SIMULATED = {name: task for name, task in bags.ALL_TASKS.items() if not task.needs_files}


@pytest.mark.parametrize("name", SIMULATED)
def test_a_task_gives_the_sets_that_it_says_and_others_for_testing(name):
    task = SIMULATED[name]
    (sets, y), (test_sets, test_y) = task.draw(0, num_train=20, num_test=10)
    assert len(sets) == len(y) == 20
    assert len(test_sets) == len(test_y) == 10
    assert all(len(x) >= 1 and np.isfinite(x).all() and x.shape[1] == sets[0].shape[1] for x in sets + test_sets)
    assert len(np.unique(y)) == 2 if task.objective == "classification" else len(np.unique(y)) == 20
    seen = {x.tobytes() for x in sets}
    assert not any(x.tobytes() in seen for x in test_sets)
    again = task.draw(0, num_train=20, num_test=10)[0][0]
    assert all(np.array_equal(a, b) for a, b in zip(sets, again, strict=True))


def test_tables_are_of_the_kinds_that_people_bring():
    tasks = bag_tasks.TASKS.values()
    assert len(tasks) >= 20
    assert min(task.num_train for task in tasks) < 100
    assert max(task.num_train for task in tasks) >= 1000
    assert len({task.family for task in tasks}) >= 7


def test_positive_sets_are_as_rare_as_it_says():
    (_, y), (_, test_y) = bag_tasks.TASKS["witness_rare"].draw(0, num_train=100, num_test=40)
    assert (y.sum(), test_y.sum()) == (15, 6)
    assert (len(y), len(test_y)) == (100, 40)


def test_noise_flips_as_many_labels_as_it_says():
    plain = bag_tasks.BagTask("witness", 2000, bag_tasks.TASKS["size_tells"].make)
    noisy = bag_tasks.BagTask("witness", 2000, bag_tasks.TASKS["size_tells"].make, noise=0.2)
    flipped = np.mean(plain.draw(0)[0][1] != noisy.draw(0)[0][1])
    assert abs(flipped - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 2000)  # five standard errors


def test_a_row_holds_every_model_and_the_table_says_who_is_ahead(tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.jsonl"
    small = ["--set", "epochs=1", "--set", "width=8", "--set", "ensemble_size=1", "--most-sets", "24"]
    monkeypatch.setattr(sys, "argv", ["bags.py", "shift_spread", "regress_mean", *small, "--out", str(out)])
    bags.main()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["task"] for row in rows] == ["shift_spread", "regress_mean"]
    for row in rows:
        assert {"ours", "constant", "moments", "moments_boosted", "mean_embedding"} <= row["scores"].keys()
        assert row["sets"] == row["test_sets"] == 24
        assert row["seconds"] > 0
    assert rows[0]["options"] == {"epochs": 1, "width": 8, "ensemble_size": 1}
    assert "| shift_spread | 24 |" in capsys.readouterr().out


def test_the_lead_is_over_the_best_baseline():
    row = {"scores": {"ours": 0.7, "constant": 0.5, "moments": 0.8, "moments_boosted": 0.75}}
    assert bags.lead(row) == pytest.approx(-0.1)


def test_other_options_are_compared_on_the_tables_that_both_have():
    def row(label, task, ours, seconds):
        return {"label": label, "task": task, "seed": 0, "scores": {"ours": ours, "moments": 0.5}, "seconds": seconds}

    rows = [
        row("defaults", "a", 0.8, 10),
        row("defaults", "b", 0.9, 10),
        row("mean alone", "a", 0.7, 4),
        row("other", "c", 0.1, 1),
    ]
    assert bags.compare(rows).splitlines()[2:] == ["| mean alone | 1 | 0.700 | +0.100 | 4 | 10 |"]


def test_tasks_of_files_ask_for_them(monkeypatch, capsys):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["bags.py", "digits"])
    with pytest.raises(SystemExit):
        bags.main()
    assert "set ORDERLESS_DATA" in capsys.readouterr().err


def test_options_are_numbers_where_they_look_like_it():
    assert bags.read_option("depth=2") == ("depth", 2)
    assert bags.read_option("pool=max") == ("pool", "max")
    assert bags.read_option("patience=None") == ("patience", None)


def test_the_page_shows_what_the_committed_rows_say():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "defaults.md").read_text()
    rows = [json.loads(line) for line in (docs / "results" / "bags.jsonl").read_text().splitlines()]
    assert bags.render(rows, "defaults") in page
    assert bags.compare(rows) in page
