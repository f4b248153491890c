"""The four questions of every layer: equivariant or invariant? sets independent? padding ignored? awkward sizes survived?"""

import pytest
import torch
from batches import make_batch

from orderless import SetBatch, nn
from orderless.testing import (
    assert_equivariant,
    assert_invariant,
    assert_padding_ignored,
    assert_sets_independent,
)

DIM = 4
HEADS = {"num_heads": 2}
ISAB = {"num_heads": 2, "num_inducing": 3}
NORMS = ("none", "layer", "feature", "set", "batch", "instance")


def self_attending(make):
    """A block MAB(x, y), used as MAB(x, x)."""

    class SelfAttending(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mab = make()

        def forward(self, batch: SetBatch) -> SetBatch:
            return self.mab(batch, batch)

    return SelfAttending


EQUIVARIANT = {
    "set_norm": lambda: nn.SetNorm(DIM),
    "layer_norm": lambda: nn.LayerNorm(DIM),
    "instance_norm": lambda: nn.InstanceNorm(DIM),
    "feature_norm": lambda: nn.FeatureNorm(DIM),
    "batch_norm": lambda: nn.BatchNorm(DIM),
    "element_linear": lambda: nn.ElementLinear(DIM, 3),
    "element_relu": nn.ElementReLU,
    "element_tanh": nn.ElementTanh,
    "element_dropout": lambda: nn.ElementDropout(0.5),
    "plain_layer": lambda: nn.PlainLayer(DIM, 3, norm="set"),
    "freq_add": lambda: nn.FreqAddBlock(DIM),
    "non_clean": lambda: nn.NonCleanBlock(DIM),
    "clean_released": lambda: nn.CleanBlock(DIM),
    "clean_paper": lambda: nn.CleanBlock(DIM, order="paper"),
    "aggregated_mean": lambda: nn.AggregatedBlock(DIM, "mean"),
    "aggregated_max": lambda: nn.AggregatedBlock(DIM, "max", order="paper"),
    "aggregated_sum": lambda: nn.AggregatedBlock(DIM, "sum"),
    "mab": self_attending(lambda: nn.MAB(DIM, DIM, DIM, norm="set", **HEADS)),
    "mab++_released": self_attending(lambda: nn.MABPlusPlus(DIM, **HEADS)),
    "mab++_paper": self_attending(lambda: nn.MABPlusPlus(DIM, order="paper", **HEADS)),
    "mab++_aggregated": self_attending(lambda: nn.MABPlusPlus(DIM, aggregate="mean", **HEADS)),
    "sab": lambda: nn.SAB(DIM, norm="layer", **HEADS),
    "sab++": lambda: nn.SABPlusPlus(DIM, **HEADS),
    "isab": lambda: nn.ISAB(DIM, DIM, norm="set", **ISAB),
    "isab++_released": lambda: nn.ISABPlusPlus(DIM, **ISAB),
    "isab++_paper": lambda: nn.ISABPlusPlus(DIM, order="paper", **ISAB),
}
INVARIANT = {
    "sum": nn.SumPool,
    "mean": nn.MeanPool,
    "max": nn.MaxPool,
    "pma": lambda: vectors(nn.PMA(DIM, num_seeds=2, **HEADS), 2),
    "pma++": lambda: vectors(nn.PMAPlusPlus(DIM, num_seeds=2, order="paper", **HEADS), 2),
}


def vectors(pooling, num_seeds):
    """A pooling that gives a SetBatch of seeds, as one row per set."""

    class Vectors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pooling = pooling

        def forward(self, batch: SetBatch) -> torch.Tensor:
            return self.pooling(batch).x.reshape(len(batch), num_seeds * DIM)

    return Vectors()


def trained(make):
    """A layer whose running statistics and parameters are no longer those of a fresh one, in eval mode."""
    layer = make().double()
    layer(make_batch([9, 4], DIM, seed=5))
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return layer.eval()


@pytest.mark.parametrize("make", EQUIVARIANT.values(), ids=EQUIVARIANT.keys())
def test_layers_are_equivariant(make, sizes):
    assert_equivariant(trained(make), make_batch(sizes, DIM))


@pytest.mark.parametrize("make", INVARIANT.values(), ids=INVARIANT.keys())
def test_poolings_are_invariant(make, sizes):
    assert_invariant(trained(make), make_batch(sizes, DIM))


@pytest.mark.parametrize("make", [*EQUIVARIANT.values(), *INVARIANT.values()], ids=[*EQUIVARIANT, *INVARIANT])
def test_sets_do_not_see_each_other(make, sizes):
    assert_sets_independent(trained(make), make_batch(sizes, DIM))


@pytest.mark.parametrize("make", [*EQUIVARIANT.values(), *INVARIANT.values()], ids=[*EQUIVARIANT, *INVARIANT])
def test_padding_changes_nothing(make):
    assert_padding_ignored(trained(make), make_batch([3, 1, 6], DIM), tolerance=0)


@pytest.mark.parametrize("make", [*EQUIVARIANT.values(), *INVARIANT.values()], ids=[*EQUIVARIANT, *INVARIANT])
def test_dense_batches_give_the_same_numbers_as_packed_ones(make):
    layer = trained(make)
    packed = make_batch([6, 6, 6], DIM)
    dense = SetBatch.from_padded(packed.x.reshape(3, 6, DIM))
    assert dense.set_size == 6
    first, second = layer(packed), layer(dense)
    torch.testing.assert_close(getattr(first, "x", first), getattr(second, "x", second))


@pytest.mark.parametrize("make", [*EQUIVARIANT.values(), *INVARIANT.values()], ids=[*EQUIVARIANT, *INVARIANT])
def test_gradients_stay_finite_at_every_size(make, sizes):
    layer = make().double()  # in training mode
    batch = make_batch(sizes, DIM)
    batch.x.requires_grad_()
    out = layer(batch)
    getattr(out, "x", out).square().sum().backward()
    assert batch.x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("order", ["released", "paper"])
def test_blocks_take_every_norm(norm, order):
    for block in (nn.CleanBlock(DIM, norm=norm, order=order), nn.ISABPlusPlus(DIM, norm=norm, order=order, **ISAB)):
        assert_equivariant(block.double().eval(), make_batch([5, 0, 3], DIM))
