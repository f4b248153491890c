"""Statistics of many sets at once are those of each set alone, however sets are laid side by side."""

import numpy as np
import pytest
from evaluate.drawn_sets import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.evaluate import MomentSummary
from orderless.evaluate.moments import moments_of, padded_blocks, quantiles_of, sorted_values


def lay(sizes, seed=0):
    """x (T, 2) and offsets (N + 1,)."""
    return np.random.default_rng(seed).normal(size=(sum(sizes), 2)), np.cumsum([0, *sizes])


# in the first three, sets of the largest block times its size are as many elements as there are, though sets are not equal
@pytest.mark.parametrize("sizes", [[4, 1, 3], [3, 1, 4], [5, 2, 3], [4, 4, 0, 4], [7], [0, 0], [1, 1, 9]])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("budget", [1, 20, 1000])
def test_every_set_is_in_one_block_with_its_own_elements(sizes, power, budget):
    x, offsets = lay(sizes)
    seen = []
    for numbers, padded, mask in padded_blocks(x, offsets, budget, power=power):
        assert len(numbers) == 1 or len(numbers) * mask.shape[1] ** power <= budget
        for number, rows, used in zip(numbers, padded, mask, strict=True):
            np.testing.assert_array_equal(rows[used], x[offsets[number] : offsets[number + 1]])
            seen.append(number)
    assert sorted(seen) == [n for n, size in enumerate(sizes) if size]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_statistics_side_by_side_are_those_of_each_set(sizes):
    x, offsets = lay(sizes)
    for numbers, values, counts in sorted_values(x, offsets):
        mean, std, _, _ = moments_of(values, counts, 0.0)
        (median,) = quantiles_of(values, counts, [0.5])
        for row, number in enumerate(numbers):
            own = x[offsets[number] : offsets[number + 1]]
            assert counts[row] == len(own)
            # at most 9 numbers of about 1: a few roundings of 1e-16
            wanted = [own.mean(0), own.std(0), np.median(own, 0)]
            np.testing.assert_allclose([mean[row], std[row], median[row]], wanted, atol=1e-14)


def test_a_set_has_the_row_that_it_has_alone():
    sets = draw([4, 1, 3])
    summary = MomentSummary().fit(sets)
    np.testing.assert_allclose(summary.transform(sets), np.concatenate([summary.transform([x]) for x in sets]), rtol=1e-12)
