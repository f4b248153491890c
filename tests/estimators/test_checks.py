"""scikit-learn's own checks on a fixed-size view, and the list of those that cannot apply, as the docs have it."""

import re
import warnings
from pathlib import Path

import estimators.test_ragged as ragged_tests
import pytest
from estimators.rows import RowsClassifier, RowsRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

DOCS = Path(__file__).parents[2] / "docs" / "estimators.md"
QUICK = {"width": 8, "depth": 2, "ensemble_size": 1, "random_state": 0, "learning_rate": 0.05, "batch_elements": 64, "epochs": 12}
CANNOT_APPLY = dict(re.findall(r"^\| `(check_\w+)` \| (.+) \|$", DOCS.read_text(), re.M))


def name_of(check):
    return check.func.__name__ if hasattr(check, "func") else check.__name__


CHECKS = [
    (estimator, check)
    for kind in (RowsClassifier, RowsRegressor)
    for estimator, check in estimator_checks_generator(kind(**QUICK))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[f"{type(e).__name__}-{name_of(c)}" for e, c in CHECKS])
def test_the_check_passes(estimator, check):
    if name_of(check) in CANNOT_APPLY:
        pytest.skip(CANNOT_APPLY[name_of(check)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some checks make estimators warn
        check(estimator)


def test_every_check_that_cannot_apply_is_one_and_has_a_reason():
    assert set(CANNOT_APPLY) <= {name_of(check) for _, check in CHECKS}
    assert all(CANNOT_APPLY.values())
    assert len(CANNOT_APPLY) == 2


def test_every_check_has_a_ragged_counterpart():
    named = {name_of(check) for _, check in CHECKS}
    assert named == set(ragged_tests.COUNTERPARTS)
    for test in ragged_tests.COUNTERPARTS.values():
        assert callable(getattr(ragged_tests, test)), test
