"""Predictions for files: a bundle, other files, one row per set.

Letters: N sets, C classes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.estimators import SetClassifier
from orderless.estimators.bundle import Estimator
from orderless.estimators.covariates import CovariateScaler, as_words
from orderless.estimators.schema import match_features
from orderless.files import written_aside
from orderless.io import Samples
from orderless.io.errors import OptionError
from orderless.io.extras import require
from orderless.io.fcs_folder import COMPENSATED
from orderless.io.missing import is_missing
from orderless.io.samples import listed
from orderless.io.tables import find_code, is_number
from orderless.studies.columns import known, read_covariates
from orderless.studies.scale import say_other_covariates, say_other_scale
from orderless.words import counted

SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Predictions:
    """One row per set, in the order of the samples.

    Attributes:
        columns: By name, a value for each of N sets: `id`, `size`, `prediction`, and `probability_<class>` where there are
            classes; `prediction_<target>` where there are several targets. None where a set has no elements.
        notes: What a user should know, one line each.
    """

    columns: Mapping[str, list[Any]]
    notes: tuple[str, ...] = field(default=())

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each set."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def write(self, path: Path) -> None:
        """Writes a table, `.csv` or `.parquet`: whole or not at all."""
        with written_aside(path) as beside:
            if path.suffix.lower() == ".parquet":
                pa = require("pyarrow", "io")
                require("pyarrow.parquet", "io").write_table(pa.table(dict(self.columns)), beside)
                return
            with beside.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(self.columns)
                writer.writerows(zip(*self.columns.values(), strict=True))


def predict_files(model: Estimator, samples: Samples) -> Predictions:
    """Predicts every set from all of its elements. A set without elements gets no prediction, and is named in the notes, as are
    features whose numbers are far from those of training.

    Args:
        model: As `load_bundle` gives it.
        samples: Sets of other files.

    Raises:
        OptionError: If covariates are not known. It names them.
        ValueError: If the files lack a feature, or have it in another unit, or lack a covariate of some sets. It names them.
    """
    match = match_features(model.schema_, samples.features, units=samples.units)
    notes = [*samples.notes, *match.notes]
    full = np.flatnonzero(samples.sizes > 0)
    if samples.empty:
        notes.append(f"no prediction for {counted(len(samples.empty), 'set')} without elements: {listed(samples.empty, 20)}.")
    some = samples.select(full)
    features = model.schema_.features or samples.features
    if other := say_other_scale(model.scaler_, some.sets, some.ids, match.order, features):
        notes.append(other)
    notes += _say_other_compensation(model.schema_.origin, samples.origin)
    _check_covariates(some, model.schema_.covariates or ())
    known_per_set = _spelt_as_in_training(some.columns, model.covariate_scaler_)
    beside = read_covariates(known_per_set, model.schema_.covariates or (), some.ids, some.varying)
    if beside is not None and model.covariate_scaler_ is not None:
        notes += say_other_covariates(model.covariate_scaler_, beside.values, some.ids)
    told = {} if beside is None else {"covariates": beside.values}
    columns: dict[str, list[Any]] = {"id": list(samples.ids), "size": samples.sizes.tolist()}
    outputs = _name_outputs(model)
    columns |= {name: [None] * len(samples) for name in outputs}  # the same columns, even if there is nothing to predict
    if len(full):
        for name, values in zip(outputs, _predict(model, some, told), strict=True):
            columns[name] = _spread(values, full, len(samples))
    return Predictions(columns, tuple(notes))


def _say_other_compensation(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Files that have no spillover matrix are not compensated, whatever was asked for."""
    then, here = before.get(COMPENSATED), now.get(COMPENSATED)
    if then is None or here is None or then == here:
        return []
    return [f"files with a spillover matrix, which are compensated: of training {then}, here {here}. Is that what you mean?"]


def _spelt_as_in_training(columns: Mapping[str, NDArray[Any]], scaler: CovariateScaler | None) -> Mapping[str, NDArray[Any]]:
    """Columns of sets, where covariates that were words in training are words, and those that were numbers are numbers.

    A file that has only True and False of `True`, `False` and `unknown`, or 1 and 2 of `1`, `2` and `3A`, is read as one of bools
    or numbers; 01 and 02 are words, which another kind of file has as numbers.
    """
    numbers = [c.name for c in (scaler.columns if scaler else ()) if c.categories is None and c.name in columns]
    words = {c.name: c.categories for c in (scaler.columns if scaler else ()) if c.categories is not None and c.name in columns}
    spelt = {
        name: np.array([_spell(value, known_words) for value in columns[name].tolist()], dtype=object)
        for name, known_words in words.items()
    }
    amounts = {name: columns[name].astype(np.float64) for name in numbers if find_code(columns[name].tolist())}
    return {**columns, **spelt, **amounts}


def _spell(value: Any, known_words: Sequence[str]) -> Any:
    """A value as the one word that it may have been read from, or as it is."""
    if is_missing(value) or value in known_words:
        return value
    if isinstance(value, bool):
        alike = [word for word in known_words if word.casefold() == str(value).casefold()]
    elif isinstance(value, int | float) or find_code([value]):
        alike = [word for word in known_words if is_number(word) and float(word) == float(value)]
    else:
        return value
    return alike[0] if len(alike) == 1 else as_words("", np.array([value], dtype=object))[0]


def _name_outputs(model: Estimator) -> list[str]:
    if isinstance(model, SetClassifier):
        return ["prediction", *(f"probability_{label}" for label in model.classes_.tolist())]
    count = len(model.target_mean_)
    return ["prediction"] if count == 1 else [f"prediction_{name}" for name in model.schema_.targets or range(count)]


def _predict(model: Estimator, samples: Samples, told: Mapping[str, Any]) -> list[NDArray[Any]]:
    """(N,) values for each of the names of `_name_outputs`."""
    if isinstance(model, SetClassifier):
        probabilities = model.predict_proba(samples, **told)  # (N, C)
        return [model.classes_[probabilities.argmax(1)], *probabilities.T]
    return list(np.asarray(model.predict(samples, **told)).reshape(len(samples), -1).T)


def _check_covariates(samples: Samples, names: Sequence[str]) -> None:
    """Fails where a covariate that the model was fitted with is not there, or not for every set: it cannot be left out here."""
    columns, ids = samples.columns, samples.ids
    names = [name for name in names if name not in samples.varying]  # of which `read_covariates` says where they vary
    lacking = [repr(name) for name in names if name not in columns]
    if lacking:
        which = f"the covariate{'s' * (len(lacking) > 1)} {listed(lacking)}"
        there = f"known per set is {listed([repr(name) for name in columns], 30)}" if columns else "nothing is known per set"
        raise OptionError(
            f"the model was fitted with {which}, but {there}. Give --labels FILE with "
            f"{'a column' if len(lacking) == 1 else 'columns'} {listed(lacking)}."
        )
    for name in names:
        unknown = [set_id for set_id, there in zip(ids, known(columns[name]), strict=True) if not there]
        if unknown:
            raise ValueError(
                f"the model was fitted with the covariate {name!r}, which is not known for {len(unknown)} of {len(ids)} sets: "
                f"{listed(unknown)}. Fill it in: --labels FILE takes a table with a column {name!r}."
            )


def _spread(values: NDArray[Any], where: NDArray[np.int64], count: int) -> list[Any]:
    spread: list[Any] = [None] * count
    for place, value in zip(where.tolist(), values.tolist(), strict=True):
        spread[place] = value
    return spread
