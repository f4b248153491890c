"""What `SetClassifier` and `SetRegressor` share: reading what they are given, fitting an ensemble, asking it.

Letters: N sets, K targets.
"""

from __future__ import annotations

import numbers as abstract
import os
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from orderless.estimators import defaults
from orderless.estimators.covariates import CovariateScaler, choose_rows
from orderless.estimators.defaults import Auto, decide, is_drawn, pools_of
from orderless.estimators.leaks import (
    refuse_another_order,
    refuse_slips,
    refuse_target_among_features,
    warn_of_features_of_sets,
    warn_of_row_numbers,
)
from orderless.estimators.members import Lesson, Network, Row, seeds_of, train_member
from orderless.estimators.predicting import answers
from orderless.estimators.scaling import ElementScaler, check_elements
from orderless.estimators.sets_input import (
    GivenSets,
    LongTable,
    from_torch,
    read_sets,
    refuse_masked,
)
from orderless.estimators.training import scaled
from orderless.estimators.validation import split_members
from orderless.estimators.work_dir import fingerprint_of, open_work_dir
from orderless.io.missing import is_gap
from orderless.io.samples import by_set_name, is_samples
from orderless.io.spelling import check_groups
from orderless.models.registry import MODELS
from orderless.tasks.objectives import ObjectiveName
from orderless.train import resolve_device
from orderless.train.config import MOST_NOISE
from orderless.words import did_you_mean

Array = NDArray[Any]
_NOT_OF_THE_ANSWER = ("device", "verbose", "work_dir", "random_state", "warm_start")  # where and how, or said beside it
_OF_A_BUNDLE = ("schema_", "summary_", "versions_")  # what a bundle said of the fit that it came from


class SetEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Fits an ensemble of networks on sets. `SetClassifier` and `SetRegressor` say what is predicted, and what options mean."""

    _objective: ObjectiveName
    models_: list[nn.Module]
    history_: list[list[Row]]
    feature_names_in_: Array

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
        set_id: str | None = None,
        device: str = "auto",
        work_dir: str | Path | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.depth = depth
        self.width = width
        self.norm = norm
        self.pool = pool
        self.num_inducing = num_inducing
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.noise = noise
        self.batch_elements = batch_elements
        self.max_elements = max_elements
        self.ensemble_size = ensemble_size
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.set_id = set_id
        self.device = device
        self.work_dir = work_dir
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None, groups: Any = None, covariates: Any = None) -> Self:
        """Fits the ensemble.

        Args:
            X: N sets: a list of (n_i, D) arrays or tensors, an object array or a Series of them, an array or tensor (N, M, D),
                a `SetBatch`, a long DataFrame (with `set_id`), or `Samples` of `orderless.io`. Sets may be empty, but not all.
            y: One target per set. With a long DataFrame also the name of a column, or a Series with a value per row.
            sample_weight: (N,) weights of sets: a set of weight 2 counts as two, one of weight 0 as none.
            groups: (N,) sets of one group, such as a patient, are never split between training and validation.
            covariates: (N, K) what is known of a set as a whole: numbers, or words in a DataFrame or an object array.

        A fit that fails or is stopped leaves the estimator as it was.
        """
        # a copy learns, and all that it has is taken over in one step: a fit that fails or is stopped leaves no half of itself
        learner = type(self).__new__(type(self))
        learner.__dict__.update(self.__dict__)
        learner._learn(X, y, sample_weight, groups, covariates)
        self.__dict__ = learner.__dict__
        return self

    def _learn(self, X: Any, y: Any, sample_weight: Any, groups: Any, covariates: Any) -> None:
        """What `fit` does, to an estimator that nobody else has seen yet."""
        self._check_parameters()
        given = self._take_in(X, y, sample_weight, groups, covariates)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        folder, seed = self._work_dir(seed, given)
        given = given.without_idle()
        given = replace(given, target=self._settle_target(given.target))
        if not given.sets.sizes.any():
            raise ValueError(f"all {len(given.sets)} sets are empty: there is nothing to learn from. Give sets with elements.")
        self._learn_scaling(given)
        self._train(given, seed, folder)

    @property
    def _goes_on(self) -> bool:
        """Whether `fit` continues from the last one."""
        return bool(self.warm_start) and hasattr(self, "models_")

    def _take_in(self, X: Any, y: Any, sample_weight: Any, groups: Any, covariates: Any) -> _Given:
        refuse_another_order(X, y=y, groups=groups, sample_weight=sample_weight, covariates=covariates)
        sets = self._read(X, y, groups, sample_weight, covariates)
        beside = map(from_torch, (y, groups, sample_weight, covariates))
        y, groups, sample_weight, covariates = self._per_set(sets, *beside)
        target = self._read_target(y, len(sets))
        refuse_target_among_features(sets, y)
        refuse_slips(sets)
        warn_of_features_of_sets(sets)
        warn_of_row_numbers(sets)
        weight = self._weights(sample_weight, target)
        if groups is not None:
            _refuse_gaps(groups, "groups")
            groups = _as_column(groups, len(sets), "groups")
            check_groups(groups.tolist())
        return _Given(sets, target, weight, groups, covariates)

    def _learn_scaling(self, given: _Given) -> None:
        """Learns what becomes of elements, covariates and targets in front of a network; an estimator that goes on knows it."""
        if self._goes_on:
            self._check_features(given.sets)
            check_elements(given.sets)
            return
        self._note_features(given.sets)
        for name in _OF_A_BUNDLE:
            self.__dict__.pop(name, None)
        in_space = self.model in MODELS and MODELS[self.model].measures_distances  # another name is refused when it is built
        self.scaler_ = ElementScaler(coordinates=in_space).fit(given.sets, given.weight)
        self.covariate_scaler_ = None if given.covariates is None else CovariateScaler().fit(given.covariates, given.weight)
        self.n_covariates_in_ = 0 if self.covariate_scaler_ is None else self.covariate_scaler_.num_covariates
        self._fit_target_scaling(given.target, given.weight)

    def _train(self, given: _Given, seed: int, folder: Path | None) -> None:
        """Trains the networks of the ensemble, one after the other."""
        sizes = given.sets.sizes
        beside = self._scale_covariates(given.covariates, len(given.sets))
        network = self._network(given.sets.num_features)
        known = self._as_known(given.target)
        lesson = Lesson(scaled(given.sets.stored, self.scaler_), known, given.weight, beside, self._objective)
        settings = decide(
            sizes,
            epochs=self.epochs,
            batch_elements=self.batch_elements,
            max_elements=self.max_elements,
            draws="sum" not in pools_of(self.model, self.pool, drawn=True),
        )
        pools = pools_of(self.model, self.pool, drawn=is_drawn(sizes, settings.max_elements))
        splits = self._splits(given.target, given.groups, seed)
        starts = self.models_ if self._goes_on else [None] * len(splits)
        if len(starts) != len(splits):
            raise ValueError(f"warm_start continues with {len(starts)} networks, but ensemble_size is {len(splits)} now.")
        self.models_, self.history_ = [], []
        for number, (split, start, member_seed) in enumerate(zip(splits, starts, seeds_of(seed, len(splits)), strict=True)):
            model, rows = train_member(
                network.pooling(pools[number % len(pools)]),
                lesson,
                split,
                settings,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                noise=self.noise,
                patience=self.patience,
                seed=member_seed,
                device=self.device,
                folder=None if folder is None else folder / f"member-{number}",
                start=start,
                title=f"network {number + 1} of {len(splits)}" if self.verbose else None,
            )
            self.models_.append(model)
            self.history_.append(rows)
        self.n_iter_ = max(rows[-1]["epoch"] for rows in self.history_)
        self.device_ = str(resolve_device(self.device))

    def _splits(self, target: Array, groups: Array | None, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        count = len(target)
        few = count < defaults.MIN_SETS_TO_VALIDATE or (groups is not None and len(np.unique(groups)) < 2)
        if few or not self.validation_fraction:
            return [(np.arange(count), np.arange(0))] * self.ensemble_size
        labels = target if self._objective == "classification" else None
        return split_members(labels, groups, count, num_members=self.ensemble_size, fraction=self.validation_fraction, seed=seed)

    def _work_dir(self, seed: int, given: _Given) -> tuple[Path | None, int]:
        if self.work_dir is None:
            return None, seed
        if self._goes_on:
            raise ValueError("work_dir resumes a fit that was stopped, warm_start continues one that is done: use one of them.")
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in _NOT_OF_THE_ANSWER}
        beside = {"groups": given.groups, "covariates": given.covariates}
        said = fingerprint_of(given.sets, params, target=given.target, sample_weight=given.weight, **beside)
        # only a whole number is the same seed the next time
        return open_work_dir(self.work_dir, said, seed, keep_seed=isinstance(self.random_state, abstract.Integral))

    # ------------------------------------------------------------------------------------------------------ what is asked

    def _answers(self, X: Any, covariates: Any) -> NDArray[np.float64]:
        """(members, N, out) of all networks, for all elements."""
        check_is_fitted(self, "models_")
        names = getattr(self, "feature_names_in_", None)
        wanted = None if names is None else tuple(names)
        sets = read_sets(X, set_id=self.set_id, wanted=wanted, num_features=self.n_features_in_)
        self._check_features(sets)
        (covariates,) = _columns_per_set(sets, covariates=covariates)
        return answers(
            self.models_, sets, self.scaler_, self._scale_covariates(covariates, len(sets)), resolve_device(self.device)
        )

    # ---------------------------------------------------------------------------------------------------- what is given

    def _read(self, X: Any, *per_set: Any) -> GivenSets:
        *others, covariates = per_set
        apart = [name for values in others for name in _column_name(values)]
        return read_sets(X, set_id=self.set_id, not_features=[*apart, *_column_names(covariates)])

    def _per_set(self, sets: GivenSets, y: Any, groups: Any, sample_weight: Any, covariates: Any) -> tuple[Any, ...]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        for what, values in {"y": y, "groups": groups, "sample_weight": sample_weight}.items():
            refuse_masked(values, what)
        return _columns_per_set(sets, y=y, groups=groups, sample_weight=sample_weight, covariates=covariates)

    def _told(self, X: Any, **given: Any) -> tuple[Any, ...]:
        """What scores are made of, per set: of a long table columns may be named."""
        refuse_another_order(X, **given)
        if is_samples(X):
            return tuple(by_set_name(values, X.ids, what) for what, values in given.items())
        if self.set_id is None or not hasattr(X, "columns"):
            return tuple(map(from_torch, given.values()))
        table = LongTable(X, self.set_id)
        return tuple(table.per_set(values, what) for what, values in given.items())

    def _weights(self, sample_weight: Any, target: Array) -> NDArray[np.float64]:
        if sample_weight is None:
            return np.ones(len(target))
        weight = _as_column(sample_weight, len(target), "sample_weight")
        try:
            weight = weight.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"sample_weight must be numbers, one of each set: {error}.") from None
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("sample_weight must be finite numbers of 0 or more.")
        if not weight.any():
            raise ValueError("sample_weight is zero for every set: there is nothing to learn from.")
        return weight

    def _note_features(self, sets: GivenSets) -> None:
        self.n_features_in_ = sets.num_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if sets.features is not None:
            self.feature_names_in_ = np.array(sets.features, dtype=object)

    def _check_features(self, sets: GivenSets) -> None:
        if sets.num_features != self.n_features_in_:
            raise ValueError(
                f"X has {sets.num_features} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input."
            )

    def _scale_covariates(self, covariates: Any, num_sets: int) -> NDArray[np.float32] | None:
        if self.covariate_scaler_ is None:
            if covariates is not None:
                raise ValueError("covariates were given, but the estimator was fitted without any.")
            return None
        if covariates is None:
            raise ValueError(
                f"the estimator was fitted with {self.covariate_scaler_.num_covariates} covariates: pass covariates= here, too."
            )
        return self.covariate_scaler_.transform(covariates, num_sets)

    def _network(self, num_features: int) -> Network:
        if self.model not in MODELS:
            raise ValueError(f"model must be one of {', '.join(MODELS)}; got {self.model!r}.{did_you_mean(self.model, MODELS)}")
        given = {name: getattr(self, name) for name in ("depth", "width", "norm", "num_inducing")}
        options = {**defaults.NETWORKS.get(self.model, {}), **{name: value for name, value in given.items() if value is not None}}
        if "sum" in pools_of(self.model, self.pool, drawn=True) and isinstance(self.max_elements, abstract.Integral):
            raise ValueError(
                "pool='sum' adds up all elements when predicting, but max_elements trains on some of them: choose pool='mean', "
                "or max_elements=None."
            )
        covariates = 0 if self.covariate_scaler_ is None else self.covariate_scaler_.num_outputs
        return Network(self.model, num_features, self._num_outputs(), covariates, options)

    def _check_parameters(self) -> None:
        words = {"epochs": ("auto",), "batch_elements": ("auto",), "max_elements": ("auto", None), "patience": (None,)}
        for name in ("ensemble_size", *words):
            value, allowed = getattr(self, name), words.get(name, ())
            if not _is_whole(value) and not any(value is None if word is None else value == word for word in allowed):
                also = "".join(f", or {word!r}" for word in allowed)
                raise ValueError(f"{name} must be a whole number of at least 1{also}; got {value!r}.")
        limits = {
            "learning_rate": (1e-30, np.inf),
            "weight_decay": (0, np.inf),
            "noise": (0, MOST_NOISE),
            "validation_fraction": (0, 0.9),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if name == "noise" and value is None:
                continue
            if not isinstance(value, abstract.Real) or not least <= float(value) <= most or np.isinf(float(value)):
                span = f"of at least {least:g}" if np.isinf(most) else f"from {least:g} to {most:g}"
                raise ValueError(f"{name} must be a finite number {span}; got {value!r}.")
        kinds: dict[str, tuple[Any, str]] = {
            "set_id": (Hashable, "the name of a column, or None"),
            "work_dir": (str | os.PathLike | None, "the path of a folder, or None"),
            "warm_start": (bool | np.bool_, "True or False"),
            "verbose": (abstract.Integral | np.bool_, "a whole number, or True or False"),
        }
        for name, (kind, said) in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ValueError(f"{name} must be {said}; got {value!r}.")
        resolve_device(self.device)

    # --------------------------------------------------------------------------------------- what is predicted: by subclasses

    def _read_target(self, y: Any, num_sets: int) -> Array:
        """(N,) numbers of classes, or (N, K) numbers."""
        raise NotImplementedError

    def _settle_target(self, target: Array) -> Array:
        """The target of the sets that count, once there is enough to learn from."""
        raise NotImplementedError

    def _fit_target_scaling(self, target: Array, weight: NDArray[np.float64]) -> None:
        """Learns how targets are scaled, where they are."""

    def _as_known(self, target: Array) -> NDArray[np.float64]:
        """(N, K) what a network is told."""
        raise NotImplementedError

    def _num_outputs(self) -> int:
        """Numbers that a network gives for a set."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True)
class _Given:
    """What a fit is given, read and checked.

    Attributes:
        sets: The sets.
        target: (N,) numbers of classes, or (N, K) numbers.
        weight: (N,) how much each set counts.
        groups: (N,) or None.
        covariates: (N, ...) as they came, or None.
    """

    sets: GivenSets
    target: Array
    weight: NDArray[np.float64]
    groups: Array | None
    covariates: Any

    def without_idle(self) -> _Given:
        """Without the sets of weight 0: each is as if it were not there."""
        used = np.flatnonzero(self.weight)
        if len(used) == len(self.sets):
            return self
        return _Given(
            self.sets.choose(used),
            self.target[used],
            self.weight[used],
            None if self.groups is None else self.groups[used],
            None if self.covariates is None else choose_rows(self.covariates, used),
        )


def _as_column(values: Any, num_sets: int, what: str) -> Array:
    column = np.asarray(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{what} must have one value per set, in 1 dimension; got shape {column.shape}.")
    if len(column) != num_sets:
        raise ValueError(f"{what} needs one value per set: {num_sets} sets, {len(column)} values.")
    return column


def _refuse_gaps(values: Any, what: str) -> None:
    """Looks at values as they were given: an array of words and a gap, made of a list, would have the word `nan`."""
    given = np.asarray(values, dtype=object).ravel().tolist()
    missing = [is_gap(value) for value in given]
    if any(missing):
        raise ValueError(f"{what} must not be missing: that of set {missing.index(True)} is {given[missing.index(True)]}.")


def _column_name(values: Any) -> list[str]:
    """The column of a long table that was named, or that a Series came from."""
    name = values if isinstance(values, str) else getattr(values, "name", None)
    return [name] if isinstance(name, str) else []


def _column_names(covariates: Any) -> list[str]:
    """Columns of a long table that were named, or that a DataFrame has."""
    if hasattr(covariates, "columns"):
        return [str(name) for name in covariates.columns]
    if isinstance(covariates, list | tuple) and covariates and all(isinstance(value, str) for value in covariates):
        return list(covariates)
    return _column_name(covariates)


def _columns_per_set(sets: GivenSets, **given: Any) -> tuple[Any, ...]:
    """What was given beside the sets, in their order: of a long table columns may be named, and names of sets go by name."""
    if sets.table is None:
        return tuple(values if sets.names is None else by_set_name(values, sets.names, what) for what, values in given.items())
    found = []
    for what, values in given.items():
        if what == "covariates" and isinstance(values, list | tuple) and _column_names(values):
            found.append(_frame({name: sets.table.per_set(name, what) for name in values}, sets.table))
        else:
            found.append(sets.table.per_set(values, what))
    return tuple(found)


def _frame(columns: dict[str, Array], table: Any) -> Any:
    return type(table.frame)(columns)


def _is_whole(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, abstract.Integral) and int(value) >= 1
