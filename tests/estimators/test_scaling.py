import json

import numpy as np
import pytest
from estimators.ragged import draw

from orderless.estimators import ElementScaler, SetRegressor, scaling
from orderless.estimators.scaling import mean_and_spread
from orderless.estimators.sets_input import read_sets

X, _, _ = draw(9)


@pytest.mark.parametrize("at_a_time", [5, 1_000])
def test_mean_and_spread_are_those_of_all_elements(monkeypatch, at_a_time):
    monkeypatch.setattr(scaling, "SCALING_ELEMENTS", at_a_time)
    scaler = ElementScaler().fit(read_sets(X))
    everything = np.concatenate(X)
    np.testing.assert_allclose(scaler.mean_, everything.mean(0), rtol=1e-12)  # float64, another order of adding
    np.testing.assert_allclose(scaler.scale_, everything.std(0), rtol=1e-12)


@pytest.mark.parametrize("at_a_time", [5, 1_000])
def test_a_set_of_weight_two_counts_as_two_sets(monkeypatch, at_a_time):
    monkeypatch.setattr(scaling, "SCALING_ELEMENTS", at_a_time)
    weight = np.array([1.0, 2, 1, 3, 1, 1, 1, 1, 1])
    twice = [x for x, w in zip(X, weight, strict=True) for _ in range(int(w))]
    weighed, repeated = ElementScaler().fit(read_sets(X), weight), ElementScaler().fit(read_sets(twice))
    np.testing.assert_allclose(weighed.mean_, repeated.mean_, rtol=1e-12)
    np.testing.assert_allclose(weighed.scale_, repeated.scale_, rtol=1e-12)


def test_weights_that_are_all_the_same_change_no_bit():
    plain, even = ElementScaler().fit(read_sets(X)), ElementScaler().fit(read_sets(X), np.full(9, 3.0))
    assert plain.describe() == even.describe()


def test_a_constant_feature_becomes_zero():
    x = np.column_stack([np.full(50, 0.1), np.full(50, 1e9), np.arange(50.0)])
    out = ElementScaler().fit(read_sets([x])).transform(x)
    assert np.abs(out[:, :2]).max() < 1e-5
    assert out[:, 2].std() == pytest.approx(1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_was_constant_in_training_stays_out_of_predictions(dtype):
    """No gradient ever reached the weights for it."""
    rng = np.random.default_rng(0)
    sets = [np.column_stack([rng.normal(size=20), np.full(20, 3.0)]).astype(dtype) for _ in range(8)]
    model = SetRegressor(epochs=2, ensemble_size=1, random_state=0, device="cpu").fit(sets, rng.normal(size=8))
    changed = [np.column_stack([x[:, 0], np.full(20, 1000.0)]).astype(dtype) for x in sets]
    np.testing.assert_array_equal(model.predict(changed), model.predict(sets))


def test_a_large_offset_costs_no_digits():
    x = 1e9 + np.arange(1000.0)[:, None]
    out = ElementScaler().fit(read_sets([x])).transform(x)
    np.testing.assert_allclose(out[:, 0], (x[:, 0] - x.mean()) / x.std(), rtol=1e-6, atol=1e-6)  # float32's own rounding


def test_wild_elements_are_clipped():
    scaler = ElementScaler(clip=2.0).fit(read_sets([np.arange(10.0)[:, None]]))
    assert scaler.transform(np.array([[1e6], [-1e6]])).tolist() == [[2.0], [-2.0]]
    free = ElementScaler(clip=None).fit(read_sets([np.arange(10.0)[:, None]]))
    assert free.transform(np.array([[1e6]]))[0, 0] > 1e5


def test_it_can_be_written_down_and_read_to_the_last_bit():
    scaler = ElementScaler().fit(read_sets(X))
    again = ElementScaler.from_description(json.loads(json.dumps(scaler.describe())))
    np.testing.assert_array_equal(again.transform(X[3]), scaler.transform(X[3]))


def test_it_does_not_change_what_it_is_given():
    x = np.ones((4, 3), np.float32)
    ElementScaler().fit(read_sets(X)).transform(x)
    assert (x == 1).all()


@pytest.mark.parametrize("at_a_time", [2, 1_000])
def test_what_is_not_finite_is_named(monkeypatch, at_a_time):
    monkeypatch.setattr(scaling, "SCALING_ELEMENTS", at_a_time)
    x = [np.zeros((4, 2)), np.zeros((5, 2))]
    x[1][3, 1] = np.nan
    with pytest.raises(ValueError, match="feature 1 of element 3 of set 1 is NaN"):
        ElementScaler().fit(read_sets(x))


def test_sets_without_any_element_scale_nothing():
    scaler = ElementScaler().fit(read_sets([np.zeros((0, 2))]))
    assert np.abs(scaler.transform(np.ones((1, 2)))).max() < 1e-30  # of which training saw nothing


def test_targets_are_scaled_by_weighted_mean_and_spread():
    mean, scale = mean_and_spread(np.array([[1.0, 5], [4, 5]]), np.array([2.0, 1]))
    np.testing.assert_allclose(mean, [2, 5])
    np.testing.assert_allclose(scale, [np.std([1, 1, 4]), 0])


@pytest.mark.parametrize("unit", [1e-300, 1e-100, 1e-20, 1.0, 1e20, 1e140])
def test_targets_are_scaled_alike_whatever_their_unit(unit):
    y = np.array([[3.0], [5.0], [8.0], [5.0]])
    mean, scale = mean_and_spread(y * unit, np.ones(4))
    # each step rounds once
    np.testing.assert_allclose([mean / unit, scale / unit], [y.mean(0), y.std(0)], rtol=1e-14)


def test_a_small_difference_between_large_targets_is_a_difference():
    _, scale = mean_and_spread(1e12 + np.array([[0.0], [1.0]]), np.ones(2))
    assert scale == 0.5


def test_what_rounding_makes_of_one_number_is_a_constant():
    mean, scale = mean_and_spread(np.array([[0.1 + 0.2], [0.3], [0.3]]), np.ones(3))
    assert (mean.item(), scale.item()) == (0.1 + 0.2, 0)


def test_coordinates_keep_their_proportions_and_come_to_between_minus_1_and_1():
    x = np.random.default_rng(0).uniform(-1, 1, (50, 3)) * [30, 1, 20] + [5, 5, 5]
    scaler = ElementScaler(coordinates=True).fit(read_sets([x[:20], x[20:]]))
    scaled = scaler.transform(x)
    assert len(set(scaler.scale_.tolist())) == 1
    np.testing.assert_allclose(np.ptp(scaled, axis=0), np.ptp(x, axis=0) / scaler.scale_[0], rtol=1e-5)
    assert np.abs(scaled).max() == pytest.approx(1)
    np.testing.assert_allclose(scaled.max(0), -scaled.min(0), atol=1e-6)
