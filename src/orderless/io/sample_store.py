"""From a reading of files to `Samples`: elements go to a memory-mapped store, once, and later calls open that.

Letters: N sets, D features, n rows of a block.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.cache import default_cache_dir
from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.missing import INDICATOR, FeatureMeans, MissingPolicy, MissingValues
from orderless.io.not_of_cells import tell_not_of_cells
from orderless.io.precision import LostDigits
from orderless.io.regroup import Regrouper
from orderless.io.samples import Samples, Varies, listed
from orderless.io.store import SetStore, open_if_good, open_or_build
from orderless.io.store_files import stamps_of
from orderless.io.store_writer import StoreWriter

VERSION = 14  # raised whenever the same files give other samples than before
_SPLIT = "samples"
_COLUMN = "column:"  # before the names of columns, which are the user's own: the store has names of its own

Progress = Callable[[float], None]
Blocks = Callable[[Progress], Iterator[tuple[NDArray[Any], NDArray[Any]]]]


@dataclass(frozen=True)
class Reading:
    """What a reader found in files, before their elements are read.

    Attributes:
        ids: N names of sets, in the order that they shall have.
        features: D names.
        sizes: (N,) how many elements each set has at most.
        blocks: Gives the elements of all sets in any order, as (codes (n,), rows (n, D)) with the number of each row's set. It
            may be called more than once, with a function to tell how far it is, 0 to 1.
        options: Options of `open_samples` that make the same features of other files, without `features`, `ignore`, `missing` and
            `fill`.
        units: D units, '' where unknown.
        columns: N values each: a list of str, int, float, bool or None.
        notes: What a user should know.
        varying: Columns that differ within sets, by name, and where.
        indicators: Features for which an indicator is asked for by name.
        late_notes: Called when all blocks were read: what was learned from them.
        facts: What else of the files may tell them from those of training: goes into `Samples.origin`.
    """

    ids: Sequence[str]
    features: Sequence[str]
    sizes: NDArray[np.int64]
    blocks: Blocks
    options: Mapping[str, Any]
    units: Sequence[str] = ()
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    varying: Mapping[str, Varies] = field(default_factory=dict)
    indicators: Sequence[str] = ()
    late_notes: Callable[[], Sequence[str]] = list
    facts: Mapping[str, str] = field(default_factory=dict)


def open_or_read(
    path: Path,
    files: Sequence[Path],
    kind: str,
    options: Mapping[str, Any],
    read: Callable[[Progress], Reading],
    *,
    missing: MissingPolicy,
    fill: Mapping[str, float] | None,
    cache_dir: str | Path | None,
    progress: Progress | None,
) -> Samples:
    """Opens what an earlier call has read from the same files with the same options, or reads.

    Args:
        path: What the user named.
        files: The files that are read.
        kind: The kind of file.
        options: Everything that the result depends on. JSON values.
        read: Looks at the files.
        missing: What to do about missing numbers.
        fill: As for `open_samples`.
        cache_dir: As for `open_samples`.
        progress: As for `open_samples`.
    """
    cache = default_cache_dir() if cache_dir is None else Path(cache_dir).expanduser()
    key = {"path": str(path.resolve()), "kind": kind, "version": VERSION, "missing": missing, "fill": fill, **options}
    mark = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / "samples" / f"{re.sub(r'[^A-Za-z0-9_-]+', '_', path.stem)[:40]}-{mark}"
    store = open_if_good(folder, json.loads(json.dumps(key)), files)
    if store is None:
        tell = progress or (lambda done: None)
        stamps = stamps_of(files)
        reading = read(lambda done: tell(0.4 * done))
        if not len(reading.sizes):
            raise DataError(path, expected="sets", found="none")
        if kind != "FCS" and options.get("features") is None:  # of FCS files these are left out
            reading = replace(reading, notes=[*reading.notes, *tell_not_of_cells(reading.features)])
        if options.get("ignore"):  # also of other files, which may have these columns, too
            reading = replace(reading, options={**reading.options, "ignore": list(options["ignore"])})
        whole, filled = _with_indicators(reading, missing, fill, path)
        features = [*whole.features, *(name + INDICATOR for name in whole.indicators)]

        def build(writer: StoreWriter) -> Mapping[str, Any]:
            writer.made_from(files, stamps)
            return {_SPLIT: _write(writer, whole, features, missing, filled, kind, path, lambda done: tell(0.4 + 0.5 * done))}

        # a file that was changed is nothing to warn of: it is read again
        store = open_or_build(folder, build, key=key, element_shape=(len(features),), sources=files, explain=False)
        tell(1.0)
    return _as_samples(store, are_named=options.get("features") is not None)


def _with_indicators(
    reading: Reading, missing: MissingPolicy, fill: Mapping[str, float] | None, path: Path
) -> tuple[Reading, dict[str, float]]:
    """The reading with indicators of all features that have gaps, and what stands for such a feature where a set has none of it.

    Which features have missing numbers must be known before the first element is stored, so all are looked at first.
    """
    if missing != "indicator":
        return reading, {}
    seen, means = MissingValues("drop", reading.features), FeatureMeans(len(reading.features))
    for codes, rows in reading.blocks(lambda done: None):
        seen.apply(codes, rows)
        means.see(rows)
    affected = {*reading.indicators, *seen.affected()}
    if fill is not None and (new := [name for name in seen.affected() if name not in {*fill, *reading.indicators}]):
        raise DataError(
            path,
            expected=f"gaps in no other features than in training ({listed([repr(name) for name in fill]) or 'none had any'})",
            found=f"missing numbers in {listed([repr(name) for name in new])}",
            fix="A model cannot tell gaps that it never saw: fill them in, or leave such elements out with missing='drop'.",
        )
    indicators = [name for name in reading.features if name in affected]
    stands = {**dict(zip(reading.features, means.means().tolist(), strict=True)), **(fill or {})}
    return replace(reading, indicators=indicators), {name: stands[name] for name in indicators}


def _write(
    writer: StoreWriter,
    reading: Reading,
    features: Sequence[str],
    missing: MissingPolicy,
    fill: Mapping[str, float],
    kind: str,
    path: Path,
    progress: Progress,
) -> dict[str, Any]:
    scratch = writer.folder / "scratch"
    regrouper = Regrouper(scratch, reading.sizes, len(features))
    policy = MissingValues(missing, reading.features, reading.indicators, fill)
    digits = LostDigits(reading.features)
    for codes, rows in reading.blocks(progress):
        digits.see(rows)
        codes, elements = policy.apply(codes, rows)
        regrouper.add(codes, elements)
    notes = [*reading.notes, *policy.finish(path, reading.ids), *digits.notes(), *reading.late_notes()]
    columns = {f"{_COLUMN}{name}": as_arrow(values) for name, values in reading.columns.items()}
    regrouper.write(writer, _SPLIT, {"id": as_arrow(reading.ids), **columns}, policy.fill if missing == "indicator" else None)
    notes += policy.late_notes()
    shutil.rmtree(scratch, ignore_errors=True)
    options = {**reading.options, "features": list(features), "missing": missing}
    if missing == "indicator":
        options["fill"] = dict(fill)
    units = [*(reading.units or [""] * len(reading.features)), *([""] * len(reading.indicators))]
    return {
        "features": list(features),
        "units": units,
        "notes": notes,
        "varying": {name: [varies.where, varies.is_slip] for name, varies in reading.varying.items()},
        "origin": {"kind": kind, "options": options, **reading.facts},
    }


def as_arrow(values: Sequence[Any]) -> Any:
    """Values of sets as an Arrow array: bool, whole numbers, numbers (NaN where missing), or text (null where missing)."""
    pa = require("pyarrow", "io")
    column = as_column(values)
    return pa.array(column, pa.string() if column.dtype == object else None, from_pandas=False)


def as_column(values: Sequence[Any]) -> NDArray[Any]:
    """The same as a numpy array: numbers stay numbers, text stays text, missing stays missing (NaN or None).

    Whole numbers that neither int64 nor float hold exactly, and bools of which some are missing, become text.
    """
    kinds = {type(value) for value in values if value is not None}
    has_gaps = any(value is None for value in values)
    if kinds == {bool} and not has_gaps:
        return np.array(values, dtype=np.bool_)
    if kinds == {int} and not has_gaps and all(-(2**63) <= value < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    # a number that is another one as a float is a name rather than an amount; a bool is a word where it cannot stay one
    if kinds and kinds <= {bool, int, float} and kinds != {bool} and all(_is_exact(value) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values])
    column = np.empty(len(values), dtype=object)
    column[:] = [None if value is None else str(value) for value in values]
    return column


def _is_exact(value: Any) -> bool:
    try:
        return value is None or float(value) == value
    except OverflowError:
        return False


def _as_samples(store: SetStore, *, are_named: bool) -> Samples:
    sets, said = store[_SPLIT], store.manifest[_SPLIT]
    named = {name.removeprefix(_COLUMN): values for name, values in sets.columns.items() if name.startswith(_COLUMN)}
    return Samples(
        sets=sets,
        ids=tuple(sets.columns["id"].tolist()),
        features=tuple(said["features"]),
        units=tuple(said["units"]),
        columns=named,
        notes=tuple(said["notes"]),
        varying={name: Varies(*varies) for name, varies in said["varying"].items()},
        are_named=are_named,
        origin=said["origin"],
    )
