"""Losses and metrics of the tasks, set by set (`objectives.py`)."""

import pytest
import torch
import torch.nn.functional as F

from orderless import SetBatch
from orderless.tasks.objectives import OBJECTIVES, Classification, ElementChoice, Regression

LOGITS = [[0.3, -1.0, 2.0], [5.0], [0.0, 0.0, 0.0, 0.0], [-800.0, 900.0]]
TARGET = torch.tensor([2, 0, 1, 0])


def element_logits():
    return SetBatch.from_list([torch.tensor(z, dtype=torch.float64)[:, None] for z in LOGITS])


def test_squared_error_is_the_mean_over_targets():
    output, target = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 1.0]])
    assert Regression().per_set(output, target)["mse"].tolist() == [2.5, 0.5]
    assert Regression().loss(output, target) == F.mse_loss(output, target)


def test_a_target_that_would_broadcast_is_refused():
    with pytest.raises(ValueError, match=r"one shape, got \(3, 1\) and \(3,\)"):
        Regression().loss(torch.zeros(3, 1), torch.zeros(3))


def test_classes_are_scored_as_torch_does():
    output, target = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    got = Classification().per_set(output, target)
    torch.testing.assert_close(got["cross_entropy"].mean(), F.cross_entropy(output, target))
    assert got["accuracy"].tolist() == (output.argmax(1) == target).float().tolist()


def test_smoothed_classes_leave_the_rest_to_all_others():
    logits, target = torch.randn(6, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64), torch.arange(6)
    truth = torch.full((6, 40), 0.2 / 39, dtype=torch.float64).scatter(1, target[:, None], 0.8)
    expected = -(truth * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(Classification().smoothed_loss(logits, target, 0.2), expected)
    with pytest.raises(ValueError, match="takes logits"):
        Classification().smoothed_loss(logits, target[:, None], 0.2)


def test_classes_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"logits \(N, C\)"):
        Classification().loss(torch.zeros(3, 2), torch.zeros(3, 1, dtype=torch.long))


def test_an_element_is_chosen_by_a_softmax_over_its_own_set():
    got = ElementChoice().per_set(element_logits(), TARGET)["cross_entropy"]
    alone = [F.cross_entropy(torch.tensor([z], dtype=torch.float64), t[None]) for z, t in zip(LOGITS, TARGET, strict=True)]
    torch.testing.assert_close(got, torch.stack(alone), rtol=1e-12, atol=1e-12)


def test_equal_logits_share_the_credit_so_that_order_does_not_decide():
    assert ElementChoice().per_set(element_logits(), TARGET)["accuracy"].tolist() == [1.0, 1.0, 0.25, 0.0]


def test_the_order_of_elements_does_not_matter():
    flipped = SetBatch.from_list([z.flip(0) for z in element_logits().to_list()])
    positions = torch.tensor([len(z) for z in LOGITS]) - 1 - TARGET
    for name, value in ElementChoice().per_set(element_logits(), TARGET).items():
        torch.testing.assert_close(ElementChoice().per_set(flipped, positions)[name], value)


def test_the_gradient_is_softmax_minus_one_at_the_target():
    z = torch.randn(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    ElementChoice().loss(SetBatch(z, [0, 4, 6]), torch.tensor([1, 0])).backward()
    expected = torch.cat([z.detach()[:4].softmax(0), z.detach()[4:].softmax(0)])
    expected[[1, 4]] -= 1
    torch.testing.assert_close(z.grad, expected / 2)


@pytest.mark.parametrize("target", [[2, 0, 4, 0], [2, -1, 1, 0]], ids=["beyond", "before"])
def test_a_position_outside_its_set_is_refused(target):
    with pytest.raises(ValueError, match="is not a position in its"):
        ElementChoice().loss(element_logits(), torch.tensor(target))


def test_a_target_for_another_number_of_sets_is_refused():
    with pytest.raises(ValueError, match=r"one position per set, \(4,\); got \(1,\)"):
        ElementChoice().loss(element_logits(), torch.tensor([0]))


def test_outputs_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match='output="element"'):
        ElementChoice().loss(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match='output="element"'):
        ElementChoice().loss(SetBatch(torch.zeros(3, 2), [0, 3]), torch.zeros(1, dtype=torch.long))
    for objective in (Regression(), Classification()):
        with pytest.raises(ValueError, match='output="set"'):
            objective.loss(element_logits(), TARGET)


def test_the_first_metric_is_the_loss():
    assert {name: objective.metrics[0] for name, objective in OBJECTIVES.items()} == {
        "regression": "mse",
        "classification": "cross_entropy",
        "element_choice": "cross_entropy",
    }
