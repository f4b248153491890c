import numpy as np
import pandas as pd
import pytest
import torch
from estimators.ragged import draw, regressor
from sklearn.metrics import r2_score

from orderless.estimators.bundle import load_bundle, save_bundle

X, _, CENTRE = draw(40, smallest=2)


def test_it_learns_in_the_units_of_the_target():
    y = 1e6 + 1e4 * CENTRE
    new, _, centre = draw(40, seed=1, smallest=2)
    model = regressor(epochs=15).fit(X, y)
    assert model.score(new, 1e6 + 1e4 * centre) > 0.7
    assert model.target_mean_ == pytest.approx(y.mean())
    assert model.target_scale_ == pytest.approx(y.std())


def test_there_may_be_several_targets():
    y = np.column_stack([CENTRE, -100 * CENTRE])
    model = regressor(epochs=15).fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == (40, 2)
    assert model.score(X, y) == r2_score(y, predicted)
    assert model.score(X, y) > 0.6
    assert regressor(epochs=1).fit(X, CENTRE[:, None]).predict(X).shape == (40, 1)
    assert regressor(epochs=1).fit(X, torch.from_numpy(CENTRE)).predict(X).shape == (40,)


def test_a_constant_target_is_a_warning_and_is_predicted_exactly(tmp_path):
    with pytest.warns(UserWarning, match=r"the target is 0\.1 for all 40 sets: .* every prediction will be 0\.1\."):
        model = regressor(epochs=1).fit(X, np.full(40, 0.1))
    assert (model.predict(X) == 0.1).all()
    save_bundle(model, tmp_path / "bundle")
    assert (load_bundle(tmp_path / "bundle").predict(X) == 0.1).all()


def test_one_of_several_targets_may_be_constant():
    with pytest.warns(UserWarning, match="target 1 is 7 for all 40 sets"):
        predicted = regressor(epochs=10).fit(X, np.column_stack([CENTRE, np.full(40, 7.0)])).predict(X)
    assert (predicted[:, 1] == 7).all()
    assert np.ptp(predicted[:, 0]) > 0


def test_a_constant_target_has_no_scale_to_go_on_with():
    model = regressor(epochs=1, warm_start=True)
    with pytest.warns(UserWarning, match="every prediction"):
        model.fit(X, np.full(40, 0.1))
    model.fit(X, np.full(40, 0.1))
    with pytest.raises(ValueError, match="warm_start continues with a target that was constant and no longer is"):
        model.fit(X, CENTRE)


def test_tiny_targets_are_learned_as_others_are():
    usual = regressor(epochs=10).fit(X, CENTRE).predict(X)
    tiny = regressor(epochs=10).fit(X, CENTRE * 2.0**-400).predict(X)
    assert np.ptp(usual) > 0
    assert (tiny / 2.0**-400 == usual).all(), "a power of two changes no digit"


DATES = np.datetime64("2020-01-01") + np.arange(40)
TIMES = {
    "dates": DATES,
    "Series": pd.Series(DATES),
    "time zone": pd.Series(DATES).dt.tz_localize("UTC"),
    "objects": [date.item() for date in DATES],
    "periods": pd.Series(pd.PeriodIndex(DATES, freq="D")),
    "durations": DATES - DATES[0],
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
def test_dates_are_no_numbers(times):
    what = r"must be numbers, but they are (dates|durations) \(dtype .*\)\. Give them in days, as in .*np\.timedelta64\(1, 'D'\)"
    with pytest.raises(ValueError, match=f"targets {what}"):
        regressor().fit(X, times)
    with pytest.raises(ValueError, match=f"covariates such as 'when' {what}"):
        regressor().fit(X, CENTRE, covariates=pd.DataFrame({"when": times}))


def test_targets_are_scaled_by_weight():
    model = regressor(epochs=1).fit(X[:20], np.arange(20.0), sample_weight=np.arange(20) < 10)
    assert model.target_mean_ == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 40, "SetClassifier is for classes"),
        (CENTRE[:-1], "40 sets, 39 targets"),
        (np.where(np.arange(40) == 7, np.nan, CENTRE), "that of set 7 is nan"),
        ([*CENTRE[:7], pd.NA, *CENTRE[8:]], "targets must not be missing, but that of set 7 is <NA>"),
        (np.where(np.arange(40) == 7, -1e160, CENTRE), r"at most 1e\+150 in size, but that of set 7 is -1e\+160"),
        (np.zeros((40, 1, 1)), "shape"),
        (CENTRE.astype(complex), "real"),
    ],
)
def test_wrong_targets_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, y)


def test_targets_of_the_largest_size_are_predicted():
    assert np.isfinite(regressor(epochs=1).fit(X, np.where(np.arange(40) % 2, 1e150, -1e150)).predict(X)).all()


def test_one_set_is_too_few():
    with pytest.raises(ValueError, match="a minimum of 2"):
        regressor().fit(X[:1], CENTRE[:1])


def test_warm_start_keeps_to_its_targets():
    model = regressor(epochs=1, warm_start=True).fit(X, CENTRE)
    with pytest.raises(ValueError, match="1 targets, got 2"):
        model.fit(X, np.column_stack([CENTRE, CENTRE]))


def test_score_weighs_sets():
    model = regressor(epochs=1).fit(X, CENTRE)
    weight = np.arange(40.0)
    assert model.score(X, CENTRE, sample_weight=weight) == r2_score(CENTRE, model.predict(X), sample_weight=weight)
