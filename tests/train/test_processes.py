"""Several processes train as one would."""

import json
import os
import subprocess
import sys

import pytest

from orderless.train.processes import is_main_process


@pytest.mark.parametrize(
    ("environment", "is_main"),
    [({}, True), ({"LOCAL_RANK": "0"}, True), ({"LOCAL_RANK": "1"}, False), ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False)],
    ids=str,
)
def test_the_first_process_of_the_first_machine_writes_and_speaks(monkeypatch, environment, is_main):
    for name in ("LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_main_process() == is_main


def train(tmp_path, devices):
    """33 sets in batches of 16: the last batch has one set, so one of two processes gets none of it."""
    settings = [
        "depth=4",
        "width=8",
        "num_train=33",
        "num_test=21",
        "set_size=6",
        "epochs=3",
        "batch_size=16",
        "learning_rate=0.01",
    ]
    command = ["train", "normal_var", "--device", "cpu", "--json"]
    command += ["--devices", str(devices), "--out", str(tmp_path / f"on {devices}"), "--cache-dir", str(tmp_path / "cache")]
    script = tmp_path / "command.py"  # Fabric starts the others with the same script
    script.write_text("from orderless.cli import main\n\nif __name__ == '__main__':\n    main()\n")
    done = subprocess.run(
        [sys.executable, str(script), *command, *(word for setting in settings for word in ("--set", setting))],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # one answer, though there are two processes


def test_two_processes_that_share_each_batch_train_as_one(tmp_path):
    one, two = train(tmp_path, 1), train(tmp_path, 2)
    assert two["metrics"]["mse"] == pytest.approx(one["metrics"]["mse"], rel=1e-4)
    assert two["intervals"]["mse"] == pytest.approx(one["intervals"]["mse"], rel=1e-4)  # every test set is in it once
    losses = [[row["train_loss"] for row in line["epochs"][1:]] for line in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
