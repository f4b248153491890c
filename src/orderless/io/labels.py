"""Labels from a table of their own: one row per set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from orderless.io.errors import DataError, WrongNameError, WrongPathError
from orderless.io.per_set import name_words, plain, text_of
from orderless.io.sample_store import as_column
from orderless.io.samples import Samples, listed
from orderless.io.spelling import LOOK_ALIKE, OF_ONE_GROUP, describe_difference, find_alike, show_apart, spelling
from orderless.io.tables import (
    PLAIN_TEXT,
    RENAME,
    SUFFIXES,
    Tables,
    TypesChangedError,
    check_names,
    decimal_of,
    find_code,
    is_number,
    separated_example,
    tell_codes,
)
from orderless.words import counted

# names of columns that say who or what a row is about are made of these words alone: `Sample ID`, but not `patient_age`
_WHO = ("sample", "specimen", "file", "fcs", "set", "bag", "donor", "patient", "subject", "participant", "individual", "case")
_WHICH = ("id", "name", "number", "nr", "no", "code", "key", "barcode")
_BESIDE = ("of", "the", "path")


def join_labels(samples: Samples, path: str | Path, *, id_column: str | None = None) -> Samples:
    """Adds the columns of a table with one row per set.

    Rows find their set by name. The suffix of a file of data (`.fcs`, `.csv` and the like) with a folder before the name,
    decimals of whole numbers, spaces, and how letters are encoded (macOS has é as two characters) do not matter.

    Args:
        samples: The sets.
        path: `.csv`, `.tsv` or `.parquet`.
        id_column: Column with the names of sets. Default: the column that is called as the data's `set_id` is, else one whose
            name says who or what a row is about (sample, donor, file, id), else one that matches; of several, the one that
            matches the most sets. A column of numbers with another name is taken only where no column has such a name.

    Returns:
        The same sets, with a column for each further column of the table. A set that the table does not have has None or NaN
        there, or what the data say. Such sets, rows without a set, and the column that was joined by are named in `notes`.

    Raises:
        DataError: If a set has more than one row, no row fits any set, names differ in leading zeros or capitals, it cannot be
            told which column has the names, a column is there already with other values, a column is a feature of a long
            table that nobody named, or one row would be for several sets.
    """
    path = Path(path).expanduser()
    names, columns = _read(path, as_text=True)  # names such as 007 are no numbers
    id_column = _find_ids(samples, names, columns, id_column, path)
    _refuse_features(samples, [name for name in names if name != id_column], path)
    given, written = columns[id_column], columns
    columns = _read(path)[1]
    codes = _codes(columns, written)
    columns |= codes
    present = [row for row, value in enumerate(given) if value is not None]
    twice = [name for name, count in Counter(_match(given[row]) for row in present).items() if count > 1]
    if twice:
        spelt = [text_of(given[row]) for row in present if _match(given[row]) in twice]
        names = list(dict.fromkeys(spelt))
        shown = listed(names if len(names) == len(twice) else show_apart(names))
        raise DataError(path, expected=f"each set once in column {id_column!r}", found=f"more than one row for {shown}")
    rows = {_match(given[row]): row for row in present}
    _refuse_other_spellings(samples, given, id_column, path)
    refuse_names_alike(samples.ids, path, folders=False)
    where = [rows.get(_match(name)) for name in samples.ids]
    if all(row is None for row in where):
        examples = f"{listed([given[row] for row in present], 3)}, where the sets are called {listed(samples.ids, 3)}"
        raise DataError(path, expected=f"names of sets in column {id_column!r}", found=examples, fix="Name another id_column.")
    joined = dict(samples.columns)
    notes = _notes(samples, id_column, given, present, where, path)
    notes += [f"{path.name}: {note}" for note in tell_codes([name for name in codes if name not in (id_column, "")])]
    for name in names:
        if name not in (id_column, ""):
            if example := separated_example(columns[name], decimal_of(path)):
                notes.append(f"{path.name}: column {name!r} is taken for words: numbers have separators, such as {example!r}.")
            _add(joined, name, [None if row is None else columns[name][row] for row in where], samples.ids, path)
    return replace(samples, columns=joined, notes=(*samples.notes, *notes))


def refuse_names_alike(ids: Sequence[str], path: str | Path, *, folders: bool = True) -> None:
    """One sample under two names would be trained on and tested on.

    Args:
        ids: Names of sets.
        path: What is named in the error.
        folders: Whether folders before the names of files tell sets apart.

    Raises:
        DataError: If names differ only in spaces, the suffix of a file, decimals of whole numbers, how letters are encoded, or
            characters that are not seen.
    """
    spelt: dict[str, list[str]] = {}
    for name in ids:
        spelt.setdefault(_match(name, folders=folders), []).append(name)
    twice = next((names for names in spelt.values() if len(names) > 1), None)
    if twice is not None:
        what = "spaces, a suffix or decimals" if folders else "spaces, folders, a suffix or decimals"
        if find_alike(twice) and describe_difference(*find_alike(twice)[0][:2]) == LOOK_ALIKE:
            what = LOOK_ALIKE
        fix = "If they are one set, write all alike; if not, give them names that differ more."
        found = listed(show_apart(twice))
        raise DataError(path, expected=f"names of sets that differ in more than {what}", found=found, fix=fix)


def _read(path: Path, *, as_text: bool = False) -> tuple[list[str], dict[str, list[Any]]]:
    if not path.is_file():
        raise WrongPathError(path, expected="a table of labels", found="no such file")
    if not path.name.lower().endswith(SUFFIXES):
        fix = RENAME if path.name.lower().endswith(PLAIN_TEXT) else "Save it as one of these."
        raise WrongNameError(path, expected=f"a table: {', '.join(SUFFIXES)}", found=f"the suffix {path.suffix!r}", fix=fix)
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


def _codes(columns: dict[str, list[Any]], written: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Columns of whole numbers with leading zeros, as they are written: 005 is a code and no number."""
    whole = [name for name, values in columns.items() if all(value is None or type(value) is int for value in values)]
    return {
        name: [None if text is None else text.strip() for text in written[name]] for name in whole if find_code(written[name])
    }


def _find_ids(samples: Samples, names: Sequence[str], columns: dict[str, list[Any]], id_column: str | None, path: Path) -> str:
    if id_column is not None:
        check_names([id_column], names, "id_column=", path)
        return id_column
    set_id = str(samples.origin.get("options", {}).get("set_id") or "")
    called = [n for n in names if n == set_id] or [n for n in names if name_words(set_id) and name_words(n) == name_words(set_id)]
    named = [name for name in names if _says_who(name)]
    text = [name for name in names if not all(_is_amount(value) for value in columns[name] if value is not None)]
    # numbers match by accident: with a better name at hand, or with decimals, they are nobody's name
    amounts = [] if called or named else [n for n in names if n and n not in text and not any(map(_is_float, columns[n]))]
    matches = {name: _matches(samples, columns[name]) for name in names}
    for choices in (called, named, text, amounts):
        best = max((name for name in choices if matches[name].loosely), key=lambda name: matches[name], default=None)
        if best is not None:
            # the rows may be numbered, and sets be, too; labels of some sets may be missing
            numbers_rows = not _names_who(best) and _counts_rows(columns[best])
            rivals = [
                name
                for name in choices
                if matches[name] == matches[best]
                or (numbers_rows and _names_who(name) and _finds_half(matches[name], matches[best]))
            ]
            if any(map(_join_otherwise, zip(*(columns[name] for name in rivals), strict=True))):
                found = f"several that would do, and differ: {listed(rivals)}"
                fix = "Name it with id_column."
                raise WrongNameError(path, expected="one column with the names of sets", found=found, fix=fix)
            return best
    examples = "; ".join(f"{name}: {listed([v for v in columns[name] if v is not None], 2)}" for name in names[:5])
    found = f"none; the sets are called {listed(samples.ids, 3)}, the columns have {examples}"
    raise DataError(path, expected="a column with the names of sets", found=found, fix="Name it with id_column.")


class _Matches(NamedTuple):
    """How well a column names sets: of two columns, the greater one does it better."""

    loosely: int  # sets that are found if leading zeros and capitals are left aside
    differ: bool  # no set has two rows
    exactly: int


def _finds_half(matches: _Matches, best: _Matches) -> bool:
    return matches.differ and 2 * matches.exactly >= best.exactly > 0


def _counts_rows(values: Sequence[Any]) -> bool:
    """Whether a column is 0, 1, 2, ... or 1, 2, 3, ... from the first row to the last."""
    return [text_of(value) for value in values if value is not None] in (
        [str(row) for row in range(first, first + len(values))] for first in (0, 1)
    )


def _matches(samples: Samples, values: Sequence[Any]) -> _Matches:
    wanted = {_match(name) for name in samples.ids}
    found = Counter(_match(value) for value in values if value is not None)
    exactly = wanted & set(found)
    loosely = {_loose(name) for name in wanted} & {_loose(name) for name in found}
    return _Matches(max(len(exactly), len(loosely)), all(found[name] == 1 for name in exactly), len(exactly))


def _refuse_other_spellings(samples: Samples, given: Sequence[Any], id_column: str, path: Path) -> None:
    """001 and 1, or S1 and s1, may be one set or two: nobody but the owner of the files knows."""
    wanted = {_match(name) for name in samples.ids}
    rows = {_match(value): text_of(value) for value in given if value is not None}
    spare = {_loose(match): spelt for match, spelt in rows.items() if match not in wanted}
    for name in samples.ids:
        if _match(name) not in rows and (spelt := spare.get(_loose(_match(name)))):
            what = describe_difference(_match(name), _match(spelt))
            found = f"{what} that differ: {spelt!r}, where the set is called {name!r}"
            raise DataError(
                path,
                expected=f"names of sets in column {id_column!r} as the data have them",
                found=found,
                fix="Write both alike.",
            )


def _refuse_features(samples: Samples, names: Sequence[str], path: Path) -> None:
    """A column of labels that is in the table of elements too, and differs within sets there, is an outcome with slips."""
    both = [name for name in names if name in samples.features]
    if not both or samples.are_named or samples.origin.get("kind") not in ("CSV", "Parquet"):
        return
    found = f"{listed(both)} among them"
    fix = f"If it is measured, rename it here or name the features with features=; else leave it out with ignore={both!r}."
    raise DataError(path, expected="columns of sets that are no features of the data", found=found, fix=fix)


def _says_who(name: str) -> bool:
    words = name_words(name)
    stems = [next((w for w in _WHICH if word.removesuffix(w) in _WHO), "") for word in words]  # sampleid, filename
    kinds = [word.removesuffix(stem) for word, stem in zip(words, stems, strict=True)]
    return any(word in _WHO + _WHICH for word in kinds) and all(word in _WHO + _WHICH + _BESIDE for word in kinds)


def _names_who(name: str) -> bool:
    """Whether a name says who: `specimen` and `sample_id` do, `id` does not."""
    return any(word.startswith(_WHO) for word in name_words(name))


def _is_amount(value: Any) -> bool:
    """Whether a value may be a number rather than a name; 007 is a name."""
    return is_number(text_of(value)) and not re.match(r"0\d", text_of(value))


def _is_float(value: Any) -> bool:
    return value is not None and (isinstance(value, float) or not re.fullmatch(r"-?\d+", str(value).strip()))


def _join_otherwise(values: Sequence[Any]) -> bool:
    return len({None if value is None else _match(value) for value in values}) > 1


def _add(joined: dict[str, NDArray[Any]], name: str, values: list[Any], ids: Sequence[str], path: Path) -> None:
    if name not in joined:
        joined[name] = as_column(values)
        return
    before = [plain(value) for value in joined[name].tolist()]
    for set_id, old, new in zip(ids, before, values, strict=True):
        if old is not None and new is not None and not _are_one(old, new):
            found = f"{new!r} for set {set_id!r}, where the data say {old!r}"
            fix = f"Rename or remove one of the columns {name!r}."
            raise DataError(path, expected=f"the same {name!r} as in the data", found=found, fix=fix)
    if any(old is None and new is not None for old, new in zip(before, values, strict=True)):
        texts = any(isinstance(new, str) for new in values)  # codes, which data of a type of numbers cannot have
        first = [(new, old) if texts else (old, new) for old, new in zip(before, values, strict=True)]
        joined[name] = as_column([other if one is None else one for one, other in first])


def _are_one(old: Any, new: Any) -> bool:
    """Whether two tables say the same; one may have 1 as a number, and the other 01 as a code."""
    if isinstance(old, str) != isinstance(new, str) and spelling(old, aside=["zeros"]) == spelling(new, aside=["zeros"]):
        return True
    return bool(old == new) or text_of(old) == text_of(new)


def _notes(
    samples: Samples, id_column: str, given: list[Any], present: Sequence[int], where: Sequence[int | None], path: Path
) -> list[str]:
    found = sum(row is not None for row in where)
    notes = [f"{path.name}: joined by column {id_column!r}, {found} of {len(samples)} sets found."]
    unlabelled = [name for name, row in zip(samples.ids, where, strict=True) if row is None]
    if unlabelled:
        notes.append(f"no row in {path.name} for {len(unlabelled)} of {counted(len(samples), 'set')}: {listed(unlabelled)}.")
    used = set(where)
    unknown = [text_of(given[row]) for row in present if row not in used]
    if unknown:
        notes.append(f"{path.name} has {counted(len(unknown), 'row')} for sets that have no data: {listed(unknown)}.")
    if len(present) < len(given):
        notes.append(f"{path.name} has {counted(len(given) - len(present), 'row')} without the name of a set.")
    return notes


def _match(value: Any, *, folders: bool = False) -> str:
    """What two spellings of a set's name have in common, folders before the name of a file included or not."""
    text = text_of(value)
    suffix = next((suffix for suffix in (".fcs", *SUFFIXES) if spelling(text).lower().endswith(suffix)), "")
    if suffix:
        text = spelling(text if folders else re.split(r"[/\\]", text)[-1])[: -len(suffix)]
    return spelling(text)


def _loose(text: str) -> str:
    """A name without leading zeros and capitals."""
    return spelling(text, aside=OF_ONE_GROUP)
