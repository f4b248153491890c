"""The assertions must catch what is broken and pass what is right, on SetBatch modules and on (x, mask) modules alike.

Covers `assertions.py`, `violations.py` and `calling.py`.
"""

import math

import broken
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
from orderless.testing.assertions import tolerance_for
from orderless.testing.calling import Caller, untouched
from orderless.testing.violations import padding_violation, permutation_violation, relative_difference

BATCH = make_batch([5, 1, 17, 2], 3)
RIGHT = [broken.MaskedMean, broken.ManyNumbers, broken.PerElement, broken.LogitPerElement, broken.batch_norm_in_eval_mode]


@pytest.mark.parametrize("make", RIGHT)
def test_right_modules_pass(make):
    module = make().double()
    per_element = isinstance(module, (broken.PerElement, broken.LogitPerElement))
    (assert_equivariant if per_element else assert_invariant)(module, BATCH)
    assert_sets_independent(module, BATCH)
    assert_padding_ignored(module, BATCH)


@pytest.mark.parametrize(
    ("make", "check", "message"),
    [
        (broken.MeanCountsPadding, assert_padding_ignored, "padding with zeros moved the answer by 0."),
        (broken.MeanCountsPadding, assert_sets_independent, "other batch mates moved the answer"),
        (broken.ZeroesKeys, assert_padding_ignored, "padding with zeros moved the answer by 0."),
        (broken.ZeroesKeys, assert_sets_independent, "other batch mates moved the answer"),
        (broken.MultipliesByMask, assert_padding_ignored, "padding with NaN moved the answer by inf"),
        (broken.BatchNormNet, assert_sets_independent, "other batch mates moved the answer"),
        (broken.FirstElement, assert_invariant, "shuffling the elements of each set moved the answer"),
    ],
)
def test_broken_modules_are_caught(make, check, message):
    with pytest.raises(AssertionError, match=message):
        check(make().double(), BATCH)


def test_a_broken_equivariance_is_caught():
    class SortsElements(torch.nn.Module):
        def forward(self, batch: SetBatch) -> SetBatch:
            return batch.with_x(batch.x.sort(0).values)

    with pytest.raises(AssertionError, match="did not shuffle the answers alike"):
        assert_equivariant(SortsElements(), BATCH)


def test_the_right_assertion_is_suggested():
    with pytest.raises(AssertionError, match="try assert_invariant"):
        assert_equivariant(nn.SumPool(), BATCH)
    with pytest.raises(AssertionError, match="try assert_equivariant"):
        assert_invariant(nn.SetNorm(3).double(), BATCH)


def test_plain_functions_are_checked_too():
    assert_invariant(lambda batch: torch.stack([s.sum(0) for s in batch]), BATCH)
    assert_invariant(broken.DenseSum().double(), make_batch([4, 4], 3), takes="dense")


def test_a_dense_module_cannot_be_tried_on_ragged_sets_or_padding():
    with pytest.raises(ValueError, match="only be tried on sets of equal sizes"):
        assert_invariant(broken.DenseSum().double(), BATCH, takes="dense")
    with pytest.raises(ValueError, match="cannot be told what is padding"):
        assert_padding_ignored(broken.DenseSum().double(), make_batch([4, 4], 3), takes="dense")


def test_tolerance_follows_the_dtype_and_can_be_given():
    assert tolerance_for(torch.float64) == 1e-9
    assert tolerance_for(torch.int64) == tolerance_for(torch.float32)

    def drifts(batch: SetBatch) -> torch.Tensor:
        return torch.stack([s.sum(0) * (1 + 1e-6 * len(batch)) for s in batch])

    assert_sets_independent(drifts, BATCH.to(torch.float32))
    assert_sets_independent(drifts, BATCH, tolerance=1e-4)
    with pytest.raises(AssertionError, match="at most 1e-09 is rounding"):
        assert_sets_independent(drifts, BATCH)


def test_a_module_that_only_raises_raises():
    for check in (assert_invariant, assert_sets_independent, assert_padding_ignored):
        with pytest.raises(RuntimeError, match="out of cheese"):
            check(broken.Raises(), BATCH)


def test_a_module_that_cannot_take_a_single_set_raises_when_nothing_else_is_wrong():
    def needs_company(batch: SetBatch) -> torch.Tensor:
        if len(batch) == 1:
            raise RuntimeError("lonely")
        return torch.stack([s.sum(0) for s in batch])

    with pytest.raises(RuntimeError, match="lonely"):
        assert_sets_independent(needs_company, BATCH)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ("text", TypeError, "must return a tensor or a SetBatch, got str"),
        (torch.zeros(3, 2), ValueError, r"got 4 sets and returned a tensor of shape \(3, 2\)"),
        (torch.tensor(1.0), ValueError, "got 4 sets"),
    ],
)
def test_answers_of_a_wrong_form_are_refused(answer, error, message):
    with pytest.raises(error, match=message):
        assert_invariant(lambda batch: answer, BATCH)


def test_answers_that_change_shape_are_refused():
    calls = iter([torch.zeros(4, 2), torch.zeros(4, 3)])
    with pytest.raises(ValueError, match=r"answers have shapes \(4, 2\) and \(4, 3\)"):
        permutation_violation(lambda batch: next(calls), BATCH)


def test_how_a_module_takes_sets_is_read_from_its_signature():
    def annotated(sets: SetBatch, mask=None):
        return sets

    def optional_mask(x, mask=None):
        return x

    def one(x):
        return x

    assert Caller(annotated).takes == "set_batch"
    assert Caller(optional_mask).takes == "padded"
    assert Caller(broken.MaskedMean()).takes == "padded"
    assert Caller(one).takes == "set_batch"
    assert Caller(nn.SetNorm(3)).takes == "set_batch"
    assert Caller(dict.fromkeys).takes in ("set_batch", "padded")
    assert Caller(max).takes == "set_batch"  # has no signature
    with pytest.raises(ValueError, match="takes must be one of auto, set_batch, padded, dense; got 'list'"):
        Caller(one, "list")


def test_checks_leave_running_statistics_and_the_random_state_alone():
    module = broken.BatchNormNet().double()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.get_rng_state()
    with pytest.raises(AssertionError):
        assert_sets_independent(module, BATCH)
    padding_violation(module, BATCH)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    with untouched(module):
        assert not torch.is_grad_enabled()


def test_relative_difference_is_relative_and_takes_new_nans_as_infinite():
    a = torch.tensor([100.0, 1.0])
    assert relative_difference(a, a + 1) == pytest.approx(0.01)
    assert relative_difference(a, torch.tensor([math.nan, 1.0])) == math.inf
    nan = torch.tensor([math.nan, 1.0])
    assert relative_difference(nan, nan) == 0
    assert relative_difference(torch.zeros(2), torch.zeros(2)) == 0
    assert relative_difference(torch.zeros(2), torch.ones(2)) == math.inf
    assert relative_difference(torch.empty(0), torch.empty(0)) == 0
    assert relative_difference(torch.full((1,), math.nan), torch.full((1,), math.nan)) == 0


def test_integer_elements_can_be_checked():
    tokens = SetBatch.from_list([torch.tensor([1, 2, 3]), torch.tensor([0, 4])])
    embedding = torch.nn.Embedding(5, 2).double()
    module = lambda batch: torch.stack([embedding(s).sum(0) for s in batch])  # noqa: E731
    assert_invariant(module, tokens)
    assert_sets_independent(module, tokens)
