"""Splits that cannot leak: folds by group, stratified by class, repeated; or as a column says, if no group lies on both sides.

A group is whatever sets have in common that a new set would not: a patient, a site, a plate. If some of its sets are trained on
and others tested, a model may know them by their group, and its score says nothing about new ones.

Letters: N sets, G groups, K targets.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from orderless.io.missing import is_missing
from orderless.io.spelling import check_groups, spelling

Goal = Literal["classification", "regression"]
Indices = NDArray[np.int64]

_NAMED = 5  # groups that a message names
_TRIES = 20  # draws of a grouped, stratified split until every training part has every class
_YES_OR_NO = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"})
_HELD_OUT = {"val", "valid", "validation", "dev"}
# words for parts of a split, but for train and test themselves; Valencia and Devon are sites, which may be folds
_A_PART = re.compile(r"(?:train|test|valid|valset|holdout|heldout|holdback|devset|devel|(?:val|hold|held|dev)(?![a-z])).*")


@dataclass(frozen=True)
class Fold:
    """One split.

    Attributes:
        train: Numbers of the sets to train on, ascending. A mask of True and False is refused.
        test: Numbers of the sets to test on, ascending.
        repeat: Which repetition of the cross-validation it belongs to, from 0.
    """

    train: Indices
    test: Indices
    repeat: int = 0

    def __post_init__(self) -> None:
        for what in ("train", "test"):
            object.__setattr__(self, what, _set_numbers(getattr(self, what), what))


def make_folds(
    y: Any, *, groups: Any = None, objective: Goal, num_folds: int = 5, num_repeats: int = 1, seed: int = 0
) -> list[Fold]:
    """Folds for cross-validation: each set is tested once in every repeat, by a model that saw nothing of its group.

    Classes are spread evenly over folds. Where there are fewer groups than folds, or a class is found in fewer groups, there are
    fewer folds, with a warning that says why.

    Args:
        y: (N,) classes, or (N,) or (N, K) numbers.
        groups: (N,) who each set belongs to, numbers or names. Default: every set stands for itself.
        objective: `classification` or `regression`.
        num_folds: Folds, 2 or more.
        num_repeats: How often all sets are dealt into folds.
        seed: Of the dealing. The same seed gives the same folds.
    """
    target = check_target(y, objective)
    members = None if groups is None else group_numbers(groups, len(target))[0]
    count, reason = plan_folds(target, groups, objective, num_folds)
    if reason:
        warnings.warn(reason, stacklevel=2)
    if num_repeats < 1:
        raise ValueError(f"num_repeats must be 1 or more, got {num_repeats}.")
    codes = np.unique(target, return_inverse=True)[1] if objective == "classification" else None
    folds = []
    for repeat in range(num_repeats):
        state = int(np.random.default_rng([seed, repeat]).integers(2**31 - _TRIES))
        for test in _deal(codes, members, len(target), count, state):
            train = np.setdiff1d(np.arange(len(target)), test)
            if groups is not None:
                check_no_straddling(train, test, groups)
            folds.append(Fold(train, test, repeat))
    return folds


def plan_folds(y: NDArray[Any], groups: Any, objective: Goal, num_folds: int) -> tuple[int, str]:
    """How many folds these sets allow, at most `num_folds`, and why if there are fewer; '' if there are not."""
    if num_folds < 2:
        raise ValueError(f"num_folds must be 2 or more, got {num_folds}. For one split into train and test, use folds_by_hand.")
    unit = "sets" if groups is None else "groups"
    members = np.arange(len(y)) if groups is None else group_numbers(groups, len(y))[0]
    units = len(np.unique(members))
    if units < 2:
        raise ValueError(f"cross-validation needs at least two {unit}, got {units}: nothing would be left to test on.")
    most, why = units, f"there are only {units} {unit}"
    if objective == "classification":
        names, codes = np.unique(y, return_inverse=True)
        if len(names) < 2:
            raise ValueError(f"classification needs at least two classes, got {len(names)}: all sets are {names[0]!s}.")
        held = sorted((len(np.unique(members[codes == code])), str(name)) for code, name in enumerate(names))
        # of several classes the rarest may be missing in a fold; without two classes there is nothing to tell apart
        fewest, name = held[-2]
        if fewest < 2:
            raise ValueError(
                f"class {name} is found in only one {unit[:-1]}, so it cannot be both learnt and tested. "
                f"Classification needs two classes with two {unit} each."
            )
        if fewest < most:
            most, why = fewest, f"class {name} is found in only {fewest} {unit}"
    if most >= num_folds:
        return num_folds, ""
    return most, f"{most} folds instead of {num_folds}: {why}."


def check_no_straddling(train: Any, test: Any, groups: Any) -> None:
    """Fails where a group, or a set, is in both parts of a split, and names it.

    Args:
        train: Numbers of training sets. A mask of True and False is refused.
        test: Numbers of test sets.
        groups: (N,) who each set belongs to.
    """
    train, test = _set_numbers(train, "train"), _set_numbers(test, "test")
    if both := np.intersect1d(train, test).tolist():
        raise ValueError(f"{_some('set', both)} in both train and test. A set is tested by models that never saw it.")
    members, names = group_numbers(groups)
    if outside := [number for number in (*train.tolist(), *test.tolist()) if not 0 <= number < len(members)]:
        raise ValueError(
            f"train and test must hold numbers of sets, 0 to {len(members) - 1} as groups has them; got {outside[0]}."
        )
    shared = np.intersect1d(members[train], members[test])
    if len(shared):
        raise ValueError(
            f"{_some('group', [names[number] for number in shared])} in both train and test, so the test would not be of new "
            "groups. Put all sets of a group on one side."
        )


def folds_by_hand(column: Any, *, groups: Any = None) -> list[Fold]:
    """The split that a column gives: `train` and `test`, or the fold in which each set is tested.

    Args:
        column: (N,) `train` or `test`, in any case: one split. Anything else, such as 0 to 4: as many folds as there are values.
            Other words for parts of a split, such as training or holdout, are refused: they would be folds.
        groups: (N,) who each set belongs to. A split in which one straddles is refused.
    """
    values = np.asarray(column)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"a split column has one value for each set, shape (N,), got shape {values.shape}.")
    missing = np.flatnonzero([is_missing(value) for value in values.tolist()])
    if len(missing):
        raise ValueError(f"the split column has no value for {_some('set', missing.tolist(), verb=False)}. Fill it in.")
    words = np.array([spelling(value, aside=["capitals"]) for value in values.tolist()])
    found = set(words.tolist())
    if "train" in found or "test" in found:
        if found != {"train", "test"}:
            others = sorted(found - {"train", "test"})
            if "test" not in found and len(others) == 1:
                advice = f" Call {others[0]} test."
            elif "test" not in found and others:
                advice = f" Call one of {', '.join(others)} test, and the others train."
            else:
                advice = "".join(
                    f" Call {word} train: models hold out their own part of it." for word in others if word in _HELD_OUT
                )
            raise ValueError(f"a split column says train and test, or numbers of folds, got {', '.join(sorted(found))}.{advice}")
        parts = [words == "test"]
    elif found in _YES_OR_NO:
        raise ValueError(
            f"a split column says train and test, or numbers of folds, got {', '.join(sorted(found))}, which would be two folds. "
            "Call them train and test, or number the folds."
        )
    elif odd := sorted(word for word in found if _A_PART.fullmatch(word)):
        raise ValueError(
            f"a split column says train and test, or numbers of folds, got {', '.join(sorted(found))}. The only words "
            f"that are known are train and test: rename {' and '.join(odd)}, or number the folds."
        )
    else:
        if len(found) < 2:
            raise ValueError(f"a split needs at least two values, train and test or numbers of folds, got only {words[0]}.")
        parts = [words == word for word in sorted(found, key=lambda word: (len(word), word))]
    folds = [Fold(np.flatnonzero(~part), np.flatnonzero(part)) for part in parts]
    if groups is not None:
        group_numbers(groups, len(values))
        for fold in folds:
            check_no_straddling(fold.train, fold.test, groups)
    return folds


def check_target(y: Any, objective: Goal) -> NDArray[Any]:
    """Targets as an array, checked: (N,) classes, or (N, K) finite numbers."""
    if objective not in ("classification", "regression"):
        raise ValueError(f"objective must be classification or regression; got {objective!r}.")
    target = np.asarray(y)
    if len(target.shape) == 0 or len(target) == 0:
        raise ValueError("y must hold a target for each set, got none.")
    if objective == "classification":
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        if target.ndim != 1:
            raise ValueError(f"classes must have shape (N,), one for each set, got shape {target.shape}.")
        if count := sum(map(is_missing, _as_given(y))):
            raise ValueError(f"y must hold a class for each set, but {count} of {len(target)} are missing. Leave those sets out.")
        # names and numbers in one column cannot be put in order; as text they can
        are_words = {isinstance(value, str) for value in target.tolist()}
        return target.astype(str) if target.dtype == object and are_words == {True, False} else target
    try:
        numbers = target.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"regression needs numbers as targets, got {str(target.ravel()[0])!r}. Use objective='classification'."
        ) from None
    if not np.isfinite(numbers).all():
        count = int((~np.isfinite(numbers)).reshape(len(numbers), -1).any(1).sum())
        raise ValueError(
            f"y must be finite, but {count} of {len(numbers)} targets are missing or infinite. Leave those sets out."
        )
    return numbers.reshape(len(numbers), -1)


def _as_given(values: Any) -> list[Any]:
    """The values one by one. An array of words and a gap, made of a list, would have the word `nan`."""
    given: list[Any] = np.asarray(values, dtype=object).ravel().tolist()
    return given


def group_numbers(groups: Any, count: int | None = None) -> tuple[Indices, list[Any]]:
    """(N,) number of each set's group, and the (G,) groups by number, in order of appearance.

    A group in two spellings, which would be on both sides of a split, is refused.
    """
    values = np.asarray(groups)
    if values.ndim != 1 or (count is not None and len(values) != count):
        wanted = "each set" if count is None else f"each of the {count} sets"
        raise ValueError(f"groups must name a group for {wanted}, shape (N,), got shape {values.shape}.")
    if unknown := sum(map(is_missing, _as_given(groups))):
        raise ValueError(
            f"groups must be known for every set, but {unknown} of {len(values)} are missing. Give them a group each."
        )
    listed = values.tolist()
    number: dict[Any, int] = {}
    members = [number.setdefault(value, len(number)) for value in listed]
    check_groups(number)
    return np.array(members, dtype=np.int64), list(number)


def _set_numbers(values: Any, what: str) -> Indices:
    """(n,) numbers of sets. A mask would be read as the numbers 0 and 1, and hide every group that straddles."""
    numbers = np.asarray(values)
    if numbers.dtype == bool:
        raise ValueError(f"{what} must hold numbers of sets, got a mask of True and False. Give np.flatnonzero({what}) instead.")
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"{what} must hold numbers of sets, shape (n,), got {numbers.dtype} of shape {numbers.shape}.")
    return numbers.astype(np.int64)


def _deal(codes: Indices | None, members: Indices | None, count: int, num_folds: int, state: int) -> list[Indices]:
    """Test sets of each fold."""
    rows = np.zeros(count)
    alone = members is None or len(np.unique(members)) == count
    if codes is None:
        if alone:
            return [test for _, test in KFold(num_folds, shuffle=True, random_state=state).split(rows)]
        assert members is not None
        return _deal_groups(members, num_folds, state)
    if alone:
        with warnings.catch_warnings():  # a rare class has no set in some folds: said by cross_validate
            warnings.filterwarnings("ignore", message="The least populated class")
            return [test for _, test in StratifiedKFold(num_folds, shuffle=True, random_state=state).split(rows, codes)]
    held = [len(np.unique(members[codes == code])) for code in range(codes.max() + 1)]  # type: ignore[index]
    learnable = {code for code, groups in enumerate(held) if groups > 1}
    for attempt in range(_TRIES):
        splitter = StratifiedGroupKFold(num_folds, shuffle=True, random_state=state + attempt)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            parts = [(train, test) for train, test in splitter.split(rows, codes, members) if len(test)]
        if len(parts) > 1 and all(learnable <= set(codes[train].tolist()) for train, _ in parts):
            break
    return [test for _, test in parts]


def _deal_groups(members: Indices, num_folds: int, state: int) -> list[Indices]:
    """Groups in random order, the largest first, each into the fold with the fewest sets."""
    sizes = np.bincount(members)
    order = np.random.default_rng(state).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    held = np.zeros(num_folds, dtype=np.int64)
    fold_of = np.empty(len(sizes), dtype=np.int64)
    for group in order:
        fold_of[group] = held.argmin()
        held[fold_of[group]] += sizes[group]
    return [np.flatnonzero(fold_of[members] == fold) for fold in range(num_folds)]


def _some(kind: str, names: Sequence[Any], *, verb: bool = True) -> str:
    """The first few by name: `group A is`, `groups A, B and 3 more are`."""
    shown = ", ".join(str(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{kind}{'s' * (len(names) > 1)} {shown}{more}{(' are' if len(names) > 1 else ' is') * verb}"
