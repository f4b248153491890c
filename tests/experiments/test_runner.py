"""The runner: what is missing is done once, whoever is stopped, killed, or at it at the same time."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import filelock
import pytest
from experiments import fake_runs
from experiments.fake_runs import ended, make_runs, read_log

from orderless.experiments import runner
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import run_missing
from orderless.experiments.spec import make_spec

TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys
from experiments import fake_runs
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import run_missing
run_missing(fake_runs.make_runs(0, 1, 100, 101), ResultStore(sys.argv[1]), jobs=2, execute=fake_runs.execute)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(runner, "_LOOK_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(runner, "_TELL_SECONDS", 0.0)


def run(folder, *seeds, **options):
    return run_missing(make_runs(*seeds), ResultStore(folder), execute=fake_runs.execute, **options)


def recorded(folder):
    return sorted(line["spec"]["train"]["seed"] for line in ResultStore(folder).lines())


@pytest.fixture
def victim(tmp_path):
    """A runner in a process of its own, which a test can kill. It has two workers."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    with subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path], env={**os.environ, "PYTHONPATH": path}) as process:
        yield process
        process.kill()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if Path("/proc").exists() else True


def test_every_run_is_done_once_and_never_again(tmp_path):
    summary = run(tmp_path, 0, 1, 2)
    assert sorted(summary.done) == sorted(spec.key for spec in make_runs(0, 1, 2))
    assert recorded(tmp_path) == [0, 1, 2]
    again = run(tmp_path, 0, 1, 2, 3)
    assert again.done == [spec.key for spec in make_runs(3)]
    assert sorted(ended(tmp_path)) == [0, 1, 2, 3]


def test_a_run_that_fails_is_told_and_the_others_are_done(tmp_path):
    (tmp_path / "broken").touch()
    summary = run(tmp_path, 0, 13, 1)
    (key,) = [spec.key for spec in make_runs(13)]
    assert summary.failed == {key: "RuntimeError: it is broken"}
    assert recorded(tmp_path) == [0, 1]
    assert "raise RuntimeError" in (tmp_path / "runs" / key / "error.txt").read_text()
    (tmp_path / "broken").unlink()
    assert run(tmp_path, 0, 13, 1).done == [key]
    assert not (tmp_path / "runs" / key / "error.txt").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_whose_folder_cannot_be_had_fails_and_the_others_are_done(tmp_path, jobs):
    (key,) = [spec.key for spec in make_runs(1)]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / key).write_text("a file where a folder should be")
    summary = run(tmp_path, 0, 1, 2, jobs=jobs)
    assert list(summary.failed) == [key]
    assert "FileExistsError: " in summary.failed[key]
    assert recorded(tmp_path) == [0, 2]


def test_a_diverged_run_is_a_result_and_is_not_done_again(tmp_path):
    run(tmp_path, 66)
    assert [line["status"] for line in ResultStore(tmp_path).lines()] == ["diverged"]
    assert run(tmp_path, 66).done == []


def test_it_tells_what_happens_in_order(tmp_path):
    told = []
    run(tmp_path, 5, 66, tell=lambda event: told.append((event.state, event.spec.train.seed, event.share)))
    steps = [0.25, 0.5, 0.75, 1.0]
    assert told == [
        ("begun", 5, 0.0),
        *(("step", 5, share) for share in steps),
        ("finished", 5, 1.0),
        ("begun", 66, 0.0),
        *(("step", 66, share) for share in steps),
        ("diverged", 66, 1.0),
    ]


def test_stopping_keeps_what_is_done_and_starting_again_does_the_rest(tmp_path):
    def stop(event):
        if event.state == "begun" and event.spec.train.seed == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 0, 1, 2, 3, tell=stop)
    assert recorded(tmp_path) == [0, 1]
    assert len(run(tmp_path, 0, 1, 2, 3).done) == 2
    assert ended(tmp_path) == [0, 1, 2, 3]


def test_stopping_ends_the_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "600")

    def stop(event):
        if event.state == "begun":
            wait_for(lambda: read_log(tmp_path))
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 0, jobs=2, tell=stop)
    assert time.monotonic() - start < 60
    ((_, _, pid),) = read_log(tmp_path)
    assert pid != os.getpid()
    assert not is_alive(pid)


@pytest.fixture
def taken(tmp_path):
    """Another runner is at the run with seed 0. Calling it is its death: nothing is recorded, and the run is free."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / make_runs(0)[0].key).mkdir(parents=True)
    lock = filelock.FileLock(tmp_path / "runs" / make_runs(0)[0].key / ".lock")
    lock.acquire()
    yield lock.release
    lock.release()


def test_a_run_that_another_runner_is_at_is_looked_at_again_in_the_end(tmp_path, taken):
    told = []

    def hear(event):
        told.append((event.state, event.spec.train.seed))
        if event.state == "finished" and event.spec.train.seed == 1:
            taken()

    summary = run(tmp_path, 0, 1, tell=hear)
    assert len(summary.done) == 2
    assert ("waiting", 0) in told
    assert ended(tmp_path) == [1, 0]


def test_several_processes_do_the_same_and_one_that_is_killed_is_replaced(tmp_path, taken, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.2")
    (tmp_path / "broken").touch()

    def hear(event):
        if event.state == "finished" and event.spec.train.seed == 4:
            taken()

    summary = run(tmp_path, 0, 99, 13, 66, 2, 3, 4, jobs=2, tell=hear)
    broken, killed = (spec.key for spec in make_runs(13, 99))
    assert set(summary.failed) == {broken, killed}
    assert summary.failed[broken] == "RuntimeError: it is broken"
    assert "ended by SIGKILL" in summary.failed[killed]
    assert "fewer --jobs" in summary.failed[killed]
    assert recorded(tmp_path) == [0, 2, 3, 4, 66]
    assert sorted(ended(tmp_path)) == [0, 2, 3, 4, 66]
    assert [what for what, seed, _ in read_log(tmp_path) if seed == 99] == ["begin"]  # it was not tried again
    pids = {pid for _, _, pid in read_log(tmp_path)}
    assert len(pids) == 3  # two side by side, and one in the place of the killed one
    assert os.getpid() not in pids
    wait_for(lambda: not any(is_alive(pid) for pid in pids), 10)


def test_warnings_of_several_processes_are_told_once_by_this_one_with_the_place_that_they_are_of(tmp_path, capfd):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        run(tmp_path, 77, 78, 0, jobs=2)
    assert [str(warning.message) for warning in told] == ["it is late"]
    assert (told[0].category, told[0].filename) == (UserWarning, fake_runs.__file__)
    assert recorded(tmp_path) == [0, 77, 78]
    assert "late" not in capfd.readouterr().err


def test_a_run_that_another_runner_has_done_meanwhile_is_not_done_again(tmp_path):
    def overtake(event):
        if event.state == "begun" and event.spec.train.seed == 0:
            run(tmp_path, 1)  # another runner

    summary = run(tmp_path, 0, 1, tell=overtake)
    assert summary.elsewhere == [spec.key for spec in make_runs(1)]
    assert sorted(ended(tmp_path)) == [0, 1]


def test_two_runners_share_the_work_and_when_one_is_killed_the_other_does_the_rest(tmp_path, victim):
    wait_for(lambda: sum(what == "begin" for what, _, _ in read_log(tmp_path)) == 4)  # it is at 100 and 101
    workers = {pid for _, _, pid in read_log(tmp_path)}
    told = []

    def hear(event):
        told.append((event.state, event.spec.train.seed))
        if told[-1] == ("waiting", 101) and told.count(told[-1]) == 2:  # nothing is left but what the other is at
            assert recorded(tmp_path) == [0, 1, 2, 3]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            wait_for(lambda: not any(is_alive(pid) for pid in workers), 10)
            (tmp_path / "go").touch()

    summary = run(tmp_path, 0, 1, 100, 101, 2, 3, tell=hear)
    assert victim.pid not in workers
    assert len(workers) == 2
    assert (len(summary.done), summary.elsewhere, summary.failed) == (4, [], {})
    assert recorded(tmp_path) == sorted(ended(tmp_path)) == [0, 1, 2, 3, 100, 101]
    begun = sorted(seed for what, seed, _ in read_log(tmp_path) if what == "begin")
    assert begun == [0, 1, 2, 3, 100, 100, 101, 101]  # only what the killed processes were at was begun again


def test_a_result_that_was_not_recorded_before_the_kill_is_recorded_without_being_done_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDERLESS_CACHE", str(tmp_path / "cache"))
    options = {"num_train": 64, "num_test": 64, "set_size": 10, "epochs": 1, "width": 8, "depth": 2}
    runs = [
        make_spec("normal_var@exact", "deep_sets", options),
        make_spec("normal_var@exact", "baseline:constant", {"num_train": 64}),
    ]
    store = ResultStore(tmp_path / "results")
    summary = run_missing(runs, store)
    assert summary.failed == {}
    assert len(summary.done) == 2
    before = store.lines()
    assert [line["status"] for line in before] == ["finished", "finished"]
    store.path.unlink()
    again = ResultStore(tmp_path / "results")
    run_missing(runs, again)
    assert again.lines() == before


@pytest.mark.parametrize(("told", "threads"), [(None, 4), ("", 4), ("2", 2), ("16", 4), ("0", 4), ("4,2", 4)])
def test_workers_share_the_cores_and_take_fewer_where_they_are_told(monkeypatch, told, threads):
    monkeypatch.setattr(runner, "_num_cpus", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if told is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert runner.threads_of_a_worker(jobs=2) == threads
    assert runner.threads_of_a_worker(jobs=100) == 1


def test_there_must_be_a_job(tmp_path):
    with pytest.raises(ValueError, match="jobs must be 1 or more, got 0"):
        run(tmp_path, 0, jobs=0)
