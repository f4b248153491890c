"""Recordings of steps and of answers: that they give what the usual way gives, and give way to it where they cannot.

On the CPU a recorder stands in that does everything again where a GPU would replay it. The same questions are put to a GPU where
there is one.
"""

import copy
import dataclasses
import logging
import math
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from batches import make_batch
from rerun import RerunRecorder
from small_runs import run, small_model, small_task, weights
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from orderless import SetBatch, create_model, io
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.order import BySets
from orderless.tasks.transforms import AsStored
from orderless.train import Execution, GraphedModel, TrainingDiverged, graphs, setup
from orderless.train.graphs import CannotRecord, GraphedSteps, Recorder, Recordings, make_recorder
from orderless.train.learner import Learner
from orderless.train.update import Guard, Update

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
DEVICES = [pytest.param("cpu"), pytest.param("cuda:0", marks=needs_gpu)]
USUAL = "computed in the usual way"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"), num_train=64, set_size=8)


@pytest.fixture(scope="module")
def ragged(data, tmp_path_factory):
    """The same task on sets of 0 to 20 elements."""
    rng = np.random.default_rng(0)

    def write(writer):
        for split, count in (("train", 60), ("test", 30)):
            sizes, spread = rng.integers(0, 21, count), rng.uniform(0.5, 2, count).astype(np.float32)
            elements = rng.normal(size=(sizes.sum(), 1)).astype(np.float32) * np.repeat(spread, sizes)[:, None]
            writer.add_sets(split, elements, sizes, target=spread)
        return {}

    store = io.open_or_build(tmp_path_factory.mktemp("cache") / "ragged", write, key={}, element_shape=(1,))
    targets = {split: torch.tensor(store[split].columns["target"])[:, None] for split in ("train", "test")}
    datasets = {split: SetDataset(store[split], target, AsStored()) for split, target in targets.items()}
    return SimpleNamespace(task=data.task, create_model=partial(create_model, in_features=1, out_features=1), **datasets)


@pytest.fixture
def recorders(monkeypatch):
    """Every recorder that is made; on a CPU they are stand-ins."""
    made = []

    def make(device):
        made.append(Recorder(device) if device.type == "cuda" else RerunRecorder(device))
        return made[-1]

    monkeypatch.setattr(graphs, "make_recorder", make)
    monkeypatch.setattr(setup, "make_recorder", make)
    return made


def said(caplog):
    """The lines in the log about recordings that could not be had."""
    return [record.message for record in caplog.records if record.name == graphs.__name__]


def recorder_of(device):
    return Recorder(torch.device(device)) if device != "cpu" else RerunRecorder()


def brought(batch, device):
    return LabelledSets(batch.sets.to(device), batch.target.to(device))


def close(found, expected):
    # two ways to compute the same in float32, a few steps of training apart
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def assert_trained_alike(model, other, start):
    """Adam takes a full step where a gradient is nothing but rounding: single weights may differ, all together hardly do."""
    moved = (weights(other) - weights(start)).norm()
    assert moved > 1e-3
    assert (weights(model) - weights(other)).norm() < 0.01 * moved


# ------------------------------------------------------------------------------------------------------- recordings


def test_a_recording_is_made_once_and_found_again():
    recordings, made = Recordings("steps"), []
    found = [recordings.find(key, lambda key=key: made.append(key) or key.upper()) for key in "abab"]
    assert found == ["A", "B", "A", "B"]
    assert made == ["a", "b"]


def test_of_too_many_recordings_the_one_not_used_for_the_longest_time_makes_room(monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_RECORDINGS", 2)
    recordings, made = Recordings("steps"), []
    for key in "abacaba":
        assert recordings.find(key, lambda key=key: made.append(key) or key) == key
    assert made == ["a", "b", "c", "b"]


def test_what_comes_once_is_not_worth_a_recording(monkeypatch):
    recordings, made = Recordings("answers", after=2), []
    assert [recordings.find(key, lambda key=key: made.append(key) or key) for key in "abcaa"] == [None, None, None, "a", "a"]
    assert made == ["a"]


def test_what_must_not_be_recorded_is_said_once_and_others_are_recorded(caplog):
    recordings, tried = Recordings("steps"), []

    def refuse():
        tried.append(1)
        raise CannotRecord("of its hook.")

    assert [recordings.find(key, refuse) for key in "aab"] == [None] * 3
    assert len(tried) == 2
    assert recordings.find("c", lambda: "c") == "c"
    assert said(caplog) == [f"CUDA graphs: steps are {USUAL}: of its hook."]


def test_after_a_recording_that_failed_none_is_tried_again(caplog):
    recordings = Recordings("steps")
    assert recordings.find("a", lambda: "a") == "a"

    def fail():
        raise RuntimeError("operation not permitted when stream is capturing\nand a long story")

    assert recordings.find("b", fail) is None
    assert recordings.find("c", lambda: pytest.fail("tried again")) is None
    assert recordings.find("a", lambda: pytest.fail("tried again")) is None
    (record,) = [record for record in caplog.records if record.name == graphs.__name__]
    assert record.levelno == logging.WARNING
    assert record.message == f"CUDA graphs: steps are {USUAL}: RuntimeError: operation not permitted when stream is capturing"


def test_a_recorder_needs_a_gpu():
    with pytest.raises(CannotRecord, match="they need a GPU, and the device is cpu"):
        make_recorder(torch.device("cpu"))


# ------------------------------------------------------------------------------------------------------- steps


def make_steps(data, device, *, is_ragged=False, model=None, judge=None, recorder=None, **options):
    device = torch.device(device)
    model = (small_model(data, **options) if model is None else model).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    update = Update(model, optimizer, clip_norm=1.0, guard=Guard(device, optimizer))
    learner = Learner(model, judge or data.task)
    return GraphedSteps(learner, update, nullcontext, recorder or recorder_of(str(device)), ragged=is_ragged)


def usual_step(steps, batch, rate):
    update, (sets, target) = steps.update, batch
    update.set_rate(rate)
    update.optimizer.zero_grad(set_to_none=True)
    loss = steps.learner.judge.loss(steps.learner.model(sets), target)
    loss.backward()
    numbers = update.measure(loss)
    update.apply()
    return numbers


def take_both_ways(recorded, usual, batches, device):
    """Steps at changing rates, one way and the other: numbers and weights agree."""
    start = copy.deepcopy(usual.learner.model)
    for number, batch in enumerate(batches):
        batch, rate = brought(batch, device), 0.01 / (number + 1)
        numbers = recorded(batch, rate)
        assert numbers is not None
        close(numbers.clone(), usual_step(usual, batch, rate))
        assert_trained_alike(recorded.learner.model, usual.learner.model, start)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", ["set", "feature"])
def test_steps_on_dense_batches_are_the_usual_ones(data, device, norm):
    recorded, usual = (make_steps(data, device, norm=norm) for _ in range(2))
    take_both_ways(recorded, usual, [data.train[n : n + 16] for n in (0, 16, 32)] + [data.train[48:60], data.train[:16]], device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["deep_sets++", "set_transformer++"])
def test_steps_on_ragged_batches_are_the_usual_ones(ragged, device, name):
    recorded, usual = (make_steps(ragged, device, is_ragged=True, name=name, depth=2) for _ in range(2))
    batches = [ragged.train[numbers] for numbers in (range(16), range(16, 32), range(32, 46), range(3), [0], range(16))]
    take_both_ways(recorded, usual, batches, device)


class Chooser(nn.Module):
    """A logit for each element, which depends on its set."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(1, 4), nn.Linear(4, 1)

    def forward(self, sets):
        ids = torch.repeat_interleave(sets.sizes, output_size=sets.num_elements)
        h = self.inner(sets.x)
        return sets.with_x(self.outer((h + h.new_zeros(len(sets), 4).index_add(0, ids, h)[ids]).tanh()))


@pytest.mark.parametrize("device", DEVICES)
def test_steps_on_ragged_batches_with_an_answer_for_each_element_are_the_usual_ones(data, device):
    torch.manual_seed(0)
    first = Chooser()
    second = Chooser()
    second.load_state_dict(first.state_dict())
    judge = OBJECTIVES["element_choice"]
    recorded, usual = (make_steps(data, device, is_ragged=True, model=model, judge=judge) for model in (first, second))
    batches = []
    for seed, sizes in enumerate(([3, 5, 9], [4, 4, 8], [1, 20])):
        target = torch.randint(0, 1000, (len(sizes),), generator=torch.Generator().manual_seed(seed)) % torch.tensor(sizes)
        batches.append(LabelledSets(make_batch(sizes, dim=1, dtype=torch.float32, seed=seed), target))
    take_both_ways(recorded, usual, batches, device)


class Twins(nn.Module):
    """Two weights that get one and the same tensor for a gradient, which must not be clipped twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))

    def forward(self, sets):
        return sets.x[sets.offsets[:-1]] * (self.first + self.second)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_may_share_a_gradient(data, device):
    recorded, usual = (make_steps(data, device, model=Twins()) for _ in range(2))
    take_both_ways(recorded, usual, [data.train[:16], data.train[16:32], data.train[32:48]], device)


def test_batches_of_one_shape_share_a_recording(data):
    recorder = RerunRecorder()
    steps = make_steps(data, "cpu", recorder=recorder)
    for batch in (data.train[:16], data.train[16:32], data.train[32:40], data.train[:16]):
        steps(batch, 0.01)
    assert [tape.replays for tape in recorder.tapes] == [3, 1]


def test_ragged_batches_of_one_bucket_share_a_recording_also_where_sizes_happen_to_be_equal(ragged):
    recorder = RerunRecorder()
    steps = make_steps(ragged, "cpu", is_ragged=True, recorder=recorder, depth=2)
    for numbers in (range(16), range(15, -1, -1), range(16), [5]):
        steps(ragged.train[numbers], 0.01)
    assert ragged.train[[5]].sets.set_size is not None
    assert [tape.replays for tape in recorder.tapes] == [3, 3, 1, 1]  # a network and what follows, twice


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_ragged", [False, True], ids=["dense", "ragged"])
def test_from_a_step_that_is_not_finite_on_the_weights_stay_as_they_are(data, ragged, device, is_ragged):
    task = ragged if is_ragged else data
    steps = make_steps(task, device, is_ragged=is_ragged, depth=2)
    good = brought(task.train[:16], device)
    bad = LabelledSets(good.sets, good.target.clone().index_fill(0, torch.tensor([3], device=device), math.nan))
    steps(good, 0.01)
    before = weights(steps.learner.model)
    assert math.isnan(steps(bad, 0.01)[0].item())
    assert torch.equal(weights(steps.learner.model), before)
    assert math.isfinite(steps(good, 0.01)[0].item())
    assert torch.equal(weights(steps.learner.model), before)


class Random(nn.Module):
    """Draws random numbers, and counts how often it was asked."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.register_buffer("asked", torch.zeros(()))

    def forward(self, sets):
        self.asked += 1
        return (nn.functional.dropout(sets.x, 0.5) * self.weight)[sets.offsets[:-1]]


@pytest.mark.parametrize("device", DEVICES)
def test_recording_takes_no_random_numbers_and_leaves_buffers_alone(data, device):
    batch = LabelledSets(SetBatch.from_padded(torch.rand(64, 8, 1, device=device)), torch.zeros(64, 1, device=device))
    steps = make_steps(data, device, model=Random(), judge=OBJECTIVES["regression"])
    torch.manual_seed(3)
    first = [steps(batch, 0.0)[0].item() for _ in range(3)]
    assert steps.learner.model.asked.item() == 3
    torch.manual_seed(3)
    again = [steps(batch, 0.0)[0].item() for _ in range(3)]
    assert first == again  # the first time there was a recording in between
    assert len(set(first)) == 3


@pytest.mark.parametrize("where", ["module", "weight", "everywhere"])
def test_networks_with_hooks_take_the_usual_way(data, caplog, where):
    steps, handle = make_steps(data, "cpu"), None
    if where == "module":
        steps.learner.model.encoder[1].register_forward_hook(lambda *_: None)
        reason = "encoder.1 (CleanBlock) has a hook"
    elif where == "weight":
        next(steps.learner.model.parameters()).register_post_accumulate_grad_hook(lambda _: None)
        reason = "encoder.0.weight has a hook"
    else:
        handle = register_module_forward_hook(lambda *_: None)
        reason = "there is a hook for all modules"
    before = weights(steps.learner.model)
    try:
        assert steps(data.train[:16], 0.01) is None
        assert steps(data.train[:16], 0.01) is None
    finally:
        if handle is not None:
            handle.remove()
    assert torch.equal(weights(steps.learner.model), before)
    (line,) = said(caplog)
    assert reason in line


@pytest.mark.parametrize("norm", ["feature", "batch"])
def test_norms_over_the_batch_take_the_usual_way_where_sets_are_ragged(ragged, caplog, norm):
    steps = make_steps(ragged, "cpu", is_ragged=True, norm=norm)
    before = weights(steps.learner.model)
    assert steps(ragged.train[:16], 0.01) is None
    assert torch.equal(weights(steps.learner.model), before)
    (line,) = said(caplog)
    assert "Norm) takes statistics over the batch, and ragged sets would need padding" in line


@pytest.mark.parametrize("is_ragged", [False, True], ids=["dense", "ragged"])
def test_a_recording_that_fails_leaves_no_trace(data, ragged, caplog, is_ragged):
    task = ragged if is_ragged else data
    steps = make_steps(task, "cpu", is_ragged=is_ragged, recorder=RerunRecorder(refuse=RuntimeError("it is not permitted")))
    before, state, random = weights(steps.learner.model), steps.update.optimizer.param_groups[0].copy(), torch.get_rng_state()
    assert steps(task.train[:16], 0.01) is None
    assert torch.equal(weights(steps.learner.model), before)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in steps.update.parameters)
    assert steps.update.optimizer.param_groups[0] == state
    assert all(not value.any() for slots in steps.update.optimizer.state.values() for value in slots.values())
    (line,) = said(caplog)
    assert "it is not permitted" in line


class ReadsBack(nn.Module):
    """Decides by a number that it reads from the device, which cannot be recorded."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, sets):
        x = self.layer(sets.x)
        return (x if x.sum().item() > 0 else 2 * x)[sets.offsets[:-1]]


@needs_gpu
def test_networks_that_read_numbers_back_take_the_usual_way(data, caplog):
    steps = make_steps(data, "cuda:0", model=ReadsBack())
    batch, before = brought(data.train[:16], "cuda:0"), weights(steps.learner.model)
    state = torch.cuda.get_rng_state()
    assert steps(batch, 0.01) is None
    assert torch.equal(weights(steps.learner.model), before)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert torch.cuda.get_sync_debug_mode() == 0
    (line,) = said(caplog)
    assert "synchronizing" in line


# ------------------------------------------------------------------------------------------------------- runs


SETTINGS = {
    "plain": {},
    "average and clipping": {"ema_decay": 0.9, "clip_norm": 0.5},
    "warmup and cosine": {"schedule": "cosine", "warmup_steps": 3, "optimizer": "adamw", "weight_decay": 0.1},
    "bf16": {"precision": "bf16-mixed"},
    "noise": {"noise": 0.3},
}
CPU_GRAPHS = Execution(device="cpu", checkpoint_seconds=0, cuda_graphs=True)


def with_graphs(device):
    return dataclasses.replace(CPU_GRAPHS, device=device)


def without_graphs(device):
    return dataclasses.replace(CPU_GRAPHS, device=device, cuda_graphs=False)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_run_from_recordings_ends_where_the_usual_one_does(data, recorders, caplog, settings, device):
    usual = run(data, epochs=3, batch_size=24, execution=without_graphs(device), **settings)
    assert recorders == []
    recorded = run(data, epochs=3, batch_size=24, execution=with_graphs(device), **settings)
    assert len(recorders) == 2  # of steps, and of tests
    assert_trained_alike(recorded.model, usual.model, small_model(data))
    assert recorded.metrics["mse"] == pytest.approx(usual.metrics["mse"], rel=1e-3)
    for mine, its in zip(recorded.history.steps, usual.history.steps, strict=True):
        assert mine == pytest.approx(its, rel=1e-3)
    assert said(caplog) == []


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", [{"batch_size": 16}, {"batch_elements": 100}], ids=["by sets", "by elements"])
def test_a_ragged_run_from_recordings_ends_where_the_usual_one_does(ragged, recorders, caplog, settings, device):
    settings = settings | {"epochs": 3, "ema_decay": 0.9, "clip_norm": 0.5}
    usual = run(ragged, small_model(ragged, depth=2), execution=without_graphs(device), **settings)
    recorded = run(ragged, small_model(ragged, depth=2), execution=with_graphs(device), **settings)
    assert_trained_alike(recorded.model, usual.model, small_model(ragged, depth=2))
    assert recorded.metrics["mse"] == pytest.approx(usual.metrics["mse"], rel=1e-3)
    assert len(recorders) == 2
    assert said(caplog) == []


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(step):
    """At that step, or at the next that is told: on a GPU the first two of an epoch are not."""

    def progress(**told):
        if told["step"] >= step:
            raise Stopped

    return progress


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_stopped_run_from_recordings_goes_on_bit_for_bit(data, recorders, tmp_path, settings, device):
    options = {"epochs": 3, "batch_size": 24, "execution": with_graphs(device)} | settings
    whole = run(data, **options)
    for seed, step in enumerate((1, 2, 5)):
        with pytest.raises(Stopped):
            run(data, small_model(data, seed=seed), folder=tmp_path, progress=stop_at(step), **options)
    resumed = run(data, small_model(data, seed=99), folder=tmp_path, **options)
    assert torch.equal(weights(resumed.model), weights(whole.model))
    assert [row["loss"] for row in resumed.history.steps] == [row["loss"] for row in whole.history.steps]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("graphs_first", [True, False], ids=["recorded first", "usual first"])
def test_a_run_may_go_on_the_other_way(data, recorders, tmp_path, graphs_first, device):
    options = {"epochs": 3, "batch_size": 24, "ema_decay": 0.9}
    first, second = with_graphs(device), without_graphs(device)
    if not graphs_first:
        first, second = second, first
    whole = run(data, execution=second, **options)
    with pytest.raises(Stopped):
        run(data, folder=tmp_path, progress=stop_at(4), execution=first, **options)
    resumed = run(data, small_model(data, seed=99), folder=tmp_path, execution=second, **options)
    assert_trained_alike(resumed.model, whole.model, small_model(data))


@pytest.mark.parametrize("device", DEVICES)
def test_a_recorded_run_stops_at_a_step_that_is_not_finite_and_leaves_the_weights_as_before(data, recorders, device):
    target = data.train.target.clone()
    target[BySets(64, 16, shuffle=True).plan(0)[2][7]] = math.nan  # comes in the third step
    bad = copy.copy(data)
    bad.train = SetDataset(data.train.stored, target, data.train.transform)
    found = []
    for execution in (without_graphs(device), with_graphs(device)):
        model = small_model(data)
        with pytest.raises(TrainingDiverged, match="a target in the training data is NaN") as stopped:
            run(bad, model, batch_size=16, execution=execution)
        found.append((stopped.value.step, model))
    (usual_stopped, usual), (stopped, recorded) = found
    assert stopped == usual_stopped == 3
    assert_trained_alike(recorded, usual, small_model(data))


def test_without_a_gpu_a_run_is_as_usual_and_a_line_says_so(data, caplog):
    usual, asked = run(data, execution=without_graphs("cpu")), run(data, execution=CPU_GRAPHS)
    assert torch.equal(weights(asked.model), weights(usual.model))
    assert said(caplog) == [f"CUDA graphs: training steps and tests are {USUAL}: they need a GPU, and the device is cpu."]


def test_accumulated_batches_take_the_usual_way_and_tests_are_recorded(data, recorders, caplog):
    options = {"accumulate": 3, "batch_size": 16}
    usual = run(data, execution=without_graphs("cpu"), **options)
    asked = run(data, execution=CPU_GRAPHS, **options)
    assert torch.equal(weights(asked.model), weights(usual.model))
    (line,) = said(caplog)
    assert "a step is recorded where it is one batch (accumulate=1) on one device" in line
    assert recorders[0].tapes == []
    assert sum(tape.replays for tape in recorders[1].tapes) > 0


def test_parts_of_sets_are_ragged_however_large_they_are(tmp_path, recorders, caplog):
    task = small_task(tmp_path, num_train=64, set_size=100)
    usual = run(task, execution=without_graphs("cpu"), subsample=0.999)  # of which all are expected, and not all given
    asked = run(task, execution=CPU_GRAPHS, subsample=0.999)
    assert_trained_alike(asked.model, usual.model, small_model(task))
    assert sum(tape.replays for tape in recorders[0].tapes) > 0
    assert said(caplog) == []


def test_ragged_norms_over_the_batch_train_as_usual(ragged, recorders, caplog):
    models = [small_model(ragged, norm="feature") for _ in range(2)]
    usual = run(ragged, models[0], execution=without_graphs("cpu"))
    asked = run(ragged, models[1], execution=CPU_GRAPHS)
    assert torch.equal(weights(asked.model), weights(usual.model))
    assert recorders[0].tapes == []
    assert sum(tape.replays for tape in recorders[1].tapes) > 0  # in eval mode they take no statistics
    assert len(said(caplog)) == 1


@pytest.mark.parametrize("ragged_sets", [False, True], ids=["dense", "ragged"])
def test_a_run_whose_recordings_fail_is_as_usual(data, ragged, monkeypatch, caplog, ragged_sets):
    task = ragged if ragged_sets else data
    monkeypatch.setattr(setup, "make_recorder", lambda device: RerunRecorder(device, refuse=RuntimeError("it is not permitted")))
    usual = run(task, ema_decay=0.9, execution=without_graphs("cpu"))
    asked = run(task, ema_decay=0.9, execution=CPU_GRAPHS)
    assert torch.equal(weights(asked.model), weights(usual.model))
    assert "training steps are computed in the usual way: RuntimeError: it is not permitted" in caplog.text


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*")  # torch's own
def test_compiled_networks_are_recorded_on_ragged_sets(ragged, recorders):
    usual = run(ragged, small_model(ragged, "deep_sets", depth=3), epochs=1, execution=without_graphs("cpu"))
    execution = dataclasses.replace(CPU_GRAPHS, compile=True)
    compiled = run(ragged, small_model(ragged, "deep_sets", depth=3), epochs=1, execution=execution)
    assert_trained_alike(compiled.model, usual.model, small_model(ragged, "deep_sets", depth=3))
    assert recorders[0].tapes
    assert not compiled.model.encoder.compile_layers


# ------------------------------------------------------------------------------------------------------- predictions


def on(device, model, *batches):
    return (model.to(device), *(sets.to(device) for sets in batches))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["deep_sets++", "set_transformer++"])
def test_predictions_are_those_of_the_network(ragged, recorders, device, name):
    sets = [ragged.train[numbers].sets for numbers in (range(16), range(16, 32), range(5), [3], range(16, 32))]
    model, *sets = on(device, small_model(ragged, name, depth=2), *sets)
    predict = GraphedModel(model.eval())
    for _ in range(3):
        for batch in sets:
            found = predict(batch)
            assert not found.requires_grad
            close(found, model(batch).detach())
    assert len(recorders) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_predictions_for_elements_are_those_of_the_network(recorders, device):
    torch.manual_seed(0)
    model, *sets = on(device, Chooser(), *(make_batch(sizes, 1, dtype=torch.float32) for sizes in ([3, 0, 9], [5, 6])))
    predict = GraphedModel(model)
    for _ in range(3):
        for batch in sets:
            found = predict(batch)
            assert torch.equal(found.offsets, batch.offsets)
            close(found.x, model(batch).x.detach())


@pytest.mark.parametrize("device", DEVICES)
def test_an_answer_outlives_the_next(data, recorders, device):
    model, first, second = on(device, small_model(data), data.train[:8].sets, data.train[8:16].sets)
    predict = GraphedModel(model.eval())
    predict(first)
    kept = predict(first)
    before = kept.clone()
    assert not torch.equal(predict(second), before)
    assert torch.equal(kept, before)


@pytest.mark.parametrize("device", DEVICES)
def test_predictions_follow_the_weights_the_mode_and_the_precision(data, recorders, device):
    """The mode matters to the norm over the batch: with other statistics come other answers."""
    model, sets, other = on(device, small_model(data, norm="feature"), data.train[:16].sets, data.train[16:32].sets)
    predict = GraphedModel(model)

    def same():
        for batch in (sets, other, sets):
            statistics = {name: value.clone() for name, value in model.named_buffers()}
            expected = model(batch).detach()
            model.load_state_dict(statistics, strict=False)
            close(predict(batch), expected)
            model.load_state_dict(statistics, strict=False)

    model.eval()
    same()
    for p in model.parameters():
        p.data.mul_(1.5)
    same()
    model.load_state_dict(small_model(data, norm="feature", seed=7).state_dict())
    same()
    model.train()
    same()
    model.eval()
    for _ in range(3):
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            mixed, expected = predict(sets), model(sets).detach()
        torch.testing.assert_close(mixed, expected, rtol=2e-2, atol=2e-2)  # bfloat16 has three digits
    model.double()
    sets, other = sets.to(torch.float64), other.to(torch.float64)
    same()


@pytest.mark.parametrize("device", DEVICES)
def test_weights_that_change_under_autocast_are_cast_anew(data, recorders, device):
    model, sets = on(device, small_model(data).eval(), data.train[:16].sets)
    predict = GraphedModel(model)
    found, states = [], []
    with torch.autocast(torch.device(device).type, torch.bfloat16), torch.no_grad():
        for factor in (1.0, 1.0, 1.5):
            for p in model.parameters():
                p.mul_(factor)
            found.append(predict(sets))
            states.append(copy.deepcopy(model))
    for answer, state in zip(found, states, strict=True):
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            expected = state(sets).detach()
        torch.testing.assert_close(answer, expected, rtol=2e-2, atol=2e-2)  # bfloat16 has three digits


def test_each_mode_and_place_of_the_weights_has_its_recording(data, recorders):
    model, sets = small_model(data), data.train[:16].sets
    predict = GraphedModel(model)

    def recorded():
        for _ in range(3):
            predict(sets)
        return len(recorders[0].tapes)

    assert recorded() == 1
    model.encoder[1].eval()
    assert recorded() == 2
    model.train()
    assert recorded() == 2
    next(model.parameters()).data = next(model.parameters()).data.clone()
    assert recorded() == 3


def test_predictions_on_a_cpu_are_the_networks_and_a_line_says_so(data, caplog):
    model, predict = small_model(data).eval(), GraphedModel(small_model(data).eval())
    for _ in range(3):
        for batch in (data.train[:16], data.train[16:40]):
            assert torch.equal(predict(batch.sets), model(batch.sets).detach())
    assert said(caplog) == [f"CUDA graphs: predictions are {USUAL}: they need a GPU, and the device is cpu."]


def test_shapes_that_come_once_are_not_recorded(data, recorders):
    predict = GraphedModel(small_model(data).eval())
    for size in range(1, 20):
        predict(data.train[:size].sets)
    assert recorders == []


def test_ragged_predictions_in_training_mode_with_norms_over_the_batch_are_as_usual(ragged, recorders, caplog):
    predict = GraphedModel(small_model(ragged, norm="batch").train())
    twin = small_model(ragged, norm="batch").train()
    for _ in range(3):
        assert torch.equal(predict(ragged.train[:16].sets), twin(ragged.train[:16].sets).detach())
    assert all(recorder.tapes == [] for recorder in recorders)
    (line,) = said(caplog)
    assert "takes statistics over the batch" in line


def test_an_answer_that_cannot_be_cut_is_given_as_usual(ragged, recorders, caplog):
    class Total(nn.Module):
        def forward(self, sets):
            return sets.x.sum()

    predict, sets = GraphedModel(Total()), ragged.train[:16].sets
    for _ in range(3):
        assert torch.equal(predict(sets), sets.x.sum())
    assert "padding can be cut off a tensor with one row per set" in caplog.text


@pytest.mark.parametrize("is_ragged", [False, True], ids=["dense", "ragged"])
def test_an_answer_of_another_kind_is_given_as_usual(data, ragged, recorders, caplog, is_ragged):
    class Both(nn.Module):
        def forward(self, sets):
            return {"sets": len(sets), "elements": sets.num_elements}

    predict, sets = GraphedModel(Both()), (ragged if is_ragged else data).train[:16].sets
    for _ in range(3):
        assert predict(sets) == {"sets": 16, "elements": sets.num_elements}
    assert said(caplog) == [
        f"CUDA graphs: predictions are {USUAL}: the network returns neither a tensor nor a SetBatch, but dict."
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_predictions_may_be_asked_for_in_inference_mode_and_without(data, recorders, device):
    model, sets = on(device, small_model(data).eval(), data.train[:16].sets)
    predict, expected = GraphedModel(model), model(sets).detach()
    for _ in range(2):
        with torch.inference_mode():
            for _ in range(3):
                close(predict(sets), expected)
        for _ in range(3):
            close(predict(sets), expected)


@needs_gpu
def test_recordings_make_room_on_the_device(data, monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_RECORDINGS", 2)
    model = small_model(data).eval().to("cuda:0")
    predict = GraphedModel(model)
    for size in (4, 4, 8, 8, 12, 12, 4, 4, 4, 12, 8, 8):
        sets = data.train[:size].sets.to("cuda:0")
        close(predict(sets), model(sets).detach())


@needs_gpu
def test_a_recording_that_fails_on_the_device_leaves_everything_usable():
    """In a process of its own: what PyTorch would leave behind could be anything."""
    script = Path(__file__).with_name("failed_recording.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "usable\n"
    assert "training steps are computed in the usual way" in done.stderr
