"""What verbs that do runs share: how runs are called, and what is said while they are done (`runs.py`)."""

import pytest
from experiments.plans import _nobodys_files, plan_of, result  # noqa: F401
from rich.console import Console

from orderless.cli.errors import UsageError
from orderless.cli.runs import RunScreen, name_runs, open_results, parse_seeds
from orderless.experiments.runner import Event

pytestmark = pytest.mark.usefixtures("_nobodys_files")


def test_runs_are_named_by_what_makes_them_differ():
    plan = plan_of("feature_norm", only={"batch_size": ["8", "64"], "task": ["normal_var_100"]}, seeds=[3])
    names = list(name_runs(plan.runs).values())
    assert names[0] == "deep_sets on normal_var_100@exact, depth 25, norm layer, epochs 120, batch_size 8, seed 3"
    assert names[1] == "deep_sets on normal_var_100@exact, depth 25, norm layer, epochs 960, batch_size 64, seed 3"
    assert len(set(names)) == 6


def test_a_setting_that_some_runs_leave_alone_is_named():
    plan = plan_of("orders", only={"model": ["deep_sets++"], "task": ["normal_var"]}, seeds=[0])
    assert len(set(name_runs(plan.runs).values())) == len(plan.runs) == 2


def test_seeds_are_whole_numbers():
    assert parse_seeds("0, 1,12") == [0, 1, 12]
    assert parse_seeds(None) is None
    for text in ("one", "0,,1", "-1", ""):
        with pytest.raises(UsageError, match="--seeds takes whole numbers"):
            parse_seeds(text)


def test_a_folder_that_is_only_read_is_not_made(tmp_path):
    assert open_results(tmp_path / "new", to_write=False).lines() == []
    assert not (tmp_path / "new").exists()
    assert open_results(tmp_path / "new").lines() == []
    assert list((tmp_path / "new").iterdir()) == []


def test_on_a_terminal_there_is_a_bar_and_the_time_left(capsys):
    runs = plan_of("norms", only={"task": ["normal_var"], "norm": ["none", "set"]}, seeds=[0, 1]).runs
    console = Console(force_terminal=True, width=200, color_system=None, legacy_windows=False, highlight=False)
    with RunScreen(runs, done_before=3, console=console) as screen:
        screen.tell(Event("begun", runs[0]))
        assert screen.time_left() == ""
        screen.tell(Event("step", runs[0], share=0.5))
        assert screen.time_left().startswith("about ")
        screen.tell(Event("waiting", runs[1]))
        screen.tell(Event("waiting", runs[1]))
        screen.tell(Event("finished", runs[0], line=result(runs[0], 0.5)))
        screen.tell(Event("elsewhere", runs[1], line=result(runs[1], 0.5)))
        screen.tell(Event("diverged", runs[2], line=result(runs[2], status="diverged", message="the loss became NaN at step 3")))
        screen.tell(Event("failed", runs[3], message="RuntimeError: no luck"))
    said = capsys.readouterr().out
    assert "4 runs to do (3 were done before)" in said
    assert said.count("another runner is at deep_sets") == 1
    assert "1 of 4: deep_sets on normal_var@exact, depth 50, norm none, seed 0: mse 0.5 in 2 min 3 s; about " in said
    assert "mse 0.5 in 2 min 3 s by another runner" in said
    assert "diverged, the loss became NaN at step 3" in said
    assert "failed, RuntimeError: no luck" in said
    assert "━" in said
