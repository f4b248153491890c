"""What is evaluated on: sets, and what is known of each of them, checked.

Letters: N sets, K covariates or targets, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.reading import Array, num_sets, take_sets
from orderless.evaluate.splits import Goal, check_target, group_numbers
from orderless.io.samples import by_set_name, is_samples


@dataclass(frozen=True)
class Material:
    """All sets and what is known of each.

    Attributes:
        X: Sets, in any form that `take_sets` takes.
        y: (N,) classes as the user calls them, or (N, K) numbers.
        objective: What is predicted.
        classes: (C,) all classes, in order; None in regression.
        groups: (N,) or None.
        covariates: (N, K) or None.
        sample_weight: (N,) or None.
    """

    X: Any
    y: NDArray[Any]
    objective: Goal
    classes: NDArray[Any] | None
    groups: NDArray[Any] | None
    covariates: Array | None
    sample_weight: Array | None

    def part(self, indices: NDArray[np.int64]) -> Material:
        """The same of some sets."""
        columns = {
            name: None if (values := getattr(self, name)) is None else values[indices]
            for name in ("groups", "covariates", "sample_weight")
        }
        return Material(take_sets(self.X, indices), self.y[indices], self.objective, self.classes, **columns)

    @property
    def encoded_target(self) -> NDArray[Any]:
        """(N,) classes as numbers from 0; (N, K) numbers as they are."""
        return self.y if self.classes is None else np.searchsorted(self.classes, self.y)

    @property
    def plain_target(self) -> NDArray[Any]:
        """As estimators are used to it: (N,) where there is one number."""
        return self.y[:, 0] if self.y.ndim == 2 and self.y.shape[1] == 1 else self.y


def check_material(X: Any, y: Any, objective: Goal, groups: Any, covariates: Any, sample_weight: Any) -> Material:
    """All that was given, as arrays of one length, or an error that says what does not fit."""
    if is_samples(X):
        y, groups, covariates, sample_weight = (
            by_set_name(values, X.ids, what)
            for what, values in {"y": y, "groups": groups, "covariates": covariates, "sample_weight": sample_weight}.items()
        )
    target = check_target(y, objective)
    count = num_sets(X)
    if len(target) != count:
        raise ValueError(f"y must hold a target for each of the {count} sets, got {len(target)}.")
    if groups is not None:
        group_numbers(groups, count)
        groups = np.asarray(groups)
    if covariates is not None:
        try:
            covariates = np.asarray(covariates, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("covariates must be numbers. Give a column of 0 and 1 for each value of a category.") from None
        covariates = covariates.reshape(len(covariates), -1) if covariates.ndim == 1 else covariates
        if covariates.ndim != 2 or len(covariates) != count or not np.isfinite(covariates).all():
            raise ValueError(f"covariates must be finite, of shape ({count}, K), got shape {covariates.shape}, or NaN in it.")
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        if sample_weight.shape != (count,) or not (np.isfinite(sample_weight) & (sample_weight >= 0)).all():
            raise ValueError(f"sample_weight must be 0 or more for each of the {count} sets, got shape {sample_weight.shape}.")
    classes = np.unique(target) if objective == "classification" else None
    return Material(X, target, objective, classes, groups, covariates, sample_weight)
