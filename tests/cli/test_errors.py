"""How verbs end, as typed in a shell (`errors.py`): what a full disk costs, and which exit code a fault has."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.lines import make_line, write_run
from studies.small import SETTINGS, write_cells, write_csv, write_labels
from typer.testing import CliRunner

from orderless.cli.app import app
from orderless.estimators import SetRegressor, save_bundle
from orderless.experiments.paper import write_page


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    rng = np.random.default_rng(0)
    fitted = SetRegressor(epochs=1, ensemble_size=1, depth=2, width=8, random_state=0, device="cpu")
    fitted.fit([rng.normal(size=(5, 2)) for _ in range(8)], rng.normal(size=8))
    folder = tmp_path_factory.mktemp("fitted") / "bundle"
    save_bundle(fitted, folder, features=["a", "b"])
    return folder


def write_new(folder):
    rows = [[patient, number % 3 / 2, number % 5] for number, patient in enumerate("xxxxyyyy")]
    return write_csv(folder / "new.csv", ["patient", "a", "b"], rows)


def fill_disk(monkeypatch, folder):
    """From now on nothing new gets a name in the folder or below."""
    replace = Path.replace

    def fail(self, target):
        if Path(target).resolve().is_relative_to(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)


WRITES = {
    "report": (["report", "run", "--no-baselines", "--out", "out.html"], "out.html"),
    "predict": (["predict", "BUNDLE", "new.csv", "--set-id", "patient", "--device", "cpu", "--out", "out.csv"], "out.csv"),
    "predict to Parquet": (
        ["predict", "BUNDLE", "new.csv", "--set-id", "patient", "--device", "cpu", "--out", "o.parquet"],
        "o.parquet",
    ),
    "table": (["table", "norms", "--no-run"], "results/tables/norms.md"),
    "figure": (["figure", "layer-norm-2d"], "results/figures/layer_norm_2d.png"),
    "diagnose": (
        ["diagnose", "deep_sets", "--set", "depth=2", "--set", "width=8", "--set", "set_size=5", "--out", "o.png"],
        "o.png",
    ),
}


@pytest.mark.parametrize(("arguments", "file"), WRITES.values(), ids=WRITES.keys())
def test_a_full_disk_is_one_line_and_loses_nothing(arguments, file, bundle, tmp_path, monkeypatch):
    write_run(tmp_path / "run", make_line())
    write_new(tmp_path)
    path = tmp_path / file
    arguments = [bundle if word == "BUNDLE" else word for word in arguments]
    assert run(*arguments)[0] == 0  # so that what is read is kept already
    path.write_text("of before")
    fill_disk(monkeypatch, tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err == (
        f"orderless: {file} could not be written: No space left on device. Free some space, or write it elsewhere. "
        "What was there before is kept.\n"
    )
    assert path.read_text() == "of before"
    assert not list(path.parent.glob(f".{path.name}.*"))


def test_the_page_on_the_paper_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    page = tmp_path / "README.md"
    page.write_text("of before")
    fill_disk(monkeypatch, tmp_path)
    with pytest.raises(OSError, match="No space left on device"):
        write_page(page, [], [])
    assert page.read_text() == "of before"


def test_an_evaluation_is_told_before_it_is_written(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [[f"s{n}", *rng.normal(size=2).round(3), n % 3 + 0.25 * n] for n in range(12) for _ in range(3)]
    write_csv(tmp_path / "cells.csv", ["sample", "a", "b", "y"], rows)
    asked = ["evaluate", "cells.csv", "--set-id", "sample", "--target", "y", "--baselines-only", "--folds", "2"]
    assert run(*asked)[0] == 0
    fill_disk(monkeypatch, tmp_path)
    code, out, err = run(*asked, "--out", "ev")
    assert code == 1
    assert "Constant" in out
    assert "could not be written: No space left on device" in err


def test_a_closed_output_is_in_nobodys_way():
    command = f"{Path(sys.executable).with_name('orderless')} data list >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is always full here")
def test_a_full_disk_behind_the_output_is_one_line():
    command = f"{Path(sys.executable).with_name('orderless')} --version > /dev/full"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "orderless: the disk is full. Free some space, and run the same command again.\n"


def test_a_full_disk_elsewhere_is_told_in_the_same_words(monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results/tables")

    monkeypatch.setattr("orderless.cli.table.write_table", fail)
    code, _, err = run("table", "norms", "--no-run")
    assert code == 1
    assert err.startswith("orderless: the disk is full. results/tables could not be written. Free some space, and run the same")
    assert err.count("\n") == 1


# -------------------------------------------------------------------------------------------- whose fault it is

SAMPLES = ["--set-id", "sample", "--labels", "labels.csv", "--target", "ill", "--baselines-only"]
NAMED_WRONGLY = {
    "no data": (["evaluate", "nowhere.csv", *SAMPLES], "nowhere.csv: expected a file or folder of data, found no such file"),
    "data of another kind": (["evaluate", "notes.xlsx", *SAMPLES], "found the suffix '.xlsx'"),
    "no labels": (
        ["evaluate", "cells.csv", "--set-id", "sample", "--labels", "no.csv", "--target", "ill"],
        "no.csv: expected a table",
    ),
    "no such column": (["evaluate", "cells.csv", *SAMPLES[:-3], "--target", "il"], "--target il: there is no such column"),
    "no such set id": (["evaluate", "cells.csv", "--set-id", "x", *SAMPLES[2:]], "expected a column 'x' (--set-id)"),
    "no set id": (["evaluate", "cells.csv", *SAMPLES[2:]], "expected --set-id to name the column"),
    "no such feature": (["evaluate", "cells.csv", *SAMPLES, "--features", "CD8"], "expected a column 'CD8' (--features)"),
    "no such label id": (["evaluate", "cells.csv", *SAMPLES, "--label-id", "x"], "expected a column 'x' (--label-id)"),
    "a task that does not fit": (
        ["evaluate", "cells.csv", *SAMPLES[:-3], "--target", "site", "--task", "regression", "--baselines-only"],
        "--task regression needs numbers, but site holds words",
    ),
    "no bundle": (["predict", "nowhere", "cells.csv", "--out", "p.csv"], "nowhere: expected a bundle"),
    "no folder of publishers": (
        ["train", "hematocrit", "--data-dir", "nowhere"],
        "nowhere: expected a folder with publishers' files",
    ),
    "no results": (["table", "norms", "--no-run", "--results", "no.jsonl"], "no.jsonl: expected a file of result lines"),
    "no recipe": (["table", "no.toml"], "there is no recipe file no.toml"),
    "no network": (["diagnose", "no.safetensors", "--task", "normal_var"], "no model file at no.safetensors"),
    "no measurements": (["bench", "show", "no.jsonl"], "there is no file no.jsonl"),
}


@pytest.fixture
def samples(tmp_path):
    write_cells(tmp_path)
    write_labels(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "says"), NAMED_WRONGLY.values(), ids=NAMED_WRONGLY.keys())
def test_what_is_named_wrongly_is_wrong_usage(samples, arguments, says):
    (samples / "notes.xlsx").touch()
    code, _, err = run(*arguments)
    assert says in err
    assert (code, err.count("\n")) == (2, 1)


def _labels(folder, **columns):
    write_labels(folder, **columns)


def _cells(folder, text):
    (folder / "cells.csv").write_text(f"sample,CD3,CD4\n{text}\n")


def _put_a_word(folder):
    lines = (folder / "cells.csv").read_text().splitlines()
    (folder / "cells.csv").write_text("\n".join([*lines, "s0,low,1"]))


def _write(folder, name, content):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)


CELLS = ["evaluate", "cells.csv", *SAMPLES]
SPOILT = {
    "an empty table": (lambda folder: _write(folder, "cells.csv", ""), CELLS, "cells.csv: expected"),
    "a damaged table": (
        lambda folder: _write(folder, "cells.parquet", "PAR1"),
        ["evaluate", "cells.parquet", *SAMPLES],
        "cells.parquet: expected",
    ),
    "a table without rows": (lambda folder: _write(folder, "cells.csv", "sample,CD3\n"), CELLS, "a table with rows, found none"),
    "a word among numbers": (_put_a_word, CELLS, "leave the column out with --ignore CD3"),
    "a number that is missing": (lambda folder: _cells(folder, "s0,1,2\ns0,,3\ns1,2,3\ns1,1,4"), CELLS, "--missing drop"),
    "labels of other sets": (lambda folder: _labels(folder, sample=[f"x{n}" for n in range(12)]), CELLS, "names of sets"),
    "a class alone": (lambda folder: _labels(folder, ill=[1] * 12), CELLS, "the target ill has one class only"),
    "a target with a slip": (
        lambda folder: _labels(folder, ill=[*range(11), "high"]),
        CELLS,
        "the target ill is a number in 11 of 12 sets, and a word in 1",
    ),
    "a group that is not known": (
        lambda folder: _labels(folder, patient=["", *"aabbccddeef"]),
        [*CELLS, "--group", "patient"],
        "is not known for 1 of 12 sets",
    ),
    "a covariate with gaps": (
        lambda folder: _labels(folder, age=["", *range(11)]),
        [*CELLS, "--covariates", "age"],
        "age is not known for 1 of 12 sets",
    ),
    "a split of one part": (
        lambda folder: _labels(folder, part=["train"] * 12),
        [*CELLS, "--split", "part"],
        "--split part: a split",
    ),
    "a damaged bundle": (
        lambda folder: _write(folder, "b/bundle.json", "{"),
        ["predict", "b", "cells.csv", "--out", "p.csv"],
        "bundle.json: expected",
    ),
    "damaged results": (
        lambda folder: _write(folder, "r.jsonl", "{\n"),
        ["table", "norms", "--no-run", "--results", "r.jsonl"],
        "r.jsonl, line 1",
    ),
    "a recipe with a slip": (
        lambda folder: _write(folder, "r.toml", 'titel = "x"\n'),
        ["table", "r.toml"],
        "r.toml: there is no key 'titel'. Did you mean 'title'?",
    ),
    "a recipe that is no TOML": (lambda folder: _write(folder, "r.toml", "["), ["figure", "r.toml"], "r.toml: this is not TOML"),
    "a drawing that is not there": (
        lambda folder: _write(folder, "r.toml", 'name = "r"\nkind = "figure"\ntitle = "x"\ndrawing = "pie"\n'),
        ["figure", "r.toml"],
        "r.toml: there is no drawing 'pie'",
    ),
    "a damaged network": (
        lambda folder: _write(folder, "m.safetensors", "{"),
        ["diagnose", "m.safetensors", "--task", "normal_var"],
        "m.safetensors is",
    ),
    "a damaged history": (
        lambda folder: _write(folder, "run/history.json", "{"),
        ["diagnose", "run"],
        "run/history.json is damaged",
    ),
    "a damaged run": (
        lambda folder: _write(folder, "run/config.json", "{"),
        ["train", "normal_var", "--set", "num_train=8", "--set", "num_test=4", "--set", "set_size=4", "--out", "run"],
        "run/config.json: expected a run as this version writes it",
    ),
    "damaged measurements": (lambda folder: _write(folder, "m.jsonl", "{}\n"), ["bench", "show", "m.jsonl"], "m.jsonl"),
}


@pytest.mark.parametrize(("spoil", "arguments", "says"), SPOILT.values(), ids=SPOILT.keys())
def test_a_fault_inside_a_file_is_a_failure(samples, spoil, arguments, says):
    spoil(samples)
    code, _, err = run(*arguments)
    assert says in err
    assert (code, err.count("\n")) == (1, 1)


def test_covariates_are_asked_for_where_no_table_was_given_and_missed_where_one_was(samples):
    fit = ["fit", "cells.csv", "--set-id", "sample", "--labels", "labels.csv", "--target", "score", "--covariates", "age"]
    assert run(*fit, "--no-evaluate", "--device", "cpu", *SETTINGS, "--out", "out")[0] == 0
    predict = ["predict", "out", "cells.csv", "--device", "cpu", "--out", "p.csv"]
    code, _, err = run(*predict)
    assert (code, "Give --labels FILE with a column 'age'" in err) == (2, True)
    write_csv(samples / "other.csv", ["sample", "weight"], [[f"s{n}", n] for n in range(12)])
    code, _, err = run(*predict, "--labels", "other.csv")
    assert (code, "the model was fitted with the covariate 'age', but known per set is 'weight'" in err) == (1, True)
