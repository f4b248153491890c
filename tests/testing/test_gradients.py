"""Gradients that break a symmetry where answers do not, and right ones that must not be accused.

Covers `gradients.py`.
"""

import math
from functools import partial

import backwards
import broken
import pytest
import torch
from batches import make_batch
from torch import nn

import orderless as ol
from orderless import SetBatch, testing
from orderless.testing import check_module

BATCH = make_batch([5, 1, 17, 2], 3)
assert_invariant, assert_equivariant, assert_sets_independent, assert_padding_ignored = (
    partial(check, gradients=True)
    for check in (
        testing.assert_invariant,
        testing.assert_equivariant,
        testing.assert_sets_independent,
        testing.assert_padding_ignored,
    )
)

ORDER = r"shuffling the elements of each set moved the gradient of the elements, though not the answer, by [\d.e+]+ of its size"
MATES = r"other batch mates moved the gradient of the elements, though not the answer, by [\d.e+]+ of its size"


def verdicts(module, **options):
    dtype = options.get("dtype", torch.float64)
    module = module.to(dtype) if isinstance(module, nn.Module) else module
    return {v.property: v for v in check_module(module, (3,), **options)}


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (backwards.LessForLaterElements, assert_invariant, ORDER),
        (backwards.PerElementLess, assert_equivariant, ORDER),
        (backwards.DropsTheLastElement, assert_invariant, ORDER),
        (backwards.LeaksIntoTheNextSet, assert_sets_independent, MATES),
        (backwards.StraightThroughTheBatch, assert_sets_independent, MATES),
        (backwards.WeightsOfTheFirstSet, assert_sets_independent, MATES.replace("elements", "weights")),
        (backwards.GivesToPadding, assert_padding_ignored, "padding with zeros gets a gradient, though the answer does not"),
        (backwards.TakesFromPadding, assert_padding_ignored, "padding with zeros moved the gradient of the elements, though"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_wrong_gradient_is_caught_where_the_answer_is_right(make, check, message, dtype):
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=message):
        check(make().to(dtype), BATCH.to(dtype))


@pytest.mark.parametrize(
    ("make", "property_", "message"),
    [
        (
            backwards.LessForLaterElements,
            "permutation",
            "shuffling the elements broke invariance of the gradient of the elements",
        ),
        (backwards.PerElementLess, "permutation", "shuffling the elements broke equivariance of the gradient of the elements"),
        (backwards.DropsTheLastElement, "permutation", "shuffling the elements broke invariance of the gradient of the elements"),
        (backwards.LeaksIntoTheNextSet, "independence", "the other sets of the batch moved the gradient of the elements, though"),
        (backwards.StraightThroughTheBatch, "independence", "the other sets of the batch moved the gradient of the elements"),
        (backwards.WeightsOfTheFirstSet, "independence", "the other sets of the batch moved the gradient of the weights, though"),
        (backwards.GivesToPadding, "padding", "padding with zeros gets a gradient, though the answer does not depend on it"),
        (backwards.TakesFromPadding, "padding", "padding with zeros moved the gradient of the elements, though not the answer"),
    ],
)
def test_the_report_says_that_it_is_the_gradient(make, property_, message):
    torch.manual_seed(0)
    found = verdicts(make())[property_]
    assert found.status == "FAIL"
    assert found.detail.startswith(message)
    assert 1e-3 < found.violation < math.inf


class Masked(nn.Module):
    """Deep Sets as people write them, with a nonlinearity that has a corner."""

    def __init__(self, way):
        super().__init__()
        self.way, self.inner, self.outer = way, nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16)), nn.Linear(16, 2)

    def forward(self, x, mask):
        real = mask[..., None]
        x = x.masked_fill(~real, 0)
        h = self.inner(x)
        pooled = (h * real).sum(1) if self.way == "multiply" else h.masked_fill(~real, 0).sum(1)
        return self.outer(pooled.relu())


class Torchs(nn.Module):
    """PyTorch's own layer, which wants finite padding."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(3, 1, 16, batch_first=True)

    def forward(self, x, src_key_padding_mask):
        nobody = src_key_padding_mask.all(1, keepdim=True)
        x = x.masked_fill(src_key_padding_mask[..., None], 0)
        return self.layer(x, src_key_padding_mask=src_key_padding_mask & ~nobody).masked_fill(nobody[..., None], 0)


class AfterALayer(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.fc, self.pool = nn.Linear(3, 8), pool

    def forward(self, x, mask):
        return self.pool(self.fc(x), mask)


class Amax(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(~mask[..., None], -math.inf).amax(1).where(mask.any(1, keepdim=True), 0)


class Frozen(Masked):
    def __init__(self):
        super().__init__("multiply")
        self.requires_grad_(False)


class WithoutGradientInside(Masked):
    """The featurizer is not trained."""

    def forward(self, x, mask):
        with torch.no_grad():
            h = self.inner(x.masked_fill(~mask[..., None], 0))
        return self.outer(h.masked_fill(~mask[..., None], 0).sum(1))


class InNumpy(nn.Module):
    """Cannot be differentiated at all."""

    def forward(self, batch: SetBatch):
        return torch.stack([torch.from_numpy(s.detach().numpy()).sum(0) for s in batch])


class WithDropout(Masked):
    def forward(self, x, mask):
        return super().forward(nn.functional.dropout(x, 0.5, self.training), mask)


RIGHT = {
    "mask multiplication": lambda: Masked("multiply"),
    "masked_fill": lambda: Masked("fill"),
    "torch's encoder layer": Torchs,
    "batch norm": broken.BatchNormNet,
    "dropout": lambda: WithDropout("fill"),
    "largest after a layer, shared": lambda: AfterALayer(Amax()),
    "largest after a layer, to one": lambda: AfterALayer(backwards.MaxToTheFirst()),
    "largest, shared": Amax,
    "frozen": Frozen,
    "no_grad inside": lambda: WithoutGradientInside("fill"),
    "numpy": InNumpy,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT.keys())
def test_right_gradients_pass(make, dtype):
    if dtype == torch.bfloat16 and make is InNumpy:
        pytest.skip("numpy has no bfloat16")
    torch.manual_seed(0)
    found = verdicts(make().eval(), dtype=dtype)
    assert {v.status for v in found.values()} == {"pass"}, found
    assert "tie" not in found["permutation"].detail


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["deep_sets++", "set_transformer++"])
def test_gradients_of_our_deep_networks_pass(name, dtype):
    torch.manual_seed(0)
    model = ol.create_model(name, 3, 2, depth=12, width=16, num_heads=2) if "former" in name else None
    model = model or ol.create_model(name, 3, 2, depth=24, width=16)
    assert {v.status for v in verdicts(model.eval(), dtype=dtype).values()} == {"pass"}


TIED = BATCH.with_x(BATCH.x.sign())


def test_a_maximum_that_gives_to_the_first_of_those_that_tie_is_caught_on_elements_that_tie():
    message = (
        r"moved the gradient of the elements, though not the answer, where elements tie \(max and sort give it to one of them"
    )
    with pytest.raises(AssertionError, match=message):
        assert_invariant(backwards.MaxToTheFirst(), TIED)
    assert_invariant(backwards.MaxToTheFirst(), BATCH)
    assert_invariant(Amax(), TIED)
    assert_invariant(ol.nn.MaxPool(), TIED)


def test_assertions_compare_gradients_where_they_are_asked_to():
    torch.manual_seed(0)
    testing.assert_invariant(backwards.LessForLaterElements().double(), BATCH)
    testing.assert_equivariant(backwards.PerElementLess().double(), BATCH)
    testing.assert_sets_independent(backwards.LeaksIntoTheNextSet().double(), BATCH)
    testing.assert_padding_ignored(backwards.TakesFromPadding().double(), BATCH)


def test_of_equal_elements_a_maximum_may_name_any():
    twice = SetBatch.from_list([s.repeat(2, 1) for s in BATCH])
    for check in (assert_invariant, assert_sets_independent, assert_padding_ignored):
        check(backwards.MaxToTheFirst(), twice)
    with pytest.raises(AssertionError, match="moved the gradient"):
        assert_invariant(backwards.LessForLaterElements().double(), twice)


def test_a_report_tells_where_elements_that_tie_get_different_gradients_and_accuses_nobody():
    permutation = verdicts(backwards.MaxToTheFirst())["permutation"]
    assert permutation.status == "pass"
    assert "where elements tie, their order decides whose the gradient is" in permutation.detail


def test_gradients_that_are_zero_but_for_rounding_pass():
    centred = nn.Sequential(ol.nn.InstanceNorm(3), ol.nn.SumPool())
    for dtype in (torch.float64, torch.float32):
        assert_invariant(centred.to(dtype), BATCH.to(dtype), takes="set_batch")
        assert_sets_independent(centred.to(dtype), BATCH.to(dtype), takes="set_batch")


def test_a_corner_exactly_at_the_elements_is_no_violation():
    """Whether rounding puts the mean above or below 0 depends on the order, and on it the whole gradient."""
    x = torch.tensor([[0.1], [0.2], [-0.3], [0.7], [-0.7]], dtype=torch.float64)
    at_zero = SetBatch.from_list([x, x.flip(0), x.roll(2, 0), x.roll(3, 0)])
    assert_invariant(lambda batch: torch.stack([s.sum(0).relu() for s in batch]), at_zero, takes="set_batch")


def test_gradients_that_are_rounding_in_a_network_whose_numbers_explode_pass():
    def explodes(batch: SetBatch) -> torch.Tensor:
        total = torch.stack([s.sum(0) for s in batch])
        return torch.sin(total * 1e15) * 1e-15 + total  # the answer hardly moves, its slope is that of any wave

    assert_invariant(explodes, BATCH)


def test_weights_are_compared_where_elements_are_whole_numbers():
    embedding = nn.Embedding(9, 3)
    tokens = SetBatch.from_list([torch.arange(n) for n in (3, 2, 7)])

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = embedding

        def forward(self, batch: SetBatch):
            return torch.stack([self.embedding(s).sum(0) for s in batch])

    class FirstSetTeaches(Right):
        def forward(self, batch: SetBatch):
            return torch.stack(
                [self.embedding(s).sum(0) if n == 0 else self.embedding(s).sum(0).detach() for n, s in enumerate(batch)]
            )

    assert_invariant(Right(), tokens)
    assert_sets_independent(Right(), tokens)
    with pytest.raises(AssertionError, match="moved the gradient of the weights"):
        assert_sets_independent(FirstSetTeaches(), tokens)


def test_empty_sets_beside_others_leave_gradients_comparable():
    with_empty = make_batch([0, 5, 0, 2], 3)
    assert_invariant(Masked("fill").double(), with_empty)
    assert_sets_independent(Masked("fill").double(), with_empty)
    with pytest.raises(AssertionError, match=MATES):
        assert_sets_independent(backwards.StraightThroughTheBatch().double(), with_empty)


def test_a_tolerance_that_is_given_holds_for_gradients_where_it_is_larger():
    torch.manual_seed(0)
    module = backwards.LeaksIntoTheNextSet().double()
    with pytest.raises(AssertionError, match="at most 1e-06 is rounding"):
        assert_sets_independent(module, BATCH, tolerance=0)
    assert_sets_independent(module, BATCH, tolerance=1e3)


def test_weights_keep_the_gradients_that_they_have():
    module = Masked("fill").double()
    module.outer.bias.grad = torch.ones(2, dtype=torch.float64)
    assert_invariant(module, BATCH)
    assert_sets_independent(module, BATCH)
    assert_padding_ignored(module, BATCH)
    assert torch.equal(module.outer.bias.grad, torch.ones(2, dtype=torch.float64))
    assert module.inner[0].weight.grad is None
