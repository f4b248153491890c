"""The logicle scale inverts its biexponential, is smooth at zero, and has its ends where they belong."""

import numpy as np
import pytest

from orderless.io.logicle import DECADES, LINEAR, TOP, logicle, make_scale

OPTIONS = [{}, {"linear": 0.0}, {"top": 1e4, "decades": 4.0, "linear": 1.0}, {"negative": 0.5}]
VALUES = np.concatenate([-np.logspace(5, -3, 200), [0.0], np.logspace(-3, 6, 200)])


def inverse_logicle(y, *, top=TOP, decades=DECADES, linear=LINEAR, negative=0.0):
    """The biexponential that the scale inverts, by its definition."""
    scale = make_scale(top, decades, linear, negative)
    place = (y + negative) / (decades + negative)
    reflected = np.where(place < scale.zero, 2 * scale.zero - place, place)
    return np.where(place < scale.zero, -1.0, 1.0) * scale(reflected)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_scale_inverts_the_biexponential(options):
    # a step of 1e-12 on the scale is 1e-11 of an intensity; near zero the slope is what counts
    np.testing.assert_allclose(inverse_logicle(logicle(VALUES, **options), **options), VALUES, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_scale_grows_and_is_odd_around_its_zero(options):
    scaled = logicle(VALUES, **options)
    assert (np.diff(scaled) > 0).all()
    zero = logicle(np.array(0.0), **options)
    np.testing.assert_allclose(logicle(VALUES, **options) + logicle(-VALUES, **options), 2 * zero, atol=1e-12)


def test_the_ends_are_where_the_paper_puts_them():
    np.testing.assert_allclose(logicle(np.array([TOP, 0.0])), [DECADES, LINEAR], atol=1e-12)
    # far up it is logarithmic: ten times as much is one decade more, but for what the linear part leaves
    np.testing.assert_allclose(np.diff(logicle(np.array([1e5, 1e6]))), 1, atol=1e-3)
    scale = make_scale(TOP, DECADES, LINEAR, 0.0)
    bend = scale.a * scale.b**2 * np.exp(scale.b * scale.zero) - scale.c * scale.d**2 * np.exp(-scale.d * scale.zero)
    assert abs(bend) < 1e-9 * scale.a * scale.b**2 * np.exp(scale.b * scale.zero)  # rounding of the two terms


def test_missing_numbers_stay_missing_and_shapes_stay():
    scaled = logicle(np.array([[np.nan, 1.0]]))
    assert scaled.shape == (1, 2)
    assert np.isnan(scaled[0, 0])
    assert np.isfinite(scaled[0, 1])


def test_parameters_that_make_no_scale_are_refused():
    with pytest.raises(ValueError, match="0 <= W <= M/2"):
        logicle(np.zeros(1), linear=3.0)
