"""One model in one fold: fitted to training sets alone, asked for the test sets.

Estimators get what their `fit` takes of `groups`, `covariates` and `sample_weight`. Baselines get covariates as further columns
of their rows, so that they know what the models know.

Letters: N sets, K columns or targets, C classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from orderless.evaluate.baselines import BASELINES, Standardizer, make_baseline
from orderless.evaluate.material import Material
from orderless.evaluate.metrics import METRICS, Predicted
from orderless.evaluate.splits import Goal, make_folds, plan_folds
from orderless.evaluate.summaries import DEFAULT_QUANTILES, MomentSummary
from orderless.io.errors import DataError, MachineError
from orderless.io.samples import listed

Array = NDArray[np.float64]

COVARIATES = "covariates"  # the baseline that looks at covariates alone
# smooth, so that few sets can tell settings apart, and bounded, so that one overconfident answer does not decide
_CHOSEN_BY = {"classification": "brier", "regression": "mse"}
TUNED = "moments_tuned"  # for few sets: a penalty chosen inside the training part; and minima and maxima, for rare elements
TITLES = {
    COVARIATES: "Covariates alone, linear",
    TUNED: "Moments and extremes, penalty tuned",
    **{name: BASELINES[name].title for name in ("constant", "moments", "moments_boosted", "mean_embedding")},
}
# a full disk or memory, or a damaged file, is no verdict on a model: who tries again may see it fitted
OF_THE_MACHINE = (OSError, MemoryError, torch.OutOfMemoryError, MachineError, DataError)
_ROUNDING = 1e-3  # of probabilities: float16 has three digits
_PENALTY_FOLDS = 5
_QUANTILES = (0.0, *DEFAULT_QUANTILES, 1.0)
_PENALTIES = {
    "classification": [{"logisticregression__C": c} for c in (1.0, 0.1, 0.01)],  # below that, few sets give the larger class
    "regression": [{"ridge__alpha": a} for a in (1.0, 10.0, 100.0, 1000.0, 10000.0)],
}


def fit_model(model: Any, train: Material, seed: int) -> Any:
    """A fitted clone. Random states that were left open are set, so that the same seed gives the same model."""
    estimator = clone(model)
    open_states = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rsplit("__", 1)[-1] == "random_state"
    }
    if open_states:
        estimator.set_params(**open_states)
    extras: dict[str, Any] = {}
    for name in ("groups", "covariates", "sample_weight"):
        if (values := getattr(train, name)) is not None and (key := fit_parameter(estimator, name)):
            extras[key] = values
    return estimator.fit(train.X, train.plain_target, **extras)


def predict_model(estimator: Any, test: Material) -> tuple[Array, bool]:
    """(N, C) probabilities or (N, K) numbers, and whether they are probabilities and not classes turned into 0 and 1.

    Raises:
        ValueError: If it is no answer: classes that the data do not have, probabilities that are none, another number of rows.
    """
    if test.objective == "regression":
        return _checked(_call(estimator, "predict", test).reshape(len(test.y), -1), test.y.shape[1]), False
    assert test.classes is not None
    if hasattr(estimator, "predict_proba"):
        known = _call(estimator, "predict_proba", test)
        return spread_classes(known, estimator.classes_, test.classes), True
    given = _call(estimator, "predict", test)
    if given.size != len(given):
        raise ValueError(f"predict must give one class for each set, got shape {given.shape}.")
    return np.eye(len(test.classes))[_class_numbers(given.ravel(), test.classes, "predict must give classes")], False


def choose_parameters(
    model: Any, grid: Sequence[Mapping[str, Any]], train: Material, num_folds: int, seed: int
) -> Mapping[str, Any]:
    """The parameters that predict held-out parts of the training sets best, by group; the first of those that are level.

    Parameters that cannot be fitted are passed over. Errors `OF_THE_MACHINE` are raised.
    """
    count, _ = plan_folds(train.y, train.groups, train.objective, num_folds)
    folds = make_folds(train.y, groups=train.groups, objective=train.objective, num_folds=count, seed=seed)
    parts = [(train.part(fold.train), train.part(fold.test)) for fold in folds]
    target = np.concatenate([held_out.encoded_target for _, held_out in parts])
    metric, everywhere = METRICS[train.objective][_CHOSEN_BY[train.objective]], np.zeros(len(target), dtype=np.int64)
    losses, reason = [], ""
    for chosen in grid:
        try:
            fitted = [(fit_model(clone(model).set_params(**chosen), inner, seed), held_out) for inner, held_out in parts]
            output = np.concatenate([predict_model(estimator, held_out)[0] for estimator, held_out in fitted])
        except OF_THE_MACHINE:
            raise
        except Exception as error:
            losses.append(np.inf)
            reason = describe_error(error)
            continue
        losses.append(float(metric.of(Predicted(target, output, everywhere), np.ones((1, len(target))))[0]))
    if not np.isfinite(losses).any():
        raise ValueError(f"no parameters of the grid could be fitted; the last error was {reason}")
    return grid[int(np.argmin(losses))]


def fit_parameter(estimator: Any, name: str) -> str | None:
    """What `fit` calls a value for each set, such as `groups`; None where it does not take it."""
    if isinstance(estimator, Pipeline):
        last, model = estimator.steps[-1]
        inner = fit_parameter(model, name)
        return None if inner is None else f"{last}__{inner}"
    if hasattr(estimator, "estimator") and hasattr(estimator, "cv"):  # a search: groups go to its splits, weights to its model
        return name if name == "groups" else None if name == "covariates" else fit_parameter(estimator.estimator, name)
    return name if name in inspect.signature(estimator.fit).parameters else None


def takes_covariates(estimator: Any) -> bool:
    """Whether a model takes covariates both when it is fitted and when it predicts."""
    return fit_parameter(estimator, "covariates") == "covariates"


class FoldBaselines:
    """The baselines in one fold. Rows that several of them need are made once.

    Args:
        train: Training sets.
        test: Test sets.
        seed: Of everything that is drawn.
    """

    def __init__(self, train: Material, test: Material, seed: int) -> None:
        self.train, self.test, self.seed = train, test, seed
        self._rows: dict[str, tuple[Array, Array]] = {}

    def predict(self, name: str) -> Array:
        """(N, C) probabilities or (N, K) numbers of the test sets."""
        objective = self.train.objective
        if name == TUNED:
            return self._tuned()
        if name == COVARIATES:
            summary, model = None, make_pipeline(*_alone(objective))
        else:
            pipeline = make_baseline(name, objective, self.seed)
            summary, model = pipeline[0], pipeline[1:]
            if "min_samples_leaf" in model[-1].get_params():  # 20 by default: of 16 sets, trees could tell nothing apart
                model[-1].set_params(min_samples_leaf=min(20, max(2, len(self.train.y) // 10)))
        train, test = self._joined(name, summary)
        weight = self.train.sample_weight
        extras = {} if weight is None else {f"{_last_step(model)}__sample_weight": weight}
        if objective == "regression":
            columns = [clone(model).fit(train, y, **extras).predict(test) for y in self.train.y.T]
            return np.stack(columns, 1)
        assert self.train.classes is not None
        fitted = model.fit(train, self.train.y, **extras)
        return spread_classes(fitted.predict_proba(test), fitted.classes_, self.train.classes)

    def _tuned(self) -> Array:
        objective = self.train.objective
        rows, new_rows = self._joined(TUNED, MomentSummary(_QUANTILES, random_state=self.seed))
        train, test = replace(self.train, X=rows, covariates=None), replace(self.test, X=new_rows, covariates=None)
        model = make_pipeline(Standardizer(), LogisticRegression(max_iter=5000) if objective == "classification" else Ridge())
        chosen = choose_parameters(model, _PENALTIES[objective], train, _PENALTY_FOLDS, self.seed)
        return predict_model(fit_model(model.set_params(**chosen), train, self.seed), test)[0]

    def _joined(self, name: str, summary: Any) -> tuple[Array, Array]:
        """Rows of training and test sets, with covariates beside them."""
        train, test = (np.zeros((len(part.y), 0)) for part in (self.train, self.test))
        if summary is not None:
            key = f"{type(summary).__name__}{sorted(summary.get_params().items())}"
            if key not in self._rows:
                self._rows[key] = (summary.fit_transform(self.train.X), summary.transform(self.test.X))
            train, test = self._rows[key]
        if name == "constant" or self.train.covariates is None or self.test.covariates is None:
            return train, test
        scaler = StandardScaler().fit(self.train.covariates)
        return (
            np.hstack([train, scaler.transform(self.train.covariates)]),
            np.hstack([test, scaler.transform(self.test.covariates)]),
        )


def spread_classes(known: Array, found: Any, classes: NDArray[Any]) -> Array:
    """(N, C) probabilities of all classes, from those of the classes that a training part had; the others get 0.

    Args:
        known: Probabilities, a column for each of `found`.
        found: Classes that the model knows, each once.
        classes: (C,) all classes of the data.
    """
    found = np.asarray(found)
    if found.ndim != 1 or len(set(found.tolist())) < len(found):
        raise ValueError(f"classes_ must hold each class once, shape (C,), got {listed(found.ravel().tolist())}.")
    columns = _class_numbers(found, classes, "classes_ must hold classes")
    known = np.asarray(known, dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != len(found):
        raise ValueError(f"predict_proba must give a column for each of the {len(found)} classes, got shape {known.shape}.")
    probabilities = np.zeros((len(known), len(classes)))
    probabilities[:, columns] = _checked(known, len(found))
    if (low := float(known.min())) < -_ROUNDING or known.max() > 1 + _ROUNDING:
        wrong = low if low < -_ROUNDING else float(known.max())
        raise ValueError(f"predict_proba must give probabilities from 0 to 1, got {wrong:.4g}.")
    sums = known.sum(1)
    if (off := np.abs(sums - 1)).max() > _ROUNDING:
        raise ValueError(f"predict_proba must give rows that sum to 1, got a row that sums to {sums[off.argmax()]:.4g}.")
    return probabilities


def describe_error(error: Exception) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _alone(objective: Goal) -> tuple[Any, ...]:
    return (RidgeCV(np.logspace(-3, 3, 13)),) if objective == "regression" else (LogisticRegression(max_iter=5000),)


def _last_step(model: Any) -> str:
    """The step of a pipeline that weights go to, through pipelines within it."""
    name, step = model.steps[-1]
    return f"{name}__{_last_step(step)}" if isinstance(step, Pipeline) else name


def _call(estimator: Any, name: str, test: Material) -> NDArray[Any]:
    """What a method of an estimator says, a row for each test set."""
    predict = getattr(estimator, name)
    extras: Mapping[str, Any] = {}
    if test.covariates is not None and "covariates" in inspect.signature(predict).parameters:
        extras = {"covariates": test.covariates}
    given = np.asarray(predict(test.X, **extras))
    if given.ndim == 0 or len(given) != len(test.y):
        raise ValueError(f"{name} must give an answer for each of the {len(test.y)} sets, got shape {given.shape}.")
    return given


def _class_numbers(given: NDArray[Any], classes: NDArray[Any], what: str) -> NDArray[np.int64]:
    """(n,) which class each value is. As Python compares them: 1.0 is the class 1, and '1' is not."""
    number = {value: code for code, value in enumerate(classes.tolist())}
    values = given.tolist()
    if unknown := [value for value in values if value not in number]:
        raise ValueError(f"{what} of the data, {listed([repr(value) for value in number])}, got {unknown[0]!r}.")
    return np.array([number[value] for value in values], dtype=np.int64)


def _checked(output: NDArray[Any], columns: int) -> Array:
    if output.shape[1] != columns:
        raise ValueError(f"predictions must have {columns} columns, got {output.shape[1]}.")
    if output.dtype.kind not in "biuf":
        try:
            output = output.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"predictions must be numbers, got {output.ravel()[0]!r}.") from None
    if not np.isfinite(output).all():
        raise ValueError(f"predictions must be finite, got {int((~np.isfinite(output)).sum())} that are NaN or infinite.")
    return output.astype(np.float64)
