"""Several processes train as one would."""

import json
import os
import subprocess
import sys

import pytest

from orderless.train.processes import is_main_process

RANKS = [
    ({}, True),
    ({"LOCAL_RANK": "0"}, True),
    ({"LOCAL_RANK": "1"}, False),
    ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
    ({"NODE_RANK": "1"}, False),  # the first of the second machine, which starts the others there
    ({"RANK": "0", "LOCAL_RANK": "0"}, True),
    ({"RANK": "2", "LOCAL_RANK": "0"}, False),  # torchrun does not say which machine it is
    ({"RANK": "1"}, False),
    ({"SLURM_PROCID": "0"}, True),
    ({"SLURM_PROCID": "3"}, False),
    ({"SLURM_PROCID": "0", "LOCAL_RANK": "1"}, False),  # Fabric started it in a job of one task
    ({"SLURM_PROCID": "1", "RANK": "0"}, True),  # in each task a torchrun of its own
    ({"LOCAL_RANK": "", "RANK": "", "SLURM_PROCID": ""}, True),
    ({"LOCAL_RANK": "", "SLURM_PROCID": "1"}, False),
    ({"LOCAL_RANK": "-1"}, True),
]


@pytest.fixture
def environment(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize(("said", "is_main"), RANKS, ids=str)
def test_the_first_process_of_the_first_machine_writes_and_speaks(environment, said, is_main):
    for name, value in said.items():
        environment(name, value)
    assert is_main_process() == is_main
    assert is_main_process(2) == is_main


def test_tasks_of_slurm_that_train_alone_write_and_speak_for_themselves(environment):
    """`srun --ntasks 4 orderless table RECIPE` is four runners, each with runs of its own."""
    environment("SLURM_PROCID", "3")
    assert is_main_process(1)
    environment("LOCAL_RANK", "1")
    assert not is_main_process(1)


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
