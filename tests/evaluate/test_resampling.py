"""Resampling: intervals of any metric over sets and over groups; repeats are averaged, and unknown predictions left out."""

import numpy as np
import pytest

from orderless.evaluate import bootstrap_mean
from orderless.evaluate.metrics import METRICS
from orderless.evaluate.resampling import Resampler, interval_of


def make(count=200, groups=None, repeats=1, seed=0, samples=400):
    rng = np.random.default_rng(seed)
    fold = np.stack([rng.permutation(count) % 4 for _ in range(repeats)])
    return Resampler("regression", rng.normal(size=(count, 1)), fold, groups, samples, seed)


def everything(resampler):
    return np.ones_like(resampler.fold, dtype=bool)


def test_the_interval_of_a_mean_is_that_of_the_mean_of_its_values():
    resampler = make(samples=2000)
    output = resampler.target[None] + np.random.default_rng(1).normal(size=(1, 200, 1))
    draws = resampler.draw(METRICS["regression"]["mse"], output, everything(resampler))
    ours = interval_of(draws.value, draws.over_sets, 0.95)
    theirs = bootstrap_mean((output[0] - resampler.target)[:, 0] ** 2)
    assert ours.value == pytest.approx(theirs.value)
    # two bootstraps of 2,000 draws: each end is known to a few hundredths of the width
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.15 * (theirs.high - theirs.low))
    assert draws.over_groups is None


def test_sets_that_are_alike_within_groups_make_the_interval_over_groups_wider():
    groups = np.arange(200) // 10
    resampler = make(groups=groups)
    error = np.random.default_rng(1).normal(size=20)[groups]
    draws = resampler.draw(METRICS["regression"]["mse"], resampler.target[None] + error[None, :, None], everything(resampler))
    sets, grouped = (interval_of(draws.value, d, 0.95) for d in (draws.over_sets, draws.over_groups))
    assert grouped.high - grouped.low > 2 * (sets.high - sets.low)


def test_all_models_see_the_same_samples_so_a_shared_error_cancels():
    resampler = make()
    hard = np.random.default_rng(1).normal(0, 5, (1, 200, 1))
    mse = METRICS["regression"]["mse"]
    a = resampler.draw(mse, resampler.target[None] + hard, everything(resampler))
    b = resampler.draw(mse, resampler.target[None] + hard + 0.01, everything(resampler))
    gain = a.minus(b, -1)
    assert gain.value == pytest.approx(b.value - a.value)
    assert np.ptp(gain.over_sets) < 0.1 * np.ptp(a.over_sets)


def test_repeats_are_averaged_and_are_no_more_sets():
    one, three = make(), make(repeats=3)
    error = np.random.default_rng(1).normal(size=(1, 200, 1))
    mse = METRICS["regression"]["mse"]
    a = one.draw(mse, one.target[None] + error, everything(one))
    b = three.draw(mse, three.target[None] + np.repeat(error, 3, 0), everything(three))
    assert a.value == pytest.approx(b.value)
    # the targets differ by the generator's state, the errors do not
    np.testing.assert_allclose(a.over_sets, b.over_sets)


def test_sets_that_were_not_predicted_are_left_out():
    resampler = make(count=6, samples=50)
    output = resampler.target[None] + np.array([1.0, 1, 1, 9, 9, 9])[None, :, None]
    known = np.array([[True, True, True, False, False, False]])
    assert resampler.draw(METRICS["regression"]["mae"], output, known).value == pytest.approx(1)
    nothing = resampler.draw(METRICS["regression"]["mae"], output, ~everything(resampler))
    assert np.isnan(nothing.value)
    assert np.isnan(interval_of(nothing.value, nothing.over_sets, 0.95).low)


def test_samples_without_a_meaning_are_skipped():
    assert interval_of(0.5, np.array([np.nan, 0.4, 0.6, np.nan]), 0.5).low == pytest.approx(0.45)
    assert interval_of(0.5, None, 0.95) is None


def test_draws_are_the_same_whether_they_are_kept_or_made_again(monkeypatch):
    groups = np.arange(200) // 10
    monkeypatch.setattr("orderless.evaluate.resampling._BLOCK_NUMBERS", 200 * 7)  # blocks of 7 samples, the last shorter
    found = []
    for most in (10**9, 0):
        monkeypatch.setattr("orderless.evaluate.resampling._KEPT_NUMBERS", most)
        resampler = make(groups=groups, samples=50)
        output = resampler.target[None] + 1 + np.arange(200)[None, :, None]
        found += [resampler.draw(METRICS["regression"]["mse"], output, everything(resampler)) for _ in range(2)]
    for draws in found[1:]:
        np.testing.assert_array_equal(draws.over_sets, found[0].over_sets)
        np.testing.assert_array_equal(draws.over_groups, found[0].over_groups)
    assert len(found[0].over_sets) == 50


@pytest.mark.parametrize("by_groups", [False, True], ids=["one set", "one group"])
def test_one_set_or_group_that_is_tested_has_no_interval(by_groups):
    """A single point would say that all is known."""
    fold = np.array([[-1, -1, 0, 0]]) if by_groups else np.array([[-1, -1, -1, 0]])
    groups = np.array([0, 0, 1, 1]) if by_groups else None
    resampler = Resampler("regression", np.arange(4.0)[:, None], fold, groups, 50, 0)
    draws = resampler.draw(METRICS["regression"]["mae"], np.zeros((1, 4, 1)), fold >= 0)
    interval = interval_of(draws.value, draws.over_groups if by_groups else draws.over_sets, 0.95)
    assert interval.value == (2.5 if by_groups else 3.0)
    assert np.isnan([interval.low, interval.high]).all()
