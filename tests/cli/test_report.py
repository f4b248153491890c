"""`orderless report`, as typed in a shell (`report.py`)."""

import json
import re

import pytest
from experiments.lines import make_line, write_results, write_run
from typer.testing import CliRunner

from orderless.cli.app import app

TINY = {"num_train": 64, "num_test": 32, "set_size": 20, "epochs": 2, "width": 8, "depth": 4, "batch_size": 16}


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLESS_DATA", raising=False)
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_real_run_makes_a_page(tmp_path):
    settings = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    code, _, err = run("train", "normal_var", *settings, "--out", "here", "--device", "cpu")
    assert (code, err) == (0, "")
    code, out, err = run("report", "here")
    assert (code, err) == (0, "")
    assert out == "report.html: a report on 1 run. Any browser opens it.\n"
    page = (tmp_path / "report.html").read_text()
    result = json.loads((tmp_path / "here" / "result.json").read_text())
    assert "Deep Sets++ with 4 layers (set norm, clean path) reached a test MSE of" in page
    assert f"{result['metrics']['mse']:.0f}" in page
    assert result["commit"] is None or result["commit"] in page
    assert "data:image/png;base64," in page
    for part in ("Results", "Curves", "Gradients", "The sets", "Settings", "Do it again"):
        assert f"<h3>{part}</h3>" in page
    command = re.search(r"<pre><code>(.*?)</code></pre>", page)[1]
    assert re.sub("<.*?>", "", command).startswith(
        "orderless train normal_var@exact --model deep_sets++ --set depth=4 --set width=8 --set "
    )
    kept = json.loads((tmp_path / "here" / "baselines.json").read_text())
    assert kept["effort"] == "auto"


def test_several_runs_go_on_one_page(tmp_path):
    folders = [write_run(tmp_path / str(depth), make_line(options={"depth": depth, "set_size": 20})) for depth in (3, 50)]
    code, out, _ = run("report", *folders, "--no-baselines", "--out", "both.html", "--title", "Two <depths>")
    assert (code, out) == (0, "both.html: a report on 2 runs. Any browser opens it.\n")
    page = (tmp_path / "both.html").read_text()
    assert "<h1>Two &lt;depths&gt;</h1>" in page
    assert "Simple models" not in page
    assert not (folders[0] / "baselines.json").exists()


def test_a_results_folder_gives_all_its_runs(tmp_path):
    small = {"num_train": 40, "num_test": 20, "set_size": 10}
    write_results(tmp_path / "results", [make_line(options={**small, "depth": depth}) for depth in (3, 25, 50)])
    code, out, _ = run("report", "results", "--baselines")
    assert code == 0
    assert "3 runs" in out
    kept = [json.loads(path.read_text())["effort"] for path in (tmp_path / "results").glob("runs/*/baselines.json")]
    assert kept == ["all"] * 3, "each folder can be reported on alone without fitting again"


WRONG = {
    "unknown folder": (["nowhere"], "there is no folder nowhere."),
    "no run": (
        ["empty"],
        "empty is neither a fit nor a run: expected fit.json of `orderless fit`, config.json of `orderless train`, or results",
    ),
    "an evaluation": (
        ["evaluated"],
        "evaluated is from `orderless evaluate`, but a report is about a fit or about runs. Its pictures/ show the evaluation",
    ),
    "one of two": (["good", "nowhere"], "there is no folder nowhere."),
    "out is a folder": (["good", "--out", "empty"], "--out must name a file"),
    "out is the run's own": (["good", "--out", "good/result.json"], "--out must end in .html or .htm; got 'result.json'."),
    "out without a suffix": (["good", "--out", "page"], "--out must end in .html or .htm; got 'page'."),
    "out in no folder": (["good", "--out", "nowhere/page.html"], "nowhere, which is not a folder"),
    "out where nothing may be written": (["good", "--out", "/proc/page.html"], "nothing can be written to /proc"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line_that_helps(tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "evaluated").mkdir()
    (tmp_path / "evaluated" / "evaluation.json").write_text("{}")
    before = (write_run(tmp_path / "good", make_line()) / "result.json").read_bytes()
    code, out, err = run("report", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert (tmp_path / "good" / "result.json").read_bytes() == before


@pytest.mark.parametrize("content", ["{", '{"format": "another"}'], ids=["truncated", "of another program"])
def test_a_damaged_record_of_a_fit_is_not_taken_for_a_missing_run(tmp_path, content):
    (tmp_path / "fit.json").write_text(content)
    code, out, err = run("report", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"orderless: {tmp_path / 'fit.json'}: expected ")
    assert err.count("\n") == 1


def test_a_damaged_run_is_a_failure_in_one_line(tmp_path):
    folder = write_run(tmp_path / "run", make_line())
    (folder / "result.json").write_text("{")
    code, out, err = run("report", folder)
    assert (code, out) == (1, "")
    assert err.startswith(f"orderless: {folder / 'result.json'}: expected JSON")
    assert err.count("\n") == 1


def test_help_has_an_example():
    code, out, _ = run("report", "--help")
    assert code == 0
    assert "Example: orderless report" in out
