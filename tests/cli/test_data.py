"""`orderless data` and `orderless evaluate`, as typed in a shell (`data.py`, `evaluate.py`, `task_data.py`)."""

import json
import os
import re
import subprocess
import sys

import pytest
from publishers import write_mnist
from typer.testing import CliRunner

from orderless.cli.app import app
from orderless.tasks.registry import TASKS

SMALL = ["--train-sets", "60", "--test-sets", "30", "--set-size", "20"]


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_list_of_verbs_says_where_files_to_try_come_from():
    """Who has no files at hand looks for them there, and `data` seemed to be about the paper alone."""
    code, out, _ = run("--help")
    assert code == 0
    assert re.search(r"data\W+The paper's tasks.*invented\W+samples", out, re.S)


def test_list_shows_every_task_and_what_it_would_be_made_from():
    code, out, _ = run("data", "list")
    assert code == 0
    for name in TASKS:
        assert name in out
    assert "98,240 + 23,104" in out
    assert "shapes (simulated)" in out
    assert "digits (substituted)" in out


def test_list_as_json():
    code, out, _ = run("data", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["point_cloud"]["best_published"] == 0.8258
    assert rows["set_anomaly"]["sources"] == ["celeba", "cifar10", "digits"]
    assert rows["normal_var_100"]["best_published"] is None
    assert not rows["normal_var"]["prepared"]


def test_prepare_says_what_it_made_and_that_it_is_a_stand_in(tmp_path):
    code, out, err = run("data", "prepare", "hematocrit", *SMALL)
    assert code == 0
    assert out.startswith("Hematocrit (simulated: invented patients instead of Flow-RBC): 60 training and 30 test sets")
    assert "orderless data prepare hematocrit@flow_rbc" in err
    assert f"no files of Flow-RBC in {tmp_path / 'cache' / 'raw'}" in err
    assert (tmp_path / "cache" / "tasks" / "hematocrit@simulated-60+30x20-seed0" / "manifest.json").exists()


def test_a_stand_in_that_was_asked_for_does_not_deny_files_that_are_there(tmp_path):
    write_mnist(tmp_path / "mnist")
    _, _, err = run("data", "prepare", "mnist_var@digits", "--data-dir", str(tmp_path), "--train-sets", "5", "--test-sets", "5")
    assert f"there are files of MNIST in {tmp_path}" in err


def test_prepare_takes_several_tasks_and_speaks_json():
    code, out, _ = run("data", "prepare", "normal_var", "point_cloud", "--json", *SMALL)
    first, second = json.loads(out)
    assert code == 0
    assert first["name"] == "normal_var@exact"
    assert second["kind"] == "simulated"
    assert second["splits"]["train"] == {"sets": 60, "elements": 1200}
    assert second["key"]["seed"] == 0


def test_prepare_in_the_papers_size_is_listed_as_prepared(tmp_path):
    assert run("data", "prepare", "normal_var")[0] == 0
    rows = {row["name"]: row for row in json.loads(run("data", "list", "--json")[1])}
    assert rows["normal_var"]["prepared"]
    assert not rows["normal_var_100"]["prepared"]


def test_list_and_prepare_agree_on_what_is_at_hand(tmp_path):
    write_mnist(tmp_path / "mnist")
    run("data", "prepare", "mnist_count", "--data-dir", str(tmp_path))
    row = next(row for row in json.loads(run("data", "list", "--json")[1]) if row["name"] == "mnist_count")
    assert (row["source"], row["prepared"]) == ("mnist", True)  # no files now, but it was prepared from them
    assert run("data", "prepare", "mnist_count")[1].startswith("MNIST Count (MNIST")


def test_rebuild_prepares_again(tmp_path):
    run("data", "prepare", "normal_var", *SMALL)
    (file,) = (tmp_path / "cache").rglob("train.arrow")
    before = file.stat().st_mtime_ns
    run("data", "prepare", "normal_var", *SMALL)
    assert file.stat().st_mtime_ns == before
    run("data", "prepare", "normal_var", "--rebuild", *SMALL)
    assert file.stat().st_mtime_ns > before


def test_folders_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run("data", "prepare", "normal_var", "--cache-dir", "~/mine")
    rows = {row["name"]: row for row in json.loads(run("data", "list", "--json", "--cache-dir", "~/mine")[1])}
    assert rows["normal_var"]["prepared"]


def test_auto_is_a_source_too():
    assert run("data", "prepare", "normal_var@auto", *SMALL)[0] == 0


def test_a_slip_in_the_last_name_costs_nothing(tmp_path):
    code, _, err = run("data", "prepare", "normal_var", "normal_vra", *SMALL)
    assert code == 2
    assert "Did you mean 'normal_var'?" in err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("command", [["data", "list"], ["evaluate", "task:hematocrit", *SMALL]], ids=["list", "evaluate"])
def test_no_number_is_cut_on_a_narrow_terminal(command, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("orderless.cli.printing._WIDTH", width)
    code, out, _ = run(*command)
    assert code == 0
    assert "…" not in out
    table = out.split("\n\nFiles")[0]
    if command[0] == "evaluate":
        numbers = re.findall(r"\[\d+\.\d{4}, \d+\.\d{4}\]", table)
        assert len(numbers) == 6
    else:
        assert "98,240 + 23,104" in table


def test_show_draws_a_picture(tmp_path):
    out = tmp_path / "picture.png"
    code, said, _ = run("data", "show", "normal_var", "--out", str(out), *SMALL)
    assert code == 0
    assert str(out) in said
    assert out.read_bytes().startswith(b"\x89PNG")


WRONG = {
    "unknown task": (["data", "prepare", "normalvar"], "Did you mean 'normal_var'?"),
    "unknown source": (["data", "prepare", "mnist_var@celeba"], "comes from mnist, digits"),
    "empty source": (["data", "prepare", "mnist_var@"], "comes from mnist, digits"),
    "no sets": (["data", "prepare", "normal_var", "--train-sets", "0"], "--train-sets must be 1 or more"),
    "negative seed": (["data", "prepare", "normal_var", "--seed", "-1"], "orderless: --seed must be 0 or more, got -1."),
    "negative seed of files": (["data", "invent", "--seed", "-1"], "--seed must be a whole number from 0 to 4294967295, got -1."),
    "too small a set": (["data", "prepare", "set_anomaly", "--set-size", "2"], "--set-size must be 3 or more"),
    "no baseline": (["evaluate", "task:normal_var", "--baselines", ","], "constant, rdw, moments"),
    "not a png": (["data", "show", "normal_var", "--out", "x.jpg"], "ends in .png; got 'x.jpg'"),
    "no folder": (["data", "show", "normal_var", "--out", "/nowhere/x.png"], "there is no folder /nowhere. Make it first"),
    "not a task": (["evaluate", "normal_var"], "task:normal_var"),
    "unknown baseline": (["evaluate", "task:normal_var", "--baselines", "magic"], "constant, rdw, moments"),
    "no training sets": (["evaluate", "task:normal_var", "--max-train", "0"], "--max-train must be 1 or more"),
    "oracle of exact data": (["evaluate", "task:normal_var", "--baselines", "oracle", *SMALL], "oracle"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line_that_helps(arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_files_that_are_missing_are_a_failure_in_one_line():
    code, _, err = run("data", "prepare", "hematocrit@flow_rbc")
    assert code == 1
    assert err.startswith("orderless: ")
    assert "hematocrit.h5" in err
    assert "ORDERLESS_DATA" in err
    assert err.count("\n") == 1


def test_a_data_folder_that_is_not_there_is_wrong_usage(tmp_path):
    code, _, err = run("data", "prepare", "mnist_var", "--data-dir", str(tmp_path / "nowhere"))
    assert code == 2
    assert "--data-dir" in err


def test_evaluate_prints_every_baseline_with_its_interval():
    code, out, _ = run("evaluate", "task:hematocrit", *SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("Hematocrit (simulated")
    for title in ("Constant", "RDW", "Moments and quantiles, linear", "Moments and quantiles, boosted", "Kernel mean", "Oracle"):
        (line,) = [line for line in lines if line.startswith(title)]
        assert "[" in line
        assert "]" in line
    assert "on Flow-RBC, which these data are not" in lines[-1]


def test_evaluate_as_json_has_no_nan():
    code, out, _ = run("evaluate", "task:normal_var", "--json", *SMALL)
    said = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 0
    assert said["task"] == "normal_var@exact"
    rows = {row["name"]: row for row in said["results"]}
    assert rows["rdw"]["value"] is None
    assert "volume" in rows["rdw"]["skipped"]
    assert rows["moments"]["low"] <= rows["moments"]["value"] <= rows["moments"]["high"]


def test_evaluate_takes_some_baselines_on_fewer_sets():
    code, out, _ = run("evaluate", "task:normal_var", "--baselines", "constant,moments", "--max-train", "40", "--json", *SMALL)
    results = json.loads(out)["results"]
    assert code == 0
    assert [result["name"] for result in results] == ["constant", "moments"]
    assert {result["num_train"] for result in results} == {40}


def test_a_damaged_cache_is_told_in_one_line_and_repaired(tmp_path):
    command = [sys.executable, "-c", "from orderless.cli import main; main()", "data", "prepare", "normal_var", *SMALL]
    subprocess.run(command, check=True, capture_output=True, env=os.environ)
    (folder,) = (path for path in (tmp_path / "cache" / "tasks").iterdir() if path.is_dir())
    (folder / "train.arrow").write_bytes(b"rubbish")
    again = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    assert again.stderr.startswith("orderless: ")
    assert "prepared again" in again.stderr
    assert again.stderr.count("\n") == 1


def test_control_c_says_that_nothing_was_kept(monkeypatch, tmp_path):
    def interrupt(self, columns):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.io.store_writer._ArrowFile.write", interrupt)
    code, _, err = run("data", "prepare", "normal_var", *SMALL)
    assert code == 130
    assert err.startswith("orderless: stopped.")
    assert not [path for path in (tmp_path / "cache" / "tasks").iterdir() if path.is_dir()]


def test_every_verb_has_an_example():
    for verb in (["data", "list"], ["data", "prepare"], ["data", "show"], ["evaluate"]):
        code, out, _ = run(*verb, "--help")
        assert code == 0
        assert "Example: orderless" in out
