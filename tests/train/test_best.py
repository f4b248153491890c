"""Early stopping: validation sets decide when to stop and which weights are kept."""

import math

import pytest
import torch
from small_runs import CPU, run, small_model, small_task, weights
from torch import nn

from orderless.train import TrainConfig, train_model
from orderless.train.best import Best

FAST = {"learning_rate": 0.3, "epochs": 30, "batch_size": 8}  # too fast: it soon gets worse


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"), num_train=16, num_test=30)


def losses(trained):
    return [row["test_mse"] for row in trained.history.epochs[1:]]


@pytest.mark.parametrize("extra", [{}, {"ema_decay": 0.8}], ids=["plain", "average"])
def test_it_stops_when_patience_is_over_and_keeps_the_best_weights(data, extra):
    done = run(data, patience=3, **FAST, **extra)
    found = losses(done)
    best = found.index(min(found))
    assert len(found) == best + 1 + 3 < FAST["epochs"]
    assert done.metrics["mse"] == min(found)
    whole = run(data, **FAST, **extra)
    assert losses(whole)[: len(found)] == found  # up to there nothing is changed
    assert not torch.equal(weights(whole.model), weights(done.model))


def test_patience_counts_tests_not_epochs(data):
    done = run(data, patience=2, evaluate_every=3, **FAST)
    tested = [row for row in done.history.epochs[1:] if "test_mse" in row]
    values = [row["test_mse"] for row in tested]
    assert len(values) == values.index(min(values)) + 1 + 2
    assert done.history.epochs[-1]["epoch"] % 3 == 0


class Stop(Exception):  # noqa: N818
    pass


def stop_after(steps):
    def progress(*, step, **_):
        if step == steps:
            raise Stop

    return progress


def test_a_stopped_run_stops_early_where_it_would_have(data, tmp_path):
    settings = {"patience": 3, "ema_decay": 0.8, **FAST}
    whole = run(data, **settings)
    for steps in (5, whole.steps - 1):  # within an epoch, and while it waits
        with pytest.raises(Stop):
            run(data, folder=tmp_path / "run", progress=stop_after(steps), **settings)
    done = run(data, folder=tmp_path / "run", **settings)
    assert torch.equal(weights(done.model), weights(whole.model))
    assert losses(done) == losses(whole)
    again = run(data, folder=tmp_path / "run", **settings)  # over: read, and the same
    assert torch.equal(weights(again.model), weights(whole.model))


def test_only_a_lower_loss_is_better():
    best, model = Best(), nn.Linear(1, 1)
    for epoch, loss in enumerate([math.nan, 2.0, 2.0, math.nan, 1.0, math.inf], start=1):
        nn.init.constant_(model.weight, epoch)
        best.look(epoch, loss, model)
    assert (best.epoch, best.loss, best.waited) == (5, 1.0, 1)
    best.put_back(model)
    assert model.weight.item() == 5


def test_without_a_finite_test_the_weights_stay():
    best, model = Best(), nn.Linear(1, 1)
    best.look(1, math.nan, model)
    before = model.weight.item()
    best.put_back(model)
    assert model.weight.item() == before


def test_training_sets_are_told_the_epoch_also_when_a_run_goes_on(data, tmp_path):
    told = []

    class Told(type(data.train)):
        def begin_epoch(self, epoch):
            told.append(epoch)

    sets = Told(data.train.stored, data.train.target, data.train.transform)
    config = TrainConfig(epochs=3, batch_size=8)
    folder = tmp_path / "run"
    with pytest.raises(Stop):
        train_model(small_model(data), data.task, sets, data.test, config, folder=folder, execution=CPU, progress=stop_after(3))
    train_model(small_model(data), data.task, sets, data.test, config, folder=folder, execution=CPU)
    assert told == [0, 1, 1, 2]  # the second epoch was begun twice


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"patience": 1.5}, {"patience": 1, "protocol": "released"}])
def test_patience_is_a_number_of_tests(wrong):
    with pytest.raises(ValueError, match="patience"):
        TrainConfig(**wrong)


def test_extra_state_of_a_network_is_kept_with_its_best_weights():
    class Counts(nn.Linear):
        calls = 0

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

    net, best = Counts(1, 1), Best()
    net.calls = 3
    best.look(1, 0.5, net)
    net.calls = 9
    best.put_back(net)
    assert net.calls == 3
