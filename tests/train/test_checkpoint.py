"""Checkpoints: whole or not at all, checked when read, the one before kept."""

import errno
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from orderless.train import checkpoint
from orderless.train.checkpoint import CheckpointError, Checkpoints, random_states, read_checkpoint, restore_random_states

STATE = {"weights": torch.arange(5.0), "step": 7, "rows": [{"loss": 0.5, "none": None}], "name": "a"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c")
    assert not checkpoints
    assert checkpoints.load() is None
    checkpoints.save(7, STATE)
    found = checkpoints.load()
    assert checkpoints
    assert torch.equal(found.pop("weights"), STATE["weights"])
    assert found == {name: value for name, value in STATE.items() if name != "weights"}


def test_the_latest_two_are_kept_and_the_latest_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 9, 10, 100):
        checkpoints.save(step, {"step": step})
    assert names(tmp_path) == ["step-0000000010.ckpt", "step-0000000100.ckpt"]
    assert checkpoints.load() == {"step": 100}


def empty(content):
    return b""


def cut(content):
    return content[: len(content) // 2]


def flip_one_bit(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def overwrite(content):
    return b"something else entirely" * 10


@pytest.mark.parametrize("damage", [empty, cut, flip_one_bit, overwrite], ids=["empty", "cut", "one bit", "other file"])
def test_a_damaged_latest_checkpoint_falls_back_to_the_one_before(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"step": 1})
    path = checkpoints.save(2, {"step": 2})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=r"step-0000000002.ckpt is damaged: .* Falling back to the checkpoint before it"):
        assert checkpoints.load() == {"step": 1}


def test_a_damaged_checkpoint_is_not_counted_among_the_two_that_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(50, {"step": 50})
    checkpoints.save(100, {"step": 100}).write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        checkpoints.load()
    assert names(tmp_path) == ["step-0000000050.ckpt", "step-0000000100.damaged"]
    checkpoints.save(60, {"step": 60})
    assert names(tmp_path) == ["step-0000000050.ckpt", "step-0000000060.ckpt"]


def test_if_all_are_damaged_that_is_said_and_said_again(tmp_path):
    """The second start must not take the folder for one of a run that never began."""
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, {"step": step}).write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(CheckpointError, match="all are damaged"):
        checkpoints.load()
    assert checkpoints
    with pytest.raises(CheckpointError, match=r"all are damaged: put a good copy there, or delete the folder"):
        Checkpoints(tmp_path).load()


def refuse(*_):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("call", ["read_bytes", "iterdir"])
def test_a_disk_that_does_not_answer_once_costs_no_checkpoint(tmp_path, monkeypatch, call):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, {"step": step})
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Path, call, refuse)
        with pytest.raises(CheckpointError, match=r"could not be read: Input/output error. .* run the same command again"):
            checkpoints.load()
        if call == "iterdir":  # a folder that cannot be listed is not an empty one
            with pytest.raises(CheckpointError, match="could not be read"):
                bool(checkpoints)
    assert names(tmp_path) == ["step-0000000001.ckpt", "step-0000000002.ckpt"]
    assert checkpoints.load() == {"step": 2}


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory")], ids=repr)
def test_a_whole_checkpoint_that_does_not_fit_into_memory_is_not_damaged(tmp_path, monkeypatch, error):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"step": 1})

    def run_out(*_, **__):
        raise error

    monkeypatch.setattr(torch, "load", run_out)
    with pytest.raises(CheckpointError, match="is whole, but could not be loaded"):
        checkpoints.load()
    assert names(tmp_path) == ["step-0000000001.ckpt"]


def test_a_checkpoint_that_another_process_renamed_meanwhile_is_passed_over(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"step": 1})
    checkpoints.save(2, {"step": 2})
    paths = checkpoints._paths()
    paths[-1].rename(paths[-1].with_suffix(".damaged"))
    monkeypatch.setattr(Checkpoints, "_paths", lambda self, suffix=".ckpt": paths)
    assert checkpoints.load() == {"step": 1}


def test_old_checkpoints_that_cannot_be_removed_do_not_stop_training(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, {"step": step})
    unlink = checkpoint.Path.unlink
    with monkeypatch.context() as patch:
        # what is written aside may be removed
        patch.setattr(checkpoint.Path, "unlink", lambda path, **o: unlink(path, **o) if path.name[0] == "." else refuse())
        with pytest.warns(UserWarning, match=r"old checkpoints in .* could not be removed: .*Input/output error"):
            checkpoints.save(3, {"step": 3})
    assert checkpoints.load() == {"step": 3}
    checkpoints.save(4, {"step": 4})
    assert names(tmp_path) == ["step-0000000003.ckpt", "step-0000000004.ckpt"]


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    """A pickle may call anything when it is read; ours holds tensors and plain values, and nothing else is accepted."""
    path = Checkpoints(tmp_path).save(1, {"run me": Harmful()})
    with pytest.raises(CheckpointError, match=r"holds \S*exec, which is not loaded from files, since it could run code"):
        read_checkpoint(path)
    assert not (tmp_path / "harm").exists()


class Harmful:
    def __reduce__(self):
        return (exec, ("raise SystemExit",))


def test_a_full_disk_is_an_error_that_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"step": 1})

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("orderless.train.checkpoint.write_bytes", full)
    with pytest.raises(CheckpointError, match=r"No space left on device. The last good one is step-0000000001.ckpt"):
        checkpoints.save(2, {"step": 2})
    assert checkpoints.load() == {"step": 1}


def test_a_disk_that_takes_half_a_file_leaves_the_last_checkpoint_and_nothing_else(tmp_path):
    """A real one: the process may write files of 20 kB and no more."""
    code = f"""
import resource, signal, torch
from pathlib import Path
from orderless.train import checkpoint
from orderless.train.checkpoint import Checkpoints
checkpoints = Checkpoints(Path({str(tmp_path)!r}))
checkpoints.save(1, {{"weights": torch.zeros(10)}})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
checkpoints.save(2, {{"weights": torch.zeros(100_000)}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CheckpointError: the checkpoint after step 2 could not be written" in done.stderr
    assert names(tmp_path) == ["step-0000000001.ckpt"]
    assert torch.equal(Checkpoints(tmp_path).load()["weights"], torch.zeros(10))


def test_random_states_come_back():
    def draw():
        return random.random(), np.random.rand(), torch.rand(3).tolist()  # noqa: NPY002

    states = random_states(torch.device("cpu"))
    first = draw()
    assert draw() != first
    restore_random_states(states, torch.device("cpu"))
    assert draw() == first


def test_random_states_survive_a_file(tmp_path):
    states = random_states(torch.device("cpu"))
    first = torch.rand(3), np.random.rand(), random.random()  # noqa: NPY002
    restore_random_states(read_checkpoint(Checkpoints(tmp_path).save(1, states)), torch.device("cpu"))
    again = torch.rand(3), np.random.rand(), random.random()  # noqa: NPY002
    assert torch.equal(first[0], again[0])
    assert first[1:] == again[1:]


def test_a_whole_checkpoint_that_is_not_loaded_is_not_called_damaged(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, {"extra": Checkpoints})  # a class, which loading would have to import
    with pytest.raises(
        CheckpointError, match=r"is whole, but holds orderless\.train\.checkpoint\.Checkpoints, which is not loaded from files"
    ):
        checkpoints.load()
    assert names(tmp_path) == ["step-0000000003.ckpt"]
