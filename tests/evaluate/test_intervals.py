"""Bootstrap intervals: they cover what they promise, groups widen them, pairs narrow them, and nothing depends on luck."""

import time

import numpy as np
import pytest
import torch

from orderless.evaluate import Interval, bootstrap_mean, intervals, paired_difference


def width(interval):
    return interval.high - interval.low


def test_intervals_cover_the_true_mean_as_often_as_they_promise():
    rng = np.random.default_rng(0)
    draws = rng.normal(3.0, 2.0, (400, 100))
    covered = sum(i.low <= 3 <= i.high for i in (bootstrap_mean(d, num_samples=500, seed=n) for n, d in enumerate(draws)))
    # 3 standard errors of a share of 400 are 3.3 %; the percentile bootstrap of 100 normal numbers itself misses up to 1 % more
    assert 0.95 - 0.033 - 0.01 <= covered / 400 <= 0.95 + 0.033


def test_a_lower_confidence_gives_a_narrower_interval():
    values = np.random.default_rng(0).normal(size=200)
    wide, narrow = bootstrap_mean(values), bootstrap_mean(values, confidence=0.5)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    # of a normal distribution, the middle half is 0.674 / 1.96 as wide as the middle 95 %; 2,000 samples tell it to about 5 %
    assert width(narrow) / width(wide) == pytest.approx(0.344, rel=0.15)


def test_correlated_groups_widen_the_interval():
    rng = np.random.default_rng(1)
    patients = np.repeat(np.arange(50), 8)
    values = rng.normal(size=50)[patients] + 0.1 * rng.normal(size=400)
    alone, grouped = bootstrap_mean(values), bootstrap_mean(values, groups=patients)
    assert grouped.value == alone.value
    # 8 values that say nearly the same count as one: sqrt(8) = 2.83 times as wide
    assert width(grouped) / width(alone) == pytest.approx(8**0.5, rel=0.2)


def test_groups_of_one_set_are_sets():
    values = np.random.default_rng(2).normal(size=60)
    names = np.array([f"patient {i:02d}" for i in range(60)])  # in the order of the sets, so the same draws
    # group sums are the values themselves; only the division by a count may round otherwise
    assert vars(bootstrap_mean(values, groups=names)) == pytest.approx(vars(bootstrap_mean(values)), rel=1e-12)


def test_groups_may_have_different_sizes_and_any_order():
    values = np.array([1.0, 5.0, 1.0, 1.0, 5.0, 1.0])
    interval = bootstrap_mean(values, groups=["a", "b", "a", "a", "b", "a"])
    assert interval.value == pytest.approx(14 / 6)
    assert (interval.low, interval.high) == (1.0, 5.0)  # with two groups, a quarter of samples hold one of them alone


def test_a_paired_difference_is_narrower_than_the_single_intervals():
    rng = np.random.default_rng(3)
    hardness = rng.normal(size=300) ** 2
    a, b = hardness + 0.1 * rng.normal(size=300), hardness + 0.1 * rng.normal(size=300) - 0.05
    paired = paired_difference(a, b)
    assert paired.value == pytest.approx(a.mean() - b.mean(), abs=1e-12)  # sums in another order
    assert width(paired) < 0.3 * width(bootstrap_mean(a))
    assert paired.low > 0  # 0.05 is 6 standard errors of 0.14 / sqrt(300)


def test_the_seed_decides_everything(monkeypatch):
    values = torch.randn(500, dtype=torch.float64)
    first = bootstrap_mean(values, seed=7)
    assert bootstrap_mean(values, seed=7) == first
    assert bootstrap_mean(values, seed=8) != first
    monkeypatch.setattr(intervals, "_BLOCK_DRAWS", 1234)
    assert bootstrap_mean(values, seed=7) == first  # how many are drawn at once is nobody's business


def test_tensors_lists_and_arrays_are_the_same():
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert bootstrap_mean(values) == bootstrap_mean(np.array(values)) == bootstrap_mean(torch.tensor(values))


def test_one_set_gives_a_single_point():
    assert bootstrap_mean([2.5]) == Interval(2.5, 2.5, 2.5)
    assert bootstrap_mean([1.0, 3.0], groups=[0, 0]) == Interval(2.0, 2.0, 2.0)
    assert paired_difference([2.0], [0.5]) == Interval(1.5, 1.5, 1.5)


def test_equal_values_give_a_single_point():
    assert bootstrap_mean(np.full(10, 0.25)) == Interval(0.25, 0.25, 0.25)


def test_the_flow_rbc_test_split_takes_seconds():
    values = np.random.default_rng(0).normal(size=23_104)
    start = time.perf_counter()
    interval = bootstrap_mean(values)
    assert time.perf_counter() - start < 5  # 0.3 s on an idle core; the rest is for a busy machine
    assert width(interval) == pytest.approx(2 * 1.96 / 23_104**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "at least one number"),
        ([[1.0], [2.0]], {}, "shape"),
        ([1.0, float("nan")], {}, "finite, got 1"),
        ([1.0, 2.0], {"groups": [1]}, "each of the 2 values"),
        ([1.0, 2.0], {"num_samples": 0}, "num_samples"),
        ([1.0, 2.0], {"confidence": 95}, "between 0 and 1"),
    ],
    ids=["none", "a column", "nan", "groups", "samples", "percent"],
)
def test_errors_say_what_was_expected(values, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_mean(values, **options)


def test_a_pair_must_be_of_the_same_sets():
    with pytest.raises(ValueError, match="same sets, got 2 and 1"):
        paired_difference([1.0, 2.0], [1.0])
