"""`SetClassifier`: one class of two or more for each set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from orderless.estimators import defaults
from orderless.estimators.base import SetEstimator
from orderless.estimators.defaults import Auto
from orderless.io.missing import is_gap
from orderless.tasks.objectives import ObjectiveName

Array = NDArray[Any]


class SetClassifier(ClassifierMixin, SetEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Predicts classes from sets: an ensemble of networks, with all that scikit-learn asks of a classifier.

        model = SetClassifier().fit(sets, y)  # sets: a list of (n_i, D) arrays; y: (N,) labels of any kind
        probabilities = model.predict_proba(more_sets)

    Cross entropy is minimised. Probabilities are the mean over the ensemble.

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
        class_weight: `balanced`, or weights by class.
        set_id: Of a long DataFrame: the column that says which set a row belongs to.
        device: `auto`, `cpu`, `cuda`, `cuda:1`.
        work_dir: A folder for checkpoints: a fit that was stopped is resumed there, bit for bit.
        warm_start: `fit` continues from the weights, scaling and classes of the last fit.
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
        classes_: (C,) the labels, in the order of the columns of `predict_proba`.
    """

    _objective: ObjectiveName = "classification"
    classes_: Array

    def __init__(
        self,
        model: str = "deep_sets++",
        *,
        depth: int | None = None,
        width: int | None = None,
        norm: str | None = None,
        pool: str | None = None,
        num_inducing: int | None = None,
        epochs: int | Auto = "auto",
        learning_rate: float = defaults.LEARNING_RATE,
        weight_decay: float = defaults.WEIGHT_DECAY,
        noise: float | None = defaults.NOISE,
        batch_elements: int | Auto = "auto",
        max_elements: int | Auto | None = "auto",
        ensemble_size: int = defaults.ENSEMBLE_SIZE,
        validation_fraction: float = defaults.VALIDATION_FRACTION,
        patience: int | None = defaults.PATIENCE,
        class_weight: str | Mapping[Any, float] | None = None,
        set_id: str | None = None,
        device: str = "auto",
        work_dir: str | Path | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            model,
            depth=depth,
            width=width,
            norm=norm,
            pool=pool,
            num_inducing=num_inducing,
            epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            noise=noise,
            batch_elements=batch_elements,
            max_elements=max_elements,
            ensemble_size=ensemble_size,
            validation_fraction=validation_fraction,
            patience=patience,
            set_id=set_id,
            device=device,
            work_dir=work_dir,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict_proba(self, X: Any, *, covariates: Any = None) -> NDArray[np.float64]:
        """(N, C) probabilities in the order of `classes_`: from all elements of every set.

        Args:
            X: Sets in any form that `fit` takes.
            covariates: As for `fit`, where it had some.
        """
        logits = self._answers(X, covariates)  # (members, N, C)
        odds = np.exp(logits - logits.max(2, keepdims=True))
        mean: NDArray[np.float64] = (odds / odds.sum(2, keepdims=True)).mean(0)
        return mean / mean.sum(1, keepdims=True)  # to the last digit, which some callers check

    def predict_log_proba(self, X: Any, *, covariates: Any = None) -> NDArray[np.float64]:
        """(N, C) logarithms of `predict_proba`, with its arguments; minus infinity where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, covariates=covariates))

    def predict(self, X: Any, *, covariates: Any = None) -> Array:
        """(N,) the most likely class of each set. Arguments as for `predict_proba`."""
        most_likely = self.predict_proba(X, covariates=covariates).argmax(1)
        return self.classes_[most_likely]

    def score(self, X: Any, y: Any, *, sample_weight: Any = None, covariates: Any = None) -> float:
        """Accuracy."""
        y, sample_weight = self._told(X, y=y, sample_weight=sample_weight)
        return float(accuracy_score(_as_numpy(y), self.predict(X, covariates=covariates), sample_weight=sample_weight))

    def _read_target(self, y: Any, num_sets: int) -> Array:
        labels = column_or_1d(_as_numpy(y), warn=True)
        if len(labels) != num_sets:
            raise ValueError(f"every set needs a label: {num_sets} sets, {len(labels)} labels.")
        gaps = not np.isfinite(labels).all() if labels.dtype.kind == "f" else _has_gaps(y)
        if gaps:
            raise ValueError("labels must not be missing (Input y contains NaN or infinity).")
        _refuse_mixed(y)
        check_classification_targets(labels)
        classes, target = np.unique(labels, return_inverse=True)
        if self._goes_on:
            if not np.isin(classes, self.classes_).all():
                raise ValueError(f"warm_start continues with the classes {self.classes_.tolist()}, got {classes.tolist()}.")
            numbers: Array = np.searchsorted(self.classes_, labels)
            return numbers
        self.classes_ = classes
        return target.reshape(-1)

    def _weights(self, sample_weight: Any, target: Array) -> NDArray[np.float64]:
        weight = super()._weights(sample_weight, target)
        if self.class_weight is None:
            return weight
        present = np.unique(target[weight > 0])  # a set of weight 0 is as if it were not there
        each = np.zeros(len(self.classes_))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(target, weight, len(each))[present]  # a set of weight 2 counts as two
            each[present] = totals.sum() / (len(present) * totals)
        else:
            each[present] = compute_class_weight(
                self.class_weight, classes=self.classes_[present], y=self.classes_[target[weight > 0]]
            )
        if not np.isfinite(each).all() or (each < 0).any():
            raise ValueError(f"class_weight must be finite numbers of 0 or more; got {self.class_weight!r}.")
        weight = weight * each[target]
        if not weight.any():
            raise ValueError("class_weight is zero for every set that counts: there is nothing to learn from.")
        return weight

    def _settle_target(self, target: Array) -> Array:
        if self._goes_on:
            return target
        found, settled = np.unique(target, return_inverse=True)
        self.classes_ = self.classes_[found]  # a class all of whose sets have weight 0 is as if it were not there
        if len(found) < 2:
            raise ValueError(
                f"{type(self).__name__} needs sets of at least two classes, but all {len(target)} are of one class: "
                f"{self.classes_.tolist()[0]!r}."
            )
        return settled.reshape(-1)

    def _as_known(self, target: Array) -> NDArray[np.float64]:
        return target[:, None].astype(np.float64)

    def _num_outputs(self) -> int:
        return len(self.classes_)


def _as_numpy(labels: Any) -> Array:
    """Labels as numpy has them. Numbers in columns that pandas lets have gaps, or kept as objects, are of their own kind there.

    scikit-learn would make floats of the former, and whole numbers must stay whole numbers; the latter it does not know.
    """
    array = np.asarray(labels)
    if array.dtype == object and array.size and all(isinstance(one, int | float | np.number | np.bool_) for one in array.flat):
        array = np.array(array.ravel().tolist()).reshape(array.shape)
    return array


def _has_gaps(labels: Any) -> bool:
    """Whether some label is missing, before an array makes a word of it."""
    return any(map(is_gap, np.asarray(labels, dtype=object).ravel()))


def _refuse_mixed(labels: Any) -> None:
    """Fails where some labels are words and some are not, before an array makes words of all."""
    each = np.asarray(labels, dtype=object).ravel().tolist()
    word = next((label for label in each if isinstance(label, str)), None)
    other = next((label for label in each if not isinstance(label, str)), None)
    if word is not None and other is not None:
        raise ValueError(f"labels must be all words or all numbers, got both: {word!r} and {other!r}. Write them alike.")
