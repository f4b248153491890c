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
        (broken.PaddingGradient, assert_padding_ignored, "padding with zeros makes gradients NaN or Inf"),
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
    with pytest.raises(ValueError, match="cannot know what is padding"):
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_module_that_cannot_take_a_single_set_raises_when_nothing_else_is_wrong(dtype):
    def needs_company(batch: SetBatch) -> torch.Tensor:
        if len(batch) == 1:
            raise RuntimeError("lonely")
        drift = 1 + 0.01 * (dtype == torch.bfloat16) * batch.x.sum().sign()  # rounding, in bfloat16
        return torch.stack([s.sum(0) for s in batch]) * drift

    with pytest.raises(RuntimeError, match="lonely"):
        assert_sets_independent(needs_company, BATCH.to(dtype))


def test_padding_is_really_tried_on_modules_that_take_a_set_batch():
    calls = []

    def counts_calls(batch: SetBatch) -> torch.Tensor:
        calls.append(len(batch))
        return torch.full((len(batch), 1), float(len(calls)))

    with pytest.raises(AssertionError, match="padding with"):
        assert_padding_ignored(counts_calls, BATCH)


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
        permutation_violation(lambda batch: next(calls), BATCH, takes="set_batch")


def takes(module):
    return Caller(module, BATCH).takes


def test_how_a_module_takes_sets_is_read_from_its_signature():
    def annotated(sets: SetBatch, mask=None):
        return sets

    def optional_mask(x, mask=None):
        return x

    def torchs_convention(x, src_key_padding_mask=None):
        return x

    def by_lengths(x, lengths):
        return x

    assert takes(annotated) == "set_batch"
    assert takes(optional_mask) == "mask"
    assert takes(torchs_convention) == "padding_mask"
    assert takes(by_lengths) == "lengths"
    assert takes(broken.MaskedMean()) == "mask"
    assert takes(nn.SetNorm(3)) == "set_batch"
    assert takes(max) == "set_batch"  # has no signature
    with pytest.raises(ValueError, match="takes must be one of auto, set_batch, mask, padding_mask, lengths, dense; got 'list'"):
        Caller(optional_mask, BATCH, "list")


def test_where_the_signature_does_not_tell_it_is_tried():
    assert takes(lambda x: x) == "set_batch"
    assert takes(broken.DenseSum().double()) == "dense"
    assert takes(lambda x: x.nothing) == "set_batch"


@pytest.mark.parametrize("convention", ["padding_mask", "lengths"])
def test_other_ways_to_tell_padding_are_spoken(convention):
    right = broken.MaskedMean().double()

    def padding_mask(x, padding_mask):
        return right(x, ~padding_mask)

    def lengths(x, lengths):
        return right(x, torch.arange(x.shape[1]) < lengths[:, None])

    module = {"padding_mask": padding_mask, "lengths": lengths}[convention]
    assert_invariant(module, BATCH)
    assert_sets_independent(module, BATCH)
    assert_padding_ignored(module, BATCH)


def test_answers_that_are_never_numbers_are_caught():
    def nan(batch: SetBatch) -> torch.Tensor:
        return torch.full((len(batch), 2), math.nan)

    for check in (assert_invariant, assert_sets_independent):
        with pytest.raises(AssertionError, match="by inf of its size"):
            check(nan, BATCH)


def test_seeds_are_answers_per_set():
    pma = nn.PMA(3, num_heads=1, num_seeds=4).double()
    assert_invariant(pma, BATCH)
    assert_sets_independent(pma, BATCH)


@pytest.mark.parametrize("sizes", [[4, 4, 4], [4]], ids=["several sets", "one set"])
def test_as_many_seeds_as_elements_are_answers_per_set_all_the_same(sizes):
    assert_invariant(nn.PMA(3, num_heads=1, num_seeds=4).double(), make_batch(sizes, 3))
    assert_invariant(nn.PMA(3, num_heads=1, num_seeds=1).double(), make_batch([1, 1], 3))
    assert_equivariant(nn.SetNorm(3).double(), make_batch(sizes, 3))


def test_rows_per_element_may_come_as_a_plain_tensor():
    assert_equivariant(lambda batch: batch.x * 2, BATCH)


AS_MANY = {"one element each": [1, 1, 1], "an empty set": [2, 0], "one large set": [0, 0, 4, 0], "one set": [1]}


@pytest.mark.parametrize("sizes", AS_MANY.values(), ids=AS_MANY.keys())
def test_rows_are_told_apart_where_there_are_as_many_sets_as_elements(sizes):
    batch = make_batch(sizes, 3)
    for per_element in (lambda batch: batch.x * 2, broken.PerElement().double(), nn.SetNorm(3).double()):
        assert_equivariant(per_element, batch)
        assert_sets_independent(per_element, batch)
        with pytest.raises(AssertionError, match="try assert_equivariant"):
            assert_invariant(per_element, batch)
    for per_set in (nn.SumPool(), lambda batch: torch.stack([s.sum(0) for s in batch.to_list()]), broken.MaskedMean().double()):
        assert_invariant(per_set, batch)
        with pytest.raises(AssertionError, match="try assert_invariant"):
            assert_equivariant(per_set, batch)


def test_a_broken_equivariance_is_caught_where_there_are_as_many_sets_as_elements():
    with pytest.raises(AssertionError, match="did not shuffle the answers alike"):
        assert_equivariant(lambda batch: batch.x.cumsum(0), make_batch([3, 0, 0], 3))


def test_a_dense_module_of_single_elements_is_told_by_larger_sets():
    batch = make_batch([1, 1], 3)
    assert_equivariant(lambda x: x.flatten(0, 1), batch, takes="dense")
    assert_invariant(lambda x: x.amax(1), batch, takes="dense")


def test_rows_that_cannot_be_told_apart_are_an_error_that_says_what_to_give():
    class OnlyOnes(torch.nn.Module):
        def forward(self, batch: SetBatch) -> torch.Tensor:
            assert batch.num_elements == len(batch)
            return batch.x

    message = r"returned 2 rows for 2 sets of 2 elements in all, .* AssertionError .* Give a batch with more elements than sets\."
    with pytest.raises(ValueError, match=message):
        assert_equivariant(OnlyOnes(), make_batch([1, 1], 3))


def test_a_small_column_does_not_hide_behind_a_large_one():
    def leaks(batch: SetBatch) -> torch.Tensor:
        total = torch.stack([s.sum() for s in batch])
        return torch.stack([1e3 * total, total + 1e-5 * batch.x.sum()], 1)

    with pytest.raises(AssertionError, match="other batch mates"):
        assert_sets_independent(leaks, BATCH)


BESIDE_A_LARGE_SET = make_batch([5, 20_000], 3).to(torch.float32)


def test_an_order_that_moves_a_small_set_is_seen_beside_a_large_one():
    def leans_on_the_first(batch: SetBatch) -> torch.Tensor:
        return torch.stack([s.abs().sum(0) + s[0] / 10 for s in batch])

    with pytest.raises(AssertionError, match="shuffling the elements"):
        assert_invariant(leans_on_the_first, BESIDE_A_LARGE_SET)


def test_a_batch_mate_that_moves_a_small_set_is_seen_beside_a_large_one():
    def leaks(batch: SetBatch) -> torch.Tensor:
        return torch.stack([s.abs().sum(0) for s in batch]) + batch.x.abs().sum() * 1e-5

    with pytest.raises(AssertionError, match="other batch mates"):
        assert_sets_independent(leaks, BESIDE_A_LARGE_SET)


def test_padding_that_moves_a_small_set_is_seen_beside_a_large_one():
    def reads_padding(x, mask):
        real = mask[..., None]
        return x.abs().where(real, 0).sum(1) + x.nan_to_num(0, 0, 0).where(~real, 0).mean(1) * 1e-5

    with pytest.raises(AssertionError, match="padding with"):
        assert_padding_ignored(reads_padding, BESIDE_A_LARGE_SET)


def test_an_element_of_a_small_set_is_seen_beside_a_large_one():
    def adds_the_first(batch: SetBatch) -> SetBatch:
        return batch.with_x(torch.cat([s.abs().sum(0) + s + s[:1] / 10 for s in batch]))

    with pytest.raises(AssertionError, match="did not shuffle the answers alike"):
        assert_equivariant(adds_the_first, BESIDE_A_LARGE_SET)


def test_sums_that_are_right_pass_beside_a_large_set():
    assert_invariant(nn.SumPool(), BESIDE_A_LARGE_SET)
    assert_sets_independent(nn.SumPool(), BESIDE_A_LARGE_SET)
    assert_padding_ignored(broken.MaskedMean(), BESIDE_A_LARGE_SET)
    assert_equivariant(nn.SetNorm(3), BESIDE_A_LARGE_SET)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_small_set_whose_answer_is_near_zero_by_chance_passes(dtype):
    small = torch.tensor([[0.1], [0.2], [-0.3]]) * 1e4  # adds up to rounding alone
    batch = SetBatch.from_list([small, torch.randn(20_000, 1, generator=torch.Generator().manual_seed(0)) * 1e4]).to(dtype)
    assert_invariant(lambda sets: torch.stack([s.sum(0) for s in sets]), batch)


def test_a_module_that_takes_no_more_sets_than_these_is_measured_all_the_same():
    def two_at_most(batch: SetBatch) -> torch.Tensor:
        if len(batch) > 2:
            raise RuntimeError("full")
        return torch.stack([s.abs().sum(0) + s[0] / 10 for s in batch])

    with pytest.raises(AssertionError, match="shuffling the elements"):
        assert_invariant(two_at_most, make_batch([5, 20_000], 3), takes="set_batch")


def test_answers_that_are_zero_but_for_rounding_pass():
    centred = torch.nn.Sequential(nn.InstanceNorm(3), nn.SumPool()).double()
    assert_invariant(centred, BATCH, takes="set_batch")


def test_a_class_or_a_tensor_in_the_wrong_place_is_named():
    with pytest.raises(TypeError, match=r"got the class SumPool. Make one"):
        assert_invariant(nn.SumPool, BATCH)
    with pytest.raises(TypeError, match="tried on a SetBatch, got Tensor"):
        assert_invariant(nn.SumPool(), BATCH.x)
    with pytest.raises(ValueError, match="tolerance must be at least 0"):
        assert_invariant(nn.SumPool(), BATCH, tolerance=-1)


def test_buffers_that_a_module_replaces_are_given_back():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, batch: SetBatch) -> torch.Tensor:
            self.calls = self.calls + 1
            return torch.stack([s.sum(0) for s in batch]) * self.calls

    module = Counts()
    assert_invariant(module, BATCH)
    assert_sets_independent(module, BATCH)
    assert module.calls == 0


def test_checks_leave_running_statistics_and_the_random_state_alone():
    module = broken.BatchNormNet().double()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.get_rng_state()
    with pytest.raises(AssertionError):
        assert_sets_independent(module, BATCH)
    padding_violation(module, BATCH)
    padding_violation(lambda batch: torch.rand(len(batch), 1), BATCH, takes="set_batch")  # as dropout in training mode draws
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    with untouched(module):
        assert not torch.is_grad_enabled()


def test_relative_difference_is_relative_by_column_and_infinite_where_there_is_no_number():
    a = torch.tensor([[100.0, 1.0], [50.0, 2.0]])
    assert relative_difference(a, a + torch.tensor([1.0, 0.0])) == pytest.approx(0.01)
    assert relative_difference(a, a + torch.tensor([0.0, 1.0])) == pytest.approx(0.5)
    assert relative_difference(a[:1], a[:1] + 1, among=[a[:1], a[1:]]) == pytest.approx(0.5)
    assert relative_difference(a, a * math.nan) == relative_difference(a * math.nan, a * math.nan) == math.inf
    assert relative_difference(torch.zeros(2, 1), torch.full((2, 1), 1e-6)) == pytest.approx(1e-3)
    assert relative_difference(torch.empty(0, 2), torch.empty(0, 2)) == 0


def test_integer_elements_can_be_checked():
    tokens = SetBatch.from_list([torch.tensor([1, 2, 3]), torch.tensor([0, 4])])
    embedding = torch.nn.Embedding(5, 2).double()
    module = lambda batch: torch.stack([embedding(s).sum(0) for s in batch])  # noqa: E731
    assert_invariant(module, tokens)
    assert_sets_independent(module, tokens)


@pytest.mark.parametrize("size", range(2, 40))
def test_a_shuffle_leaves_no_element_in_its_place(size):
    """One that kept the first would not catch a module that looks at nothing else."""
    with pytest.raises(AssertionError, match="shuffling the elements"):
        assert_invariant(lambda batch: torch.stack([x[0] for x in batch.to_list()]), make_batch([size], 3))


def test_one_set_alone_gets_mates():
    with pytest.raises(AssertionError, match="other batch mates moved the answer"):
        assert_sets_independent(lambda batch: nn.SumPool()(batch) - batch.x.mean(0), make_batch([5], 3))


def test_a_module_that_leaks_in_larger_batches_alone_is_caught():
    def leaks(batch):
        answers = nn.SumPool()(batch)
        return answers if len(batch) <= 4 else answers + answers.mean(0)

    with pytest.raises(AssertionError, match="other batch mates moved the answer"):
        assert_sets_independent(leaks, BATCH)


def test_whole_numbers_are_padded_with_whole_numbers():
    batch = SetBatch(torch.arange(12).reshape(6, 2), [0, 2, 6])
    assert_padding_ignored(lambda x, mask: (x * mask[..., None]).sum(1).double(), batch)
    with pytest.raises(AssertionError, match="padding with the largest number moved the answer"):
        assert_padding_ignored(lambda x, mask: x.sum(1).double(), batch)


def test_whole_numbers_are_padded_with_those_that_are_there():
    embedding = torch.nn.Embedding(9, 3)

    def mean(x, mask):  # x (N, M, 1) places in a table
        h = embedding(x[..., 0]).where(mask[..., None], 0)
        return h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)

    batch = SetBatch.from_list([torch.randint(9, (n, 1)) for n in (4, 2, 7)])
    assert_padding_ignored(mean, batch)
    with pytest.raises(AssertionError, match=r"the (smallest|largest) number"):
        assert_padding_ignored(lambda x, mask: embedding(x[..., 0]).sum(1), batch, takes="mask")
    assert_padding_ignored(mean, batch.with_x(batch.x.to(torch.int32)))


def test_imaginary_parts_count():
    batch = SetBatch.from_list([torch.randn(n, 2) for n in (5, 1, 17)])
    with pytest.raises(AssertionError):
        assert_invariant(lambda b: torch.stack([torch.complex(t.sum(0), t[0]) for t in b]), batch, takes="set_batch")


def test_a_module_that_works_on_its_input_in_place_is_judged_by_its_answers():
    class InPlace(torch.nn.Module):
        def forward(self, batch: SetBatch) -> torch.Tensor:
            batch.x.div_(255)
            return torch.stack([elements.sum(0) for elements in batch.to_list()])

    batch = make_batch([4, 4], 3)
    before = batch.x.clone()
    assert_invariant(InPlace(), batch)
    assert_sets_independent(InPlace(), batch)
    assert_invariant(lambda x, mask: x.div_(255).where(mask[..., None], 0).sum(1), batch, takes="mask")
    assert torch.equal(batch.x, before)
