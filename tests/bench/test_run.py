"""The bench as it is called (`bench/run.py`, `bench/measure.py`)."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cases
import contenders
import measure
import pytest
import run
import torch
from contenders import CONTENDERS

from orderless.ops import backend

ROOT = Path(__file__).parents[2]
FIELDS = {
    *("run", "time", "case", "group", "network", "direction", "num_sets", "num_elements", "largest_set", "in_features", "depth"),
    *("width", "contender", "code", "dtype", "graph", "compiled", "backend", "used", "fused", "expects_fused", "obstacle"),
    "repeats",
    *("p20_ms", "p50_ms", "p80_ms", "least_bytes", "least_ms", "copy_gb_per_s", "of_copy_bandwidth"),
    *("device", "cpus", "torch", "triton", "orderless", "git_rev", "load"),
}


def options(*arguments, device="cpu", out="unused.jsonl"):
    return run.parse(["--device", device, "--out", str(out), *arguments])


def keys(jobs):
    return [job.key for job in jobs]


def fake_row(case="a", contender="orderless", **fields):
    code = CONTENDERS[contender].code
    plain = {"case": case, "contender": contender, "code": code, "expects_fused": code == "orderless", "fused": True, "used": {}}
    return {**plain, **fields}


def test_it_measures_and_writes_a_row_for_each_contender(tmp_path):
    out = tmp_path / "rows.jsonl"
    command = [sys.executable, ROOT / "bench" / "run.py", "--device", "cpu", "--only", "set_norm", "--repeats", "3"]
    done = subprocess.run(
        [*command, "--skip-tests", "--run", "mine", "--git-rev", "abc", "--out", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["contender"] for row in rows] == ["orderless", "released", "plain"]
    for row in rows:
        assert row.keys() >= FIELDS
        assert (row["run"], row["git_rev"], row["repeats"]) == ("mine", "abc", 3)
        assert 0 < row["p20_ms"] <= row["p50_ms"] <= row["p80_ms"]
        assert row["of_copy_bandwidth"] == pytest.approx(row["least_ms"] / row["p50_ms"])
    assert rows[0]["times_faster_than"].keys() == {"released", "plain"}


def test_red_tests_stop_it(monkeypatch, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    monkeypatch.setattr(sys, "argv", ["run.py", "--device", "cpu", "--out", str(out)])
    monkeypatch.setattr(run, "tests_are_green", lambda: False)
    assert run.main() == 1
    assert not out.exists()
    assert "nothing measured" in capsys.readouterr().err


def test_the_tests_that_run_first_are_those_of_ops_and_layers(monkeypatch):
    commands = []

    def fake(command, **_):
        commands.append([str(word) for word in command])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(run.subprocess, "run", fake)
    assert not run.tests_are_green()
    assert commands[0][-2:] == [str(ROOT / "tests" / "ops"), str(ROOT / "tests" / "nn")]


def test_the_most_important_is_measured_first():
    jobs = run.plan(options(device="cuda"))
    groups = [job.case.group for job in jobs]
    assert list(dict.fromkeys(groups)) == ["table", "size", "depth", "width"]
    in_table = [job.contender for job in jobs if job.case.group == "table"]
    assert [contender.rank for contender in in_table] == sorted(contender.rank for contender in in_table)
    assert jobs[0].key == ("deep_sets++-50-training", "orderless")


def test_one_may_choose_cases_and_contenders():
    chosen = keys(run.plan(options("--only", "deep_sets++-50-training,set_norm", "--peers", "pyg", device="cuda")))
    assert {case for case, _ in chosen} == {"deep_sets++-50-training", "set_norm"}
    assert {contender for _, contender in chosen} & {"released", "compiled"} == set()
    assert ("set_norm", "pyg") in chosen
    alone = keys(run.plan(options("--only", "table", "--peers", "none", "--ours", "orderless", device="cuda")))
    assert alone == [(case.name, "orderless") for case in cases.table_cases()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--peers", "nobody"], "no contender 'nobody' among released"),
        (["--ours", "released"], "no contender 'released' among orderless"),
        (["--only", "nothing"], "nothing is left to measure"),
        (["--repeats", "0"], "--repeats must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_done_is_wrong_usage(arguments, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        options(*arguments)
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_a_silent_fallback_fails_the_bench(capsys):
    rows = [fake_row("a"), fake_row("b", fused=False, used={"clean_blocks:reference": 1})]
    assert run.conclude(rows, [("a", "orderless"), ("b", "orderless")]) == 1
    said = capsys.readouterr()
    assert "1 of 2 cases that should run by kernels did." in said.out
    assert "silent fallback: b, orderless ran clean_blocks:reference (1x)" in said.err
    assert run.conclude(rows[:1], [("a", "orderless")]) == 0


def test_what_kernels_are_not_made_for_is_told(capsys):
    assert run.conclude([fake_row(fused=False, expects_fused=False, obstacle="wider than 128")], []) == 0
    assert "layer by layer: a, orderless: wider than 128" in capsys.readouterr().out


def test_a_fallback_that_was_asked_for_does_not():
    assert run.conclude([fake_row(fused=False, expects_fused=False)], []) == 0


def test_a_peer_that_fails_does_not_fail_the_bench_but_ours_does(capsys):
    assert run.conclude([fake_row(), fake_row(contender="released", error="OutOfMemoryError: much")], []) == 0
    assert "failed: a, released: OutOfMemoryError: much" in capsys.readouterr().err
    assert run.conclude([fake_row(error="RuntimeError: broken")], []) == 1


def test_what_there_was_no_time_for_is_said(capsys):
    assert run.conclude([fake_row()], [("a", "orderless"), ("b", "orderless")]) == 0
    assert "no time was left for 1 of 2 measurements" in capsys.readouterr().out


def test_ops_that_ran_are_told_by_backend():
    job = measure.Job(cases.CPU_CASES[0], CONTENDERS["orderless"])
    only = measure.say_backend(job, Counter({("clean_blocks", "triton"): 2, ("norm_relu_pool", "triton"): 1}))
    assert only == {"backend": "triton", "used": {"clean_blocks:triton": 2, "norm_relu_pool:triton": 1}, "fused": True}
    mixed = measure.say_backend(job, Counter({("clean_blocks", "triton"): 2, ("set_norm", "reference"): 1}))
    assert (mixed["backend"], mixed["fused"]) == ("mixed", False)
    one_by_one = measure.say_backend(job, Counter({("set_norm", "triton"): 51}))
    assert (one_by_one["backend"], one_by_one["fused"]) == ("triton", False)
    assert measure.say_backend(job, Counter())["fused"] is False
    peer = measure.Job(cases.CPU_CASES[0], CONTENDERS["released"])
    assert measure.say_backend(peer, Counter())["fused"] is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's interpreter is for where there is no GPU")
@pytest.mark.parametrize("network", ["deep_sets++", "set_transformer++", "set_norm"])
def test_a_network_that_runs_by_kernels_is_told_to_be_fused(network, monkeypatch):
    """In Triton's interpreter, which computes here what a GPU would."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv(backend.VARIABLE, "triton")
    sizes = {"in_features": 16} if network == "set_norm" else {"depth": 2, "width": 16}
    direction = "forward+backward" if network == "set_norm" else "training"
    case = cases.BenchCase("tiny", "table", network, direction, (4, 3), ("orderless",), **sizes)
    job = measure.Job(case, contenders.on_device(CONTENDERS["orderless"], case, torch.device("cpu")))
    row = measure.measure_in_turns([job], options("--repeats", "1"))[0]
    assert "error" not in row, row["error"]
    assert (row["backend"], row["fused"]) == ("triton", True)


def test_a_contender_that_fails_leaves_a_row_and_the_others_go_on(monkeypatch):
    def prepare(case, contender, device):
        if contender.name == "released":
            raise RuntimeError("no such\nluck")
        return lambda: None

    monkeypatch.setattr(measure, "prepare", prepare)
    jobs = run.plan(options("--only", "set_norm"))
    rows = {row["contender"]: row for row in measure.measure_in_turns(jobs, options("--repeats", "2"))}
    assert rows["released"]["error"] == "RuntimeError: no such luck"
    assert "p50_ms" not in rows["released"]
    assert rows["plain"]["times_faster_than"].keys() == {"orderless"}
    found = measure.against_bandwidth(rows["released"], 1e9)
    assert "of_copy_bandwidth" not in found
    assert "RuntimeError" in run.say(rows["released"])


def test_on_a_gpu_that_is_not_there_every_row_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    row = measure.measure_alone(run.plan(options("--only", "set_norm"))[0], options("--repeats", "1", device="cpu"))
    assert "error" in row


def test_what_a_run_has_rows_of_is_not_measured_again(tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    given = options("--only", "cpu", "--run", "mine", "--worker", str(tmp_path / "job.json"), out=out)
    done = [{**fake_row(*job.key), "run": "mine"} for job in run.plan(given) if job.key != ("set_norm-cpu", "plain")]
    done.append({**fake_row("set_norm-cpu", "plain"), "run": "another"})
    out.write_text("".join(json.dumps(row) + "\n" for row in done))
    asked = []
    monkeypatch.setattr(run, "measure_in_turns", lambda jobs, _: asked.extend(keys(jobs)) or [])
    assert run.work(given) == 0
    assert asked == [("set_norm-cpu", "plain")]


def test_nothing_is_begun_when_the_time_is_up(tmp_path, monkeypatch):
    given = options("--budget-seconds", "0", "--worker", str(tmp_path / "job.json"), out=tmp_path / "rows.jsonl")
    monkeypatch.setattr(run, "measure_in_turns", lambda *_: pytest.fail("it was begun"))
    assert run.work(given) == 0


def test_a_process_that_dies_leaves_a_row_and_another_goes_on(tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    given = options("--only", "set_norm", "--run", "mine", "--budget-seconds", "100", out=out)
    codes = iter([-11, run.DEAD, 0])
    commands = []

    def fake(command):
        commands.append(command)
        Path(command[command.index("--worker") + 1]).write_text(json.dumps(["set_norm-cpu", "released"]))
        return next(codes)

    monkeypatch.setattr(run, "start_worker", fake)
    run.run_workers(given, run.plan(given))
    (row,) = run.rows_of_run(out, "mine")  # a GPU that no longer answers was told of by its own process
    assert (row["contender"], row["error"]) == ("released", "the process died with exit code -11")
    assert len(commands) == 3
    assert float(commands[2][commands[2].index("--until") + 1]) == given.until  # the time is that of all processes together


def test_a_process_that_cannot_begin_stops_it(tmp_path, monkeypatch):
    given = options("--only", "set_norm", out=tmp_path / "rows.jsonl")
    monkeypatch.setattr(run, "start_worker", lambda _: 1)
    with pytest.raises(SystemExit, match="before its first case"):
        run.run_workers(given, run.plan(given))
