"""`_segments.py` and `_shapes.py`: moving numbers between sets and elements."""

import itertools
import subprocess
import sys

import jaxtyping
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation

from orderless.ops._segments import broadcast_sets, set_ids, statistics_dtype, sum_sets
from orderless.ops.set_norm.reference import set_norm_reference


def test_every_element_knows_its_set():
    assert set_ids(torch.tensor([0, 2, 2, 5]), 5).tolist() == [0, 0, 2, 2, 2]


def test_values_of_sets_reach_all_their_elements():
    assert broadcast_sets(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]), 3).tolist() == [1, 1, 3]


@pytest.mark.parametrize("value", [2**53 + 1, 1 + 2j, True])
def test_numbers_of_any_kind_stay_as_they_are(value):
    per_set = torch.tensor([value, 0])
    assert broadcast_sets(per_set, torch.tensor([0, 2, 3]), 3).equal(per_set[[0, 0, 1]])


def test_rows_are_summed_by_set():
    assert sum_sets(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 1, 3, 3])).tolist() == [1, 0, 6, 0]
    assert sum_sets(torch.zeros(0, 2), torch.tensor([0])).shape == (0, 2)


@pytest.mark.parametrize("sizes", [[63, 1, 0, 64, 65, 0, 0, 300], [0, 0, 1], [1000], [64] * 5])
def test_sets_may_begin_anywhere_in_a_block(sizes):
    offsets = torch.tensor([0, *itertools.accumulate(sizes)])
    rows = torch.randn(sum(sizes), 2, dtype=torch.float64)
    expected = torch.stack([part.sum(0) for part in rows.split(sizes)])
    torch.testing.assert_close(sum_sets(rows, offsets), expected)
    per_set = torch.randn(len(sizes), 2)
    assert broadcast_sets(per_set, offsets, sum(sizes)).equal(per_set.repeat_interleave(torch.tensor(sizes), 0))


def test_no_row_of_a_large_set_is_lost():
    """A running sum in float32 stays at 2**24."""
    num_rows = 2**24 + 1000
    assert sum_sets(torch.ones(num_rows), torch.tensor([0, num_rows])).item() == num_rows


def test_a_mean_has_its_digits_however_large_the_set_and_whatever_the_order():
    numbers, offsets = torch.rand(10**6, 1) + 1000, torch.tensor([0, 10**6])
    expected = numbers.double().mean()
    for rows in (numbers, numbers.sort(0)[0]):
        torch.testing.assert_close(sum_sets(rows, offsets)[0, 0].double() / 1e6, expected, rtol=2e-7, atol=0)


def test_so_has_the_gradient_of_what_a_set_gives_to_its_elements():
    weights, given = torch.rand(10**6, 1) + 1000, torch.ones(1, 1, requires_grad=True)
    (broadcast_sets(given, torch.tensor([0, 10**6]), 10**6) * weights).sum().backward()
    torch.testing.assert_close(given.grad[0, 0].double(), weights.double().sum(), rtol=2e-7, atol=0)


def test_the_gradient_of_bfloat16_is_added_up_in_more_digits():
    given = torch.ones(1, 1, dtype=torch.bfloat16, requires_grad=True)
    broadcast_sets(given, torch.tensor([0, 4096]), 4096).sum().backward()
    assert given.grad.item() == 4096


def test_statistics_have_float32_at_least():
    assert statistics_dtype(torch.bfloat16) == statistics_dtype(torch.float16) == torch.float32
    assert statistics_dtype(torch.float64) == torch.float64


def test_shapes_are_checked_in_the_tests_and_so_are_types_of_functions_without():
    x, offsets = torch.ones(3, 2), torch.tensor([0, 3])
    assert set_norm_reference(x, offsets, torch.ones(2), torch.zeros(2)).shape == (3, 2)
    with pytest.raises(jaxtyping.TypeCheckError, match="weight"):
        set_norm_reference(x, offsets, torch.ones(1), torch.zeros(2))
    with pytest.raises(BeartypeCallHintViolation, match="dtype"):
        statistics_dtype("float32")


def test_shape_annotations_need_no_jaxtyping_outside_the_tests():
    code = "import sys; sys.modules['jaxtyping'] = None; import orderless; print(orderless.ops.set_sum.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set_sum"
