"""Trackers beside the CSV files."""

import importlib
import sys
import types
import warnings
from pathlib import Path

import pytest
from small_runs import run, small_task

from orderless.train import Execution, tracking
from orderless.train.tracking import closing, make_loggers, only_numbers


def test_only_numbers_go_to_trackers():
    row = {"epoch": 3, "loss": 0.5, "test_mse": None, "note": "words", "rows": [1]}
    found = only_numbers(row)
    assert found == {"epoch": 3.0, "loss": 0.5}
    assert all(type(value) is float for value in found.values())


def test_no_names_make_no_loggers():
    assert make_loggers([], None) == []


def test_a_logger_needs_a_folder():
    with pytest.raises(ValueError, match="the logger tensorboard needs a folder to write to: pass folder="):
        make_loggers(["tensorboard"], None)


def hide(monkeypatch, *names):
    """As if these libraries were not installed, and all others were."""
    seen = types.SimpleNamespace(find_spec=lambda name: None if name in names else object())
    monkeypatch.setattr(tracking, "importlib", types.SimpleNamespace(import_module=importlib.import_module, util=seen))


@pytest.mark.parametrize(
    ("logger", "missing", "command"),
    [
        ("tensorboard", "tensorboard", "pip install 'orderless[train]' lightning-fabric tensorboard"),
        ("wandb", "wandb", "pip install 'orderless[train]' pytorch-lightning wandb"),
        ("mlflow", "pytorch_lightning", "pip install 'orderless[train]' pytorch-lightning mlflow"),
    ],
)
def test_a_library_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch, tmp_path, logger, missing, command):
    hide(monkeypatch, missing)
    with pytest.raises(ImportError) as caught:
        make_loggers([logger], tmp_path)
    assert caught.value.name == missing
    assert f"{missing} is not installed" in str(caught.value)
    assert str(caught.value).endswith(command)


def test_a_missing_library_stops_a_run_before_it_begins(monkeypatch, tmp_path):
    data = small_task(tmp_path / "cache", num_train=8, num_test=4, set_size=4)
    hide(monkeypatch, "wandb")
    with pytest.raises(ImportError, match="wandb"):
        run(data, folder=tmp_path / "run", execution=Execution(device="cpu", loggers=("wandb",)))
    assert not (tmp_path / "run").exists()


class Made:
    """Stands for a logger of Lightning: keeps what it was made with and told."""

    def __init__(self, **arguments):
        self.arguments, self.rows, self.status = arguments, [], None

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))

    def finalize(self, status):
        self.status = status


@pytest.fixture
def lightning(monkeypatch):
    """A `pytorch_lightning` whose loggers only take notes."""
    loggers = types.ModuleType("pytorch_lightning.loggers")
    loggers.WandbLogger = type("WandbLogger", (Made,), {})
    loggers.MLFlowLogger = type("MLFlowLogger", (Made,), {})
    monkeypatch.setitem(sys.modules, "pytorch_lightning", types.ModuleType("pytorch_lightning"))
    monkeypatch.setitem(sys.modules, "pytorch_lightning.loggers", loggers)
    hide(monkeypatch)
    return loggers


def test_weights_and_biases_goes_on_with_the_run_of_that_name(lightning, tmp_path):
    (logger,) = make_loggers(["wandb"], tmp_path / "run-7")
    assert isinstance(logger, lightning.WandbLogger)
    assert logger.arguments == {
        "project": "orderless", "name": "run-7", "id": "run-7", "save_dir": tmp_path / "run-7", "resume": "allow",
    }  # fmt: skip


def test_mlflow_keeps_a_database_in_the_folder(lightning, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    (logger,) = make_loggers(["mlflow"], Path("run-7"))
    assert isinstance(logger, lightning.MLFlowLogger)
    assert logger.arguments == {
        "experiment_name": "orderless", "run_name": "run-7", "tracking_uri": f"sqlite:///{tmp_path / 'run-7' / 'mlflow.db'}",
    }  # fmt: skip
    assert (tmp_path / "run-7").is_dir()  # a database does not make its own folder


def test_mlflows_own_setting_goes_before_the_folder(lightning, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://tracker.example")
    (logger,) = make_loggers(["mlflow"], tmp_path / "run-7")
    assert logger.arguments["tracking_uri"] == "https://tracker.example"


def test_several_loggers_come_in_their_order(lightning, tmp_path):
    made = make_loggers(["mlflow", "wandb"], tmp_path)
    assert [type(logger).__name__ for logger in made] == ["MLFlowLogger", "WandbLogger"]


def test_trackers_learn_how_a_run_ended():
    good, bad = Made(), Made()
    with closing([good]):
        assert good.status is None
    with pytest.raises(KeyboardInterrupt), closing([bad]):
        raise KeyboardInterrupt
    assert (good.status, bad.status) == ("success", "failed")


def test_a_run_tells_its_tracker_every_epoch_and_how_it_ended(lightning, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(lightning, "WandbLogger", lambda **arguments: made.append(Made(**arguments)) or made[-1])
    data = small_task(tmp_path / "cache", num_train=64, num_test=20, set_size=8)
    done = run(data, folder=tmp_path / "run", execution=Execution(device="cpu", loggers=("wandb",)))
    (logger,) = made
    assert logger.status == "success"
    assert logger.rows == [(row["step"], only_numbers(row)) for row in done.history.epochs[1:]]


def read_events(folder):
    """What TensorBoard would draw: for each name the steps and values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorBoard's own dependencies
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder))
        events.Reload()
        return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard_gets_every_epoch(tmp_path):
    data = small_task(tmp_path / "cache", num_train=64, num_test=20, set_size=8)
    execution = Execution(device="cpu", loggers=("tensorboard",))
    done = run(data, folder=tmp_path / "run", execution=execution, epochs=3)
    assert list(Path(tmp_path / "run" / "tensorboard").glob("events.out.tfevents*"))
    found = read_events(tmp_path / "run" / "tensorboard")
    for name in ("train_loss", "test_mse", "gradient_norm", "learning_rate", "sets_per_second"):
        expected = [(row["step"], row[name]) for row in done.history.epochs[1:]]
        assert [step for step, _ in found[name]] == [2, 4, 6]
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in expected], rel=1e-6)


def test_tensorboard_has_what_was_logged_before_a_run_failed(tmp_path):
    data = small_task(tmp_path / "cache", num_train=64, num_test=20, set_size=8)

    def stop(*, step, **_):
        if step == 3:
            raise KeyboardInterrupt

    execution = Execution(device="cpu", loggers=("tensorboard",))
    with pytest.raises(KeyboardInterrupt):
        run(data, folder=tmp_path / "run", execution=execution, progress=stop)
    assert [step for step, _ in read_events(tmp_path / "run" / "tensorboard")["train_loss"]] == [2]
