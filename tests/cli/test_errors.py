"""How verbs end, as typed in a shell (`errors.py`): what a full disk costs, and which exit code a fault has."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from experiments.lines import make_line, write_run
from studies.small import write_csv
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


def test_a_full_disk_elsewhere_is_told_in_the_same_words(monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results/tables")

    monkeypatch.setattr("orderless.cli.table.write_table", fail)
    code, _, err = run("table", "norms", "--no-run")
    assert code == 1
    assert err.startswith("orderless: the disk is full. results/tables could not be written. Free some space, and run the same")
    assert err.count("\n") == 1
