"""Fits that are kept as they are done, so that a cross-validation that was stopped continues where it was."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from orderless.estimators.bundle import Estimator, load_bundle, save_bundle
from orderless.io.errors import DataError
from orderless.studies.columns import CovariateTable

_BUNDLE, _WORK = "bundle", "work"


class KeptFit(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator whose fits are found again: by the same sets, targets and parameters.

    Args:
        estimator: A `SetClassifier` or `SetRegressor`.
        folder: Where fits are kept, a folder for each. None keeps none.
        covariates: What columns of covariates mean, where they come as numbers: the estimator is told words.
    """

    def __init__(self, estimator: Any, folder: str | Path | None = None, covariates: CovariateTable | None = None) -> None:
        self.estimator = estimator
        self.folder = folder
        self.covariates = covariates

    def fit(self, X: Any, y: Any, *, groups: Any = None, covariates: Any = None) -> Self:
        """Fits, or loads what was fitted to the same.

        Args:
            X: `Samples`.
            y: (N,) targets.
            groups: (N,) or None.
            covariates: (N, K) numbers, as `CovariateTable.encoded`, or None.
        """
        told = {"groups": groups, "covariates": self._decode(covariates)}
        if self.folder is None:
            self.fitted_ = clone(self.estimator).fit(X, y, **told)
            return self
        place = Path(self.folder) / self._mark(X, y, groups, covariates)
        found = _load_if_good(place / _BUNDLE)
        if found is not None:
            self.fitted_ = found.set_params(device=self.estimator.device)
        else:
            place.mkdir(parents=True, exist_ok=True)
            self.fitted_ = clone(self.estimator).set_params(work_dir=place / _WORK).fit(X, y, **told)
            save_bundle(self.fitted_, place / _BUNDLE)
        shutil.rmtree(place / _WORK, ignore_errors=True)  # checkpoints of what is done
        return self

    def predict(self, X: Any, *, covariates: Any = None) -> NDArray[Any]:
        """As the estimator's."""
        predicted: NDArray[Any] = self.fitted_.predict(X, covariates=self._decode(covariates))
        return predicted

    def predict_proba(self, X: Any, *, covariates: Any = None) -> NDArray[np.float64]:
        """As the estimator's."""
        probabilities: NDArray[np.float64] = self.fitted_.predict_proba(X, covariates=self._decode(covariates))
        return probabilities

    @property
    def classes_(self) -> NDArray[Any]:
        """As the estimator's."""
        classes: NDArray[Any] = self.fitted_.classes_
        return classes

    def _decode(self, covariates: Any) -> Any:
        return covariates if covariates is None or self.covariates is None else self.covariates.decode(np.asarray(covariates))

    def _mark(self, X: Any, y: Any, groups: Any, covariates: Any) -> str:
        """What a fit depends on, beside the elements: those are of one study, which the folder belongs to."""
        params = {name: value for name, value in self.estimator.get_params().items() if name not in ("device", "verbose")}
        lists = [None if values is None else np.asarray(values).tolist() for values in (y, groups, covariates)]
        return hashlib.blake2b(repr((sorted(params.items()), X.ids, lists)).encode(), digest_size=8).hexdigest()


def _load_if_good(bundle: Path) -> Estimator | None:
    """What was kept, or None where there is nothing, or nothing that can be used."""
    if not bundle.exists():
        return None
    try:
        return load_bundle(bundle)
    except DataError as error:
        warnings.warn(f"{error} It is fitted again.", stacklevel=3)
        shutil.rmtree(bundle)
        return None
