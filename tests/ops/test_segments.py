"""`ops/_segments.py` and `ops/_shapes.py`: moving numbers between sets and elements."""

import subprocess
import sys

import torch

from orderless.ops._segments import broadcast_sets, set_ids, statistics_dtype, sum_rows


def test_every_element_knows_its_set():
    assert set_ids(torch.tensor([0, 2, 2, 5]), 5).tolist() == [0, 0, 2, 2, 2]


def test_values_of_sets_reach_all_their_elements():
    assert broadcast_sets(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]), 3).tolist() == [1, 1, 3]


def test_rows_are_summed_by_set():
    assert sum_rows(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 2]), 4).tolist() == [1, 0, 6, 0]


def test_statistics_have_float32_at_least():
    assert statistics_dtype(torch.bfloat16) == statistics_dtype(torch.float16) == torch.float32
    assert statistics_dtype(torch.float64) == torch.float64


def test_shape_annotations_need_no_jaxtyping_outside_the_tests():
    code = "import sys; sys.modules['jaxtyping'] = None; import orderless; print(orderless.ops.set_sum.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set_sum"
