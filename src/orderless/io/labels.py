"""Labels from a table of their own: one row per set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError, MissingDataError
from orderless.io.per_set import plain, set_name
from orderless.io.sample_store import as_column
from orderless.io.samples import Samples, listed
from orderless.io.tables import SUFFIXES, Tables, TypesChangedError, check_names

_NAMES = ("id", "set_id", "sample_id", "sample", "file", "filename", "file_name", "fcs", "name", "donor", "patient")


def join_labels(samples: Samples, path: str | Path, *, id_column: str | None = None) -> Samples:
    """Adds the columns of a table with one row per set.

    Rows find their set by name. The suffix `.fcs` with a folder before the name, and decimals of whole numbers do not matter.

    Args:
        samples: The sets.
        path: `.csv`, `.tsv` or `.parquet`.
        id_column: Column with the names of sets. Default: the one that matches the most sets.

    Returns:
        The same sets, with a column for each further column of the table. A set that the table does not have has None or NaN
        there. Such sets, and rows without a set, are named in `notes`.

    Raises:
        DataError: If a set has more than one row, no row fits any set, or a column is there already with other values.
    """
    path = Path(path).expanduser()
    names, columns = _read(path, as_text=True)  # names such as 007 are no numbers
    id_column = _find_ids(samples, names, columns, id_column, path)
    given = columns[id_column]
    columns = _read(path)[1]
    present = [row for row, value in enumerate(given) if value is not None]
    twice = [name for name, count in Counter(_match(given[row]) for row in present).items() if count > 1]
    if twice:
        spelt = [set_name(given[row]) for row in present if _match(given[row]) in twice]
        shown = listed(list(dict.fromkeys(spelt)))
        raise DataError(path, expected=f"each set once in column {id_column!r}", found=f"more than one row for {shown}")
    rows = {_match(given[row]): row for row in present}
    where = [rows.get(_match(name)) for name in samples.ids]
    if all(row is None for row in where):
        examples = f"{listed([given[row] for row in present], 3)}, where the sets are called {listed(samples.ids, 3)}"
        raise DataError(path, expected=f"names of sets in column {id_column!r}", found=examples, fix="Name another id_column.")
    joined = dict(samples.columns)
    for name in names:
        if name not in (id_column, ""):
            _add(joined, name, [None if row is None else columns[name][row] for row in where], samples.ids, path)
    return replace(samples, columns=joined, notes=(*samples.notes, *_notes(samples, given, present, where, path)))


def _read(path: Path, *, as_text: bool = False) -> tuple[list[str], dict[str, list[Any]]]:
    if not path.is_file():
        raise MissingDataError(path, expected="a table of labels", found="no such file")
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(path, expected=f"a table: {', '.join(SUFFIXES)}", found=f"the suffix {path.suffix!r}")
    tables = Tables(path, [path])
    if as_text:
        tables = Tables(path, [path], text=tables.names)
    while True:
        columns: dict[str, list[Any]] = {name: [] for name in tables.names}
        try:
            for batch in tables.batches(tables.names):
                for name, values in columns.items():
                    values.extend(plain(value) for value in batch.rows.column(name).to_pylist())
        except TypesChangedError:
            continue
        return tables.names, columns


def _find_ids(samples: Samples, names: Sequence[str], columns: dict[str, list[Any]], id_column: str | None, path: Path) -> str:
    if id_column is not None:
        check_names([id_column], names, "id_column=", path)
        return id_column
    wanted = {_match(name) for name in samples.ids}
    set_id = str(samples.origin.get("options", {}).get("set_id") or "")

    def fit(name: str) -> tuple[int, bool, bool]:
        found = {_match(value) for value in columns[name] if value is not None} & wanted
        return len(found), name == set_id, name.lower() in _NAMES

    best = max(names, key=fit)
    if not fit(best)[0]:
        examples = "; ".join(f"{name}: {listed([v for v in columns[name] if v is not None], 2)}" for name in names[:5])
        found = f"none; the sets are called {listed(samples.ids, 3)}, the columns have {examples}"
        raise DataError(path, expected="a column with the names of sets", found=found, fix="Name it with id_column.")
    return best


def _add(joined: dict[str, NDArray[Any]], name: str, values: list[Any], ids: Sequence[str], path: Path) -> None:
    column = as_column(values)
    if name in joined:
        for set_id, before, after in zip(ids, joined[name].tolist(), column.tolist(), strict=True):
            if before != after and not (_is_missing(before) and _is_missing(after)):
                found = f"{after!r} for set {set_id!r}, where the data say {before!r}"
                fix = f"Rename or remove one of the columns {name!r}."
                raise DataError(path, expected=f"the same {name!r} as in the data", found=found, fix=fix)
    joined[name] = column


def _notes(samples: Samples, given: list[Any], present: Sequence[int], where: Sequence[int | None], path: Path) -> list[str]:
    notes = []
    unlabelled = [name for name, row in zip(samples.ids, where, strict=True) if row is None]
    if unlabelled:
        notes.append(f"{len(unlabelled)} of {len(samples)} sets have no row in {path.name}: {listed(unlabelled)}.")
    used = set(where)
    unknown = [set_name(given[row]) for row in present if row not in used]
    if unknown:
        notes.append(f"{len(unknown)} rows of {path.name} are of sets that have no data: {listed(unknown)}.")
    if len(present) < len(given):
        notes.append(f"{len(given) - len(present)} rows of {path.name} name no set.")
    return notes


def _match(value: Any) -> str:
    """What two spellings of a set's name have in common."""
    text = set_name(value).strip()
    if text.lower().endswith(".fcs"):
        text = re.split(r"[/\\]", text)[-1][: -len(".fcs")]
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and bool(np.isnan(value)))
