"""`orderless figure`, as typed in a shell (`figure.py`)."""

import csv
import json

import pytest
from experiments.lines import make_line
from typer.testing import CliRunner

from orderless.cli.app import app
from orderless.experiments.grid import expand
from orderless.experiments.recipe import load_recipe
from orderless.experiments.runner import Event

SMALL = """
name = "small"
kind = "figure"
title = "Two small networks"
drawing = "gradients"
seeds = [0, 1]
[fixed]
task = "normal_var"
num_train = 48
num_test = 16
set_size = 8
batch_size = 16
epochs = 2
width = 8
[[grid]]
model = "deep_sets"
depth = [3, 5]
[quick]
epochs = 1
seeds = [0]
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, ["figure", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def write_lines(path, runs):
    lines = []
    for spec in runs:
        kept = ("epochs", "seed", "batch_size")
        train = {name: getattr(spec.train, name) for name in kept}
        lines.append(make_line(spec.task, spec.model, {**spec.model_options, **spec.data_options, **train}))
    assert [line["key"] for line in lines] == [spec.key for spec in runs]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_missing_is_run_once_and_drawn(small, tmp_path):
    code, out, err = run(small, "--quick", "--device", "cpu")
    assert code == 0, err
    assert "2 of 2 runs are in it" in out
    reduced = "reduced: 48 of 10,000 training sets, 16 of 1,000 test sets, 8 of 1,000 elements, 1 of 50 epochs, 1 of 2 seeds"
    assert f"{reduced}. Such figures say nothing about the published ones." in out
    folder = tmp_path / "results"
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["small.csv", "small.pdf", "small.png"]
    kept = (folder / "results.jsonl").read_text()
    assert len(kept.splitlines()) == 2
    losses = {line["key"]: line["steps"]["loss"] for line in map(json.loads, kept.splitlines())}
    shown = [row for row in rows_of(folder / "figures" / "small.csv") if row["panel"] == "Deep Sets: training loss"]
    assert len(shown) == sum(map(len, losses.values()))
    assert {row["curve"] for row in shown} == {"Deep Sets 3", "Deep Sets 5"}
    (folder / "figures" / "small.png").unlink()
    code, out, err = run(small, "--quick", "--device", "cpu")
    assert code == 0
    assert (folder / "results.jsonl").read_text() == kept  # nothing was done again
    assert (folder / "figures" / "small.png").exists()


def test_results_that_are_there_are_drawn_without_running(small, tmp_path):
    plan = expand(load_recipe(small))
    results = write_lines(tmp_path / "mine.jsonl", plan.runs[:3])
    code, out, _ = run(small, "--no-run", "--results", results, "--out", tmp_path / "elsewhere", "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["name"], said["runs"], said["missing"], said["failed"]) == ("small", 4, [plan.runs[3].key], {})
    assert set(said["files"]) == {"png", "pdf", "csv"}
    counts = {
        row["curve"]: row["runs"] for row in rows_of(tmp_path / "elsewhere" / "figures" / "small.csv") if row["unit"] == "step"
    }
    assert counts == {"Deep Sets 3": "2", "Deep Sets 5": "1"}


def test_only_and_seeds_choose_runs(small, tmp_path):
    _, out, _ = run(small, "--no-run", "--only", "depth=5", "--seeds", "3", "--json")
    (key,) = json.loads(out)["missing"]
    assert key == expand(load_recipe(small), seeds=[3], only={"depth": ["5"]}).runs[0].key


def test_a_dry_run_lists_runs_and_writes_nothing(small, tmp_path):
    code, out, _ = run(small, "--dry-run")
    assert code == 0
    assert "0 of 4 runs are done." in out
    assert not (tmp_path / "results").exists()


def test_a_figure_without_runs_is_drawn_at_once_under_either_spelling(tmp_path):
    code, out, err = run("residual-arrangements")
    assert code == 0, err
    assert "residual_arrangements.png" in out
    code, out, _ = run("residual_arrangements", "--dry-run")
    assert (code, out) == (0, "residual_arrangements shows no runs: there is nothing to be done before it is drawn.\n")
    assert run("residual_arrangements", "--dry-run", "--json")[1] == "[]\n"
    assert not (tmp_path / "results" / "results.jsonl").exists()


def test_options_reach_the_drawing(tmp_path):
    code, out, _ = run("rbc-distribution", "--option", "num_patients=1", "--json")
    assert code == 0
    assert len({row["patient"] for row in rows_of(tmp_path / json.loads(out)["files"]["csv"])}) == 1
    first = (tmp_path / "results" / "figures" / "rbc_distribution.csv").read_bytes()
    run("rbc-distribution", "--option", "num_patients=2")
    assert (tmp_path / "results" / "figures" / "rbc_distribution.csv").read_bytes() != first


def test_without_a_name_recipes_are_listed():
    code, out, _ = run()
    assert code == 0
    assert "gradients" in out
    assert "`orderless figure NAME` a figure" in out


def test_a_run_that_fails_is_told_and_the_rest_is_drawn(small, monkeypatch):
    monkeypatch.setattr(
        "orderless.experiments.runner._Attempt.__call__", lambda self, spec, tell: Event("failed", spec, message="no luck")
    )
    code, out, err = run(small, "--device", "cpu")
    assert code == 1
    assert "0 of 4 runs are in it" in out
    assert err.count("failed: no luck") == 4


def test_control_c_says_what_is_kept_and_draws_nothing(small, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.cli.runs.run_missing", interrupt)
    code, _, err = run(small, "--device", "cpu")
    assert code == 130
    assert "0 of 4 runs are done" in err
    assert not (tmp_path / "results" / "figures").exists()


WRONG = {
    "unknown recipe": (["gradient"], "Did you mean 'gradients'?"),
    "a table": (["layer_norm"], "layer_norm is a table: `orderless table layer_norm` makes it"),
    "the whole paper": (["paper"], "`orderless table paper` makes all of them"),
    "no such file": (["nowhere/my.toml"], "there is no recipe file"),
    "unknown axis": (["gradients", "--only", "width=3"], "gradients has no axis 'width'"),
    "unknown value": (["gradients", "--only", "depth=4"], "has no depth '4'"),
    "unknown option": (["residual-arrangements", "--option", "ordre=paper"], "Did you mean 'order'?"),
    "wrong option": (["residual-arrangements", "--option", "order=reversed"], "order must be one of released, paper"),
    "wrong arrangement": (["residual-arrangements", "--option", "panels=clean"], "there is no arrangement 'clean'"),
    "no option": (["gradients", "--option", "panels=loss", "--no-run"], "It takes none"),
    "option without value": (["gradients", "--option", "panels"], "expected key=value"),
    "wrong panels": (["freq-add-curves", "--option", "panels=mse"], "panels must be a list of train_loss"),
    "seeds of no runs": (["residual-arrangements", "--seeds", "1"], "shows no runs: leave out --seeds."),
    "a quick figure of no runs": (["residual-arrangements", "--quick"], "shows no runs: leave out --quick."),
    "runs of no runs": (
        ["rbc-distribution", "--device", "cpu", "--jobs", "2", "--results", "x.jsonl", "--compile", "--cuda-graphs"],
        "rbc_distribution shows no runs: leave out --device, --jobs, --results, --compile, --cuda-graphs.",
    ),
    "data of no data": (["layer-norm-2d", "--data-dir", "."], "layer_norm_2d shows no data: leave out --data-dir."),
    "options of a list": (["--option", "order=paper"], "without a NAME recipes are listed: leave out --option."),
    "wrong seeds": (["gradients", "--seeds", "one"], "--seeds takes whole numbers"),
    "no jobs": (["gradients", "--jobs", "0"], "--jobs must be 1 or more"),
    "no such device": (["gradients", "--device", "tpu"], "tpu"),
    "out is a file": (["gradients", "--no-run", "--out", "small.toml"], "--out"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line_that_helps(arguments, says, small, tmp_path):
    code, out, err = run(*arguments)
    assert code == 2, err
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "results" / "figures").exists()


def test_help_has_an_example():
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: orderless figure" in out
