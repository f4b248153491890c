"""What checkpoints keep of a run: nothing is forgotten, and those of earlier versions can be read (`state.py`)."""

from dataclasses import asdict, fields

import pytest
from small_runs import run, small_model, small_task, weights

from orderless.train.best import Best
from orderless.train.checkpoint import Checkpoints
from orderless.train.history import History
from orderless.train.identity import Identity
from orderless.train.state import RunState, Tally
from orderless.train.watch import Taken


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


def test_a_state_comes_back_from_a_checkpoint_as_it_was():
    state = RunState(7, 2, 3, Tally(loss=1.5), 12.5, {"mse": 0.25}, History([{"epoch": 0}]), Best(loss=0.5, epoch=1))
    state.tally.add(Taken(step=7, loss=2.0, gradient_norm=3.0, num_sets=4, num_elements=40, learning_rate=0.1, batches=()))
    state.tally.time(0.5)
    assert all(getattr(state, field.name) != getattr(RunState(), field.name) for field in fields(RunState)), (
        "all is put to the test"
    )
    assert RunState.of_checkpoint(asdict(state)) == state
    assert RunState.of_checkpoint(asdict(RunState())) == RunState()


def test_a_state_of_an_earlier_version_is_read():
    """It has no best, where there was no patience, and not the sum of the seconds of steps."""
    kept = asdict(RunState(tally=Tally(step_seconds=[0.5, 0.25], seconds=0.75)))
    del kept["best"], kept["tally"]["seconds"]
    assert RunState.of_checkpoint(kept).tally.seconds == 0.75


def test_a_checkpoint_has_the_same_keys_in_every_version(data, tmp_path):
    run(data, epochs=1, folder=tmp_path)
    kept = Checkpoints(tmp_path / "checkpoints").load()
    of_the_run, weights_and_random = {"config", "data", "judge"}, {"model", "optimizer", "average", "random"}
    so_far = {"step", "epoch", "batches", "tally", "seconds", "released", "history", "best"}
    assert {field.name for field in fields(Identity)} == of_the_run
    assert {field.name for field in fields(RunState)} == so_far
    assert set(kept) == of_the_run | so_far | weights_and_random


def test_a_run_resumes_from_a_checkpoint_of_an_earlier_version(data, tmp_path):
    whole = run(data, epochs=2)

    def stop(*, step, **_):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(data, epochs=2, folder=tmp_path, progress=stop)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    kept = checkpoints.load()
    for name in ("data", "judge", "best", "average"):
        del kept[name]
    del kept["tally"]["seconds"]
    checkpoints.save(kept["step"], kept)
    resumed = run(data, small_model(data, seed=9), epochs=2, folder=tmp_path)
    assert weights(resumed.model).equal(weights(whole.model))
