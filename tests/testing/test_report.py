import math

import broken
import pytest
import torch
from torch import nn

import orderless as ol
from orderless.testing import check_module
from orderless.testing.calling import Caller, untouched


def verdicts(module, **options):
    return {v.property: v for v in check_module(module.double(), (3,), **options)}


def test_a_right_module_passes_everything():
    found = verdicts(broken.MaskedMean())
    assert {v.status for v in found.values()} == {"pass"}
    assert all(v.violation < 1e-12 for v in found.values())


@pytest.mark.parametrize("output", ["set", "element"])
def test_our_models_pass_everything(output):
    found = verdicts(ol.create_model("set_transformer++", 3, 2, depth=1, width=8, num_heads=2, output=output))
    assert [v.status for v in found.values()] == ["pass"] * 4
    assert ("invariance" if output == "set" else "equivariance") in found["permutation"].detail


@pytest.mark.parametrize(
    ("make", "failing"),
    [
        (broken.MeanCountsPadding, {"independence", "padding"}),
        (broken.ZeroesKeys, {"independence", "padding"}),
        (broken.MultipliesByMask, {"padding"}),
        (broken.FirstElement, {"permutation", "padding"}),  # what is first may be padding
        (broken.NoEmptySets, {"empty"}),
        (broken.EmptyGradient, {"empty"}),
        (broken.PaddingGradient, {"padding"}),
    ],
)
def test_each_fault_is_put_down_to_its_property(make, failing):
    found = verdicts(make())
    assert {name for name, v in found.items() if v.status == "FAIL"} == failing


def test_a_batch_norm_left_in_training_mode_fails_with_the_cure():
    module = broken.BatchNormNet()
    found = verdicts(module)
    assert found["independence"].status == "FAIL"
    assert "passes in eval mode: call .eval()" in found["independence"].detail
    assert module.training
    assert module.norm.num_batches_tracked == 0
    assert {v.status for v in verdicts(module.eval()).values()} == {"pass"}


def test_the_mode_is_no_excuse_where_eval_mode_fails_too():
    assert ".eval()" not in verdicts(broken.MeanCountsPadding())["padding"].detail
    assert ".eval()" not in verdicts(broken.Raises())["padding"].detail


def test_empty_sets_are_told_apart_by_what_goes_wrong():
    assert verdicts(broken.NoEmptySets())["empty"].detail.startswith("an empty set gives NaN or Inf")
    assert verdicts(broken.EmptyGradient())["empty"].detail.startswith("an empty set makes gradients NaN or Inf")
    assert verdicts(broken.NoEmptySets())["empty"].violation == math.inf


def test_padding_in_the_gradient_alone_is_told_as_that():
    padding = verdicts(broken.PaddingGradient())["padding"]
    assert padding.detail.startswith("padding with zeros makes gradients NaN or Inf, though the answer does not move")
    assert padding.violation == math.inf


def test_gradients_that_are_nan_without_padding_are_not_put_on_it():
    class RootAboveTheLeast(nn.Module):  # the least element is 0 above itself
        def forward(self, x, mask):
            least = x.where(mask[..., None], math.inf).amin(1, keepdim=True)
            return (x - least).where(mask[..., None], 0).sqrt().sum(1)

    assert verdicts(RootAboveTheLeast())["padding"].status == "pass"


def test_a_module_that_raises_is_an_error_not_a_crash():
    assert {(v.status, v.detail) for v in verdicts(broken.Raises()).values()} == {("error", "RuntimeError: out of cheese")}


def test_dense_modules_are_asked_what_can_be_asked():
    found = verdicts(broken.DenseSum(), takes="dense")
    assert [v.status for v in found.values()] == ["pass", "pass", "n/a", "n/a"]


def test_properties_can_be_left_out_and_the_tolerance_given():
    assert list(verdicts(broken.NoEmptySets(), skip=("empty",))) == ["permutation", "independence", "padding"]
    assert verdicts(broken.MeanCountsPadding(), tolerance=100.0)["independence"].status == "pass"  # 1 element beside 100


def test_low_precision_has_its_own_tolerance():
    found = check_module(ol.create_model("deep_sets", 3, 1, width=8).to(torch.bfloat16), (3,), dtype=torch.bfloat16)
    assert {v.status for v in found} == {"pass"}


def test_modules_without_gradients_pass():
    assert {v.status for v in check_module(lambda b: torch.stack([s.sum(0).detach() for s in b]), (3,))} == {"pass"}


class FirstOf32(nn.Module):
    """Wrong where sets are larger than it was built for."""

    def forward(self, x):
        return x[:, :32].relu().sum(1)


class IgnoresItsMask(nn.Module):
    def forward(self, x, *, mask=None):
        return x.relu().mean(1)


class NamesItsMask(nn.Module):
    def forward(self, x, with_attention=False, pad_mask=None):
        return x.where(~pad_mask[..., None], 0).relu().sum(1)


class Draws(nn.Module):
    def forward(self, x, mask):
        return x.where(mask[..., None], 0).sum(1) + torch.randn(1, x.shape[2], dtype=x.dtype)


def found(module):
    return verdicts(module.eval())


def test_a_dense_module_is_tried_on_sets_larger_than_people_build_for():
    assert found(FirstOf32())["permutation"].status == "FAIL"


def test_a_mask_that_is_passed_by_name_is_passed():
    assert found(IgnoresItsMask())["padding"].status == "FAIL"
    right = found(NamesItsMask())
    assert {v.status for v in right.values()} == {"pass"}
    assert right["padding"].detail.endswith("its mask taken as True at padding")


def test_random_numbers_in_eval_mode_are_told():
    drawn = found(Draws())
    assert drawn["permutation"].detail.endswith(
        "two calls on the same sets differ: the module draws random numbers, or keeps state"
    )
    assert "two calls" not in found(NamesItsMask())["permutation"].detail
    assert "two calls" not in verdicts(Draws().train())["permutation"].detail  # where dropout is expected


def test_wrapped_and_lazy_modules_are_called_as_what_they_are():
    compiled = Caller(torch.compile(NamesItsMask(), backend="eager"), ol.SetBatch.from_list([torch.randn(2, 3)]))
    assert (compiled.takes, compiled.keyword) == ("padding_mask", "pad_mask")
    lazy = nn.LazyBatchNorm1d()
    with untouched(lazy):
        lazy(torch.randn(4, 3))


class ValidFirst(nn.Module):
    def forward(self, x, valid, attn_mask=None):
        return x.where(valid[..., None], 0).sum(1)


class TakesASetBatch(nn.Module):
    def forward(self, batch, temperature=1.0, return_mask=False):
        return ol.ops.set_sum(batch.x, batch.offsets) * temperature


class AttendsAsTorchDoes(nn.Module):
    def forward(self, x, src_mask=None, src_key_padding_mask=None):
        return x.where(~src_key_padding_mask[..., None], 0).sum(1)


class SixteenPlaces(nn.Module):
    def forward(self, x):
        return (x + torch.arange(16, dtype=x.dtype)[: x.shape[1], None]).relu().sum(1)


@pytest.mark.parametrize("make", [ValidFirst, TakesASetBatch, AttendsAsTorchDoes])
def test_what_has_mask_in_its_name_and_tells_no_padding_is_left_alone(make):
    assert {v.status for v in found(make()).values()} == {"pass"}
    if make is ValidFirst:
        assert {v.status for v in verdicts(make().eval(), takes="mask").values()} == {"pass"}


def test_a_module_that_is_wrong_on_some_sets_and_raises_on_others_is_wrong():
    assert verdicts(SixteenPlaces().eval(), takes="dense")["permutation"].status == "FAIL"


def masked_sum(x, mask):
    return x.where(mask[..., None], 0).sum(1)


class FirstOfTheLargest(nn.Module):
    """Wrong where two elements have the largest first feature."""

    def forward(self, x, mask):
        first = x[..., 0].where(mask, -math.inf).argmax(1)
        return x[torch.arange(len(x)), first].where(mask.any(1, keepdim=True), 0)


class ByLengthOfElements(nn.Module):
    """Right: it divides by the length of an element, which zeros do not have."""

    def forward(self, x, mask):
        return masked_sum(x / x.norm(dim=2, keepdim=True), mask)


class SixteenNumbersOfSets(nn.Module):
    """Wrong from the seventeenth set of a batch on."""

    def forward(self, x, mask):
        return masked_sum(x, mask) * torch.where(torch.arange(len(x)) < 16, 1, 2)[:, None]


class TakesElementsFromTheFront(nn.Module):
    """Wrong where padding comes first: it counts the mask."""

    def forward(self, x, mask):
        return masked_sum(x, torch.arange(x.shape[1]) < mask.sum(1, keepdim=True))


class ScoresLessTenThousand(nn.Module):
    """Wrong where padding has a score above ten thousand, which it has with weights of this sign in negative numbers alone."""

    def forward(self, x, mask):
        scores = x.nan_to_num(0, 0, 0).sum(2) * -2 - 10_000.0 * ~mask
        return masked_sum(x, mask) * scores.exp().clamp(max=1).where(~mask, 0).sum(1, keepdim=True).add(1)


class NoBatchOfNothing(nn.Module):
    """Wrong where no set of the batch has an element: there is no largest one."""

    def forward(self, batch: ol.SetBatch):
        return ol.ops.set_sum(batch.x, batch.offsets) / batch.x.abs().max().ceil().clamp(max=1)


class UnmasksEmptySets(nn.Module):
    """Right: it lets empty sets look at something, and changes the mask that it was given."""

    def forward(self, x, mask):
        mask[~mask.any(1), 0] = True
        x = x.where(mask[..., None], 0)
        return x.sum(1, keepdim=True) + x.relu()


def test_elements_that_tie_are_tried():
    permutation = found(FirstOfTheLargest())["permutation"]
    assert permutation.status == "FAIL"
    assert permutation.detail == "shuffling the elements broke invariance where elements tie in some features"
    assert found(ByLengthOfElements())["permutation"].status == "pass"


def test_a_crowd_of_sets_is_tried():
    assert [v.status for v in found(SixteenNumbersOfSets()).values()] == ["pass", "FAIL", "pass", "pass"]


def test_padding_before_the_elements_is_tried_where_a_mask_can_say_so():
    padding = found(TakesElementsFromTheFront())["padding"]
    assert padding.detail.startswith("padding with zeros before the elements moved the answer")

    class TakesLengths(TakesElementsFromTheFront):
        def forward(self, x, lengths):
            return super().forward(x, torch.arange(x.shape[1]) < lengths[:, None])

    assert {v.status for v in found(TakesLengths()).values()} == {"pass"}


def test_padding_with_large_numbers_of_both_signs_is_tried():
    padding = found(ScoresLessTenThousand())["padding"]
    assert padding.detail.startswith("padding with large negative numbers moved the answer")


def test_a_batch_of_nothing_but_an_empty_set_is_tried():
    empty = found(NoBatchOfNothing())["empty"]
    assert empty.status == "error"
    assert found(ol.create_model("deep_sets++", 3, 1, depth=2, width=8, pool="max"))["empty"].status == "pass"


def test_a_module_may_change_the_mask_that_it_is_given():
    assert {v.status for v in found(UnmasksEmptySets()).values()} == {"pass"}
