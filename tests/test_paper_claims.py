"""What the paper claims, as tests: Zhang, Tozzo, Higgins, Ranganath, "Set Norm and Equivariant Skip Connections" (2022)."""

import itertools

import pytest
import torch

import orderless as ol
from orderless import nn

N, M, D = 3, 5, 4


def test_set_norm_is_its_formula():
    a = torch.randn(N, M, D, dtype=torch.float64) * 3 + 1
    gamma, beta = torch.randn(2, D, dtype=torch.float64)
    norm = nn.SetNorm(D, eps=1e-12).double()
    with torch.no_grad():
        norm.weight.copy_(gamma)
        norm.bias.copy_(beta)
    mu = a.sum((1, 2), keepdim=True) / (M * D)
    sigma = (((a - mu) ** 2).sum((1, 2), keepdim=True) / (M * D)).sqrt()
    torch.testing.assert_close(norm(ol.SetBatch.from_padded(a)).x, ((a - mu) / sigma * gamma + beta).flatten(0, 1))


def test_set_norm_is_its_formula_at_a_large_offset_and_small_spread():
    a = (torch.randn(2, 1000, 16) * 1e-2 + 1e4).float()
    exact = a.double()
    mu = exact.mean((1, 2), keepdim=True)
    var = (exact - mu).square().mean((1, 2), keepdim=True)
    expected = ((exact - mu) / (var + 1e-5).sqrt()).flatten(0, 1)
    for batch in (ol.SetBatch.from_padded(a), ol.SetBatch.from_list(list(a))):
        found = nn.SetNorm(16)(batch).x.double()
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


SETTINGS = [frozenset(s) for size in range(4) for s in itertools.combinations("NMD", size)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: "{" + ",".join(sorted(s, key="NMD".index)) + "}")
def test_proposition_1_only_no_dimension_or_features_alone_keep_both_symmetries(setting):
    """Of the eight settings of dimensions over which the transformation differs, {} and {D} alone are equivariant.

    Every norm here transforms with {D}: that is checked in the test below this one.
    """
    shape = [size if name in setting else 1 for name, size in zip("NMD", (N, M, D), strict=True)]
    gamma, beta = torch.randn(2, *shape, dtype=torch.float64)
    a = torch.randn(N, M, D, dtype=torch.float64)
    elements, sets = torch.tensor([1, 2, 3, 4, 0]), torch.tensor([2, 0, 1])

    def transform(t):
        return t * gamma + beta

    over_elements = torch.allclose(transform(a[:, elements]), transform(a)[:, elements])
    over_sets = torch.allclose(transform(a[sets]), transform(a)[sets])
    assert (over_elements and over_sets) == (setting in (frozenset(), frozenset("D")))
    assert over_elements == ("M" not in setting)
    assert over_sets == ("N" not in setting)


@pytest.mark.parametrize("name", ["layer", "feature", "set", "batch", "instance"])
def test_every_norm_transforms_by_feature_alone(name):
    norm = nn.build_norm(name, D).double()
    assert {tuple(p.shape) for p in norm.parameters()} == {(D,)}
    batch = ol.SetBatch.from_padded(torch.randn(N, M, D, dtype=torch.float64))
    plain = norm(batch).x
    with torch.no_grad():
        norm.weight.copy_(torch.arange(1.0, D + 1))
        norm.bias.copy_(torch.arange(1.0, D + 1) * 10)
    torch.testing.assert_close(norm(batch).x, plain * norm.weight + norm.bias)


def test_layer_norm_maps_2d_elements_to_two_points_or_zero():
    x = torch.tensor([[3.0, 1.0], [-5.0, 2.0], [0.1, 0.1], [1e3, -1e3], [-1.0, -0.5]], dtype=torch.float64)
    out = nn.LayerNorm(2, eps=1e-14).double()(ol.SetBatch.from_list([x])).x
    expected = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0], [1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(out, expected)


def test_layer_norm_cannot_tell_scaled_elements_apart_where_set_norm_can():
    x = torch.randn(1, 6, dtype=torch.float64)
    weight = torch.randn(6, D, dtype=torch.float64)
    batch = ol.SetBatch.from_list([torch.cat([x, 2.5 * x]) @ weight])
    layer, by_set = (norm(D, eps=1e-14).double()(batch).x for norm in (nn.LayerNorm, nn.SetNorm))
    torch.testing.assert_close(layer[0], layer[1])
    assert (by_set[0] - by_set[1]).abs().max() > 0.1


def test_a_clean_residual_keeps_elements_distinct_that_layer_norm_collapsed():
    x = torch.randn(1, D, dtype=torch.float64)
    pair = ol.SetBatch.from_list([torch.cat([x, 3 * x])])
    block = nn.CleanBlock(D, norm="layer", order="paper", eps=1e-14).double()
    collapsed = block.branch(pair).x  # layer norm after the first weight takes the scale away
    torch.testing.assert_close(collapsed[0], collapsed[1])
    kept = block(pair).x
    torch.testing.assert_close(kept[1] - kept[0], 2 * x[0])


def test_the_residual_jacobian_is_the_product_of_identity_plus_relu_prime_times_weight():
    """With z = relu(zW + b) + z the Jacobian of L layers is the product of (I + diag(relu') W)."""
    layers = [nn.PlainLayer(D, D).double() for _ in range(6)]

    def forward(z):
        for layer in layers:
            z = layer(ol.SetBatch.from_list([z[None]])).x[0] + z
        return z

    z = torch.randn(D, dtype=torch.float64)
    identity = torch.eye(D, dtype=torch.float64)
    product, current = identity, z
    for layer in layers:
        before = layer.fc(current)
        product = (identity + (before > 0)[:, None] * layer.fc.weight) @ product
        current = before.relu() + current
    torch.testing.assert_close(torch.autograd.functional.jacobian(forward, z), product)


def gradient_of_the_first_layer(name, depth=50):
    """Its norm against that of the last linear layer of the encoder, at initialisation, on sets as in Normal Var."""
    torch.manual_seed(0)
    model = ol.create_model(name, 1, 1, depth=depth)
    sets = torch.randn(16, 200, 1) * torch.rand(16, 1, 1).mul(10).sqrt() + torch.rand(16, 1, 1) * 20 - 10
    target = sets.var(1, unbiased=False)
    torch.nn.functional.mse_loss(model(sets), target).backward()
    weights = [p for key, p in model.encoder.named_parameters() if p.ndim == 2]
    return (weights[0].grad.norm() / weights[-1].grad.norm()).item()


def test_fifty_layer_deep_sets_has_vanishing_gradients_at_initialisation_where_deep_sets_plus_plus_has_not():
    assert gradient_of_the_first_layer("deep_sets", depth=3) > 1e-2
    assert gradient_of_the_first_layer("deep_sets") < 1e-6
    assert gradient_of_the_first_layer("deep_sets++") > 1e-2


def test_equivariant_functions_stay_equivariant_with_a_residual():
    batch = ol.SetBatch.from_list([torch.randn(s, D, dtype=torch.float64) for s in (4, 7)])
    for block in (nn.CleanBlock(D), nn.NonCleanBlock(D), nn.AggregatedBlock(D, "mean")):
        ol.testing.assert_equivariant(block.double(), batch)
