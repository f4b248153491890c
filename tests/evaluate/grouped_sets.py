"""Sets of patients, and small estimators that say what they were given."""

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from orderless.evaluate import cross_validate
from orderless.io import DataError
from orderless.train import CheckpointError


def draw_patients(num_patients=12, each=2, *, shift=1.0, dim=2, seed=0):
    """Sets, classes and patients: every second patient is `ill`, and its elements are shifted."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(num_patients), each)
    sets = [rng.normal(shift * (p % 2), 1, (int(rng.integers(1, 12)), dim)) for p in patient]
    return sets, np.array(["well", "ill"])[patient % 2], patient


class MeanClassifier(ClassifierMixin, BaseEstimator):
    """Probability by the mean of the first feature; notes what `fit` was given."""

    seen: list = []  # noqa: RUF012

    def __init__(self, slope=2.0, random_state=None, fail_without=None):
        self.slope = slope
        self.random_state = random_state
        self.fail_without = fail_without

    def fit(self, sets, y, groups=None, covariates=None, sample_weight=None):
        if self.fail_without is not None and self.fail_without not in set(groups.tolist()):
            raise RuntimeError("lost\n  its way")
        self.seen.append(
            {"y": y, "groups": groups, "covariates": covariates, "weight": sample_weight, "state": self.random_state}
        )
        self.classes_ = np.unique(y)
        self.middle_ = np.mean([x[:, 0].mean() for x in sets])
        return self

    def predict_proba(self, sets, covariates=None):
        high = 1 / (1 + np.exp(-self.slope * (np.array([x[:, 0].mean() for x in sets]) - self.middle_)))
        return np.stack([high, 1 - high], 1)[:, : len(self.classes_)]  # "ill" comes first

    def predict(self, sets):
        return self.classes_[self.predict_proba(sets).argmax(1)]


class Hindered(MeanClassifier):
    """Meets an error whenever it is fitted."""

    def __init__(self, error=None, slope=2.0, random_state=None, fail_without=None):
        super().__init__(slope, random_state, fail_without)
        self.error = error

    def fit(self, sets, y, groups=None, covariates=None, sample_weight=None):
        raise self.error


OF_THE_MACHINE = {
    "a full disk": OSError(28, "No space left on device"),
    "no memory": MemoryError(),
    "no memory on the GPU": torch.OutOfMemoryError("CUDA out of memory"),
    "a checkpoint": CheckpointError("the checkpoint after step 2 could not be written"),
    "a damaged file": DataError("bundle.json", expected="JSON", found="something else"),
}


class MeanRegressor(RegressorMixin, BaseEstimator):
    """The mean of the first feature, in so many columns."""

    def __init__(self, columns=1):
        self.columns = columns

    def fit(self, sets, y):
        return self

    def predict(self, sets):
        means = np.array([x[:, 0].mean() for x in sets])
        return means if self.columns == 1 else np.stack([means] * self.columns, 1)


def evaluate_patients(**options):
    """A small evaluation of classes, with one model."""
    sets, y, patient = draw_patients()
    options = {"num_folds": 3, "num_bootstrap": 50, "groups": patient, **options}
    return cross_validate({"mean": MeanClassifier()}, sets, y, objective="classification", **options)


def evaluate_numbers(columns=1, **options):
    """A small evaluation of numbers, with one model."""
    sets, _, patient = draw_patients()
    y = np.array([x[:, 0].mean() for x in sets]) + 0.1 * patient
    target = y if columns == 1 else np.stack([y] * columns, 1)
    options = {"num_folds": 3, "num_bootstrap": 50, "groups": patient, **options}
    return cross_validate({"mean": MeanRegressor(columns)}, sets, target, objective="regression", **options)
