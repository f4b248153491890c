"""What a fitted estimator expects of data: features by name and unit, covariates, the target; and how others are put in order.

Letters: N sets, D features.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_SHOWN = 8  # names in one message


@dataclass(frozen=True)
class BundleSchema:
    """What a bundle expects of data, and what its numbers mean.

    Attributes:
        num_features: Numbers of an element, D.
        features: Their names, in the order of training; None where training knew none.
        units: Their units, '' where unknown; as many as features.
        num_covariates: Numbers that come with each set, beside its elements.
        covariates: Their names; None where there are no covariates, or training knew no names.
        targets: Names of what is predicted: one, or one for each output.
        target_unit: The unit of the prediction, '' where there is none.
        origin: How the training data were read, so that others can be read in the same way.
    """

    num_features: int
    features: tuple[str, ...] | None = None
    units: tuple[str, ...] = ()
    num_covariates: int = 0
    covariates: tuple[str, ...] | None = None
    targets: tuple[str, ...] = ()
    target_unit: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_names("features", self.features, self.num_features)
        _check_names("covariates", self.covariates, self.num_covariates)
        if not self.units:
            object.__setattr__(self, "units", ("",) * self.num_features)
        if len(self.units) != self.num_features or not all(isinstance(unit, str) for unit in self.units):
            raise ValueError(f"units must be {self.num_features} texts, one for each feature; got {list(self.units)!r}.")
        if any(self.units) and self.features is None:
            raise ValueError("units need the names of their features: pass features= as well.")


class FeatureMatch(NamedTuple):
    """Where the features of a schema are in other data."""

    order: tuple[int, ...]  # (D,) column of the data for each feature
    notes: tuple[str, ...]  # what a user should know, one line each


def match_features(schema: BundleSchema, names: Sequence[str] | int, *, units: Sequence[str] | None = None) -> FeatureMatch:
    """Finds the features of a schema among the columns of other data, by name whatever their order.

    Columns that the schema does not know are left out, with a note. Without names on either side, order is all there is, and then
    the numbers of columns must agree.

    Args:
        schema: What is expected.
        names: The columns of the data; where they have no names, how many there are.
        units: Their units, '' where unknown.

    Raises:
        ValueError: If a feature is missing, is there twice, or is in another unit. It names the columns.
    """
    if isinstance(names, int) or schema.features is None:
        return _match_by_place(schema, names)
    names = [str(name) for name in names]
    columns = {name: column for column, name in enumerate(names)}
    missing = [name for name in schema.features if name not in columns]
    if missing:
        raise ValueError(
            f"the data lack {len(missing)} of the {schema.num_features} features that the model was trained on: "
            f"{_listed(missing, names)}. Rename or add them; the data have {_listed(names)}."
        )
    twice = [name for name in schema.features if names.count(name) > 1]
    if twice:
        raise ValueError(f"the data have more than one column of the name {_listed(twice)}. Keep one of each.")
    order = tuple(columns[name] for name in schema.features)
    if units is not None:
        _check_units(schema, [units[column] for column in order])
    return FeatureMatch(order, _notes(schema, names, order))


def _match_by_place(schema: BundleSchema, names: Sequence[str] | int) -> FeatureMatch:
    count = names if isinstance(names, int) else len(names)
    if count != schema.num_features:
        known = f": {_listed(schema.features)}" if schema.features else ""
        whose = "the data have no names" if isinstance(names, int) else "the model was trained without names"
        raise ValueError(
            f"the model was trained on {schema.num_features} features{known}; the data have {count}. Since {whose}, columns "
            "cannot be told apart: give the same ones, in the order of training."
        )
    by_order = "columns have no names to compare: they are taken in the order of training"
    return FeatureMatch(tuple(range(count)), () if schema.features is None and isinstance(names, int) else (by_order,))


def _check_units(schema: BundleSchema, units: Sequence[str]) -> None:
    features = schema.features or ()
    wrong = [
        f"{name!r} in {found!r} instead of {expected!r}"
        for name, expected, found in zip(features, schema.units, units, strict=True)
        if expected and found and expected != found
    ]
    if wrong:
        raise ValueError(f"the data have features in other units than in training: {'; '.join(wrong[:_SHOWN])}. Convert them.")


def _notes(schema: BundleSchema, names: Sequence[str], order: tuple[int, ...]) -> tuple[str, ...]:
    notes = []
    extra = [name for column, name in enumerate(names) if column not in set(order)]
    if extra:
        notes.append(f"columns that the model does not know are left out: {_listed(extra)}")
    if list(order) != sorted(order):
        notes.append("columns are in another order than in training: they are put in order by name")
    return tuple(notes)


def _listed(wanted: Sequence[str], present: Sequence[str] = ()) -> str:
    """Names for a message, each with the one among those present that may be meant."""
    shown = []
    for name in wanted[:_SHOWN]:
        close = _closest(name, present)
        shown.append(f"{name!r} (is it {close!r}?)" if close else repr(name))
    return ", ".join(shown) + (f" and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else "")


def _closest(name: str, present: Sequence[str]) -> str | None:
    plain = {_plain(other): other for other in present}
    if _plain(name) in plain:
        return plain[_plain(name)]
    found = difflib.get_close_matches(_plain(name), list(plain), n=1, cutoff=0.8)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    """A name without what is easily written in another way: case, spaces, dots, dashes."""
    return re.sub(r"[\s_.\-]+", "", name).casefold()


def _check_names(what: str, names: tuple[str, ...] | None, count: int) -> None:
    if names is None:
        return
    if len(names) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what} must be {count} names, got {_listed([str(name) for name in names]) or 'none'}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} must have names of their own; there are several of {_listed(twice)}.")
