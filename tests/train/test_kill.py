"""A run that is killed at random moments ends with the weights of one that was not."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_runs_that_are_killed_end_with_the_same_weights(tmp_path):
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path), "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20
    ends = sorted(tmp_path.glob("killed-*"))
    assert len(ends) >= 4
    for folder in ends:
        whole = torch.load(tmp_path / folder.name.replace("killed", "whole") / "final.pt")
        killed = torch.load(folder / "final.pt")
        assert whole.keys() == killed.keys()
        assert all(torch.equal(whole[name], killed[name]) for name in whole)
