"""Long tables: one row per element, in any order, and a column that says which set it belongs to. CSV, TSV, Parquet.

The table is read twice: first to count the rows of each set and to tell features from what is known per set, then to bring the
rows of each set together on disk. Neither needs memory for the table.

Letters: n rows of a batch, D features, N sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.missing import MissingPolicy, split_indicators
from orderless.io.per_set import ConstantColumns, SetNumbers, natural_order, set_name
from orderless.io.reading import shown
from orderless.io.sample_store import Progress, Reading
from orderless.io.samples import listed
from orderless.io.tables import (
    Tables,
    TypesChangedError,
    check_names,
    decimal_of,
    first_text,
    has_separators,
    is_number,
    separated_example,
)

_LIKELY = ("sample", "donor", "patient", "subject", "set", "bag", "file", "group", "case", "individual", "jet", "event", "id")


def read_long_table(
    path: Path,
    files: Sequence[Path],
    *,
    set_id: str | None,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    missing: MissingPolicy,
    progress: Progress,
) -> Reading:
    """Looks at a long table: its sets, its features, and what is known of each set.

    Args:
        path: What the user named: a file, or a folder of parts.
        files: The file, or the parts.
        set_id: Column that says which set a row belongs to.
        features: Columns that are features. Default: every column of numbers that varies within some set.
        ignore: Columns to leave out.
        missing: What will be done about missing numbers.
        progress: Told how far it is, 0 to 1.
    """
    tables = Tables(path, files, text=[set_id] if set_id else [])
    set_id = check_set_id(set_id, tables.names, path)
    asked, indicators = _check_features(features, tables, set_id, missing)
    tables.check_columns(ignore, "ignore=")
    while True:
        try:
            scan = _Scan(tables, set_id, asked, ignore, progress)
            break
        except TypesChangedError:  # a column of text files is wider than its first rows: begin again
            continue
    chosen = asked if asked is not None else scan.choose_features()
    ids = list(scan.numbers.names)
    order = natural_order(ids)
    final = {ids[position]: number for number, position in enumerate(order)}

    def blocks(tell: Progress) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for batch in tables.batches([set_id, *chosen]):
            encoded = batch.rows.column(set_id)
            encoded = encoded if hasattr(encoded, "dictionary") else encoded.dictionary_encode()
            numbers = np.array([final.get(set_name(value), -1) for value in encoded.dictionary.to_pylist()], dtype=np.int32)
            rows = np.stack([batch.numbers(name) for name in chosen], axis=1)  # (n, D)
            yield numbers[encoded.indices.to_numpy(zero_copy_only=False)], rows
            tell(batch.done)

    known = {name: [values[position] for position in order] for name, values in scan.known_columns(chosen).items()}
    return Reading(
        ids=[ids[position] for position in order],
        features=chosen,
        sizes=scan.numbers.sizes[order],
        blocks=blocks,
        options={"set_id": set_id},
        units=[tables.units.get(name, "") for name in chosen],
        columns=known,
        notes=scan.notes(chosen),
        indicators=indicators,
    )


class _Scan:
    """The first pass over a table."""

    def __init__(
        self, tables: Tables, set_id: str, features: list[str] | None, ignore: Sequence[str], progress: Progress
    ) -> None:
        self._tables, self._set_id, self._features = tables, set_id, features
        self._index = [name for name in tables.names if name in ("", "__index_level_0__") and name != set_id]
        rest = [name for name in tables.names if name not in {set_id, *ignore, *(features or ()), *self._index}]
        self.numbers = SetNumbers()
        self._columns = ConstantColumns([name for name in rest if tables.kind(name) != "other"])
        self._nested = [name for name in rest if tables.kind(name) == "other"]
        self._read(progress)

    def _read(self, progress: Progress) -> None:
        nameless: dict[Path, tuple[int, int]] = {}  # file -> (how many rows, which first)
        for batch in self._tables.batches([self._set_id, *self._columns.values, *self._columns.varying]):
            column = batch.rows.column(self._set_id)
            if batch.rows.num_rows == 0:
                continue
            if column.null_count or _has_nan(column):
                empty = np.flatnonzero([value is None or value != value for value in column.to_pylist()])
                count, first = nameless.get(batch.path, (0, batch.first_row + int(empty[0])))
                nameless[batch.path] = (count + len(empty), first)
                continue
            groups = self.numbers.number(column)
            for name in list(self._columns.values):
                self._columns.see(name, batch.rows.column(name), groups)
            progress(batch.done)
        if nameless:
            file, (count, first) = next(iter(nameless.items()))
            found = f"none in {count:,} rows, the first of them row {first}"
            fix = "Fill them in, or remove these rows."
            raise DataError(file, expected=f"a set in column {self._set_id!r} of every row", found=found, fix=fix)
        if not self.numbers.names:
            raise DataError(self._tables.path, expected="a table with rows", found="none")

    def choose_features(self) -> list[str]:
        """Columns of numbers that vary within some set; all columns of numbers where every set has one row."""
        kind = self._tables.kind
        for name in self._tables.names:
            if name in self._columns.varying and kind(name) == "text":
                self._refuse_spoilt_numbers(name)
        allowed = self._columns.varying | (set(self._columns.values) if self._all_single else set())
        chosen = [name for name in self._tables.names if name in allowed and kind(name) == "number"]
        if not chosen:
            expected = "a column of numbers that varies within some set"
            fix = "Check set_id, or name the columns with features=."
            raise DataError(self._tables.path, expected=expected, found=f"columns {listed(self._tables.names, 30)}", fix=fix)
        return chosen

    @property
    def _all_single(self) -> bool:
        return bool((self.numbers.sizes == 1).all())

    def _refuse_spoilt_numbers(self, name: str) -> None:
        """A column of text that looks like numbers is a feature with a slip in it, and is not left out quietly."""
        for batch in self._tables.batches([name]):
            values = [value for value in batch.rows.column(name)[:10_000].to_pylist() if isinstance(value, str)]
            decimal = decimal_of(batch.path)
            numbers = sum(is_number(value, decimal) for value in values)
            is_text = self._tables.is_parquet and numbers == len(values)  # ids such as '0123'
            if (2 * numbers > len(values) and not is_text) or separated_example(values, decimal):
                raise _text_error(self._tables, name, f"Correct the table, or leave the column out with ignore=[{name!r}].")
            return

    def known_columns(self, features: Sequence[str]) -> dict[str, list[Any]]:
        """Values of each set, by column, by the number of the set."""
        count = len(self.numbers.names)
        return {
            name: [values.get(code) for code in range(count)]
            for name, values in self._columns.values.items()
            if name not in features
        }

    def notes(self, features: Sequence[str]) -> list[str]:
        """What a user should know."""
        notes = []
        known = [name for name in self._columns.values if name not in features]
        if self._features is None and self._all_single and len(self.numbers.names) > 1:
            notes.append(f"every set has one element, so every column of numbers is taken as a feature: {listed(features, 30)}.")
        if known and self._features is None:
            notes.append(f"constant within every set, so known per set and no feature: {listed(known, 30)}.")
        notes += [
            f"column {name!r} is taken for words: numbers in it have separators, such as {shown(example)}."
            for name in known
            if (example := separated_example(self._columns.values[name].values(), decimal_of(self._tables.files[0])))
        ]
        left_out = [n for n in self._tables.names if n in self._columns.varying and self._tables.kind(n) == "text"]
        if left_out and self._features is None:
            notes.append(f"left out, because they hold text that differs within sets: {listed(left_out, 30)}.")
        if self._nested and self._features is None:
            notes.append(f"left out, because they hold neither numbers nor text: {listed(self._nested, 30)}.")
        if self._index:
            notes.append("a column without a name was left out: it counts the rows.")
        return notes


def check_set_id(set_id: str | None, names: Sequence[str], path: Path) -> str:
    """The column of sets, which must be named and there; otherwise an error that lists the columns and suggests one."""
    if set_id is not None:
        check_names([set_id], names, "set_id=", path)
        return set_id
    words = {name: re.split(r"[^a-z]+", name.lower()) for name in names}
    likely = [name for word in _LIKELY for name in names if word in words[name]]
    likely += [name for word in _LIKELY[:-1] for name in names if word in name.lower()]
    fix = f"Perhaps set_id={(likely or list(names))[0]!r}."
    expected = "set_id= to name the column that says which set a row belongs to"
    raise DataError(path, expected=expected, found=f"none given, and columns {listed(names, 30)}", fix=fix)


def _check_features(
    features: Sequence[str] | None, tables: Tables, set_id: str, missing: MissingPolicy
) -> tuple[list[str] | None, list[str]]:
    if features is None:
        return None, []
    asked, indicators = split_indicators(features, tables.names, missing)
    tables.check_columns(asked, "features=")
    for name in asked:
        if name == set_id:
            raise DataError(tables.path, expected="features other than the set id", found=f"{name!r} as both")
        if tables.kind(name) != "number":
            raise _text_error(tables, name, "A feature must be a column of numbers.")
    return asked, indicators


def _text_error(tables: Tables, name: str, fix: str) -> DataError:
    found = "something that is not a number"
    if tables.kind(name) == "text":
        for batch in tables.batches([name]):
            if text := first_text(batch.rows.column(name), decimal_of(batch.path)):
                found = f"the text {shown(text[1])} in row {batch.first_row + text[0]}"
                if has_separators(text[1]):
                    fix = f"Write numbers without separators, and all with the same decimal point. {fix}"
                break
        else:
            found = "numbers written as text"
    return DataError(tables.path, expected=f"numbers in column {name!r}", found=found, fix=fix)


def _has_nan(column: Any) -> bool:
    return str(column.type) in ("float", "double", "halffloat") and bool(np.isnan(column.to_numpy(zero_copy_only=False)).any())
