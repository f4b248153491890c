"""A network and its loss as one module, from a batch to a number."""

import pytest
import torch
from lightning_fabric import Fabric
from small_runs import small_model, small_task
from torch import nn

from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets
from orderless.train.learner import Held, Learner


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
