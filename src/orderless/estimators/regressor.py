"""`SetRegressor`: one number, or several, for each set."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from orderless.estimators.base import SetEstimator
from orderless.estimators.scaling import mean_and_spread
from orderless.estimators.sets_input import refuse_dates
from orderless.io.missing import is_gap
from orderless.tasks.objectives import ObjectiveName

Array = NDArray[Any]
LARGEST_TARGET = 1e150  # squares of larger ones, or their sums, may be beyond float64


class SetRegressor(RegressorMixin, SetEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Predicts numbers from sets: an ensemble of networks, with all that scikit-learn asks of a regressor.

        model = SetRegressor().fit(sets, y)  # sets: a list of (n_i, D) arrays; y: (N,) or (N, K)
        predicted = model.predict(more_sets)

    Squared error is minimised, of targets that are scaled to mean 0 and variance 1. The prediction is the mean over the ensemble.

    Args:
        model: A network of `create_model`: `deep_sets++`, `set_transformer++`, ...
        depth: Of the network; None takes the estimator's default, as for the four below.
        width: Of the network.
        norm: Of the network.
        pool: How elements become one vector: `mean`, `max`, `sum`, `attention`. None: networks of the ensemble take turns.
        num_inducing: Inducing points of a Set Transformer.
        epochs: Passes over the training sets, at most. `auto`: more for few sets.
        learning_rate: The highest; it rises at first, then falls along a cosine.
        weight_decay: Of AdamW.
        noise: On elements in training, in standard deviations of each feature; it falls over the epochs. 0 or None: never any.
        batch_elements: Elements in a batch. `auto`: as many as a few ordinary sets have.
        max_elements: Elements that each epoch draws anew of a larger set, in training only: `predict` takes all. `auto` draws
            where the sets are large; None takes all.
        ensemble_size: Networks that are averaged, each with other weights and another validation split.
        validation_fraction: Of sets that tell a network when to stop. Where it is 0, or sets are few: no validation, all epochs.
        patience: Epochs without improvement before a network stops; None goes to the last epoch. The best weights are kept.
        set_id: Of a long DataFrame: the column that says which set a row belongs to.
        device: `auto`, `cpu`, `cuda`, `cuda:1`.
        work_dir: A folder for checkpoints: a fit that was stopped is resumed there, bit for bit.
        warm_start: `fit` continues from the weights and scaling of the last fit.
        random_state: A seed, a RandomState, or None. The same seed gives the same predictions.
        verbose: 1 shows a bar on a terminal.

    Attributes:
        models_: The networks, in eval mode, on the CPU.
        scaler_: How elements are scaled.
        covariate_scaler_: How covariates are, or None.
        n_features_in_, feature_names_in_: Features of an element, and their names where they are known.
        n_covariates_in_: Columns of covariates.
        history_: For each network a row per epoch.
        n_iter_: Epochs of the network that took the most.
        device_: Where it was trained.
        target_mean_, target_scale_: (K,) how targets were scaled. The scale of a constant is 0, and it is what is predicted.
    """

    _objective: ObjectiveName = "regression"

    def predict(self, X: Any, *, covariates: Any = None) -> NDArray[np.float64]:
        """(N,) or (N, K) predictions, as y was: from all elements of every set.

        Args:
            X: Sets in any form that `fit` takes.
            covariates: As for `fit`, where it had some.
        """
        mean = self._answers(X, covariates).mean(0)  # (N, K)
        predicted = mean * self.target_scale_ + self.target_mean_
        return predicted[:, 0] if self._flat_target else predicted

    def score(self, X: Any, y: Any, *, sample_weight: Any = None, covariates: Any = None) -> float:
        """R², the share of the variance that is explained; of several targets the mean."""
        y, sample_weight = self._told(X, y=y, sample_weight=sample_weight)
        return float(r2_score(y, self.predict(X, covariates=covariates), sample_weight=sample_weight))

    def _read_target(self, y: Any, num_sets: int) -> Array:
        given = np.asarray(y)
        refuse_dates(given, "targets")
        if given.dtype == object and given.ndim and any(map(is_gap, given.ravel())):
            row = next(row for row, value in enumerate(given) if any(map(is_gap, np.ravel(value))))
            raise ValueError(f"targets must not be missing, but that of set {row} is {given[row]} (Input y contains NaN).")
        if given.dtype.kind == "c":
            raise ValueError("Complex data not supported: targets must be real numbers.")
        try:
            target = given.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"targets must be numbers, got dtype {given.dtype}: SetClassifier is for classes.") from None
        if target.ndim not in (1, 2):
            raise ValueError(f"targets must be (N,) or (N, K), got shape {target.shape}.")
        if len(target) != num_sets:
            raise ValueError(f"every set needs a target: {num_sets} sets, {len(target)} targets.")
        if not np.isfinite(target).all():
            row = int(np.argwhere(~np.isfinite(target))[0, 0])
            raise ValueError(f"targets must be finite, but that of set {row} is {given[row]} (Input y contains NaN or infinity).")
        if (np.abs(target) > LARGEST_TARGET).any():
            row = int(np.argwhere(np.abs(target) > LARGEST_TARGET)[0, 0])
            raise ValueError(
                f"targets must be at most {LARGEST_TARGET:g} in size, but that of set {row} is {given[row]}. Give them in "
                "another unit, or give their logarithm."
            )
        self._flat_target = target.ndim == 1
        return target.reshape(num_sets, -1)

    def _settle_target(self, target: Array) -> Array:
        if len(target) < 2:
            raise ValueError(f"Found {len(target)} sample(s) while a minimum of 2 is required: one set tells nothing of another.")
        return target

    def _fit_target_scaling(self, target: Array, weight: NDArray[np.float64]) -> None:
        self.target_mean_, self.target_scale_ = mean_and_spread(target, weight)
        for number in np.flatnonzero(self.target_scale_ == 0).tolist():
            which = "the target" if self._flat_target else f"target {number}"
            value, count = self.target_mean_[number], len(target)
            warnings.warn(
                f"{which} is {value:g} for all {count} sets: there is nothing to learn, and every prediction will be {value:g}.",
                stacklevel=5,  # where `fit` was called
            )

    def _as_known(self, target: Array) -> NDArray[np.float64]:
        if target.shape[1] != len(self.target_mean_):
            raise ValueError(f"warm_start continues with {len(self.target_mean_)} targets, got {target.shape[1]}.")
        away, constant = target - self.target_mean_, self.target_scale_ == 0
        if (np.abs(away) > 1e-12 * np.abs(self.target_mean_))[:, constant].any():
            raise ValueError("warm_start continues with a target that was constant and no longer is: fit again without it.")
        return away / np.where(constant, 1.0, self.target_scale_)

    def _num_outputs(self) -> int:
        return len(self.target_mean_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
