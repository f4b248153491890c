"""A batch's loss and gradients, step by step and from a recording."""

from contextlib import nullcontext

import pytest
import torch
from lightning_fabric import Fabric
from small_runs import run, small_model, small_task, weights
from torch import nn

from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets
from orderless.tasks.objectives import OBJECTIVES
from orderless.train import Execution
from orderless.train.gradients import GraphedGradients, Held, Learner

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"), num_train=64, set_size=8)


def test_a_learner_gives_the_loss_of_the_judge(data):
    model, batch = small_model(data), data.train[:16]
    loss = Learner(model, data.task)(Held(batch))
    assert loss.shape == ()
    expected = (model(batch.sets) - batch.target).square().mean()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    torch.testing.assert_close(gradients, list(torch.autograd.grad(expected, list(model.parameters()))))


class Scale(nn.Module):
    """Gives every element, or the first of every set, times a weight."""

    def __init__(self, dtype, *, per_element):
        super().__init__()
        self.weight, self.per_element = nn.Parameter(torch.tensor(1.0, dtype=dtype)), per_element

    def forward(self, sets):
        x = sets.x.to(self.weight.dtype) * self.weight
        return sets.with_x(x) if self.per_element else x[sets.offsets[:-1]]


class Watching:
    """A judge that notes what it is given."""

    metric = "mse"

    def __init__(self):
        self.dtypes = []

    def loss(self, output, target):
        x = output.x if isinstance(output, SetBatch) else output
        self.dtypes.append(x.dtype)
        return x.square().mean()


@pytest.mark.parametrize("per_element", [False, True], ids=["sets", "elements"])
@pytest.mark.parametrize(
    ("dtype", "judged"),
    [(torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float32, None), (torch.float64, None)],
    ids=["bf16", "fp16", "fp32", "fp64"],
)
def test_a_loss_is_computed_in_float32_at_least(dtype, judged, per_element):
    judge = Watching()
    batch = LabelledSets(SetBatch.from_list([torch.ones(2, 1), torch.ones(3, 1)]), torch.zeros(2, 1))
    Learner(Scale(dtype, per_element=per_element), judge)(Held(batch)).backward()
    assert judge.dtypes == [judged or dtype]


def test_a_learner_has_the_weights_of_its_network_alone(data):
    model = small_model(data)
    assert [id(p) for p in Learner(model, data.task).parameters()] == [id(p) for p in model.parameters()]


def test_a_batch_goes_through_fabrics_precision_untouched():
    """Fabric casts inputs to float32 by taking dataclasses apart, which would end in an error for sets, or change targets."""
    seen = []

    class Echo(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 1)

        def forward(self, sets):
            seen.append((sets, torch.is_autocast_enabled("cpu")))
            return self.linear(sets.x)[sets.offsets[:-1]]

    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    judge = Watching()
    learner = fabric.setup_module(Learner(Echo(), judge))
    batch = LabelledSets(SetBatch.from_list([torch.ones(2, 1), torch.ones(3, 1)]), torch.zeros(2, 1))
    loss = learner(Held(batch))
    fabric.backward(loss)
    ((sets, mixed),) = seen
    assert sets is batch.sets
    assert mixed
    assert judge.dtypes == [torch.float32]  # the network answered in bfloat16
    assert learner.module.model.linear.weight.grad is not None


# ------------------------------------------------------------------------------------------------------- recordings


class Usual:
    """Stands for the usual way: notes the batches that take it."""

    def __init__(self):
        self.batches = []

    def __call__(self, batch):
        self.batches.append(batch)
        return torch.tensor(7.0)


def test_ragged_batches_take_the_usual_way(data):
    usual = Usual()
    graphed = GraphedGradients(Learner(small_model(data), data.task), nullcontext, usual)
    ragged = LabelledSets(SetBatch.from_list([torch.ones(2, 1), torch.ones(3, 1)]), torch.zeros(2, 1))
    assert graphed(ragged).item() == 7.0
    assert usual.batches == [ragged]


def test_at_most_two_shapes_are_recorded_and_others_take_the_usual_way(data, monkeypatch):
    """A recording keeps its memory, so it is for a full batch and the last of an epoch."""
    recorded, replays, usual = [], [], Usual()

    class Graph:
        def __init__(self, name):
            self.name = name

        def replay(self):
            replays.append(self.name)

    def record(self, batch):
        recorded.append(len(batch.target))
        static = LabelledSets(batch.sets.with_x(torch.zeros_like(batch.sets.x)), torch.zeros_like(batch.target))
        statics.append(static)
        return Graph(len(batch.target)), static, torch.tensor(float(len(batch.target))), [None for _ in self.module.parameters()]

    statics = []
    monkeypatch.setattr(GraphedGradients, "_record", record)
    graphed = GraphedGradients(Learner(small_model(data), data.task), nullcontext, usual)
    found = [graphed(data.train[:size]).item() for size in (16, 8, 4, 16, 8)]
    assert recorded == [16, 8]
    assert replays == [16, 8, 16, 8]
    assert found == [16.0, 8.0, 7.0, 16.0, 8.0]
    assert [len(batch.target) for batch in usual.batches] == [4]
    graphed(data.train[16:32])
    assert torch.equal(statics[0].sets.x, data.train[16:32].sets.x)  # each batch is brought to where the recording reads it
    assert torch.equal(statics[0].target, data.train[16:32].target)


@needs_gpu
@pytest.mark.parametrize("norm", ["set", "batch"])
def test_a_replay_gives_the_loss_and_gradients_of_the_usual_way(data, norm):
    device = torch.device("cuda", 0)
    model, twin = (small_model(data, norm=norm).to(device) for _ in range(2))
    usual = Usual()
    graphed = GraphedGradients(Learner(model, data.task), nullcontext, usual)
    plain = Learner(twin, data.task)
    for start in (0, 16, 32):
        batch = LabelledSets(data.train[start : start + 16].sets.to(device), data.train[start : start + 16].target.to(device))
        twin.zero_grad()
        expected = plain(Held(batch))
        expected.backward()
        torch.testing.assert_close(graphed(batch), expected.detach(), rtol=1e-5, atol=1e-6)
        for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-6)
    for mine, its in zip(model.buffers(), twin.buffers(), strict=True):  # warming up and recording taught no running statistics
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)
    assert usual.batches == []


@needs_gpu
def test_recording_takes_no_random_numbers(data):
    class Random(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, sets):
            return (nn.functional.dropout(sets.x, 0.5) * self.weight)[sets.offsets[:-1]]

    device = torch.device("cuda", 0)
    batch = LabelledSets(SetBatch.from_padded(torch.rand(64, 8, 1, device=device)), torch.zeros(64, 1, device=device))
    graphed = GraphedGradients(Learner(Random().to(device), OBJECTIVES["regression"]), nullcontext, Usual())
    torch.cuda.manual_seed(3)
    first = [graphed(batch).item() for _ in range(3)]
    torch.cuda.manual_seed(3)
    again = [graphed(batch).item() for _ in range(3)]
    assert first == again  # the first time there was a recording in between
    assert len(set(first)) == 3


@needs_gpu
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_run_from_recordings_ends_where_the_usual_one_does(data, precision):
    usual, graphed = (
        run(data, epochs=3, batch_size=24, precision=precision, execution=Execution(device="cuda", cuda_graphs=graphs))
        for graphs in (False, True)
    )
    torch.testing.assert_close(weights(graphed.model), weights(usual.model), rtol=1e-3, atol=1e-5)
    assert graphed.metrics["mse"] == pytest.approx(usual.metrics["mse"], rel=1e-3)
    assert not torch.equal(weights(graphed.model), weights(small_model(data)))
