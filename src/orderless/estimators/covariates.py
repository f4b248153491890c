"""Covariates: what is known of a set as a whole, such as age or site, joined to its pooled vector in front of the decoder.

Letters: N sets, T elements, K columns of covariates as a network gets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from orderless.estimators.defaults import CLIP
from orderless.estimators.scaling import NEVER_CHANGES, mean_and_spread
from orderless.estimators.sets_input import LARGEST, from_torch, refuse_dates, refuse_masked
from orderless.io.missing import is_gap
from orderless.io.per_set import text_of
from orderless.models import SetModel
from orderless.models.base import decode
from orderless.sets import SetBatch

Array = NDArray[Any]


@dataclass(frozen=True)
class SetsWithCovariates:
    """A batch of sets, and covariates (N, K) beside them; travels as a `SetBatch` does.

    Attributes:
        sets: The sets.
        covariates: (N, K) float32.
    """

    sets: SetBatch
    covariates: Tensor

    @property
    def x(self) -> Tensor:
        """The elements."""
        return self.sets.x

    def with_x(self, x: Tensor) -> SetsWithCovariates:
        """The same sets with other elements."""
        return SetsWithCovariates(self.sets.with_x(x), self.covariates)

    def to(self, *args: Any, **kwargs: Any) -> SetsWithCovariates:
        """As `Tensor.to`."""
        return SetsWithCovariates(self.sets.to(*args, **kwargs), self.covariates.to(*args, **kwargs))

    def pin_memory(self) -> SetsWithCovariates:
        """In page-locked memory."""
        return SetsWithCovariates(self.sets.pin_memory(), self.covariates.pin_memory())


class CovariateModel(nn.Module):
    r"""A network whose pooled vector of a set is joined by the set's covariates: decoder(pooled + W c).

    Adding W c is what a linear layer on both, side by side, would do, with the pooled vector passed on as it is.

    Args:
        model: A network of `create_model` that answers for sets. It is taken over: its decoder moves here.
        num_covariates: K.

    Attributes:
        trunk: The network up to its pooled vector, (N, width).
        join: W.
        decoder: From the joined vector to the answer.

    Shapes: SetsWithCovariates -> (N, out_features).
    """

    def __init__(self, model: SetModel, num_covariates: int) -> None:
        super().__init__()
        self.decoder = model.decoder
        model.decoder = nn.Identity()
        self.trunk = model
        self.join = nn.Linear(num_covariates, model.config.width, bias=False)

    def forward(self, batch: SetsWithCovariates) -> Tensor:
        return self.answer(self.trunk(batch.sets), batch.covariates)

    def answer(self, pooled: Tensor, covariates: Tensor) -> Tensor:
        """(N, width) and (N, K) -> (N, out_features)."""
        return decode(self.decoder, pooled + self.join(covariates))


def width_of(model: nn.Module) -> int:
    """Features of an element inside a network of an estimator."""
    trunk = model.trunk if isinstance(model, CovariateModel) else model
    assert isinstance(trunk, SetModel)
    return trunk.config.width


@dataclass(frozen=True)
class Column:
    """One covariate as it was in training.

    Attributes:
        name: Of the column.
        mean: Of numbers.
        scale: Their standard deviation, or `NEVER_CHANGES`.
        categories: Of words, in order; None where it holds numbers.
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None


class CovariateScaler:
    """Makes numbers of covariates: numbers are standardised and clipped as elements are, words become a column for each word that
    training saw. A number that never changed in training becomes zero.

    A word that training did not see is a row of zeros, so that a new site gets a prediction that leans on none of the known
    ones. A number that is missing is an error: there is no neutral way to fill it in.

    Attributes:
        columns: What was learned of each covariate.
    """

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        self.columns = tuple(columns)

    @property
    def num_covariates(self) -> int:
        """Columns that are given."""
        return len(self.columns)

    @property
    def num_outputs(self) -> int:
        """K: columns that a network gets."""
        return sum(1 if c.categories is None else len(c.categories) for c in self.columns)

    def fit(self, covariates: Any, weight: NDArray[np.float64]) -> Self:
        """Learns from covariates of sets with weights (N,)."""
        names, columns = _read(covariates, len(weight))
        self.columns = tuple(_learn(name, column, weight) for name, column in zip(names, columns, strict=True))
        return self

    def transform(self, covariates: Any, num_sets: int) -> NDArray[np.float32]:
        """(N, K) float32."""
        names, columns = _read(covariates, num_sets)
        if len(columns) != len(self.columns):
            raise ValueError(f"covariates have {len(columns)} columns, but the estimator was fitted with {len(self.columns)}.")
        if hasattr(covariates, "columns"):
            missing = [c.name for c in self.columns if c.name not in names]
            if missing:
                raise ValueError(
                    f"covariates lack the columns {', '.join(map(repr, missing))} that the estimator was fitted with."
                )
            columns = [columns[names.index(c.name)] for c in self.columns]
        parts = [_apply(c, column) for c, column in zip(self.columns, columns, strict=True)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def describe(self) -> list[dict[str, Any]]:
        """As JSON: `from_description` gives it back."""
        return [
            {"name": c.name, "mean": c.mean, "scale": c.scale, "categories": None if c.categories is None else list(c.categories)}
            for c in self.columns
        ]

    @classmethod
    def from_description(cls, said: Sequence[Mapping[str, Any]]) -> Self:
        """The scaler that `describe` described."""
        return cls(
            [Column(c["name"], c["mean"], c["scale"], None if c["categories"] is None else tuple(c["categories"])) for c in said]
        )


def _read(covariates: Any, num_sets: int) -> tuple[list[str], list[Array]]:
    """Names and columns, (N,) each, of numbers or of words."""
    covariates = from_torch(covariates)
    refuse_masked(covariates, "covariates")
    if hasattr(covariates, "columns") and hasattr(covariates, "iloc"):
        names = [str(name) for name in covariates.columns]
        columns = [np.asarray(covariates.iloc[:, k]) for k in range(len(names))]
        count = len(covariates)
    else:
        # a list of numbers and words would become words altogether
        table = np.asarray(covariates, dtype=object) if isinstance(covariates, list | tuple) else np.asarray(covariates)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2:
            raise ValueError(f"covariates must be (N, K), a row per set; got shape {table.shape}.")
        names, columns, count = [f"covariate {k}" for k in range(table.shape[1])], list(table.T), len(table)
    if count != num_sets:
        raise ValueError(f"covariates need one row per set: {num_sets} sets, {count} rows.")
    for name, column in zip(names, columns, strict=True):
        refuse_dates(column, f"covariates such as {name!r}")
    if not columns:
        raise ValueError("covariates must have at least one column: leave them out where there is none.")
    return names, columns


def _as_numbers(column: Array) -> NDArray[np.float64] | None:
    """The column as numbers, or None where it holds words."""
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if any(isinstance(value, str) for value in column):
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _checked(name: str, column: Array) -> NDArray[np.float64]:
    numbers = _as_numbers(column)
    if numbers is None:
        raise ValueError(f"the estimator was fitted with numbers in {name!r}, but it holds words now, such as {column[0]!r}.")
    fine = np.abs(numbers) <= LARGEST
    if not fine.all():
        row = int(np.flatnonzero(~fine)[0])
        raise ValueError(
            f"covariates must be finite and at most {LARGEST:.2g} in size, but {name!r} of set {row} is {numbers[row]}. Fill in "
            "what is missing."
        )
    return numbers


def as_words(name: str, column: Array) -> list[str]:
    """A column as words. A file of sites 1, 2 and 3A holds words, another of 1 and 2 the numbers 1.0 and 2.0: both say `1`."""
    words = []
    for row, value in enumerate(column.tolist()):
        if is_gap(value):
            raise ValueError(f"covariates must not be missing, but {name!r} of set {row} is {value}. Fill in what is missing.")
        words.append(text_of(value))
    return words


def _learn(name: str, column: Array, weight: NDArray[np.float64]) -> Column:
    if _as_numbers(column) is None:
        words = as_words(name, column)
        return Column(name, categories=tuple(sorted({word for word, w in zip(words, weight, strict=True) if w})))
    numbers = _checked(name, column)
    mean, spread = mean_and_spread(numbers[:, None], weight)
    return Column(name, float(mean[0]), float(spread[0]) or NEVER_CHANGES)


def _apply(column: Column, values: Array) -> NDArray[np.float64]:
    if column.categories is None:
        scaled = (_checked(column.name, values) - column.mean) / column.scale
        return scaled.clip(-CLIP, CLIP)[:, None]
    words = np.array(as_words(column.name, values), dtype=object)
    return np.stack([words == word for word in column.categories], axis=1).astype(np.float64)


def choose_rows(covariates: Any, numbers: NDArray[np.int64]) -> Any:
    """Covariates of some sets."""
    if hasattr(covariates, "iloc"):
        return covariates.iloc[numbers]
    return np.asarray(from_torch(covariates))[numbers]
