"""How far a run is, on a terminal."""

import io
import re

import pytest
from rich.console import Console
from small_runs import run, small_task

from orderless.train.progress import ProgressBar

TOLD = {"step": 30, "num_steps": 120, "epoch": 2, "loss": 0.012345, "sets_per_second": 12345.6, "elements_per_second": 9876543.2}


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)


def drawn(console):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


def test_nothing_is_drawn_where_there_is_no_terminal():
    console = Console(file=io.StringIO())
    with ProgressBar("deep_sets", console) as bar:
        bar(**TOLD)
    assert console.file.getvalue() == ""


def test_a_terminal_shows_how_far_a_run_is():
    console = terminal()
    with ProgressBar("deep_sets++", console) as bar:
        bar(**TOLD)
        bar.bar.refresh()
    shown = drawn(console)
    assert "deep_sets++" in shown
    assert "epoch 2" in shown
    assert "step 30/120" in shown
    assert "loss 0.01235" in shown  # the last digit rounded
    assert "12,346 sets/s" in shown
    assert "9,876,543 elements/s" in shown


def test_the_time_left_is_estimated():
    now = [0.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None, get_time=lambda: now[0])
    with ProgressBar("deep_sets", console) as bar:
        for step in (1, 31, 61):  # 3 steps a second
            bar(**{**TOLD, "step": step, "num_steps": 121})
            now[0] += 10.0
        bar.bar.refresh()
    assert "0:00:20" in drawn(console)


def fail_after(bar):
    bar(**TOLD)
    raise RuntimeError("broken")


def test_the_bar_is_gone_in_the_end_also_after_an_error():
    console = terminal()
    bar = ProgressBar("deep_sets", console)
    with pytest.raises(RuntimeError, match="broken"), bar:
        fail_after(bar)
    assert not bar.bar.live.is_started
    assert console.file.getvalue().endswith("\x1b[2K")  # the line was erased


def test_results_have_the_standard_output_to_themselves():
    assert ProgressBar("deep_sets").bar.console.stderr


def test_it_can_be_told_by_a_run(tmp_path):
    data = small_task(tmp_path, num_train=64, num_test=20, set_size=8)
    console = terminal()
    with ProgressBar("deep_sets++", console) as bar:
        run(data, epochs=2, progress=bar)
        bar.bar.refresh()
    assert "epoch 2" in drawn(console)
    assert "step 4/4" in drawn(console)
