import json

import numpy as np
import pytest

from orderless.estimators import ElementScaler, defaults
from orderless.estimators.sets_input import read_sets
from orderless.estimators.tails import Sample

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": (RNG.normal(5, 3, 4000), False),
    "two clusters": (RNG.normal(size=4000) + 20 * (np.arange(4000) % 2), False),
    "exponential": (RNG.exponential(size=4000), False),
    "heavy, but what it is about": (RNG.standard_t(3, 4000), False),
    "raw intensity": (np.exp(1.5 * RNG.normal(size=4000)), True),
    "one wild element": (np.concatenate([RNG.normal(size=3999), [1e6]]), True),
    "mostly zero": (RNG.poisson(0.1, 4000) * RNG.exponential(size=4000), False),
    "constant": (np.full(4000, 7.0), False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tails_are_heavy_where_wild_elements_hide_the_others(name):
    x, heavy = COLUMNS[name]
    assert ElementScaler().fit(read_sets([x[:, None]])).bent_.tolist() == [heavy]


def test_asinh_is_taken_around_the_median():
    x = np.column_stack([np.exp(2 * RNG.normal(size=999)), RNG.normal(size=999)])
    scaler = ElementScaler().fit(read_sets([x]))
    lower, median, upper = np.quantile(x[:, 0], (0.25, 0.5, 0.75), method="inverted_cdf")
    expected = np.arcsinh((x[:, 0] - median) / ((upper - lower) / 1.349))
    np.testing.assert_allclose(scaler.transform(x)[:, 0], expected, rtol=0, atol=1e-5)  # float32 of numbers up to 10
    np.testing.assert_allclose(scaler.transform(x)[:, 1], (x[:, 1] - x[:, 1].mean()) / x[:, 1].std(), rtol=0, atol=1e-5)
    again = ElementScaler.from_description(json.loads(json.dumps(scaler.describe())))
    np.testing.assert_array_equal(again.transform(x), scaler.transform(x))


def test_a_weight_of_two_counts_as_two():
    x = np.exp(2 * RNG.normal(size=(50, 2)))
    weight = np.repeat([1.0, 2.0], 25)
    weighed, repeated = Sample(50), Sample(75)
    weighed.add(x[:25], 1.0)
    weighed.add(x[25:], weight[25:])
    repeated.add(np.concatenate([x, x[25:]]), 1.0)
    ours, theirs = weighed.tails(np.ones(2)), repeated.tails(np.ones(2))
    np.testing.assert_array_equal(ours.median, theirs.median)
    np.testing.assert_array_equal(ours.spread, theirs.spread)


@pytest.mark.parametrize("at_a_time", [3, 1_000])
def test_a_sample_is_spread_evenly_and_bounded(monkeypatch, at_a_time):
    monkeypatch.setattr(defaults, "TAIL_ELEMENTS", 100)
    sample, x = Sample(950), np.arange(950.0)[:, None]
    for start in range(0, 950, at_a_time):
        sample.add(x[start : start + at_a_time], 1.0)
    kept = np.concatenate(sample._rows)[:, 0]
    np.testing.assert_array_equal(kept, np.arange(0, 950, 10))


def test_no_element_has_no_tails():
    assert not Sample(0).tails(np.ones(3)).heavy.any()
