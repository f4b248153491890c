"""What ours is measured beside computes the same function (`bench/peers.py`)."""

import copy

import peers
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import orderless as ol
from orderless import ops

SMALL = {
    "deep_sets": {"depth": 5, "width": 16},
    "set_transformer": {"depth": 3, "width": 16, "num_inducing": 5},
    "deep_sets++": {"depth": 6, "width": 16},
    "set_transformer++": {"depth": 3, "width": 16, "num_inducing": 5},
}
RAGGED = [7, 1, 12]
ROUNDING = {"rtol": 1e-9, "atol": 1e-11}  # float64, whose rounding of 1e-16 grows through a few layers and sums


def small_model(name):
    model = ol.create_model(name, 3, 2, **SMALL[name]).double()
    with torch.no_grad():
        for parameter in model.parameters():  # scales of 1 and shifts of 0 would hide a mistake
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def gradients(module, out):
    target = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    found = torch.autograd.grad((out - target).square().mean(), list(module.parameters()))
    return dict(zip(dict(module.named_parameters()), found, strict=True))


def assert_gradients_close(found, expected):
    """To 1e-12 of the largest: a few thousand roundings.

    Some are sums that cancel. Peers compute scores of a set's only value, which decide nothing and which ours leaves out; what
    rounding leaves of their gradients, where there should be zeros, goes on to the layers before.
    """
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=max(1e-11, 1e-12 * largest))


@pytest.mark.parametrize("style", ["released", "plain"])
@pytest.mark.parametrize("name", SMALL)
def test_a_peer_gives_the_outputs_and_gradients_of_our_model(name, style):
    model = small_model(name)
    peer = peers.build_peer(model, style)
    x = torch.randn(4, 9, 3, dtype=torch.float64)
    ours, theirs = model(ol.SetBatch.from_padded(x)), peer(x)
    torch.testing.assert_close(theirs, ours, **ROUNDING)
    assert_gradients_close(gradients(peer, theirs), gradients(model, ours))


@pytest.mark.parametrize("style", ["released", "plain"])
@pytest.mark.parametrize("name", SMALL)
def test_a_peer_gives_the_same_on_sets_of_different_sizes_with_padding(name, style):
    model = small_model(name)
    peer = peers.build_peer(model, style)
    batch = ol.SetBatch.from_list([torch.randn(size, 3, dtype=torch.float64) for size in RAGGED])
    x, mask = batch.to_padded(fill=100.0)
    ours, theirs = model(batch), peer(x, mask)
    torch.testing.assert_close(theirs, ours, **ROUNDING)
    assert_gradients_close(gradients(peer, theirs), gradients(model, ours))


def test_a_peer_in_float32_is_as_far_from_the_truth_as_ours():
    model = ol.create_model("deep_sets++", 2, 1, depth=50)
    x = torch.randn(2, 100, 2)
    truth = copy.deepcopy(model).double()(x.double())
    with torch.no_grad():
        errors = [
            (out.double() - truth).abs().max() / truth.abs().max() for out in (model(x), peers.build_peer(model, "released")(x))
        ]
    assert max(errors) < 1e-5  # some dozens of float32's 6e-8 after fifty layers


@pytest.mark.parametrize("style", ["released", "plain"])
def test_its_set_norm_is_ours(style):
    x = torch.randn(3, 20, 8, dtype=torch.float64) * 3 + 5
    weight, bias = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    ours = ops.set_norm(x.reshape(60, 8), torch.tensor([0, 20, 40, 60]), weight, bias)
    torch.testing.assert_close(peers.set_norm(x, weight, bias, 1e-5, style=style).reshape(60, 8), ours, **ROUNDING)


def test_the_released_scale_is_a_product_of_matrices_and_the_plain_one_is_not():
    x, weight, bias = torch.randn(3, 20, 8), torch.ones(8), torch.zeros(8)
    counts = []
    for style in ("released", "plain"):
        with FlopCounterMode(display=False) as counter:
            peers.set_norm(x, weight, bias, 1e-5, style=style)
        counts.append(counter.get_total_flops())
    assert counts == [2 * 3 * 20 * 8 * 8, 0]


def test_only_default_networks_have_peers():
    with pytest.raises(ValueError, match="default networks only"):
        peers.build_peer(ol.create_model("deep_sets++", 2, 1, depth=4, order="paper"), "plain")
    with pytest.raises(ValueError, match=r"not of deep_sets_pointcloud\."):
        peers.build_peer(ol.create_model("deep_sets_pointcloud", 3, 1), "plain")


def test_pytorch_geometrics_norm_is_set_norm():
    pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed here")
    offsets = torch.tensor([0, 7, 8, 20])
    x = torch.randn(20, 8, dtype=torch.float64)
    weight, bias = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    theirs = peers.pyg_set_norm(weight, bias, 1e-5)(x, torch.repeat_interleave(offsets.diff()), 3)
    ours = ops.set_norm(x, offsets, weight, bias)
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)  # eps is in another place in some of its versions
