"""Whether what a model is asked about is on the scale of what it was trained on: features of elements, and covariates.

Letters: N sets, T elements, D features.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.covariates import CovariateScaler, as_words
from orderless.estimators.scaling import NEVER_CHANGES, ElementScaler
from orderless.io.memory_sets import Sets
from orderless.io.samples import listed

_LOOKED_AT = 2**16  # elements, evenly spread over all sets
_FEWEST = 30  # elements that say something of a spread
_ENOUGH_ALIKE = 300  # elements that are all the same before it is worth a word
_FAR = 3.0  # spreads of training between the means: cohorts differ by less, raw intensities and their arcsinh by more
_WIDE, _NARROW = 5.0, 0.1  # times the spread of training
_MOVED = 0.5  # that a narrow feature has moved as well: one that is rarely other than zero may be all zeros in a few sets
_MOSTLY = 0.5  # elements with one and the same number; features that are all narrow
_FEWEST_SETS = 3  # that say something of how a feature varies over sets
_FAR_FOR_ONE = 5.0  # spreads of training that the mean of one set may be away, since sets differ more than cohorts do
_MANY_DIGITS = 1e6  # numbers beyond are rounded to two
_ASK = (
    "Were they measured and transformed as those of training were, and are the units the same? If not, predictions mean nothing."
)


def say_other_scale(
    scaler: ElementScaler, sets: Sets, ids: Sequence[str], order: Sequence[int], names: Sequence[str]
) -> str | None:
    """A sentence about features whose numbers are of another size than in training; None where there are none.

    It is about all sets together, or else names those that are far from training while the others are not.

    Args:
        scaler: What the training elements were like.
        sets: The new ones.
        ids: (N,) their names.
        order: (D,) the column of the new elements for each feature of training.
        names: (D,) of the features.
    """
    unclipped = copy.copy(scaler)
    unclipped.clip = None
    # about mean 0 and spread 1 in training
    parts = [unclipped.transform(x[:, list(order)]).astype(np.float64) for x in _some_elements(sets)]
    if not parts or not all(np.isfinite(part).all() for part in parts):  # which the model refuses, and says where
        return None
    full = [ids[i] for i in np.flatnonzero(sets.sizes).tolist()]
    may_be_narrow = scaler.coordinates or len(parts) < _FEWEST_SETS
    return _say_of_all(np.concatenate(parts), names, scaler.scale_ < NEVER_CHANGES, may_be_narrow) or _say_of_some(
        parts, full, names
    )


def _say_of_all(scaled: NDArray[np.float64], names: Sequence[str], varied: NDArray[np.bool_], may_be_narrow: bool) -> str | None:
    """`may_be_narrow`: features were so in training, as flat sides of a cloud are, or are within so few sets."""
    if len(scaled) < _FEWEST:
        return None
    mean, spread = scaled.mean(0), scaled.std(0)
    mostly_one = (scaled == np.median(scaled, axis=0)).mean(0) > _MOSTLY  # as a marker that few elements have
    shrunk = (spread < _NARROW) & ~mostly_one
    other_unit = not may_be_narrow and shrunk.mean() >= _MOSTLY
    narrow = (spread < _NARROW) & (np.abs(mean) > _MOVED) | (shrunk & other_unit)
    dead = varied & (np.ptp(scaled, axis=0) == 0) & (len(scaled) >= _ENOUGH_ALIKE)
    wrong = np.flatnonzero((np.abs(mean) > _FAR) | (spread > _WIDE) | narrow | dead)
    if not len(wrong):
        return None
    said = [f"{names[i]} (mean {_signed(mean[i])}, spread {spread[i]:.2g})" for i in wrong.tolist()]
    return f"features with other numbers than in training, which had mean 0 and spread 1 on this scale: {listed(said)}. {_ASK}"


def _say_of_some(parts: Sequence[NDArray[np.float64]], ids: Sequence[str], names: Sequence[str]) -> str | None:
    said = []
    for name, scaled in zip(ids, parts, strict=True):
        mean = scaled.mean(0)
        farthest = int(np.abs(mean).argmax())
        if abs(mean[farthest]) > _FAR_FOR_ONE:
            said.append(f"{name} ({names[farthest]} {_signed(mean[farthest])})")
    if not said:
        return None
    return f"sets whose mean is so many spreads of training from that of training: {listed(said)}. {_ASK}"


def _signed(number: float) -> str:
    return f"{number:+.1f}" if abs(number) < _MANY_DIGITS else f"{number:+.2g}"


def _some_elements(sets: Sets) -> Iterator[NDArray[np.float64]]:
    """Of every set that has elements its share of `_LOOKED_AT`, evenly spread over it."""
    share = min(1.0, _LOOKED_AT / max(int(sets.sizes.sum()), 1))
    for number in np.flatnonzero(sets.sizes).tolist():
        size = int(sets.sizes[number])
        rows = np.linspace(0, size - 1, max(1, round(share * size)), dtype=np.int64)
        yield np.asarray(sets.take(number, rows), dtype=np.float64)


def say_other_covariates(scaler: CovariateScaler, covariates: Any, ids: Sequence[str]) -> list[str]:
    """Sentences about covariates that are far from all of training, and words that training did not have.

    Args:
        scaler: What the covariates of training were like.
        covariates: (N, columns) of the new sets, in the order of training.
        ids: (N,) names of the sets.
    """
    notes = []
    for column, values in zip(scaler.columns, np.asarray(covariates, dtype=object).T, strict=True):
        if column.categories is None:
            scaled = (_as_numbers(values, column.name, ids) - column.mean) / column.scale
            far = [f"{ids[i]} ({float(values[i]):g})" for i in np.flatnonzero(np.abs(scaled) > _FAR_FOR_ONE).tolist()]
            if far:
                notes.append(f"{column.name} is farther from all of training than 5 standard deviations: {listed(far)}.")
            continue
        new = dict.fromkeys(word for word in as_words(column.name, values) if word not in column.categories)
        if new:
            notes.append(f"{column.name} has words that training did not have, and is left out for them: {listed(list(new))}.")
    return notes


def _as_numbers(values: NDArray[Any], name: str, ids: Sequence[str]) -> NDArray[np.float64]:
    """(N,) a covariate that was a number in training."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values.tolist()):
        try:
            numbers[i] = value
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} was a number in training, and is {value!r} for set {ids[i]!r}. Write a number there, or remove the set."
            ) from None
    return numbers
