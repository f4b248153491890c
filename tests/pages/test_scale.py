"""Axes: room, round numbers, logarithms."""

import math

import pytest

from orderless.pages.scale import Scale, fit_scale


def test_an_axis_is_logarithmic_where_the_range_needs_it():
    assert fit_scale([0.02, 8.0]).log
    assert not fit_scale([18.7, 25.9]).log
    assert not fit_scale([0.0, 8.0]).log, "zero has no logarithm"


@pytest.mark.parametrize("values", [[5.0], [0.0], [], [math.nan, math.inf], [-3.0, 4.0], [1e-30, 1e3], [7, 7, 7]], ids=str)
@pytest.mark.parametrize("log", [None, True, False])
def test_every_axis_has_room_and_ticks_in_order(values, log):
    scale = fit_scale(values, log=log)
    assert scale.low < scale.high
    finite = [value for value in values if math.isfinite(value)]
    assert all(0 <= scale.place(value) <= 1 for value in finite)
    places = [place for place, _ in scale.ticks()]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert 2 <= len(places) <= 12
    assert len({text for _, text in scale.ticks()}) == len(places)


def test_whole_numbers_get_whole_ticks():
    assert [text for _, text in Scale(1, 3).ticks(5, whole=True)] == ["1", "2", "3"]
    assert [text for _, text in Scale(0, 20).ticks(5, whole=True)] == ["0", "5", "10", "15", "20"]


def test_a_logarithmic_axis_is_even_in_powers_of_ten():
    scale = Scale(1e-3, 1e3, log=True)
    assert scale.place(1.0) == pytest.approx(0.5)
    assert scale.place(0.0) == 0.0, "what cannot be drawn is at the end"
    assert scale.place(math.inf) == 1.0
    assert [text for _, text in scale.ticks()][:3] == ["0.001", "0.1", "10"]
