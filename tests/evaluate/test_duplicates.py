"""Duplicates: the same elements under two names are found in any order and form, and nothing else is."""

import numpy as np
import pytest
from evaluate.drawn_sets import draw

from orderless import SetBatch
from orderless.evaluate import find_duplicates
from orderless.io import MemorySets, Samples


def test_the_same_elements_in_another_order_are_found_across_groups():
    sets = draw([5, 9, 5, 1, 9, 0, 0])
    sets[4] = sets[1][::-1].copy()
    assert find_duplicates(sets) == [(1, 4)]
    assert find_duplicates(sets, groups=["a", "b", "c", "d", "e", "f", "g"], batch_size=2) == [(1, 4)]
    assert find_duplicates(sets, groups=["a", "b", "c", "d", "b", "f", "g"]) == []


def test_sets_that_nearly_agree_are_told_apart():
    (x,) = draw([6])
    swapped = x.copy()
    swapped[[0, 1], 0] = swapped[[1, 0], 0]  # the same numbers in every column, other elements
    nudged = x.copy()
    nudged[3, 2] = np.nextafter(nudged[3, 2], 100)
    assert find_duplicates([x, swapped, nudged, x[:5]]) == []
    assert find_duplicates([np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]])]) == [(0, 1)]


@pytest.mark.parametrize("form", ["batch", "dense", "samples"])
def test_every_form_is_searched(form):
    x = np.stack(draw([4] * 5, dtype=np.float32))
    x[3] = x[0]
    forms = {
        "batch": lambda: SetBatch.from_list(list(x)),
        "dense": lambda: x,
        "samples": lambda: Samples(MemorySets(list(x)), tuple("abcde"), tuple("wxyz")),
    }
    assert find_duplicates(forms[form]()) == [(0, 3)]


def test_no_sets_have_no_duplicates():
    assert find_duplicates([]) == []
