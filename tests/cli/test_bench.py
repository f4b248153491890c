"""`orderless bench`, as typed in a shell (`bench.py`)."""

import json

import pytest
import torch
from experiments.measured import make_row, write_rows
from typer.testing import CliRunner

from orderless.cli import bench
from orderless.cli.app import app
from orderless.ops import backend


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch, tmp_path):
    for variable in (backend.VARIABLE, "TRITON_INTERPRET"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_env_says_which_backend_computes_and_why():
    code, out, err = run("env", "--device", "cpu")
    assert (code, err) == (0, "")
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert lines["backend"].strip() == "reference: elements are on cpu, kernels run on cuda"
    assert lines["torch"].strip().startswith(torch.__version__)
    assert lines["ORDERLESS_BACKEND"].strip() == "not set"


def test_env_is_readable_by_machines(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "reference")
    code, out, _ = run("env", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["backend"], found["reason"]) == ("reference", "ORDERLESS_BACKEND=reference")
    assert found["ORDERLESS_BACKEND"] == "reference"
    assert found["kernels_launched"] is None  # there is no GPU


@pytest.mark.parametrize(
    ("variable", "arguments", "says"),
    [
        ("fast", [], "ORDERLESS_BACKEND must be reference or triton, or not set; got 'fast'."),
        ("triton", ["--device", "cpu"], "Unset it to let orderless choose."),
        (None, ["--device", "gpu"], "--device must be cpu or cuda; got 'gpu'."),
    ],
)
def test_env_tells_wrong_usage_in_one_line(monkeypatch, variable, arguments, says):
    if variable:
        monkeypatch.setenv(backend.VARIABLE, variable)
    code, out, err = run("env", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("orderless: ")
    assert err.endswith(f"{says}\n")
    assert err.count("\n") == 1


def test_a_gpu_that_is_not_there_is_wrong_usage():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert run("env", "--device", "cuda")[0] == 2


def test_run_hands_everything_to_the_script():
    code, _, _ = run("run", "--device", "cpu", "--only", "set_norm", "--list")
    assert code == 0
    assert run("run", "--only", "no such case", "--device", "cpu")[0] == 2


def test_run_needs_the_repository(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "_SCRIPT", tmp_path / "run.py")
    code, _, err = run("run")
    assert code == 2
    assert err == (
        "orderless: the bench is part of the repository, not of the installed package. Clone it, and install it from there.\n"
    )


def test_show_prints_the_table_of_goals(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [make_row(p50_ms=2.5), make_row(contender="released", p50_ms=50.0)])
    code, out, err = run("show", rows)
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("| Deep Sets++ 50, training step"))
    assert [cell.strip() for cell in line.split("|")[2:-1]] == [
        *("50.0 ms", "-", "**2.50 ms**", "≤ 3 ms", "1.5 ms", "20.0 \N{MULTIPLICATION SIGN}", "", "yes"),
    ]


def test_show_writes_tables_and_plots(tmp_path):
    sweep = [make_row(case=f"d{depth}", group="depth", depth=depth, p50_ms=depth / 10) for depth in (10, 50)]
    rows = write_rows(tmp_path / "rows.jsonl", [make_row(), *sweep])
    code, out, _ = run("show", rows, "--out", "plots")
    assert code == 0
    assert {path.name for path in (tmp_path / "plots").iterdir()} >= {"bench.md", "bench_depth.png", "bench_memory.png"}
    assert out.splitlines()[0] == "plots/bench.md"
    assert "## Time by layers" in (tmp_path / "plots" / "bench.md").read_text()


def test_show_is_readable_by_machines(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", [make_row(p50_ms=4.0)])
    found = json.loads(run("show", rows, "--json")[1])
    assert found["files"] == []
    assert found["goals"][0]["title"] == "Deep Sets++ 50, training step"
    assert found["goals"][0]["reached"] is False


@pytest.mark.parametrize("content", [None, "", "no rows\nat all\n", '{"op": "loading"}\n', '{"case": "x"}\n'])
def test_a_file_that_is_none_is_told_of_in_one_line(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_text(content)
    code, out, err = run("show", path)
    assert (code, out) == (2 if content is None else 1, "")
    assert str(path) in err
    assert err.count("\n") == 1
