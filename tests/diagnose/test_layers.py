"""Reading layers: which there are, what is read of them, and that nothing of it stays behind."""

import copy
import json
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from batches import make_batch
from torch import nn

import orderless as ol
from orderless.diagnose import LayerObserver, read_layers
from orderless.diagnose.layers import as_floats, as_json_number
from orderless.tasks import LabelledSets

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def mean_square(output):
    return output.square().mean()


def labelled(sizes=(5, 1, 7), dim=2, dtype=torch.float32):
    return LabelledSets(make_batch(list(sizes), dim, dtype=dtype), torch.arange(len(sizes), dtype=dtype)[:, None])


# --------------------------------------------------------------------------------------------------- which layers there are


def test_fifty_layers_of_deep_sets_are_52_layers_and_a_decoder():
    names = read_layers(ol.create_model("deep_sets", 2, 1, depth=50, width=8), labelled(), F.mse_loss).names
    assert names == (*(f"encoder.{n}" for n in range(52)), "decoder.0", "decoder.2", "decoder.4", "decoder.6")


def test_a_block_with_all_its_weights_is_one_layer():
    names = read_layers(ol.create_model("set_transformer++", 2, 1, depth=3, width=8), labelled(), F.mse_loss).names
    blocks = [f"encoder.{n}" for n in range(5)]  # a linear layer, three blocks, a norm
    assert names == (*blocks, "pool", "decoder.blocks.0", "decoder.blocks.1", "decoder.blocks.2", "decoder.out")


def test_layers_of_a_plain_module_are_its_parts():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.ones(3))
            self.inner = nn.Linear(3, 3)
            self.attend = nn.MultiheadAttention(3, 1)
            self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

        def forward(self, x):
            h = self.inner(x + self.token)
            h, _ = self.attend(h, h, h)
            return self.blocks[1](self.blocks[0](h))

    found = read_layers(Network(), X, mean_square)
    assert found.names == ("Network", "inner", "attend", "blocks.0", "blocks.1")
    assert found.gradient[0] > 0  # of the token, which is the module's own weight
    assert found.activation[0] is None  # what the module gives is the work of the others


def test_a_layer_whose_weights_are_made_of_others_is_one_layer():
    """Weight norm keeps what it makes a weight of in lists inside the layer."""
    plain = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 2))
    for layer in (plain[0], plain[1][0]):
        nn.utils.parametrizations.weight_norm(layer)
    found = read_layers(plain, X, mean_square)
    assert found.names == ("0", "1.0", "2")
    assert all(value > 0 for value in (*found.gradient, *found.activation))


def test_complex_numbers_count_by_their_size():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([3.0 + 4.0j]))

        def forward(self, x):
            return self.weight * torch.ones(5)

    found = read_layers(Turned(), X, lambda out: out.abs().square().mean())
    assert found.activation == (pytest.approx(5.0),)
    assert found.gradient == (pytest.approx(10.0),)  # of |w|^2 it is 2 |w|


def test_a_module_that_is_one_layer_has_its_own_name():
    assert read_layers(nn.Linear(3, 1), X, mean_square).names == ("Linear",)


def test_layers_come_in_the_order_in_which_they_run():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.middle, self.first = (nn.Linear(3, 3) for _ in range(3))

        def forward(self, x):
            return self.last(self.middle(self.first(x)))

    assert read_layers(Backwards(), X, mean_square).names == ("first", "middle", "last")


# --------------------------------------------------------------------------------------------------- what is read


def test_gradients_are_those_of_backward():
    model, batch = ol.create_model("deep_sets++", 2, 1, depth=4, width=8), labelled()
    found = read_layers(model, batch, F.mse_loss)
    loss = F.mse_loss(model(batch.sets), batch.target)
    loss.backward()
    assert found.loss == loss.item()
    for name, gradient in zip(found.names, found.gradient, strict=True):
        weights = model.get_submodule(name).parameters()
        assert gradient == pytest.approx(torch.cat([p.grad.flatten() for p in weights]).norm().item(), rel=1e-5)


def test_activations_are_the_root_mean_square_of_what_a_layer_gives():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))
    found = read_layers(model, X, mean_square)
    first = model[0](X)
    assert found.activation[0] == pytest.approx(first.square().mean().sqrt().item(), rel=1e-6)  # before the ReLU overwrote it
    assert found.activation[1] == pytest.approx(model[2](first.relu()).square().mean().sqrt().item(), rel=1e-6)


class Repeated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(10 * self.layer(x))


def test_a_weight_that_layers_share_counts_for_the_first_that_runs():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.middle, self.write, self.copy = (nn.Linear(3, 3) for _ in range(4))
            self.read.weight = self.write.weight  # the layer that is made first runs last
            self.copy.weight, self.copy.bias = self.middle.weight, self.middle.bias

        def forward(self, x):
            return self.read(self.copy(self.middle(self.write(x)).relu()).relu())

    model = Tied()
    found = read_layers(model, X, mean_square)
    mean_square(model(X)).backward()
    assert found.names == ("write", "middle", "copy", "read")
    own = [(model.write.weight, model.write.bias), (model.middle.weight, model.middle.bias), (), (model.read.bias,)]
    norms = [torch.stack([weight.grad.norm() for weight in weights]).norm().item() if weights else None for weights in own]
    assert found.gradient == pytest.approx(norms)
    of_all = torch.stack([weight.grad.norm() for weight in model.parameters()]).norm().item()
    assert math.hypot(*(norm for norm in found.gradient if norm is not None)) == pytest.approx(of_all)


def test_a_layer_called_twice_is_read_over_both_calls():
    model = Repeated()
    found = read_layers(model, X, mean_square)
    first = model.layer(X)
    both = torch.cat([first, model.layer(10 * first)])
    assert found.activation[0] == pytest.approx(both.square().mean().sqrt().item(), rel=1e-6)
    mean_square(model(X)).backward()
    assert found.gradient[0] == pytest.approx(math.hypot(*(p.grad.norm() for p in model.layer.parameters())), rel=1e-6)


def test_a_layer_in_two_places_is_one_layer():
    shared = nn.Linear(3, 3)
    model = nn.Sequential(nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared, nn.Linear(3, 1)))
    assert read_layers(model, X, mean_square).names == ("0.0", "1.1")


def test_a_layer_that_is_never_called_has_no_readings_and_comes_last():
    found = read_layers(Repeated(), X, mean_square)
    assert (found.names[-1], found.gradient[-1], found.activation[-1]) == ("unused", None, None)


def test_a_layer_cut_off_from_the_loss_has_gradient_zero():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.second(self.first(x).detach())

    found = read_layers(Cut(), X, mean_square)
    assert found.gradient[0] == 0.0
    assert found.activation[0] > 0


def test_a_frozen_layer_has_no_gradient():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    found = read_layers(model, X, mean_square)
    assert found.gradient[0] is None
    assert found.gradient[1] > 0
    assert found.activation[0] > 0


@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: ol.SetBatch(x, [0, 1, 4]), lambda x: (x, torch.arange(3)), lambda x: {"a": x, "b": [x]}],
    ids=["tensor", "SetBatch", "tuple", "dict"],
)
def test_whatever_holds_tensors_is_read(wrap):
    class Wrapping(nn.Linear):
        def forward(self, x):
            return wrap(super().forward(x))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Wrapping(3, 2)

        def forward(self, x):
            self.layer(x)
            return F.linear(x, self.layer.weight, self.layer.bias)

    network = Network()
    expected = network(X).square().mean().sqrt().item()
    assert read_layers(network, X, mean_square).activation[0] == pytest.approx(expected, rel=1e-6)


def test_a_layer_that_gives_no_numbers_has_no_activation():
    sets = ol.SetBatch(torch.empty(0, 2), [0, 0, 0])
    model = ol.create_model("deep_sets", 2, 1, depth=2, width=4)
    found = read_layers(model, LabelledSets(sets, torch.ones(2, 1)), F.mse_loss)
    assert found.activation[0] is None
    assert found.activation[-1] is not None  # the decoder gets zeros, and answers


def test_tiny_gradients_do_not_become_zero():
    model = nn.Linear(3, 1)
    found = read_layers(model, X, lambda output: 1e-30 * output.sum())  # whose square float32 does not have
    assert found.gradient[0] == pytest.approx(1e-30 * math.hypot(*X.sum(0).tolist(), len(X)), rel=1e-5)


def test_several_arguments_are_a_tuple():
    assert read_layers(nn.Bilinear(3, 3, 1), (X, X), mean_square).gradient[0] > 0


def test_what_is_not_finite_is_read_and_fits_into_json():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with torch.no_grad():
        model[0].weight.fill_(torch.inf)
    row = read_layers(model, X.abs() + 1, mean_square).to_row()
    text = json.dumps(row, allow_nan=False)
    assert row["activation"] == ["inf", "nan"]
    assert math.isnan(as_floats(json.loads(text)["gradient"])[0])


def test_numbers_come_back_from_json():
    values = [1.5, None, math.inf, -math.inf, 0.0]
    assert as_floats(json.loads(json.dumps([as_json_number(v) for v in values], allow_nan=False))) == values


def test_autocast_is_read_as_it_computes():
    model, batch = ol.create_model("deep_sets++", 2, 1, depth=4, width=8), labelled()
    plain = read_layers(model, batch, F.mse_loss)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = read_layers(model, batch, lambda output, target: F.mse_loss(output.float(), target))
    assert low.gradient != plain.gradient
    assert low.gradient == pytest.approx(plain.gradient, rel=0.2)  # bfloat16 has three digits
    assert low.activation == pytest.approx(plain.activation, rel=0.05)


@pytest.mark.parametrize("no_grad", [torch.no_grad, torch.inference_mode])
def test_gradients_are_read_even_where_they_are_switched_off(no_grad):
    model = nn.Linear(3, 1)
    with no_grad():
        assert read_layers(model, X, mean_square).gradient[0] > 0


# --------------------------------------------------------------------------------------------------- wrappers


def in_fabric(model):
    fabric = pytest.importorskip("lightning_fabric").Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    return fabric.setup(model)


compiled = pytest.param(
    torch.compile,
    marks=[
        pytest.mark.traced,
        pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    ],  # torch's own, while it loads its tracer
    id="compile",
)


@pytest.mark.parametrize("wrap", [compiled, nn.DataParallel, in_fabric])
def test_wrappers_are_looked_through(wrap):
    model, batch = ol.create_model("deep_sets", 2, 1, depth=2, width=4), labelled()
    assert read_layers(wrap(model), batch, F.mse_loss) == read_layers(model, batch, F.mse_loss)


# --------------------------------------------------------------------------------------------------- leaving no trace


class Untidy(nn.Module):
    """Draws from every random state, has running statistics, and replaces a buffer."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.dropout, self.second = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("nothing", None)

    def forward(self, x):
        self.count = self.count + 1
        noise = random.random() + np.random.rand()  # noqa: NPY002 - as people do
        return self.second(self.dropout(self.norm(self.first(x)))) * (1 + noise)


def everything(model):
    """All that a reading could change, as values that can be compared."""
    return {
        "weights": {k: v.clone() for k, v in model.state_dict().items()},
        "gradients": [None if p.grad is None else (id(p.grad), p.grad.clone()) for p in model.parameters()],
        "modes": [m.training for m in model.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()],
        "buffers": [id(b) for b in model.buffers()],
        "random": (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()),  # noqa: NPY002
    }


def assert_same(before, after):
    for what in ("modes", "hooks", "buffers"):
        assert before[what] == after[what], what
    torch.testing.assert_close(after["weights"], before["weights"], rtol=0, atol=0)
    torch.testing.assert_close(after["random"][0], before["random"][0], rtol=0, atol=0)
    assert before["random"][1:] == after["random"][1:]
    for was, now in zip(before["gradients"], after["gradients"], strict=True):
        assert (was is None) == (now is None)
        if was is not None:
            assert was[0] == now[0]
            torch.testing.assert_close(now[1], was[1], rtol=0, atol=0)


def untidy():
    model = Untidy()
    model.first.weight.grad = torch.ones(8, 3)
    model.eval()
    model.norm.train()
    return model


def test_reading_leaves_no_trace():
    model = untidy()
    before = everything(model)
    once = read_layers(model, X, mean_square)
    assert_same(before, everything(model))
    assert read_layers(model, X, mean_square) == once


def test_a_failed_reading_leaves_no_trace():
    model = untidy()
    before = everything(model)

    def fail(output):
        raise RuntimeError("no loss today")

    with pytest.raises(RuntimeError, match="no loss today"):
        read_layers(model, X, fail)
    assert_same(before, everything(model))


def test_networks_are_read_in_training_mode():
    model = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5), nn.Linear(50, 1))
    training = read_layers(model, X, mean_square)
    assert read_layers(model.eval(), X, mean_square) == training
    without = read_layers(nn.Sequential(model[0], model[2]), X, mean_square)
    assert training.activation[1] != pytest.approx(without.activation[1], rel=1e-3)


def test_training_goes_on_as_if_nobody_had_looked():
    def train(look):
        torch.manual_seed(0)
        model = ol.create_model("deep_sets_pointcloud", 2, 1, width=8)  # it has dropout
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            if look:
                read_layers(model, labelled(), F.mse_loss)
            optimizer.zero_grad()
            F.mse_loss(model(labelled().sets), labelled().target).backward()
            optimizer.step()
        return model.state_dict()

    torch.testing.assert_close(train(look=True), train(look=False), rtol=0, atol=0)


# --------------------------------------------------------------------------------------------------- observing, and refusing


def test_the_observer_reads_the_same_batch_each_time():
    model, batch = ol.create_model("deep_sets", 2, 1, depth=2, width=4), labelled()
    observer = LayerObserver(batch, F.mse_loss)
    before = observer(SimpleNamespace(model=model))
    assert before == read_layers(model, batch, F.mse_loss).to_row()
    assert set(before) == {"names", "gradient", "activation"}
    with torch.no_grad():
        model.encoder[0].fc.weight.mul_(100)
    after = observer(SimpleNamespace(model=model))
    assert after["names"] == before["names"]
    assert after["activation"][0] > 10 * before["activation"][0]


def test_the_observer_moves_its_batch_to_the_network():
    moved = []

    class Somewhere:
        def __init__(self, tensor):
            self.tensor = tensor

        def to(self, device):
            moved.append(device)
            return self.tensor

    batch = labelled()
    observer = LayerObserver(LabelledSets(Somewhere(batch.sets), Somewhere(batch.target)), F.mse_loss)
    observer(SimpleNamespace(model=ol.create_model("deep_sets", 2, 1, depth=2, width=4)))
    assert moved == [torch.device("cpu")] * 2


@pytest.mark.parametrize(
    "loss", [lambda output: output, lambda output: output.sum().item(), lambda output: output.detach().sum()],
    ids=["not a scalar", "a number", "detached"],
)  # fmt: skip
def test_a_loss_that_cannot_be_differentiated_is_refused(loss):
    with pytest.raises(ValueError, match="a scalar tensor that depends on the weights"):
        read_layers(nn.Linear(3, 2), X, loss)


def test_a_module_without_weights_is_refused():
    with pytest.raises(ValueError, match="ReLU has no weights"):
        read_layers(nn.ReLU(), X, mean_square)


def test_a_module_that_makes_its_weights_later_is_refused():
    model = nn.Sequential(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="run it on a batch before"):
        read_layers(model, X, mean_square)


def test_a_model_of_another_seed_gives_other_numbers():
    model = ol.create_model("deep_sets", 2, 1, depth=2, width=4)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.decoder[0].weight.add_(1)
    assert read_layers(model, labelled(), F.mse_loss) != read_layers(other, labelled(), F.mse_loss)
