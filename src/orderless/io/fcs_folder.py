"""A folder of FCS files: each file is a set, markers are matched by name across files.

Letters: n events, C channels, D markers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.fcs import FcsHead, compensate_events, read_events, read_head, read_spillover
from orderless.io.logicle import logicle
from orderless.io.missing import MissingPolicy, split_indicators
from orderless.io.not_of_cells import is_not_of_cells
from orderless.io.per_set import natural_order
from orderless.io.sample_store import Progress, Reading
from orderless.io.samples import listed
from orderless.io.tables import check_names, name_key
from orderless.words import counted

TransformName = Literal["arcsinh", "logicle"]
COMPENSATED = "compensated"  # the fact in `Samples.origin`: all files, some files or no file
_SCATTER = re.compile(r"[fs]sc([ahw]|\d*|width|height|area)")


def read_fcs_folder(
    path: Path,
    files: Sequence[Path],
    *,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    missing: MissingPolicy,
    transform: TransformName | None,
    cofactor: float | None,
    compensate: bool,
    progress: Progress,
    notes: Sequence[str] = (),
) -> Reading:
    """Looks at FCS files: their markers, and which of them all files have.

    Args:
        path: What the user named: a folder, or one file.
        files: The files.
        features: Markers to take. Default: those that all files have, without time, event length and the like.
        ignore: Markers to leave out.
        missing: What will be done about missing numbers.
        transform: `arcsinh` of events over the cofactor, or `logicle`; scatter and time stay linear.
        cofactor: Of arcsinh; None without it.
        compensate: Whether to take out each file's spillover, where it has a matrix.
        progress: Told how far it is, 0 to 1.
        notes: What there is to tell already.
    """
    change = _transform(transform, cofactor)
    heads = []
    for done, file in enumerate(files):
        heads.append(read_head(file))
        progress((done + 1) / len(files))
    ids = [file.stem for file in files]
    if len(set(ids)) < len(ids):
        ids = [file.name for file in files]  # a.fcs beside a.FCS
    order = natural_order(ids)
    heads, ids = [heads[i] for i in order], [ids[i] for i in order]
    panel = _Panel(path, heads)
    asked, indicators = (None, []) if features is None else split_indicators(features, panel.all_names(), missing)
    chosen, told = panel.choose(asked, ignore)
    linear = [is_not_of_cells(name) or _SCATTER.fullmatch(name_key(name)) is not None for name in chosen]
    spillovers = [read_spillover(head) for head in heads] if compensate else [None] * len(heads)
    told += _tell_compensation(heads, spillovers, compensate) + _tell_linear(transform, chosen, linear)
    faults: dict[str, list[str]] = {}

    def blocks(tell: Progress) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        faults.clear()
        for number, head in enumerate(heads):
            events, found = read_events(head)  # (n, C)
            for fault in found:
                faults.setdefault(fault, []).append(head.path.name)
            spillover = spillovers[number]
            if spillover is not None:
                compensate_events(events, spillover)
            rows = events[:, panel.columns(number, chosen)]  # (n, D)
            if change is not None:
                changed = [d for d, is_linear in enumerate(linear) if not is_linear]
                rows[:, changed] = change(rows[:, changed])
            yield np.full(len(rows), number, np.int32), rows
            tell((number + 1) / len(heads))

    def late_notes() -> list[str]:
        return [
            f"read in spite of a fault, {counted(len(names), 'file')}: {fault}: {listed(names)}."
            for fault, names in faults.items()
        ]

    return Reading(
        ids=ids,
        features=chosen,
        sizes=np.array([head.num_events for head in heads], dtype=np.int64),
        blocks=blocks,
        options={"transform": transform, "cofactor": cofactor, "compensate": compensate},
        notes=[*notes, *told],
        indicators=indicators,
        late_notes=late_notes,
        facts={COMPENSATED: _how_many_compensated(spillovers)} if compensate else {},
    )


class _Panel:
    """Markers of files by name. Capital letters, spaces and punctuation do not matter, unless a file tells them apart."""

    def __init__(self, path: Path, heads: Sequence[FcsHead]) -> None:
        self._path, self._heads = path, heads
        apart = {
            key for head in heads for key, count in Counter(name_key(marker) for marker in head.markers).items() if count > 1
        }
        self._apart = apart
        self._where = [{self._keys(marker): c for c, marker in enumerate(head.markers)} for head in heads]
        spellings: dict[str, Counter[str]] = {}
        for head in heads:
            for marker in head.markers:
                spellings.setdefault(self._keys(marker), Counter())[marker] += 1
        self._spellings = spellings
        self._names = {key: found.most_common(1)[0][0] for key, found in spellings.items()}

    def _keys(self, name: str) -> str:
        return name if name_key(name) in self._apart else name_key(name)

    def all_names(self) -> list[str]:
        """Every spelling of every marker of any file."""
        return [spelling for found in self._spellings.values() for spelling in found]

    def columns(self, number: int, names: Sequence[str]) -> list[int]:
        """Where a file has these markers."""
        return [self._where[number][self._keys(name)] for name in names]

    def choose(self, features: Sequence[str] | None, ignore: Sequence[str]) -> tuple[list[str], list[str]]:
        """Markers to take, and what to tell of it."""
        if features is not None:
            self._check(features, "features=")
            return [self._in_all_files(name) for name in features], []
        self._check(ignore, "ignore=")
        ignored = {self._keys(name) for name in ignore}
        partly = [key for key in self._names if any(key not in where for where in self._where)]
        common = [key for key in self._names if key not in {*partly, *ignored}]
        left_out = [key for key in common if is_not_of_cells(key)]
        chosen = [key for key in common if key not in left_out]
        if not chosen:
            found = "; ".join(f"{head.path.name}: {listed(head.markers, 5)}" for head in self._heads[:2])
            raise DataError(self._path, expected="a marker that all files have", found=f"none ({found})")
        return [self._names[key] for key in chosen], self._notes(chosen, [k for k in partly if k not in ignored], left_out)

    def _notes(self, chosen: Sequence[str], partly: Sequence[str], left_out: Sequence[str]) -> list[str]:
        notes = []
        for key in partly:
            lacking = [head.path.name for head, where in zip(self._heads, self._where, strict=True) if key not in where]
            notes.append(f"marker {self._names[key]} was left out: missing in {len(lacking)} of {len(self._heads)} files, "
                         f"{listed(lacking, 4)}.")  # fmt: skip
        varied = [f"{self._names[key]} ({listed([s for s in self._spellings[key] if s != self._names[key]])})"
                  for key in chosen if len(self._spellings[key]) > 1]  # fmt: skip
        if varied:
            notes.append(f"spelt in more than one way, and taken for one marker: {listed(varied)}.")
        if left_out:
            names = listed([self._names[key] for key in left_out])
            notes.append(f"left out, because they are not of cells: {names}; features= takes them.")
        return notes

    def _check(self, names: Sequence[str], option: str) -> None:
        unknown = [name for name in names if self._keys(name) not in self._names]
        check_names(unknown, list(self._names.values()), option, self._path, what="marker")

    def _in_all_files(self, name: str) -> str:
        key = self._keys(name)
        lacking = [head.path.name for head, where in zip(self._heads, self._where, strict=True) if key not in where]
        if lacking:
            fix = "Leave out the marker or the files."
            raise DataError(self._path, expected=f"marker {name!r} in every file", found=f"none in {listed(lacking)}", fix=fix)
        return name


def _transform(name: TransformName | None, cofactor: float | None) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    if cofactor is not None and not (np.isfinite(cofactor) and cofactor > 0):
        raise ValueError(f"cofactor must be above 0, got {cofactor!r}.")
    changes: dict[str | None, Callable[[NDArray[Any]], NDArray[Any]] | None] = {
        None: None,
        "arcsinh": lambda events: np.arcsinh(events / cofactor),
        "logicle": logicle,
    }
    if name not in changes:
        raise ValueError(f"transform must be arcsinh, logicle or None; got {name!r}.")
    return changes[name]


def _how_many_compensated(spillovers: Sequence[Any]) -> str:
    found = {spillover is not None for spillover in spillovers}
    return "some files" if len(found) > 1 else "all files" if True in found else "no file"


def _tell_compensation(heads: Sequence[FcsHead], spillovers: Sequence[Any], compensate: bool) -> list[str]:
    with_matrix = [head.path.name for head, found in zip(heads, spillovers, strict=True) if found is not None]
    if not compensate or not with_matrix:
        return []
    if len(with_matrix) == len(heads):
        return ["events are compensated by the spillover matrix of each file."]
    without = [head.path.name for head, found in zip(heads, spillovers, strict=True) if found is None]
    return [f"no spillover matrix, so no compensation, in {len(without)} of {len(heads)} files: {listed(without)}."]


def _tell_linear(transform: str | None, features: Sequence[str], linear: Sequence[bool]) -> list[str]:
    kept = [name for name, is_linear in zip(features, linear, strict=True) if is_linear]
    return [f"left on a linear scale by {transform}: {listed(kept)}."] if transform and kept else []
