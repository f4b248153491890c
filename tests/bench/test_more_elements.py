"""`bench/more_elements.py`: cells are cut fairly, a run that stopped is resumed, and the page says what the rows say."""

import json
import os
import sys
from pathlib import Path

import more_elements
import numpy as np
import pytest

import orderless as ol

DOCS = Path(__file__).parents[2] / "docs"


def call(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["more_elements.py", *map(str, options)])
    more_elements.main()


def committed():
    return [json.loads(line) for line in (DOCS / "results" / "more_elements.jsonl").read_text().splitlines()]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with a cohort like NK-CMV, of 8 donors with 40 cells each, and a network that learns fast and badly."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    quick = ol.SetClassifier(epochs=1, width=8, depth=2, ensemble_size=1)
    monkeypatch.setattr(more_elements, "OURS", quick)
    folder = tmp_path / "data" / "nk_cmv"
    folder.mkdir(parents=True)
    names = [f"D{number}" for number in range(8)]
    cells = pandas.DataFrame(np.random.default_rng(0).normal(size=(320, 3)).astype(np.float32), columns=["CD3", "CD57", "CD16"])
    cells.assign(donor=np.repeat(names, 40)).to_parquet(folder / "cells.parquet")
    pandas.DataFrame({"donor": names, "cmv": [0, 1] * 4}).to_csv(folder / "donors.csv", index=False)
    monkeypatch.setitem(
        more_elements.COHORTS,
        "nk_cmv",
        more_elements.Cohort("NK-CMV", "nk_cmv/cells.parquet", "nk_cmv/donors.csv", "cmv", 2, {"set_id": "donor"}),
    )
    return tmp_path / "data"


# ------------------------------------------------------------------------------------------------------------- cutting


def cells_of(size):
    return np.arange(2.0 * size).reshape(size, 2)


@pytest.mark.parametrize("n", [5, 6, 1000, "all"])
def test_a_sample_with_no_more_cells_keeps_them_all(n):
    x = cells_of(5)
    np.testing.assert_array_equal(more_elements.cut(x, n, np.random.default_rng(0)), x)


def test_a_cut_has_cells_of_the_sample_and_none_twice():
    x = cells_of(200)
    kept = more_elements.cut(x, 50, np.random.default_rng(0))
    assert kept.shape == (50, 2)
    assert len(np.unique(kept[:, 0])) == 50
    assert {tuple(row) for row in kept} <= {tuple(row) for row in x}


def test_the_same_seed_cuts_alike_and_fewer_cells_are_among_more():
    x = cells_of(200)
    small, again, large = (more_elements.cut(x, n, np.random.default_rng([3, 0])) for n in (20, 20, 60))
    np.testing.assert_array_equal(small, again)
    assert set(small[:, 0]) < set(large[:, 0])
    assert set(small[:, 0]) != set(more_elements.cut(x, 20, np.random.default_rng([4, 0]))[:, 0])


# ------------------------------------------------------------------------------------------------------------- running


def test_a_run_writes_a_row_for_each_model_with_what_it_said_of_every_sample(small, tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.jsonl"
    call(monkeypatch, "--data", small, "--out", out, "--only", "nk_cmv", "--cells", "10,all", "--seeds", "0")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["cells"], row["model"]) for row in rows] == [(n, model) for n in (10, "all") for model in more_elements.MODELS]
    for row in rows:
        assert row["samples"] == len(row["probabilities"]) == 8
        assert row["mean_cells"] == (40 if row["cells"] == "all" else 10)
        assert {"orderless", "torch", "numpy", "git_rev", "seconds", *more_elements.SCORES} <= row.keys()
        assert row["fold"] == rows[0]["fold"]  # of one seed
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["nk_cmv", "10"]] * 3 + [["nk_cmv", "all"]] * 3


def test_an_interrupted_file_is_continued(small, tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    options = ("--data", small, "--out", out, "--only", "nk_cmv", "--cells", "10,20", "--seeds", "0")
    call(monkeypatch, *options)
    whole = out.read_text().splitlines(keepends=True)
    out.write_text("".join(whole[:4]) + whole[4][:100])  # cut off in the fifth line
    measured = []
    measure = more_elements.measure

    def watched(name, samples, n, seed, models):
        measured.append((n, seed))
        return measure(name, samples, n, seed, models)

    monkeypatch.setattr(more_elements, "measure", watched)
    call(monkeypatch, *options)
    assert measured == [(20, 0)]
    again = out.read_text().splitlines(keepends=True)
    assert again[:4] == whole[:4]
    kept = ("cells", "model", "fold", "probabilities", *more_elements.SCORES)
    for before, after in zip(map(json.loads, whole), map(json.loads, again), strict=True):
        assert [before[name] for name in kept] == [after[name] for name in kept]
    call(monkeypatch, *options)
    assert measured == [(20, 0)]


def test_the_network_with_the_mean_alone_has_rows_of_its_own(small, tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.jsonl"
    call(monkeypatch, "--data", small, "--out", out, "--only", "nk_cmv", "--cells", "10", "--seeds", "0", "--mean-alone")
    assert [json.loads(line)["model"] for line in out.read_text().splitlines()] == [more_elements.MEAN_ALONE]
    call(monkeypatch, "--show", out)
    assert "| Deep Sets++, mean alone | 10 |" in capsys.readouterr().out


WRONG = {
    "no folder": (("--out", "rows.jsonl"), "set ORDERLESS_DATA"),
    "a folder that is not there": (("--data", "nowhere", "--out", "rows.jsonl"), "found no such file"),
    "nothing to do": ((), "give --out FILE"),
    "a picture of nothing": (("--picture", "curve.png"), "--show FILE"),
    "an unknown cohort": (("--only", "aml"), "'nk_cmv', 'bcr_xl'"),
    "cells that are no number": (("--cells", "100,many"), "100,1000,all"),
    "no cells": (("--cells", "0"), "100,1000,all"),
    "a seed below 0": (("--seeds=-1",), "such as 0,1,2"),
    "an unknown option": (("--sets", "3"), "unrecognized arguments"),
    "no file to show": (("--show", "none.jsonl"), "none.jsonl"),
    "nowhere to write": (("--data", "data", "--only", "nk_cmv", "--out", "nowhere/rows.jsonl"), "nowhere/rows.jsonl"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_slip_is_told_in_one_line(options, words, small, monkeypatch, capsys):
    monkeypatch.chdir(small.parent)
    with pytest.raises(SystemExit) as stopped:
        call(monkeypatch, *options)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said


def test_rows_of_something_else_are_not_shown(tmp_path, monkeypatch, capsys):
    for content, words in (('{"op": "bags"}\n', "found others"), ("", "found none"), ("{", "lines of JSON")):
        (tmp_path / "rows.jsonl").write_text(content)
        with pytest.raises(SystemExit):
            call(monkeypatch, "--show", tmp_path / "rows.jsonl")
        assert words in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_the_committed_rows_say():
    page = (DOCS / "more-elements.md").read_text()
    rows = committed()
    assert more_elements.cohorts_of(rows) == list(more_elements.COHORTS)
    for cohort in more_elements.COHORTS:
        assert more_elements.render(rows, cohort) in page
    assert "pictures/more_elements.png" in page


def test_what_the_page_says_in_words_is_what_the_rows_say():
    page, rows = " ".join((DOCS / "more-elements.md").read_text().split()), committed()

    def scores(cohort, model, score, *cells):
        of = more_elements.rows_of(rows, cohort, model)
        return [f"{more_elements.mean(of[n], score):.3f}" for n in cells or of]

    every = [scores("nk_cmv", model, "roc_auc", 30, "all") for model in more_elements.MODELS]
    few, all_cells = zip(*every, strict=True)
    assert f"little better than by chance: {min(few)} to {max(few)}" in page
    assert f"With all cells they reach {min(all_cells)} to {max(all_cells)}" in page
    a, b, c, d = scores("nk_cmv", "deep_sets++", "roc_auc", 100, 1000, 3000, "all")
    assert a == b
    assert f"network has {a} with 100 as with 1,000; {c} with 3,000 and {d} with all" in page
    losses = scores("nk_cmv", "deep_sets++", "log_loss")
    assert f"up to 1,000 cells, {min(losses[:4])} to {max(losses[:4])}, and has {losses[4]} with 3,000 and {losses[5]}" in page
    (loss,), (area,) = (scores("nk_cmv", more_elements.MEAN_ALONE, score, 1000) for score in ("log_loss", "roc_auc"))
    assert f"1,000 cells give {loss} already (last row), and a ROC AUC of {area}" in page
    right = scores("nk_cmv", "deep_sets++", "accuracy")
    assert f"between {min(right)} and {max(right)} for the network" in page
    assert set(scores("bcr_xl", "deep_sets++", "accuracy")) == {"1.000"}
    assert {s for model in more_elements.MODELS for s in scores("bcr_xl", model, "roc_auc")} == {"1.000"}
    losses = scores("bcr_xl", "deep_sets++", "log_loss")
    assert f"network is {min(losses[:4])} to {max(losses[:4])} up to 1,000 cells" in page
    lowest = [scores("bcr_xl", model, "log_loss") for model in ("moments", "mean_embedding")]
    assert all(of[-1] == min(of) for of in lowest)
    assert f"lowest with all cells, {lowest[0][-1]} and {lowest[1][-1]}" in page


def test_every_number_of_cells_was_measured_with_the_same_seeds_for_all_models():
    rows = committed()
    keys = [(row["cohort"], row["cells"], row["seed"], row["model"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for cohort in more_elements.COHORTS:
        seeds = {row["seed"] for row in rows if row["cohort"] == cohort}
        wanted = {(cohort, n, seed, model) for n in more_elements.CELLS for seed in seeds for model in more_elements.MODELS}
        assert {key for key in keys if key[0] == cohort and key[3] in more_elements.MODELS} == wanted


def test_scores_of_committed_rows_are_those_of_their_probabilities():
    for row in committed():
        for score in more_elements.SCORES:
            # probabilities are kept to four digits
            assert more_elements.resample([row], score).value == pytest.approx(row[score], abs=2e-3)


def test_no_patient_is_in_two_folds():
    for row in committed():
        assert len(set(zip(row["groups"], row["fold"], strict=True))) == len(set(row["groups"]))


def test_the_curves_are_drawn(tmp_path):
    more_elements.draw(committed(), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert (DOCS / "pictures" / "more_elements.png").stat().st_size > 10_000


@pytest.mark.parametrize(("cohort", "samples", "features"), [("nk_cmv", 20, 37), ("bcr_xl", 16, 26)])
def test_the_cohorts_are_read_as_they_are_described(cohort, samples, features, tmp_path, monkeypatch):
    folder = os.environ.get("ORDERLESS_DATA")
    if not folder or not Path(folder, cohort).is_dir():
        pytest.skip(f"ORDERLESS_DATA does not name a folder with {cohort}")
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path))
    found = more_elements.COHORTS[cohort].open(Path(folder))
    assert (len(found), len(found.features)) == (samples, features)
    assert len(set(found.columns[more_elements.COHORTS[cohort].target])) == 2
