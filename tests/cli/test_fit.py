"""`orderless fit`, `predict`, `evaluate` on files and `report` on a fit, as typed in a shell (`fit.py`, `predict.py`).

Also what they share (`options.py`, `samples.py`, `studies.py`, `printing.py`), `evaluate_files.py`, and the samples of
`invented.py`.
"""

import csv
import itertools
import json
import re
import shlex
import shutil
import sys

import flowio
import numpy as np
import pytest
from studies.small import SETTINGS, write_cells, write_csv, write_labels
from typer.testing import CliRunner

from orderless.claims import claim
from orderless.cli.app import app
from orderless.cli.errors import UsageError
from orderless.cli.printing import print_evaluation
from orderless.cli.samples import in_shell_words, reading_options, shell_words, split_names
from orderless.estimators import SetRegressor, save_bundle
from orderless.io import open_samples
from orderless.studies.stored import read_evaluation

FIT = ["fit", "cells.csv", "--set-id", "sample", "--labels", "labels.csv", "--device", "cpu", *SETTINGS]
ILL, SCORE = [*FIT, "--target", "ill"], [*FIT, "--target", "score"]
QUICKLY = ["--no-evaluate", "--out", "out"]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def without_times(err):
    """What stderr holds beside the lines on finished folds and fits."""
    return re.sub(r"(?m)^(fold \d+ of \d+: .*|\S+ to all sets: .*)\n", "", err)


def read_csv(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Files, and a fit of classes with an evaluation; tests that write go elsewhere."""
    folder = tmp_path_factory.mktemp("shell")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORDERLESS_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        write_cells(folder)
        write_labels(folder)
        code, out, err = run(*ILL, "--folds", "2", "--out", "done")
        assert code == 0
        (folder / "said.txt").write_text(out)
        (folder / "log.txt").write_text(err)
    return folder


@pytest.fixture
def here(base, tmp_path, monkeypatch):
    """A folder with the same files, and nothing else."""
    for name in ("cells.csv", "labels.csv"):
        (tmp_path / name).write_bytes((base / name).read_bytes())
    monkeypatch.setenv("ORDERLESS_CACHE", str(base / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_fit_says_what_it_read_before_and_how_good_it_is_after(base):
    said = (base / "said.txt").read_text()
    for line in (
        "cells.csv (CSV): 12 sets of 4 to 15 elements (median 9), 114 in all",
        "Features: 2: CD3, CD4",
        "Target: ill, classification (2 different values): 0: 6 sets, 1: 6 sets",
        "Groups: patient, 6 of them (found by its name: 6 values over 12 sets; --group none turns it off)",
        "Only 6 groups",
        "orderless predict done/bundle NEW_DATA --out predictions.csv",
    ):
        assert line in said
    assert said.index("Target:") < said.index("ROC AUC") < said.index("deep_sets++ is ")


def test_a_fit_keeps_the_command_that_repeats_it(base):
    made = json.loads((base / "done" / "fit.json").read_text())
    typed = made["command"].split()
    assert typed[:3] == ["orderless", "fit", "cells.csv"]
    pairs = set(itertools.pairwise(typed))
    for pair in (("--set-id", "sample"), ("--labels", "labels.csv"), ("--target", "ill"), ("--folds", "2"), ("--set", "depth=2")):
        assert pair in pairs
    assert ("--set", "width=8") in pairs
    assert "--seed" not in typed, "what was not typed"
    assert made["data"]["labels"] == "labels.csv"


def test_where_there_is_no_terminal_a_line_tells_of_each_fold_and_of_the_last_fit(base):
    first, second, last = (base / "log.txt").read_text().splitlines()
    assert re.fullmatch(r"fold 1 of 2: deep_sets\+\+ and 5 other models, .* s", first)
    assert re.fullmatch(r"fold 2 of 2: deep_sets\+\+ and 5 other models, .* s", second)
    assert re.fullmatch(r"deep_sets\+\+ to all sets: .* s", last)


def test_the_same_command_again_tells_the_same_and_another_is_refused(base, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(base / "cache"))
    monkeypatch.chdir(base)
    code, out, err = run(*ILL, "--folds", "2", "--out", "done")
    assert (code, out, err) == (0, (base / "said.txt").read_text(), "")
    before = {path: path.stat().st_mtime_ns for path in (base / "done").rglob("*")}
    code, _, err = run(*ILL, "--folds", "3", "--seed", "1", "--out", "done")
    assert code == 2
    assert err == (
        "orderless: done holds another fit: num_folds was 2 and is 3 now; seed was 0 and is 1 now. "
        "Choose another folder (--out).\n"
    )
    assert {path: path.stat().st_mtime_ns for path in (base / "done").rglob("*")} == before


def test_predictions_have_a_row_per_set_whatever_the_order_of_columns(base, here):
    write_cells(here, name="new.csv", sets=5, seed=1)
    rows = read_csv(here / "new.csv")
    turned = [[row["CD4"], "x", row["sample"], row["CD3"]] for row in rows]
    write_csv(here / "turned.csv", ["CD4", "comment", "sample", "CD3"], turned)
    for name in ("new", "turned"):
        code, out, err = run("predict", base / "done" / "bundle", f"{name}.csv", "--out", f"{name}-p.csv", "--device", "cpu")
        assert (code, err) == (0, "")
        assert f"{name}-p.csv: ill of 5 sets, from all 30 elements." in out
    assert (here / "new-p.csv").read_bytes() == (here / "turned-p.csv").read_bytes()
    predicted = read_csv(here / "new-p.csv")
    assert list(predicted[0]) == ["id", "size", "prediction", "probability_0", "probability_1"]
    assert [(row["id"], row["size"]) for row in predicted] == [(f"s{n}", str(4 + n)) for n in range(5)]
    for row in predicted:
        chances = [float(row["probability_0"]), float(row["probability_1"])]
        assert sum(chances) == pytest.approx(1, abs=1e-12)  # they are sums of two doubles
        assert row["prediction"] == str(int(np.argmax(chances)))


def test_predictions_as_parquet_and_json_are_the_same(base, here):
    import pyarrow.parquet as pq

    code, out, _ = run("predict", base / "done", "cells.csv", "--out", "p.parquet", "--json", "--device", "cpu")
    assert code == 0
    assert json.loads(out)["predictions"] == pq.read_table(here / "p.parquet").to_pylist()


def test_predictions_are_scored_where_outcomes_are_known(base, here):
    arguments = ["predict", base / "done", "cells.csv", "--labels", "labels.csv", "--out", "p.csv", "--device", "cpu"]
    code, out, err = run(*arguments, "--target", "ill")
    assert (code, err) == (0, "")
    assert "Groups: patient, 6 of them" in out
    assert "The best constant for these sets" in out
    code, out, _ = run(*arguments, "--target", "ill", "--group", "none", "--json")
    said = json.loads(out)
    (net,) = (model for model in said["evaluation"]["models"] if not model["is_baseline"])
    outcomes = {row["sample"]: row["ill"] for row in read_csv(here / "labels.csv")}
    right = [str(row["prediction"]) == outcomes[row["id"]] for row in said["predictions"]]
    assert (code, net["metrics"]["accuracy"]["value"]) == (0, pytest.approx(np.mean(right)))
    assert said["evaluation"]["num_groups"] is None


def test_outcomes_that_cannot_be_scored_cost_no_predictions(base, here):
    (here / "words.csv").write_text("sample,ill\n" + "".join(f"s{n},{'yes' if n % 2 else 'no'}\n" for n in range(12)))
    arguments = ["predict", base / "done", "cells.csv", "--out", "p.csv", "--device", "cpu"]
    code, _, err = run(*arguments, "--labels", "words.csv", "--target", "ill")
    assert (code, err.count("\n")) == (1, 1)
    assert "which the model does not know: its classes are '0', '1'" in err
    assert len(read_csv(here / "p.csv")) == 12
    for idle, says in (
        (["--labels", "labels.csv"], "with --target, to score"),
        (["--group", "patient"], "--group is for scores"),
    ):
        code, _, err = run(*arguments, *idle)
        assert code == 2
        assert says in err


def test_numbers_with_covariates_go_from_files_to_predictions(here):
    code, out, err = run(*SCORE, "--covariates", "age,site", "--out", "out", "--no-evaluate", "--group", "none")
    assert (code, without_times(err)) == (0, "")
    assert "Target: score, regression (numbers that are not whole): from 0.5 to 3.6" in out
    assert "Covariates: age (number), site (2 words)" in out
    assert "orderless predict out/bundle NEW_DATA --out predictions.csv --labels COVARIATES\n" in out
    code, _, err = run("predict", "out", "cells.csv", "--out", "p.csv", "--device", "cpu")
    assert code == 2
    assert err == (
        "orderless: the model was fitted with the covariates 'age', 'site', but nothing is known per set. "
        "Give --labels FILE with columns 'age', 'site'.\n"
    )
    assert not (here / "p.csv").exists()
    write_labels(here, name="gaps.csv", age=["", *range(31, 42)])
    code, _, err = run("predict", "out", "cells.csv", "--labels", "gaps.csv", "--out", "p.csv", "--device", "cpu")
    assert code == 1
    assert err == (
        "orderless: the model was fitted with the covariate 'age', which is not known for 1 of 12 sets: s0. "
        "Fill it in: --labels FILE takes a table with a column 'age'.\n"
    )
    code, _, err = run("predict", "out", "cells.csv", "--labels", "labels.csv", "--out", "p.csv", "--device", "cpu")
    assert (code, err) == (0, "")
    assert all(np.isfinite(float(row["prediction"])) for row in read_csv(here / "p.csv"))


def test_sets_without_elements_get_no_prediction_and_are_named(base, here):
    rows = [["s0", 1, 2], ["s0", 3, 4], ["s1", "", 2], ["s1", "", 3]]
    write_csv(here / "gaps.csv", ["sample", "CD3", "CD4"], rows)
    arguments = ["predict", base / "done", "gaps.csv", "--out", "p.csv", "--device", "cpu"]
    code, _, err = run(*arguments)
    assert code == 1, "NaN is an error where training had none"
    assert "CD3" in err
    assert not (here / "p.csv").exists()
    code, out, _ = run(*arguments, "--missing", "drop")
    assert code == 0
    assert "no prediction for 1 set without elements: s1." in out
    assert "Note: these files are read with --missing drop, those of training were read with --missing error." in out
    assert [(row["size"], row["prediction"] == "") for row in read_csv(here / "p.csv")] == [("2", False), ("0", True)]


def test_reading_as_training_did_not_is_told_with_both_ways(here):
    rng = np.random.default_rng(0)
    (here / "fcs").mkdir()
    for number in range(8):
        events = rng.gamma(2, 10, size=(6 + number, 2)).ravel().tolist()
        with (here / "fcs" / f"s{number}.fcs").open("wb") as file:
            flowio.create_fcs(file, events, ["D0", "D1"], ["CD3", "CD4"])
    labels = ["--labels", "labels.csv", "--target", "ill", "--group", "none"]
    code, _, err = run("fit", "fcs", *labels, *SETTINGS, *QUICKLY, "--device", "cpu")
    assert (code, without_times(err)) == (0, "")
    arguments = ["predict", "out", "fcs", "--out", "p.csv", "--device", "cpu"]
    assert "Note" not in run(*arguments, "--cofactor", "5", "--transform", "arcsinh")[1]
    said = run(*arguments, "--cofactor", "150", "--no-compensate")[1]
    assert "Note: these files are read with --cofactor 150, those of training were read with --cofactor 5." in said
    assert "Note: these files are read with --no-compensate, those of training were read with --compensate." in said
    for transform in ("none", "logicle"):
        code, _, err = run(*arguments, "--transform", transform, "--cofactor", "150")
        assert (code, err) == (2, f"orderless: --cofactor is of arcsinh: leave it out with --transform {transform}.\n")
    code, out, _ = run(*arguments, "--transform", "none", "--json")
    assert code == 0
    told = "these files are read with --transform none, those of training were read with --transform arcsinh."
    assert any(note.startswith(told) for note in json.loads(out)["notes"])


def test_a_cofactor_that_was_not_typed_goes_with_arcsinh_alone(here):
    (here / "a.fcs").touch()

    def read_as(transform, given):
        return reading_options(given, here / "a.fcs", {"kind": "FCS", "options": {"transform": transform, "cofactor": 5.0}})

    assert read_as("arcsinh", {}) == {"transform": "arcsinh", "cofactor": 5.0}
    assert read_as("arcsinh", {"transform": "none"}) == {"transform": None}
    assert read_as(None, {}) == {"transform": None}, "older bundles have a cofactor in any case"
    assert read_as(None, {"cofactor": 150.0}) == {"transform": None, "cofactor": 150.0}, "and what was typed is not hidden"


def _with_gaps(here, name, *columns):
    """The table with every seventh number missing in some columns, which is far from 0 everywhere."""
    rows = [{**row, **{c: round(1000 + float(row[c]), 4) for c in ("CD3", "CD4")}} for row in read_csv(here / "cells.csv")]
    gaps = [{**row, **(dict.fromkeys(columns, "") if n % 7 == 0 else {})} for n, row in enumerate(rows)]
    return write_csv(here / name, list(rows[0]), [row.values() for row in gaps])


def test_predictions_know_gaps_as_training_had_them_and_no_others(here):
    more = _with_gaps(here, "more.csv", "CD3", "CD4")
    _with_gaps(here, "cells.csv", "CD3")
    code, _, err = run(*ILL, "--missing", "indicator", *QUICKLY)
    assert (code, without_times(err)) == (0, "")
    assert run("predict", "out", "cells.csv", "--out", "same.csv")[0] == 0
    code, _, err = run("predict", "out", more, "--out", "p.csv")
    assert code == 1
    assert "gaps in no other features than in training ('CD3'), found missing numbers in 'CD4'" in err
    assert "--missing drop" in err
    code, out, _ = run("predict", "out", more, "--missing", "drop", "--out", "dropped.csv")
    assert code == 0
    assert "left out because of missing numbers" in out
    assert "columns that the model does not know" not in out


def test_a_model_that_never_saw_gaps_is_not_offered_to_mark_them(base, here):
    _with_gaps(here, "gaps.csv", "CD4")
    code, _, err = run("predict", base / "done", "gaps.csv", "--out", "p.csv")
    assert code == 1
    assert err.endswith("Say what to do: --missing drop leaves such elements out.\n")
    code, _, err = run("predict", base / "done", "gaps.csv", "--missing", "indicator", "--out", "p.csv")
    assert code == 1
    assert "than in training (none had any), found missing numbers in 'CD4'" in err


def test_a_model_of_before_that_put_0_for_gaps_is_not_asked_about_others(here):
    before = {"kind": "CSV", "options": {"missing": "indicator", "features": ["CD3", "CD3 missing"]}}
    with pytest.raises(UsageError, match="replaced missing numbers by 0, as this one does not: fit it again"):
        reading_options({}, here / "cells.csv", before)
    assert "fill" not in reading_options({"missing": "drop"}, here / "cells.csv", before)


def test_an_evaluation_of_files_is_printed_drawn_and_told_as_json(here):
    arguments = [*ILL, "--folds", "2"]
    arguments[0] = "evaluate"
    code, out, err = run(*arguments, "--out", "ev")
    assert (code, err.count("\n")) == (0, 2)
    assert re.fullmatch(r"fold 2 of 2: .*", err.splitlines()[-1])
    assert "deep_sets++" in out
    assert sorted(path.name for path in (here / "ev").iterdir()) == ["evaluation.json", "pictures"]
    code, _, err = run(*arguments, "--out", "ev")
    assert code == 2
    assert "--out ev is in use already" in err


def test_simple_models_alone_need_no_network(here):
    arguments = ["evaluate", "cells.csv", "--set-id", "sample", "--labels", "labels.csv", "--target", "score"]
    code, out, err = run(*arguments, "--split", "part", "--baselines-only", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["num_folds"] == 1
    assert all(model["is_baseline"] for model in said["models"])
    code, _, err = run(*arguments, "--baselines-only", "--set", "depth=3")
    assert (code, err) == (2, "orderless: --baselines-only fits no network: leave out --set.\n")


def test_a_column_that_says_train_or_test_is_obeyed(here):
    code, out, err = run("evaluate", *ILL[1:6], "--target", "ill", "--split", "part", "--baselines-only")
    assert (code, without_times(err)) == (0, "")
    assert "Split: as the column part says: 8 train and 4 test sets" in out


def test_sets_of_one_row_keep_the_target_out_of_the_features(here):
    rng = np.random.default_rng(0)
    rows = [[f"s{n}", *rng.normal(size=2).round(3), n % 2 + 0.25 * n] for n in range(12)]
    write_csv(here / "rows.csv", ["sample", "CD3", "CD4", "y"], rows)
    code, out, err = run("fit", "rows.csv", "--set-id", "sample", "--target", "y", *QUICKLY, *SETTINGS, "--device", "cpu")
    assert (code, without_times(err)) == (0, "")
    assert "Features: 2: CD3, CD4" in out


def test_sets_of_one_row_keep_who_they_are_of_out_of_the_features(here):
    rng = np.random.default_rng(0)
    rows = [[f"s{n}", n // 2, *rng.normal(size=2).round(3), n % 2 + 0.25 * n] for n in range(12)]
    write_csv(here / "rows.csv", ["sample", "patient", "CD3", "CD4", "y"], rows)
    code, out, err = run("fit", "rows.csv", "--set-id", "sample", "--target", "y", *QUICKLY, *SETTINGS, "--device", "cpu")
    assert (code, without_times(err)) == (0, "")
    assert "Features: 2: CD3, CD4" in out
    assert "Groups: patient, 6 of them (found by its name" in out


# ------------------------------------------------------------------------------------------------------- bad input


def _spoil(here, name, change):
    rows = read_csv(here / name)
    change(rows)
    write_csv(here / name, list(rows[0]), [list(row.values()) for row in rows])


def _text_in_a_feature(here):
    _spoil(here, "cells.csv", lambda rows: rows[3].update(CD3="low"))


def _nan_in_a_feature(here):
    _spoil(here, "cells.csv", lambda rows: rows[3].update(CD4="NaN"))


def _huge_feature(here):
    _spoil(here, "cells.csv", lambda rows: rows[3].update(CD4="1e300"))


def _infinite_scores(here):
    _spoil(here, "labels.csv", lambda rows: [rows[n].update(score="inf") for n in (3, 5)])


def _huge_scores(here):
    _spoil(here, "labels.csv", lambda rows: [row.update(score=f"{row['score']}e300") for row in rows])


def _labels_twice(here):
    _spoil(here, "labels.csv", lambda rows: rows[3].update(sample="s2"))


def _no_labels(here):
    _spoil(here, "labels.csv", lambda rows: [row.update(ill="") for row in rows])


def _one_class(here):
    _spoil(here, "labels.csv", lambda rows: [row.update(ill="1") for row in rows])


def _straddling(here):
    _spoil(here, "labels.csv", lambda rows: rows[1].update(part="test"))


def _two_spellings(here):
    _spoil(here, "labels.csv", lambda rows: rows[1].update(patient="P0"))


def _outcome_with_a_slip(here):
    def change(rows):
        for row in rows:
            row.update(sick=int(int(row["sample"][1:]) % 4 < 2))
        rows[3].update(sick=1 - rows[3]["sick"])

    _spoil(here, "cells.csv", change)


def _outcome_of_sets_of_one_row(here):
    rows = [[f"s{n}", n * n / 7, n % 2, n // 2] for n in range(12)]
    write_csv(here / "cells.csv", ["sample", "CD3", "score", "patient"], rows)


def _unreadable(here):
    (here / "cells.parquet").write_bytes(b"PAR1 and nothing else")


def _used(here):
    (here / "out").mkdir()
    (here / "out" / "notes.txt").touch()


def _nothing(here):
    pass


SHELL = ["fit", "cells.csv", "--labels", "labels.csv", "--target", "ill", *SETTINGS]
BAD = {
    "no such target": (_nothing, [*FIT, "--target", "il"], 2, "--target il: there is no such column of sets. Is it 'ill'?"),
    "no such set id": (_nothing, [*SHELL, "--set-id", "sampel"], 2, "'sampel'"),
    "no set id": (_nothing, SHELL, 2, "Perhaps --set-id sample."),
    "no such feature": (_nothing, [*ILL, "--features", "CD3,CD8"], 2, "CD8"),
    "no such group": (_nothing, [*ILL, "--group", "clinic"], 2, "--group clinic: there is no such column"),
    "no such covariate": (_nothing, [*ILL, "--covariates", "ages"], 2, "--covariates ages: there is no such column of sets"),
    "an outcome with a slip": (_outcome_with_a_slip, ILL, 1, "as it is in nearly all sets, found 1 of 12 sets in which it"),
    "an outcome in both tables": (_outcome_of_sets_of_one_row, ILL, 1, "no features of the data, found score among them."),
    "a group in two spellings": (_two_spellings, ILL, 1, "the group patient has values that differ only by case or spaces"),
    "a group as covariate": (_nothing, [*ILL, "--covariates", "patient"], 2, "--covariates patient: by its name it identifies"),
    "a covariate twice": (_nothing, [*ILL, "--covariates", "age,age"], 2, "got age more than once. Name each of them once."),
    "no labels table": (_nothing, [*SHELL[:3], "lables.csv", *SHELL[4:], "--set-id", "sample"], 2, "lables.csv"),
    "all labels missing": (_no_labels, ILL, 1, "the target ill is missing for all 12 sets"),
    "one class": (_one_class, ILL, 1, "one class only, 1, in all 12 sets"),
    "text in a feature": (_text_in_a_feature, ILL, 1, "numbers in column 'CD3', found the text 'low' in row 4"),
    "a set twice in labels": (_labels_twice, ILL, 1, "more than one row for s2"),
    "NaN in elements": (_nan_in_a_feature, ILL, 1, "CD4"),
    "elements beyond float32": (_huge_feature, ILL, 1, "too large for float32 (largest about 3.4e38): 1 in feature 'CD4'"),
    "infinite targets": (_infinite_scores, SCORE, 1, "the target score is infinite in 2 of 12 sets (first in set 's3'): correct"),
    "infinite numbers": (_infinite_scores, [*SCORE, "--task", "regression"], 1, "the target score is infinite in 2 of 12 sets"),
    "targets beyond squares": (_huge_scores, SCORE, 1, "score is beyond 1e+150 in 12 of 12 sets (first 5e+299 in set 's0')"),
    "negative seed": (_nothing, [*ILL, "--seed", "-1"], 2, "--seed must be a whole number from 0 to 4294967295, got -1."),
    "too large a seed": (_nothing, [*ILL, "--seed", "4294967296"], 2, "--seed must be a whole number from 0 to 4294967295"),
    "a group on both sides": (_straddling, [*ILL, "--split", "part"], 1, "--split part: group p0 is in both train and test"),
    "no file": (_nothing, ["fit", "sells.csv", *SHELL[2:]], 2, "sells.csv: expected a file or folder of data"),
    "unreadable": (_unreadable, ["fit", "cells.parquet", *SHELL[2:], "--set-id", "sample"], 1, "cells.parquet"),
    "a folder in use": (_used, ILL, 2, "out holds other files"),
    "no such option": (_nothing, [*ILL, "--set", "depht=3"], 2, "--set depht=...: there is no such option"),
    "no such value": (_nothing, [*FIT[:-8], "--target", "ill", "--set", "learning_rate=-1"], 2, "learning_rate must be"),
    "no such model": (_nothing, [*ILL, "--model", "gpt"], 2, "--model must be one of deep_sets"),
    "a slip in a model": (_nothing, [*ILL, "--model", "deepsets++"], 2, "got 'deepsets++'. Did you mean 'deep_sets++'?"),
    "no such task": (_nothing, [*ILL, "--task", "rank"], 2, "--task must be auto, classification or regression"),
    "one fold": (_nothing, [*ILL, "--folds", "1"], 2, "--folds must be 2 or more"),
    "an option of FCS": (_nothing, [*ILL, "--cofactor", "150"], 2, "--cofactor is for FCS files; cells.csv is CSV"),
    "a switch of FCS": (_nothing, [*ILL, "--no-compensate"], 2, "--compensate is for FCS files; cells.csv is CSV: leave it out"),
    "a layer of CSV": (_nothing, [*ILL, "--layer", "raw"], 2, "--layer is for AnnData files"),
    "folds of a split": (_nothing, [*ILL, "--split", "part", "--folds", "3"], 2, "--split gives the folds: leave out --folds."),
    "the usual folds of a split": (_nothing, [*ILL, "--split", "part", "--folds", "5"], 2, "--split gives the folds"),
    "folds of no evaluation": (
        _nothing, [*ILL, "--no-evaluate", "--folds", "3", "--repeats", "1"], 2,
        "--no-evaluate means that nothing is cross-validated: leave out --folds, --repeats.",
    ),
    "a split of no evaluation": (_nothing, [*ILL, "--no-evaluate", "--split", "part"], 2, "cross-validated: leave out --split."),
    "a feature to ignore": (
        _nothing, [*ILL, "--features", "CD3,CD4", "--ignore", "CD4"], 2,
        "CD4 is named by --features and by --ignore as well: leave it out of one of them.",
    ),
    "a set id to ignore": (_nothing, [*ILL, "--ignore", "sample"], 2, "sample is named by --set-id and by --ignore as well"),
    "label id alone": (
        _nothing, ["fit", "cells.csv", "--set-id", "sample", "--target", "ill", "--label-id", "x"], 2, "--label-id is a column",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "arguments", "exit_code", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_clear_line_and_nothing_is_written(here, spoil, arguments, exit_code, says):
    spoil(here)
    before = sorted(here.rglob("*"))
    code, _, err = run(*arguments, "--out", "out")
    assert says in err
    assert (code, err.count("\n")) == (exit_code, 1)
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_that_nothing_can_be_written_is_said_before_files_are_read(here, command):
    before = sorted(here.rglob("*"))
    code, _, err = run(command, "no_such_file.csv", "--target", "ill", "--out", "cells.csv/deep/out")
    assert (code, err.count("\n")) == (2, 1)
    assert "nothing can be written to cells.csv/deep/out: cells.csv is a file. Choose another folder (--out)." in err
    assert sorted(here.rglob("*")) == before


def test_a_slip_in_an_option_is_said_before_files_are_read(here):
    code, _, err = run("fit", "no_such_file.csv", "--target", "ill", "--out", "out", "--set", "depht=3")
    assert "--set depht=...: there is no such option. Did you mean 'depth'?" in err
    assert (code, err.count("\n"), (here / "out").exists()) == (2, 1, False)


def _edit(bundle, name, change):
    path = bundle / name
    path.write_bytes(change(path.read_bytes()))


BUNDLES = {
    "one byte edited": ("member-0.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1]), 1, "a file that was changed since"),
    "newer": ("bundle.json", lambda b: b.replace(b'"version": 1', b'"version": 2'), 1, "version '2', written by orderless"),
    "a file missing": ("bundle.json", None, 1, "no such file"),
}


@pytest.mark.parametrize(("name", "change", "exit_code", "says"), BUNDLES.values(), ids=BUNDLES.keys())
def test_a_bundle_that_is_not_as_written_is_refused(base, here, name, change, exit_code, says):
    shutil.copytree(base / "done" / "bundle", here / "bundle")
    if change is None:
        (here / "bundle" / name).unlink()
    else:
        _edit(here / "bundle", name, change)
    code, out, err = run("predict", "bundle", "cells.csv", "--out", "p.csv")
    assert says in err
    assert (code, out, err.count("\n")) == (exit_code, "", 1)
    assert not (here / "p.csv").exists()


PREDICT = {
    "labels without covariates": (
        ["cells.csv", "--labels", "labels.csv", "--out", "p.csv"],
        "without any: leave it out, or name a column of outcomes in it with --target, to score the predictions.",
    ),
    "a feature to ignore": (
        ["cells.csv", "--ignore", "CD3", "--out", "p.csv"],
        "--ignore CD3: the model was fitted to it and reads it. Leave it out of --ignore.",
    ),
    "another suffix": (["cells.csv", "--out", "p.xlsx"], "--out must end in .csv or .parquet; got 'p.xlsx'"),
    "no folder": (["cells.csv", "--out", "nowhere/p.csv"], "nowhere, which is not a folder"),
    "a folder": (["cells.csv", "--out", "d.csv"], "d.csv is a folder"),
}


@pytest.mark.parametrize(("arguments", "says"), PREDICT.values(), ids=PREDICT.keys())
def test_what_cannot_be_predicted_is_said_in_one_line(base, here, arguments, says):
    (here / "d.csv").mkdir()
    before = sorted(here.rglob("*"))
    code, out, err = run("predict", base / "done", *arguments)
    assert says in err
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sorted(here.rglob("*")) == before


def test_a_table_without_a_feature_of_the_model_is_a_failure(base, here):
    write_cells(here, name="other.csv", header=("sample", "CD8", "CD4"))
    code, out, err = run("predict", base / "done", "other.csv", "--out", "p.csv")
    assert (code, out) == (1, "")
    assert err.endswith(
        "expected a column 'CD3' (the model was fitted to it), found columns sample, CD8, CD4. Did you mean 'CD8'?\n"
    )
    assert not (here / "p.csv").exists()


INPUTS = {
    "data": (["cells.csv", "--out", "cells.csv"], "--out cells.csv is a file that is read (DATA)"),
    "data by another path": (["cells.csv", "--out", "d/../cells.csv"], "is a file that is read (DATA)"),
    "data by a link": (["link.csv", "--out", "cells.csv"], "is a file that is read (DATA)"),
    "a link to data": (["cells.csv", "--out", "link.csv"], "is a file that is read (DATA)"),
    "a part of data": (["d", "--out", "d/part.csv"], "--out d/part.csv is a file that is read (DATA)"),
    "labels": (["cells.csv", "--labels", "labels.csv", "--out", "labels.csv"], "is a file that is read (--labels)"),
    "in the bundle": (["cells.csv", "--out", "done/bundle/p.csv"], "--out done/bundle/p.csv lies in the bundle done/bundle"),
    "in the bundle by a link": (["cells.csv", "--out", "way/p.csv"], "--out way/p.csv lies in the bundle done/bundle"),
}


@pytest.mark.parametrize(("arguments", "says"), INPUTS.values(), ids=INPUTS.keys())
def test_predictions_are_not_written_over_what_is_read(base, here, monkeypatch, arguments, says):
    shutil.copytree(base / "done", here / "done")
    (here / "d").mkdir()
    (here / "d" / "part.csv").write_bytes((here / "cells.csv").read_bytes())
    (here / "link.csv").symlink_to(here / "cells.csv")
    (here / "way").symlink_to(here / "done" / "bundle")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    monkeypatch.setattr("orderless.estimators.bundle.load_bundle", lambda _: pytest.fail("the bundle was read"))
    code, out, err = run("predict", "done", *arguments)
    assert says in err
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_older_predictions_are_replaced_also_beside_the_bundle(base, here):
    shutil.copytree(base / "done", here / "done")
    (here / "done" / "p.csv").write_text("older")
    assert run("predict", "done", "cells.csv", "--out", "done/p.csv")[0] == 0
    assert len(read_csv(here / "done" / "p.csv")) == 12


def test_two_fits_do_not_share_a_folder_at_the_same_time(here):
    with claim(here / "out") as mine:
        assert mine
        code, _, err = run(*ILL, *QUICKLY)
    assert code == 2
    assert "another process is working on the fit in out" in err


def test_a_stopped_fit_says_how_to_go_on(here, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.studies.fitting.cross_validate", stop)
    code, _, err = run(*ILL, "--out", "out")
    assert (code, err) == (130, "orderless: stopped. out keeps what is done; the same command continues from there.\n")
    for arguments in (["report", "out"], *(["predict", name, "cells.csv", "--out", "p.csv"] for name in ("out", "out/bundle"))):
        code, _, err = run(*arguments)
        assert (code, err.count("\n")) == (1, 1)
        assert "expected a fit that is finished, found one that was stopped. Run the same `orderless fit` command again" in err
        with claim(here / "out"):
            code, _, err = run(*arguments)
        assert (code, err.count("\n")) == (1, 1)
        assert "found one that another process is still working on. Wait for it." in err


def test_a_narrow_terminal_gets_fewer_columns_and_no_broken_lines(base, monkeypatch, capsys):
    found = read_evaluation(base / "done" / "evaluation.json")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "90")
    print_evaluation(found)
    table = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out.partition("Brackets")[0])  # bold is no character
    assert "accuracy" in table
    assert "gain over constant" not in table
    assert max(map(len, table.splitlines())) <= 90
    assert all(model.title.partition(":")[0] in table for model in found.models.values())


def test_invented_samples_are_files_as_fit_takes_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("data", "invent", "--out", "try")
    assert code == 0
    next_one = out.splitlines()[-1].split()[1:]
    code, out, err = run(*next_one, "--no-evaluate", *SETTINGS, "--device", "cpu")
    assert (code, without_times(err)) == (0, "")
    assert "40 sets of" in out
    assert "no: 20 sets, yes: 20 sets" in out
    code, _, err = run("data", "invent", "--out", "try")
    assert (code, err.count("\n")) == (2, 1)
    assert "cells.csv already exists" in err


def test_names_with_commas_are_taken_in_quotes():
    assert split_names('"age, years", site') == ["age, years", "site"]
    assert split_names("CD3 , 5 prime") == ["CD3", "5 prime"]
    for text in ("", "a,,b", 'a,""'):
        with pytest.raises(UsageError):
            split_names(text)


def test_messages_of_python_are_said_in_the_shells_words():
    said = "Perhaps set_id='donor'. Name them with features=, or leave it out with ignore=['x']. Name another id_column."
    assert (
        shell_words(said)
        == "Perhaps --set-id donor. Name them with --features, or leave it out with --ignore x. Name --label-id."
    )
    assert shell_words("Perhaps set_id='sample id'.") == 'Perhaps --set-id "sample id".'
    assert shell_words("if ignore=['a', 'b c'] leaves these out") == 'if --ignore "a,b c" leaves these out'
    assert shell_words("leave it out with ignore=['age, years', 'b'].") == """leave it out with --ignore '"age, years",b'."""
    assert shell_words("Perhaps set_id='donor, all'.") == 'Perhaps --set-id "donor, all".'
    assert shell_words("Read it without compensation: compensate=False.") == "Read it without compensation: --no-compensate."
    assert shell_words("Perhaps set_id='in $'.") == "Perhaps --set-id 'in $'."


def test_what_is_printed_to_be_typed_next_can_be_pasted(here):
    folder = here / "dä ta"
    folder.mkdir()
    code, out, _ = run(*ILL, "--no-evaluate", "--out", "dä ta/aus gabe")
    assert code == 0
    predict, report = (shlex.split(line) for line in out.splitlines()[-2:])
    assert predict[:3] == ["orderless", "predict", "dä ta/aus gabe/bundle"]
    assert report == ["orderless", "report", "dä ta/aus gabe"]
    assert run(*predict[1:3], "cells.csv", *predict[4:])[0] == 0
    assert run(*report[1:])[0] == 0
    _, out, _ = run("data", "invent", "--out", "dä ta/try")
    assert shlex.split(out.splitlines()[-1])[2] == "dä ta/try/cells.csv"


@pytest.mark.parametrize("verb", ["fit", "predict", "evaluate"])
def test_help_has_an_example(verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"Example: orderless {verb}" in out


def test_a_bundle_of_python_takes_its_features_from_a_table_whatever_else_they_look_like(tmp_path):
    rng = np.random.default_rng(0)
    fitted = SetRegressor(epochs=1, ensemble_size=1, random_state=0, device="cpu")
    fitted.fit([rng.normal(size=(5, 3)) for _ in range(8)], rng.normal(size=8))
    save_bundle(fitted, tmp_path / "bundle", features=["a", "b", "c"])
    rows = [[patient, number, 1.0, number % 3 / 2] for number, patient in enumerate("xxxxyyyy")]  # a counts rows, b is constant
    table = write_csv(tmp_path / "new.csv", ["patient", "a", "b", "c"], rows)
    code, _, err = run(
        "predict", tmp_path / "bundle", table, "--set-id", "patient", "--out", tmp_path / "p.csv", "--device", "cpu"
    )
    assert (code, err) == (0, "")
    assert [row["id"] for row in read_csv(tmp_path / "p.csv")] == ["x", "y"]


def test_json_of_an_evaluation_says_which_samples_may_be_there_under_two_names(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[f"{'pP'[n % 2]}{n // 2}", *rng.normal(size=2).round(4), "yn"[n // 2 % 2]] for n in range(12) for _ in range(4)]
    cells = write_csv(tmp_path / "cells.csv", ["sample", "a", "b", "ill"], rows)
    code, out, _ = run("evaluate", cells, "--set-id", "sample", "--target", "ill", "--baselines-only", "--folds", "2", "--json")
    assert code == 0
    found = json.loads(out)
    says = "6 samples may be there under two names: "
    assert any(line.startswith(f"Note: {says}") for line in found["described"])
    assert any(note.startswith(f"Possible leak: {says}") for note in found["notes"])


def test_json_of_an_evaluation_says_what_was_read_and_left_out(tmp_path):
    cells, labels = write_cells(tmp_path), write_labels(tmp_path)
    code, out, _ = run(
        "evaluate", cells, "--set-id", "sample", "--labels", labels, "--target", "ill", "--baselines-only", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert any(line.startswith("Note: labels.csv: joined by column 'sample'") for line in found["described"])
    assert found["verdict"] is None


def test_what_files_and_columns_are_called_is_not_taken_for_an_option(tmp_path):
    path = tmp_path / "set_id='q' data.csv"
    path.write_text("id_column,sample,x\n1,a,2\n2,b,3\n")
    with pytest.raises(UsageError) as caught, in_shell_words():
        open_samples(path, set_id="who", cache_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}: expected a column 'who' (--set-id), found columns id_column, sample, x")


def test_columns_that_were_ignored_in_training_are_ignored_in_predictions(here):
    for folder, columns in (("parts", ("CD3", "CD4", "donor", "age")), ("bare", ("CD3", "CD4"))):
        (here / folder).mkdir()
        by_sample = {}
        for n, row in enumerate(read_csv(here / "cells.csv")):
            more = {"donor": row["sample"], "age": n % 7}
            by_sample.setdefault(row["sample"], []).append([{**row, **more}[name] for name in columns])
        for name, rows in by_sample.items():
            write_csv(here / folder / f"{name}.csv", columns, rows)
    fit = ["fit", "parts", "--labels", "labels.csv", "--target", "ill", "--device", "cpu", *SETTINGS, *QUICKLY]
    code, out, err = run(*fit, "--ignore", "donor,age")
    assert (code, without_times(err)) == (0, "")
    assert "Features: 2: CD3, CD4" in out
    for folder in ("parts", "bare"):
        code, out, err = run("predict", "out", folder, "--out", f"{folder}.csv")
        assert (code, err) == (0, "")
    assert read_csv(here / "parts.csv") == read_csv(here / "bare.csv")
    code, out, err = run("predict", "out", "parts", "--set-id", "donor", "--out", "p.csv")
    assert (code, err) == (0, ""), "a column that is named now is not ignored"
    assert read_csv(here / "p.csv") == read_csv(here / "bare.csv")


def test_what_is_ignored_now_is_ignored_beside_what_was_ignored_in_training(here):
    before = {"kind": "CSV", "options": {"set_id": "sample", "features": ["CD3"], "ignore": ["CD4", "CD8"]}}
    assert reading_options({"ignore": "CD8,age"}, here / "cells.csv", before)["ignore"] == ["CD4", "CD8", "age"]
    assert reading_options({}, here / "cells.csv", before)["ignore"] == ["CD4", "CD8"]
    assert reading_options({"set_id": "CD4"}, here / "cells.csv", before)["ignore"] == ["CD8"]
    assert "ignore" not in reading_options({}, here / "cells.csv", {"kind": "CSV", "options": {"set_id": "sample"}})
