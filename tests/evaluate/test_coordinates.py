"""Coordinates: what varies is kept, what does not is not blown up, and kernels are as wide as elements are far apart."""

import numpy as np
import pytest

from orderless.evaluate import ElementContrast, MeanEmbedding, MomentSummary
from orderless.evaluate.coordinates import Coordinates, fourier_features, wave_names


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_in_which_nothing_varies_are_left_out(dtype):
    along = np.random.default_rng(0).normal(size=(6, 30, 1)) * np.arange(1, 6) + 0.1  # one direction of five
    sets = along.astype(dtype)
    assert MomentSummary(max_features=3).fit_transform(sets).shape == (6, 9)
    assert ElementContrast(3).fit(sets).get_feature_names_out()[0] == "pc0_deviation"
    assert abs(ElementContrast(3).fit_transform(sets)).max() < 10  # in standard deviations: rounding is not blown up


def test_principal_components_keep_what_varies_most():
    rng = np.random.default_rng(0)
    direction = rng.normal(size=40) / 40**0.5
    along = [rng.normal(3 * n, 5, size=(50, 1)) for n in range(20)]
    sets = [a * direction + 0.01 * rng.normal(size=(50, 40)) + 100 for a in along]
    rows = MomentSummary(max_features=1).fit_transform(sets)
    correlation = np.corrcoef(rows[:, 0], [a.mean() for a in along])[0, 1]
    assert abs(correlation) > 0.999  # noise of 0.01 against a spread of 5


def test_gamma_is_the_median_heuristic_or_a_number():
    x = np.random.default_rng(0).normal(size=(2000, 2))
    # squared distances of standard normal pairs are 2 x chi-squared with 2 degrees, median 2 x 1.386; 10,000 pairs tell to 5 %
    assert MeanEmbedding().fit([x]).gamma_ == pytest.approx(1 / (2 * 2 * 1.386), rel=0.05)
    assert MeanEmbedding(gamma=2.0).fit([x]).gamma_ == 2.0


def test_gamma_is_found_where_most_elements_are_equal():
    rare = np.zeros((1000, 1))
    rare[:50] = 1
    assert np.isfinite(MeanEmbedding(8).fit_transform([rare])).all()
    assert MeanEmbedding(8).fit([np.ones((5, 1))]).gamma_ == 1.0


@pytest.mark.parametrize("max_features", [10, 2], ids=["as they are", "projected"])
def test_standardised_coordinates_have_mean_0_and_variance_1(max_features):
    x = np.random.default_rng(0).normal(7.0, [1, 5, 0.1], size=(500, 3))
    z = Coordinates.from_sample(x, max_features, 0, standardize=True)(x)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)  # 500 float64 sums around 7
    np.testing.assert_allclose(z.std(0), 1, rtol=1e-4)  # two components of three by a randomised method
    assert z.shape[1] == min(max_features, 3)


def test_a_feature_that_differs_by_rounding_alone_is_left_as_it_is():
    x = np.full((1000, 1), 0.1)  # whose mean is off by one digit, so that their deviation from it is not 0
    assert x.std() > 0
    assert Coordinates.from_sample(x, 10, 0, standardize=True).scale == 1


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_elements_than_components_give_fewer_components(count):
    x = np.random.default_rng(0).normal(size=(count, 50))
    z = Coordinates.from_sample(x, 8, 0, standardize=True)(x)
    assert z.shape == (count, 1)  # two elements differ along one line, and one element not at all
    assert abs(z).max() < 1.1


def test_fourier_features_have_length_1():
    z, frequencies = np.random.default_rng(0).normal(size=(9, 3)), np.ones((4, 3), np.float32)
    waves = fourier_features(z, frequencies)
    assert waves.shape == (len(wave_names(8)), 9)
    np.testing.assert_allclose((waves**2).sum(0), 1, rtol=1e-6)  # cos^2 + sin^2, in float32
