"""Mean and spread of features over blocks."""

import numpy as np

from orderless.tasks.statistics import FeatureStatistics


def test_merged_block_by_block_they_are_those_of_all():
    elements = np.random.default_rng(0).normal((1e4, 30, 0), (1e-1, 4, 1e-3), (1000, 3)).astype(np.float32)
    merged = FeatureStatistics(3)
    for block in np.split(elements, [1, 10, 10, 500]):
        merged.add(block)
    exact = elements.astype(np.float64)
    np.testing.assert_allclose(merged.mean, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(merged.spread, exact.std(0), rtol=1e-9)


def test_a_feature_that_does_not_vary_has_a_spread_of_one():
    statistics = FeatureStatistics(3)
    statistics.add(np.array([[1, 5, 0], [3, 5, 0]], np.float32))
    np.testing.assert_array_equal(statistics.mean, [2, 5, 0])
    np.testing.assert_array_equal(statistics.deviation, [1, 0, 0])
    np.testing.assert_array_equal(statistics.spread, [1, 1, 1])


def test_nor_has_one_that_varies_by_rounding():
    statistics = FeatureStatistics(1)
    statistics.add(np.array([[1e6], [1e6 * (1 + 1e-9)]]))
    np.testing.assert_array_equal(statistics.spread, [1])


def test_before_the_first_element_nothing_is_changed():
    statistics = FeatureStatistics(2)
    statistics.add(np.zeros((0, 2)))
    assert statistics.count == 0
    np.testing.assert_array_equal(statistics.mean, [0, 0])
    np.testing.assert_array_equal(statistics.spread, [1, 1])
