"""One process at a run (`claims.py`)."""

import os
import signal
import subprocess
import sys

from orderless.claims import claim, is_claimed


def test_a_run_is_one_process_at_a_time_and_free_when_that_process_is_killed(tmp_path):
    code = f"""
import time
from pathlib import Path
from orderless.claims import claim
with claim(Path({str(tmp_path / "run")!r})) as is_mine:
    print(is_mine, flush=True)
    time.sleep(60)
"""
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout.readline() == "True\n"
        with claim(tmp_path / "run") as is_mine:
            assert not is_mine
        assert is_claimed(tmp_path / "run")
        os.kill(other.pid, signal.SIGKILL)
    with claim(tmp_path / "run") as is_mine:
        assert is_mine
    assert not is_claimed(tmp_path / "run")


def test_whether_a_run_is_claimed_is_asked_without_a_trace(tmp_path):
    assert not is_claimed(tmp_path / "run")
    assert not list(tmp_path.iterdir())
