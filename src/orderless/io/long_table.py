"""Long tables: one row per element, in any order, and a column that says which set it belongs to. CSV, TSV, Parquet.

The table is read twice: first to count the rows of each set and to tell features from what is known per set, then to bring the
rows of each set together on disk. Neither needs memory for the table.

Letters: n rows of a batch, D features, N sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError, WrongNameError
from orderless.io.extras import require
from orderless.io.missing import MissingPolicy, split_indicators
from orderless.io.per_set import ConstantColumns, SetNumbers, name_words, natural_order, text_of
from orderless.io.reading import shown
from orderless.io.row_counters import RowCounters
from orderless.io.sample_store import Progress, Reading
from orderless.io.samples import Varies, listed
from orderless.io.tables import (
    SUFFIXES,
    Batch,
    Tables,
    TypesChangedError,
    check_names,
    decimal_of,
    find_code,
    first_text,
    has_separators,
    is_number,
    separated_example,
    tell_codes,
)
from orderless.words import counted

_LIKELY = (
    "sample", "donor", "patient", "subject", "specimen", "participant", "person", "individual", "animal", "mouse", "set", "bag",
    "file", "slide", "image", "well", "tube", "group", "case", "jet", "event", "id",
)  # fmt: skip
# cell_id and Event_length name no set
_OF_ELEMENTS = ("cell", "row", "index", "barcode", "length", "size", "count", "time", "age")
_FEATURE_FIX = "A feature must be a column of numbers."


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
        set_id: Column that says which set a row belongs to. None: of several files without a column that may be it, each is a
            set; so is a single one where `features` are named.
        features: Columns that are features. Default: every column of numbers that varies within some set, and does not just
            number rows.
        ignore: Columns to leave out. Where each file is a set because no other column may name the sets, those that might have,
            such as the patient, are still known of each set.
        missing: What will be done about missing numbers.
        progress: Told how far it is, 0 to 1.
    """
    needed = None if features is None else [*([set_id] if set_id else []), *features]
    tables = Tables(path, files, text=[set_id] if set_id else [], needed=needed)
    kinds = {name: "float" if tables.is_float(name) else tables.kind(name) for name in tables.names}
    left = {name: kind for name, kind in kinds.items() if name not in {*ignore, *(features or ())}}
    # a single one too, where features are known: what a model predicts is read as what it was fitted to
    is_set_by_file = set_id is None and (len(files) > 1 or features is not None) and not _likely(left)
    if not is_set_by_file:
        set_id = check_set_id(set_id, kinds, path, num_files=len(files))
        if kinds[set_id] == "other":  # of bytes nobody can tell which letters they are
            fix = "Write it as text, or name another column."
            found = f"a column of type {tables.type_name(set_id)}"
            raise WrongNameError(path, expected=f"text or numbers in column {set_id!r} (set_id=)", found=found, fix=fix)
    sets = _SetColumn(set_id, files)
    # left out so that files are sets: who a file is of is still to be known, or its patient would be on both sides of a split
    passed_over = _likely({name: kinds[name] for name in ignore if name in kinds}) if is_set_by_file else []
    asked, indicators = _check_features(features, tables, set_id, missing)
    if features is None:
        tables.check_columns(ignore, "ignore=")
    while True:
        try:
            scan = _Scan(tables, sets, asked, ignore, passed_over, progress)
            scan.read_codes()
            break
        except TypesChangedError:  # a column of text files is wider than its first rows: begin again
            continue
    chosen = asked if asked is not None else scan.choose_features()
    ids = list(scan.numbers.names)
    order = natural_order(ids)
    final = {ids[position]: number for number, position in enumerate(order)}

    def blocks(tell: Progress) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        try:
            for batch in tables.batches([*sets.columns, *chosen]):
                encoded = sets.of(batch)
                encoded = encoded if hasattr(encoded, "dictionary") else encoded.dictionary_encode()
                numbers = np.array([final.get(text_of(value), -1) for value in encoded.dictionary.to_pylist()], dtype=np.int32)
                rows = np.stack([batch.numbers(name) for name in chosen], axis=1)  # (n, D)
                yield numbers[encoded.indices.to_numpy(zero_copy_only=False)], rows
                tell(batch.done)
        except TypesChangedError:  # in a feature that was asked for, as the first pass has read all others
            spoilt = next(name for name in chosen if tables.kind(name) != "number")
            raise _text_error(tables, spoilt, _FEATURE_FIX) from None

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
        varying=scan.varying(),
        indicators=indicators,
    )


class _SetColumn:
    """Says which set each row belongs to: a column, or without one the file.

    Attributes:
        columns: The column that is read for it, if any.
        names: Names of sets where each file is one.
    """

    def __init__(self, set_id: str | None, files: Sequence[Path]) -> None:
        self.columns = [] if set_id is None else [set_id]
        self._of_file = dict(zip(files, _names(files), strict=True)) if set_id is None else {}
        self.names = list(self._of_file.values())

    def of(self, batch: Batch) -> Any:
        """(n,) Arrow array: the set of each row."""
        if self.columns:
            return batch.rows.column(self.columns[0])
        pa = require("pyarrow", "io")
        return pa.DictionaryArray.from_arrays(np.zeros(batch.rows.num_rows, np.int32), [self._of_file[batch.path]])


def _names(files: Sequence[Path]) -> list[str]:
    stems = [re.sub("|".join(f"{re.escape(end)}$" for end in SUFFIXES), "", file.name, flags=re.I) for file in files]
    return stems if len(set(stems)) == len(stems) else [file.name for file in files]  # a.csv beside a.csv.gz


class _Scan:
    """The first pass over a table."""

    def __init__(
        self,
        tables: Tables,
        sets: _SetColumn,
        features: list[str] | None,
        ignore: Sequence[str],
        passed_over: Sequence[str],
        progress: Progress,
    ) -> None:
        self._tables, self._sets, self._features, self._passed_over = tables, sets, features, passed_over
        self._index = [name for name in tables.names if name in ("", "__index_level_0__") and name not in sets.columns]
        self._filled: set[str] = set()  # of these, those with a value
        self._counting = {name for name in self._index if tables.kind(name) == "number"}  # those that count the rows one by one
        rest = [name for name in tables.names if name not in {*sets.columns, *ignore, *(features or ()), *self._index}]
        self.numbers = SetNumbers()
        self.numbers.add(sets.names)
        self._file_of: dict[int, Path] = {}  # the first file with rows of a set
        self._torn: dict[int, Path] = {}  # the second file, of a set that has one
        self._counters = RowCounters([name for name in rest if tables.kind(name) == "number"] if features is None else [])
        self._columns = ConstantColumns([name for name in (*rest, *passed_over) if tables.kind(name) != "other"])
        self._codes: dict[str, dict[int, Any]] = {}  # by column of whole numbers with leading zeros: values as they are written
        self._nested = [name for name in rest if tables.kind(name) == "other"]
        self._read(progress)

    def _read(self, progress: Progress) -> None:
        nameless: dict[Path, tuple[int, int]] = {}  # file -> (how many rows, which first)
        read = [*self._sets.columns, *self._columns.followed, *self._index]
        for batch in self._tables.batches(read or self._tables.names[:1]):  # rows are counted even where no column is of use
            column = self._sets.of(batch)
            if batch.rows.num_rows == 0:
                continue
            if column.null_count or _has_nan(column):
                empty = np.flatnonzero([value is None or value != value for value in column.to_pylist()])
                count, first = nameless.get(batch.path, (0, batch.first_row + int(empty[0])))
                nameless[batch.path] = (count + len(empty), first)
                continue
            groups = self.numbers.number(column)
            for code in groups.codes[groups.first >= 0].tolist():
                if self._file_of.setdefault(code, batch.path) != batch.path:
                    self._torn.setdefault(code, batch.path)
            for name in self._index:
                self._see_index(name, batch)
            part = batch.path.name if len(self._tables.files) > 1 else ""
            for name in self._columns.followed:
                self._columns.see(name, batch.rows.column(name), groups, first_row=batch.first_row, file=part)
            self._counters.see(batch.exact_numbers, groups, self.numbers.sizes, is_new_file=batch.first_row == 1)
            progress(batch.done)
        if nameless:
            file, (count, first) = next(iter(nameless.items()))
            found = f"none in {count:,} rows, the first of them row {first}"
            fix = "Fill them in, or remove these rows."
            raise DataError(file, expected=f"a set in column {self._sets.columns[0]!r} of every row", found=found, fix=fix)
        if not self.numbers.sizes.any():
            raise DataError(self._tables.path, expected="a table with rows", found="none")
        if spoilt := next((name for name in self.numbers.names if "\0" in name), None):  # it looks like another name, and is not
            expected = f"names of sets in column {self._sets.columns[0]!r} without NUL bytes"
            fix = "Remove them, or write the table again."
            raise DataError(self._tables.path, expected=expected, found=shown(spoilt), fix=fix)

    def _see_index(self, name: str, batch: Batch) -> None:
        column = batch.rows.column(name)
        if column.null_count < len(column):
            self._filled.add(name)
        if name in self._counting and (np.diff(batch.exact_numbers(name)) != 1).any():
            self._counting.remove(name)

    def read_codes(self) -> None:
        """Reads columns of sets again that were read as whole numbers: of codes such as 005 the zeros were lost.

        Features are numbers however they are written. So is a column that is the same within every set only as a number.
        """
        names = [name for name in self._columns.values if self._tables.may_be_codes(name)]
        if not names:
            return
        numbers, written = SetNumbers(), ConstantColumns(names)
        numbers.add(self._sets.names)
        for batch in self._tables.batches([*self._sets.columns, *names], as_written=names):
            groups = numbers.number(self._sets.of(batch))
            for name in names:
                written.see(name, batch.rows.column(name), groups)
        for name, values in written.values.items():
            if find_code(values.values()):
                self._codes[name] = {code: None if text is None else text.strip() for code, text in values.items()}

    def choose_features(self) -> list[str]:
        """Columns of numbers that vary within some set; all columns of numbers where every set has one row."""
        kind = self._tables.kind
        for name in self._tables.names:
            if name in self._columns.varying and name not in self._passed_over and kind(name) == "text":
                self._refuse_spoilt_numbers(name)
        allowed = {*self._columns.varying, *(self._columns.values if self._all_single else ())}
        allowed -= {*self._passed_over, *self._codes}
        chosen = [name for name in self._tables.names if name in allowed and kind(name) == "number"]
        for name in chosen:
            self._refuse_slips(name)
        if not chosen:
            expected = "a column of numbers that varies within some set"
            fix = "Check set_id, or name the columns with features=."
            raise DataError(self._tables.path, expected=expected, found=f"columns {listed(self._tables.names, 30)}", fix=fix)
        counting = self._counters.found(self.numbers.sizes)
        return [name for name in chosen if name not in counting] or chosen

    def _refuse_slips(self, name: str) -> None:
        """A column that is constant within nearly all sets is an outcome with slips rather than a feature, and would tell it."""
        if slips := self._columns.slips(name, self.numbers.sizes):
            names = list(self.numbers.names)
            where = listed([slip.describe(names) for slip in slips], 3)
            raise DataError(
                self._tables.path,
                expected=f"column {name!r} to be the same in all rows of each set, as it is in nearly all sets",
                found=f"{len(slips)} of {int((self.numbers.sizes > 1).sum())} sets in which it varies: {where}",
                fix=f"Correct these rows, leave the column out with ignore=[{name!r}], or name the features with features=.",
            )

    def varying(self) -> dict[str, Varies]:
        """Columns that differ within sets, and where."""
        return self._columns.describe_varying(list(self.numbers.names), self.numbers.sizes)

    @property
    def _all_single(self) -> bool:
        return bool((self.numbers.sizes == 1).all())

    def _refuse_spoilt_numbers(self, name: str) -> None:
        """A column of text that looks like numbers is a feature with a slip in it, and is not left out quietly."""
        for batch in self._tables.batches([name]):
            values = [value for value in batch.rows.column(name)[:10_000].to_pylist() if isinstance(value, str)]
            decimal = decimal_of(batch.path)
            numbers = sum(
                is_number(value.replace("\u2212", "-").rstrip("% "), decimal) for value in values
            )  # 5 % and a minus sign
            # ids such as '0123', but not '0.5'
            is_text = self._tables.is_parquet and numbers == len(values) and all(map(str.isalnum, values))
            if decimal == "," and 2 * sum(is_number(value) for value in values) > len(values):
                example = next(filter(is_number, values))
                found = f"numbers with a point in column {name!r}, such as {example!r}, beside decimal commas"
                raise DataError(batch.path, expected="one decimal point", found=found, fix="Write all numbers alike.")
            if (2 * numbers > len(values) and not is_text) or separated_example(values, decimal):
                raise _text_error(self._tables, name, f"Correct the table, or leave the column out with ignore=[{name!r}].")
            return

    def known_columns(self, features: Sequence[str]) -> dict[str, list[Any]]:
        """Values of each set, by column, by the number of the set."""
        count = len(self.numbers.names)
        return {
            name: [self._codes.get(name, values).get(code) for code in range(count)]
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
        notes += tell_codes([name for name in known if name in self._codes])
        left_out = [
            name
            for name in self._tables.names
            if name in self._columns.varying and name not in self._passed_over and self._tables.kind(name) == "text"
        ]
        if left_out and self._features is None:
            notes.append(f"left out, because they hold text that differs within sets: {listed(left_out, 30)}.")
        if self._nested and self._features is None:
            notes.append(f"left out, because they hold neither numbers nor text: {listed(self._nested, 30)}.")
        numbering = {name: why for name, why in self._counters.found(self.numbers.sizes).items() if name not in known}
        for reason in dict.fromkeys(why for name, why in numbering.items() if name not in features):
            left_out = [n for n in self._tables.names if numbering.get(n) == reason]
            notes.append(f"left out, because they {reason}: {listed(left_out, 30)}; features= takes them.")
        if alone := [name for name in numbering if name in features]:
            notes.append(f"a feature although it numbers the rows, as there is no other: {listed(alone)}.")
        if self._tables.left_out:
            notes.append(f"left out, because only some of the files have them: {listed(self._tables.left_out, 30)}.")
        if self._torn:
            code, second = next(iter(self._torn.items()))
            notes.append(
                f"rows in more than one file: {len(self._torn):,} of {counted(len(self.numbers.names), 'set')}, first "
                f"{list(self.numbers.names)[code]} ({self._file_of[code].name} and {second.name}). Each is one set all the same. "
                "If two samples have one name, rename one of them."
            )
        if self._sets.names:
            count = len(self._sets.names)
            files = f"each of {count} files" if count > 1 else "the file"
            other = f"other column than {listed(self._passed_over)}" if self._passed_over else "column"
            notes.append(f"{files} is one set, called by its name: no {other} looks like names of sets.")
        for name in self._index:
            why = "it counts the rows." if name in self._counting else "give it a name if it is to be read."
            why = why if name in self._filled else "it is empty, as after a delimiter at the end of every line."
            notes.append(f"a column without a name was left out: {why}")
        return notes


def check_set_id(set_id: str | None, kinds: Mapping[str, str], path: Path, *, num_files: int = 1) -> str:
    """The column of sets, which must be named and there; otherwise an error that lists the columns and may suggest one.

    Args:
        set_id: What the user named.
        kinds: By column: `float`, another `number`, `text` or `other`.
        path: What is read.
        num_files: Of how many files the table is.
    """
    names = list(kinds)
    if set_id is not None:
        check_names([set_id], names, "set_id=", path)
        return set_id
    likely = _likely(kinds)
    fix = "Add such a column, or put a file for each set into a folder."
    if suggested := likely or [name for name in names if kinds[name] == "text"]:
        fix = f"Perhaps set_id={suggested[0]!r}."
    if likely and num_files > 1:
        fix += f" Each file is a set if ignore={likely!r} leaves {'it' if len(likely) == 1 else 'these'} out."
    expected = "set_id= to name the column that says which set a row belongs to"
    raise WrongNameError(path, expected=expected, found=f"none given, and columns {listed(names, 30)}", fix=fix)


def _likely(kinds: Mapping[str, str]) -> list[str]:
    """Columns that may say which set a row belongs to, by their names, the likeliest first."""
    words = {name: {stem for word in name_words(name) for stem in (word, word.removesuffix("id"))} for name in kinds}
    fit = [name for name in kinds if kinds[name] != "float" and not words[name] & set(_OF_ELEMENTS)]
    return list(dict.fromkeys(name for word in _LIKELY for name in fit if word in words[name]))


def _check_features(
    features: Sequence[str] | None, tables: Tables, set_id: str | None, missing: MissingPolicy
) -> tuple[list[str] | None, list[str]]:
    if features is None:
        return None, []
    asked, indicators = split_indicators(features, tables.names, missing)
    tables.check_columns(asked, "features=")
    for name in asked:
        if name == set_id:
            raise WrongNameError(tables.path, expected="features other than the set id", found=f"{name!r} as both")
        if tables.kind(name) != "number":
            raise _text_error(tables, name, _FEATURE_FIX)
    tables.widen(asked)
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
