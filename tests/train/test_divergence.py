"""NaN and infinity: where they came from, and that they do no harm."""

import copy

import pytest
import torch
from small_runs import run, small_model, small_task, weights
from torch import nn

from orderless import SetBatch
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.train import Execution, History, TrainingDiverged
from orderless.train.divergence import first_not_finite


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


class Poisoned(nn.Module):
    """Gives NaN from its third training step on."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, sets):
        self.calls += self.training
        out = self.inner(sets)
        return out * torch.nan if self.calls > 2 else out


def test_a_loss_that_is_nan_stops_the_run_before_it_touches_the_weights(data, tmp_path):
    kept = {}

    def keep(**told):
        kept[told["step"]] = weights(model.inner).clone()

    model = Poisoned(small_model(data))
    with pytest.raises(TrainingDiverged) as caught:
        run(data, model, folder=tmp_path, progress=keep)
    assert caught.value.step == 3
    assert "training stopped at step 3: the loss became NaN" in str(caught.value)
    assert f"`orderless diagnose {tmp_path}`" in str(caught.value)
    assert torch.equal(weights(model.inner), kept[2])
    assert History.read(tmp_path).steps[-1] == {"step": 3, "loss": None, "gradient_norm": None, "learning_rate": 0.001}


def batch_of(x, target=0.0):
    return LabelledSets(SetBatch.from_list([torch.tensor(x)]), torch.tensor([[target]]))


def square_error(output, target):
    return (output - target).square().mean()


class Sum(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, sets):
        return self.layers(sets.x).sum().reshape(1, 1)


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_the_first_layer_that_is_not_finite_is_named():
    model = Sum(nn.Linear(1, 1), Apply(lambda x: x / 0), nn.Linear(1, 1))
    said = first_not_finite(model, batch_of([[1.0]]), square_error)
    assert said == "the output of layers.1 (Apply) became infinite"


def test_a_gradient_that_is_not_finite_is_named():
    model = Sum(nn.Linear(1, 1, bias=False), Apply(lambda x: (x * 0).sqrt()))
    said = first_not_finite(model, batch_of([[1.0]], target=2.0), square_error)
    assert said == "the gradient of layers.0.weight became NaN, with a loss of 4"


def test_a_norm_that_is_not_finite_although_every_gradient_is():
    model = Sum(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for layer, weight in zip(model.layers, (1e-25, 1e12), strict=True):
        nn.init.constant_(layer.weight, weight)
    said = first_not_finite(model, batch_of([[1.0]], target=-5e11), square_error)  # 2 * 5e11 * 1e12, whose square is 1e48
    assert said == "the norm of the gradient is beyond float32: that of layers.0.weight has 1e+24 in it, the loss is 2.5e+23"


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (batch_of([[float("nan")]]), "the elements of a set in the training data are NaN"),
        (batch_of([[1.0]], target=float("inf")), "a target in the training data is infinite"),
    ],
    ids=["elements", "target"],
)
def test_data_that_are_not_finite_are_blamed_themselves(batch, said):
    assert first_not_finite(Sum(nn.Linear(1, 1)), batch, square_error) == said


def test_data_that_are_not_finite_are_not_cured_by_a_learning_rate(data):
    broken = copy.copy(data)
    broken.train = SetDataset(data.train.stored, data.train.target * torch.nan, data.train.transform)
    with pytest.raises(TrainingDiverged, match=r"a target in the training data is NaN\. Leave out such elements") as caught:
        run(broken)
    assert caught.value.in_data
    assert "learning_rate" not in str(caught.value)


def test_a_loss_that_is_not_finite_although_every_layer_is():
    said = first_not_finite(Sum(nn.Linear(1, 1)), batch_of([[1.0]]), lambda out, target: (out - out).log().mean())
    assert said == "the loss became infinite although every layer's output is finite"


def test_a_step_that_is_finite_has_nothing_to_name_and_leaves_no_hooks():
    model = Sum(nn.Linear(1, 1))
    assert first_not_finite(model, batch_of([[1.0]]), square_error) is None
    assert not any(module._forward_hooks for module in model.modules())


class PoisonedByTheCompiler(Poisoned):
    def forward(self, sets):
        out = self.inner(sets)
        return out * torch.nan if torch.compiler.is_compiling() and self.training else out


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch.*")  # torch's own
def test_what_a_compiler_did_is_told_from_what_the_network_did(data):
    model = PoisonedByTheCompiler(small_model(data, depth=2))
    with pytest.raises(TrainingDiverged, match=r"step 1: everything is finite when .* without torch\.compile and CUDA graphs"):
        run(data, model, execution=Execution(device="cpu", compile=True))


def test_a_real_explosion_is_found(data):
    with pytest.raises(TrainingDiverged, match=r"training stopped at step \d+: (the output|the loss|the gradient|the norm)"):
        run(data, small_model(data, "set_transformer", depth=2), learning_rate=1e18, epochs=20)
