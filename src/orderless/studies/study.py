"""What is to be learned from: sets with a target each, who belongs together, covariates; and what was left out and why."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.estimators import guess_objective
from orderless.evaluate import Fold, folds_by_hand
from orderless.evaluate.splits import plan_folds
from orderless.io import Samples
from orderless.io.errors import OptionError
from orderless.io.labels import refuse_names_alike
from orderless.io.samples import listed, visible
from orderless.io.spelling import describe_alike
from orderless.studies.columns import (
    CovariateTable,
    Task,
    check_column,
    count_classes,
    find_group,
    known,
    looks_like_a_group,
    read_covariates,
    read_groups,
    read_target,
    refuse_amounts_as_words,
    refuse_groups_as_covariates,
    refuse_slips_in_groups,
)
from orderless.words import counted

Array = NDArray[Any]
NO_GROUP = "none"


@dataclass(frozen=True, eq=False)
class Study:
    """Sets to learn from, and what is to be learned.

    Attributes:
        samples: The sets that have elements and a target.
        target: Name of what is predicted.
        y: (N,) classes or numbers.
        objective: What is predicted.
        reason: Why it is taken for that.
        group: Name of the column of groups; None where every set stands for itself.
        groups: (N,) or None.
        group_reason: Why that column, or why none; '' where the user named it, or nothing looks like one.
        covariates: What else is known of each set and used.
        split: Name of the column that gives the split; None where folds are drawn.
        folds: That split, or None.
        unlabelled: Names of sets without a target, which are left out.
        empty: Names of sets with a target but no element, which are left out.
    """

    samples: Samples
    target: str
    y: Array
    objective: Literal["classification", "regression"]
    reason: str
    group: str | None = None
    groups: Array | None = None
    group_reason: str = ""
    covariates: CovariateTable | None = None
    split: str | None = None
    folds: Sequence[Fold] | None = None
    unlabelled: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        """A digest of all elements, names, targets, groups and covariates: another one is another study."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.samples.ids, self.samples.features, self.y.tolist(), self.samples.sizes.tolist()):
            digest.update(repr(part).encode())
        if self.folds is not None:  # where they are drawn, the seed tells them
            digest.update(repr([(fold.train.tolist(), fold.test.tolist()) for fold in self.folds]).encode())
        for values in (self.groups, None if self.covariates is None else self.covariates.values):
            digest.update(repr(None if values is None else values.tolist()).encode())
        for number in range(len(self.samples)):
            for block in self.samples.sets.blocks(number):
                digest.update(np.ascontiguousarray(block).data)
        return digest.hexdigest()


def make_study(
    samples: Samples,
    target: str,
    *,
    task: Task = "auto",
    group: str | None = None,
    covariates: Sequence[str] = (),
    split: str | None = None,
) -> Study:
    """Chooses what to learn from the columns that are known per set.

    Args:
        samples: All sets, with labels joined.
        target: The column to predict.
        task: `classification`, `regression`, or `auto`: told from the values.
        group: The column of groups, `none`, or None: found by its name where values repeat.
        covariates: Columns that are given to the model beside the elements.
        split: A column with train and test, or numbers of folds.

    Raises:
        OptionError: If a column is not there, or the options do not go together. It says which, and what to do.
        ValueError: If what a column holds will not do.
    """
    if target in samples.features:
        raise OptionError(
            f"the target {visible(target)} differs within sets, so it is a feature and no outcome of a set. Name a column that "
            "is the same in all rows of a set, or give --labels FILE."
        )
    refuse_names_alike(samples.ids, "the data")
    has_target = known(check_column(samples.columns, target, "--target", samples.varying))
    if not has_target.any():
        raise ValueError(f"the target {visible(target)} is missing for all {len(samples)} sets: there is nothing to learn from.")
    has_elements = samples.sizes > 0
    used = samples.select(np.flatnonzero(has_target & has_elements))
    empty = tuple(np.array(samples.ids, dtype=object)[has_target & ~has_elements].tolist())
    if len(used) == 0:
        raise ValueError(f"all {len(empty)} sets with a target have no element: there is nothing to learn from.")
    y, objective, reason = read_target(used.columns[target], target, task, guess_objective, used.ids)
    _check_apart(target, group, covariates, split)
    known_of_sets = read_covariates(used.columns, covariates, used.ids, used.varying)
    if known_of_sets is not None:
        refuse_amounts_as_words(known_of_sets)
    study = Study(
        samples=used,
        target=target,
        y=y,
        objective=objective,
        reason=reason,
        covariates=known_of_sets,
        unlabelled=tuple(np.array(samples.ids, dtype=object)[~has_target].tolist()),
        empty=empty,
    )
    study = _with_groups(study, group, covariates, but=[target, *([split] if split else [])])
    return study if split is None else _with_split(study, split)


def describe_study(study: Study, name: str, *, num_folds: int | None = None, num_repeats: int = 1) -> list[str]:
    """What will be learned from what, in lines to read before training.

    Args:
        study: What is described.
        name: Of the data.
        num_folds: How many folds are asked for. Default: nothing is cross-validated.
        num_repeats: How often they are drawn.

    Raises:
        ValueError: If the sets cannot be dealt into two folds.
    """
    samples = study.samples
    kind = samples.origin.get("kind", "")
    lines = [f"{name}{f' ({kind})' if kind else ''}: {describe_sizes(samples.sizes)}"]
    lines.append(f"Features: {len(samples.features)}: {listed(samples.features, 40)}{_describe_transform(samples)}")
    lines.append(describe_target(study))
    lines.append(_describe_groups(study))
    if study.covariates is not None:
        kinds = [f"{n} ({'number' if w is None else f'{len(w)} words'})" for n, w in _columns(study.covariates)]
        lines.append(f"Covariates: {', '.join(kinds)}")
    if num_folds is not None:
        lines.append(_describe_split(study, num_folds, num_repeats))
    lines += [f"Left out: {line}" for line in describe_left_out(study)]
    lines += [f"Note: {note}" for note in (*samples.notes, *notes_on_names(study))]
    return lines


def notes_on_names(study: Study) -> list[str]:
    """What may be one sample or one group under two names, in sentences."""
    return describe_alike(study.samples.ids, None if study.groups is None else study.groups.tolist())


def describe_left_out(study: Study) -> list[str]:
    """Sets that are not learned from, by name."""
    said = []
    if study.unlabelled:
        lacking = f"{counted(len(study.unlabelled), 'set')} without a value in {visible(study.target)}"
        said.append(f"{lacking}: {listed(study.unlabelled, 20)}")
    if study.empty:
        said.append(f"{counted(len(study.empty), 'set')} without elements: {listed(study.empty, 20)}")
    return said


def describe_sizes(sizes: NDArray[np.int64]) -> str:
    """How many sets, and how large."""
    low, high = int(sizes.min()), int(sizes.max())
    of = counted(low, "element") if low == high else f"{low:,} to {high:,} elements (median {int(np.median(sizes)):,})"
    if len(sizes) == 1:
        return f"1 set of {of}"
    return f"{len(sizes):,} sets of {of}{' each' * (low == high)}, {int(sizes.sum()):,} in all"


def describe_target(study: Study) -> str:
    """What is predicted, and how it is spread."""
    if study.objective == "classification":
        counts = count_classes(study.y)
        shown = ", ".join(f"{name}: {counted(count, 'set')}" for name, count in list(counts.items())[:12])
        more = f" and {len(counts) - 12} more" if len(counts) > 12 else ""
        return f"Target: {visible(study.target)}, classification ({study.reason}): {shown}{more}"
    low, middle, high = np.quantile(study.y, [0, 0.5, 1])
    return f"Target: {visible(study.target)}, regression ({study.reason}): from {low:.4g} to {high:.4g}, median {middle:.4g}"


def _describe_transform(samples: Samples) -> str:
    options = samples.origin.get("options", {})
    if options.get("transform") == "arcsinh":
        return f"; arcsinh with cofactor {options['cofactor']:g} (--transform and --cofactor change it)"
    return f"; {options['transform']}" if options.get("transform") else ""


def _describe_groups(study: Study) -> str:
    samples = study.samples
    if study.groups is None:
        if study.group_reason:
            return f"Groups: {study.group_reason}"
        if looks_like_a_group(str(samples.origin.get("options", {}).get("set_id", ""))):
            return f"Groups: every {samples.origin['options']['set_id']} is one set, so sets stand for themselves"
        return "Groups: none, every set stands for itself. If several sets are of one patient, name that column with --group"
    count = len(set(study.groups.tolist()))
    why = f" ({study.group_reason}; --group none turns it off)" if study.group_reason else ""
    return f"Groups: {study.group}, {count} of them{why}. Sets of one are never on both sides of a split"


def _describe_split(study: Study, num_folds: int, num_repeats: int) -> str:
    if study.folds is not None:
        parts = ", ".join(f"{len(fold.train)} train and {len(fold.test)} test" for fold in study.folds[:5])
        return f"Split: as the column {study.split} says: {parts} sets{' ...' * (len(study.folds) > 5)}"
    count, why_fewer = plan_folds(study.y, study.groups, study.objective, num_folds)
    dealt = f", drawn {num_repeats} times" if num_repeats > 1 else ""
    spread = ", classes spread evenly" if study.objective == "classification" else ""
    return f"Split: {why_fewer.removesuffix('.') or f'{count} folds'}{dealt}{spread}"


def _columns(table: CovariateTable) -> list[tuple[str, tuple[str, ...] | None]]:
    return list(zip(table.names, table.words, strict=True))


def _check_apart(target: str, group: str | None, covariates: Sequence[str], split: str | None) -> None:
    for what, name in (("--group", group), ("--split", split), *(("--covariates", name) for name in covariates)):
        if name == target:
            raise OptionError(f"{what} {name}: that is the target, which a model must not be given.")


def _with_groups(study: Study, group: str | None, covariates: Sequence[str], but: Sequence[str]) -> Study:
    columns, ids, varying = study.samples.columns, study.samples.ids, study.samples.varying
    if group == NO_GROUP and NO_GROUP not in columns:
        return replace(study, group_reason="none, as asked for: every set stands for itself")
    if group is not None:
        return replace(study, group=group, groups=read_groups(check_column(columns, group, "--group", varying), group, ids))
    refuse_groups_as_covariates(columns, covariates)
    refuse_slips_in_groups({name: varies for name, varies in varying.items() if name not in study.samples.features})
    found, why = find_group(columns, but=but)
    if found is None:
        return replace(study, group_reason=why)
    return replace(study, group=found, groups=read_groups(columns[found], found, ids), group_reason=why)


def _with_split(study: Study, split: str) -> Study:
    column = check_column(study.samples.columns, split, "--split", study.samples.varying)
    unknown = [i for i, there in zip(study.samples.ids, known(column), strict=True) if not there]
    if unknown:
        raise ValueError(f"--split {split} has no value for {counted(len(unknown), 'set')}: {listed(unknown)}. Fill it in.")
    if column.dtype.kind == "f":
        column = np.array([int(value) if value.is_integer() else value for value in column.tolist()], dtype=object)
    try:
        folds = folds_by_hand(column, groups=study.groups)
    except ValueError as error:
        raise ValueError(f"--split {split}: {error}") from None
    for fold in folds:
        if study.objective == "classification" and len(np.unique(study.y[fold.train])) < 2:
            raise ValueError(f"--split {split}: a training part has one class only, so there is nothing to tell apart.")
    return replace(study, split=split, folds=folds)
