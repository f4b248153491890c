"""Sets paired with the wrong values (`leaks.py`). What tables hold is tested with the estimators that read them."""

import numpy as np
import pandas as pd
import pytest

from orderless import SetRegressor
from orderless.estimators.leaks import refuse_another_order

NAMES = [f"p{n}" for n in range(12)]
SETS = [np.random.default_rng(n).normal(size=(3 + n, 2)) for n in range(12)]
TARGET = pd.Series(np.arange(12.0), index=NAMES)
BESIDE = {"y": TARGET, "groups": pd.Series(NAMES, index=NAMES), "sample_weight": TARGET + 1, "covariates": TARGET}


def regressor():
    return SetRegressor(epochs=1, ensemble_size=1, depth=2, width=8, random_state=0, device="cpu")


@pytest.mark.parametrize("what", BESIDE)
def test_series_that_name_the_same_sets_in_another_order_are_refused(what):
    sets = pd.Series(SETS, index=NAMES)
    with pytest.raises(ValueError, match=rf"{what} has the sets of X in another order: `{what}\.loc\[X\.index\]`"):
        regressor().fit(sets, **{"y": TARGET, what: BESIDE[what].iloc[::-1]})


def test_scores_refuse_another_order_too():
    sets = pd.Series(SETS, index=NAMES)
    with pytest.raises(ValueError, match="y has the sets of X in another order"):
        regressor().fit(sets, TARGET).score(sets, TARGET.iloc[::-1])


@pytest.mark.parametrize(
    ("sets", "y"),
    [
        (pd.Series(SETS, index=NAMES), TARGET),
        (pd.Series(SETS), TARGET),  # without names
        (pd.Series(SETS), pd.Series(np.arange(12.0), index=np.arange(12)[::-1])),  # rows of a table that was shuffled
        (pd.Series(SETS, index=NAMES), TARGET.to_numpy()[::-1]),
        (SETS, TARGET.iloc[::-1]),  # a list has no names
        (pd.Series(SETS, index=NAMES), TARGET.rename(str.upper).iloc[::-1]),  # other names
    ],
    ids=["the same order", "sets without names", "row numbers", "an array", "a list", "other names"],
)
def test_what_names_nothing_goes_by_position(sets, y):
    refuse_another_order(sets, y=y)
