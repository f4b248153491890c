"""Tables in CSV, TSV or Parquet, one file or many with the same columns, read a batch of rows at a time."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError, WrongNameError
from orderless.io.extras import require
from orderless.io.reading import describe, reading, shown
from orderless.io.samples import listed

PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", *PARQUET)
PLAIN_TEXT = (".txt", ".txt.gz")  # which says nothing of columns
RENAME = "If it is a table, rename it to .csv, or to .tsv where tabs are between columns."
_NUMBERS = 2**22  # of a Parquet file at a time: fewer rows where there are many columns
_BLOCK = 2**24  # bytes of a CSV file at a time; the first block decides on the types of columns
_LOOKED_AT, _LINES = 2**22, 20  # bytes from which the decimal point is told, so many lines at a time
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"  # how such files begin
# cells that are empty as well: one of them makes no text of a column of numbers
_BLANK = [space * count for space in " \t\u00a0" for count in range(1, 9)]
_PACKED = {"bzip2": rb"BZh[1-9]1AY&SY", "xz": rb"\xfd7zXZ\0", "zstd": rb"\x28\xb5\x2f\xfd"}
_AGAIN = "Check the file, or get it again."
_THOUSANDS = re.compile(r"[+-]?(\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}([.' \u00a0\u202f]\d{3})+(,\d+)?)")  # 1,410.80 and 1.410,80
_AMBIGUOUS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+")  # of thousands, or with a decimal comma
_MANY_DIGITS = re.compile(r"\s*[-+]?\d{16,}\s*")  # more than a float64 holds
_WHOLE = re.compile(r"\s*[-+]?\d+\s*")
_CODE = re.compile(r"\s*\d+\s*")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.I)


class TypesChangedError(Exception):
    """A column of a CSV file is not what its first rows seemed to say."""


@dataclass(frozen=True)
class Batch:
    """Some rows of one file.

    Attributes:
        path: The file.
        first_row: Number of the first row within the file, counted from 1.
        rows: The record batch.
        done: How much of all files has been read with it, 0 to 1.
    """

    path: Path
    first_row: int
    rows: Any
    done: float

    def numbers(self, name: str) -> NDArray[Any]:
        """(n,) a column of numbers, NaN where missing."""
        return as_numbers(self.rows.column(name))

    def exact_numbers(self, name: str) -> NDArray[Any]:
        """(n,) the same, but int64 or uint64 where all of them are whole by their type: floats beyond 2**53 are not exact."""
        pa, column = require("pyarrow", "io"), self.rows.column(name)
        if not pa.types.is_integer(column.type) or column.null_count:
            return self.numbers(name)
        return column.cast(column.type if pa.types.is_uint64(column.type) else pa.int64()).to_numpy(zero_copy_only=False)


class Tables:
    """Files that make one table.

    Args:
        path: What the user named, for messages.
        files: The files.
        text: Columns to read as text even where they look like numbers, such as the names of sets.
        needed: Columns that matter: others that not all files have are left out. None: all files must have the same columns.

    Attributes:
        files: The files.
        names: Names of the columns that all files have.
        left_out: Names of the columns that only some have.
        units: Units by column, where the files say.
        is_parquet: Whether they are Parquet rather than text.
    """

    def __init__(self, path: Path, files: Sequence[Path], text: Sequence[str] = (), needed: Sequence[str] | None = None) -> None:
        self.path, self.files = path, list(files)
        self.is_parquet = self.files[0].suffix.lower() in PARQUET
        self.units: dict[str, str] = {}
        with _arrow_errors(self.files[0], self._what):
            schema = self._schema(self.files[0])
            self.names: list[str] = list(schema.names)  # which may be no text
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            found = f"{listed(twice)} more than once" if any(twice) else "several without a name"
            fix = (
                "Name them, or remove delimiters at the end of lines. Names of columns must be in the first line of a text file."
            )
            fix = "" if any(twice) else fix
            raise DataError(self.files[0], expected="columns with different names", found=found, fix=fix)
        self._types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self._check_text(self.files[0], schema)
        if not self.is_parquet:
            self._types |= {name: require("pyarrow", "io").string() for name in text if name in self._types}
        for field in schema:
            if field.metadata and (unit := field.metadata.get(b"unit") or field.metadata.get(b"units")):
                self.units[field.name] = unit.decode("utf-8", "replace")
        self.left_out: list[str] = []
        if len(self.files) > 1:
            self._compare(needed)

    @property
    def _what(self) -> str:
        return "a Parquet file" if self.is_parquet else "a table of text (CSV or TSV)"

    def kind(self, name: str) -> str:
        """`number`, `text` or `other`: what a column holds."""
        types = require("pyarrow", "io").types
        dtype = self._types[name]
        if types.is_dictionary(dtype):
            dtype = dtype.value_type
        if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype) or types.is_boolean(dtype):
            return "number"
        if types.is_null(dtype):
            return "number"  # nothing but missing values
        is_text = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
        return "text" if is_text or types.is_temporal(dtype) else "other"

    def type_name(self, name: str) -> str:
        """The type of a column, as pyarrow calls it."""
        return shown(str(self._types[name]))

    def is_float(self, name: str) -> bool:
        """Whether a column holds numbers that need not be whole."""
        types = require("pyarrow", "io").types
        return bool(types.is_floating(self._types[name]) or types.is_decimal(self._types[name]))

    def may_be_codes(self, name: str) -> bool:
        """Whether a column of a text file was read as whole numbers, of which leading zeros are lost."""
        return not self.is_parquet and bool(require("pyarrow", "io").types.is_integer(self._types[name]))

    def widen(self, names: Iterable[str]) -> None:
        """Columns of text files whose first rows are whole numbers or nothing are read as numbers of any kind."""
        pa = require("pyarrow", "io")
        for name in () if self.is_parquet else names:
            if pa.types.is_integer(self._types[name]) or pa.types.is_null(self._types[name]):
                self._types[name] = pa.float64()

    def check_columns(self, names: Iterable[str], option: str) -> None:
        """Raises if there are no such columns, with the names that there are and the closest of them."""
        check_names(names, self.names, option, self.path)

    def batches(self, columns: Sequence[str], *, as_written: Sequence[str] = ()) -> Iterator[Batch]:
        """All rows, some at a time.

        Args:
            columns: Those to read.
            as_written: Of these, those of text files to read as text, whatever they hold.

        Raises:
            TypesChangedError: If a column of text files turns out to be of another type: begin again.
            DataError: If a file cannot be read.
        """
        total = sum(max(1, file.stat().st_size) for file in self.files)
        before = 0
        for file in self.files:
            size, row = file.stat().st_size, 1
            with _arrow_errors(file, self._what):
                for rows, fraction in self._stream(file, columns, as_written):
                    yield Batch(file, row, rows, min(1.0, (before + fraction * size) / total))
                    row += rows.num_rows
            before += size

    def _stream(self, file: Path, columns: Sequence[str], as_written: Sequence[str]) -> Iterator[tuple[Any, float]]:
        return self._stream_parquet(file, columns) if self.is_parquet else self._stream_text(file, columns, as_written)

    def _stream_parquet(self, file: Path, columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        # buffered: a row group may be as large as the file, and is not to be read whole
        open_file = require("pyarrow.parquet", "io").ParquetFile
        with open_file(file, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True) as parquet:
            done, total = 0, max(1, parquet.metadata.num_rows)
            for rows in parquet.iter_batches(max(1024, _NUMBERS // len(columns)), columns=list(columns)):
                done += rows.num_rows
                rows.validate(full=True)  # text may be none, and dictionaries may lack what is asked of them
                yield _with_plain_texts(rows), done / total

    def _stream_text(self, file: Path, columns: Sequence[str], as_written: Sequence[str]) -> Iterator[tuple[Any, float]]:
        pa = require("pyarrow", "io")
        types = {name: pa.string() if name in as_written else self._types[name] for name in columns}
        size = max(1, file.stat().st_size)
        with pa.OSFile(str(file)) as raw:
            try:
                reader, are_right = self._open_text(raw, file, types, columns), False
                for rows in reader:
                    if not are_right and _has_line_ends(rows):
                        _check_quotes(file, self._what)
                        are_right = True
                    yield rows, raw.tell() / size
            except pa.ArrowInvalid as error:
                self._learn(error, file)
                raise

    def _open_text(self, raw: Any, file: Path, types: dict[str, Any] | None, columns: Sequence[str] | None) -> Any:
        pa, arrow_csv = require("pyarrow", "io"), require("pyarrow.csv", "io")
        delimiter, decimal = _dialect(file)
        stream = pa.CompressedInputStream(raw, "gzip") if file.suffix.lower() == ".gz" else raw
        convert = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=columns,
            strings_can_be_null=True,
            decimal_point=decimal,
            null_values=[*arrow_csv.ConvertOptions().null_values, *_BLANK],
        )
        parse = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=file.stat().st_size < 4 * _BLOCK)  # costs speed
        return arrow_csv.open_csv(stream, arrow_csv.ReadOptions(block_size=_BLOCK), parse, convert)

    def _learn(self, error: Exception, file: Path) -> None:
        """A value that does not fit a column's type makes the type wider, if the column is one of several types."""
        pa = require("pyarrow", "io")
        found = re.search(r"In CSV column #(\d+):.*conversion error", str(error))
        name = self._schema(file).names[int(found[1])] if found else None
        if name not in self._types or pa.types.is_string(self._types[name]):
            return
        is_narrow = pa.types.is_integer(self._types[name]) or pa.types.is_null(self._types[name])
        value = re.search(r"invalid value '(.*)'", str(error))
        is_name = value is not None and _MANY_DIGITS.fullmatch(value[1])  # as a float it would be another one
        self._types[name] = pa.float64() if is_narrow and not is_name else pa.string()
        raise TypesChangedError from error

    def _schema(self, file: Path) -> Any:
        pa = require("pyarrow", "io")
        if self.is_parquet:
            return require("pyarrow.parquet", "io").read_schema(file)
        self._check_packing(file)
        with pa.OSFile(str(file)) as raw:
            reader = self._open_text(raw, file, None, None)
            schema, first = reader.schema, next(iter(reader), None)
        return schema if first is None else self._keep_digits(file, schema, first)

    def _keep_digits(self, file: Path, schema: Any, first: Any) -> Any:
        """The schema, where columns of whole numbers beyond int64 are text: as floats, names of twenty digits become one."""
        pa = require("pyarrow", "io")
        floats = [name for name, column in zip(schema.names, first.columns, strict=True) if pa.types.is_float64(column.type)]
        if len(set(schema.names)) < len(schema.names):  # which is told
            return schema
        large = [name for name in floats if (np.abs(first.column(name).to_numpy(zero_copy_only=False)) >= 2**53).any()]
        if not large:
            return schema
        with pa.OSFile(str(file)) as raw:
            written = next(iter(self._open_text(raw, file, dict.fromkeys(large, pa.string()), large)))
        for name in large:
            if all(value is None or _WHOLE.fullmatch(value) for value in written.column(name).to_pylist()):
                schema = schema.set(schema.names.index(name), pa.field(name, pa.string()))
        return schema

    def _check_packing(self, file: Path) -> None:
        """That a text file is packed if its name says so, and only then: pyarrow would speak of an empty or a damaged one."""
        with file.open("rb") as raw:
            begin = raw.read(16)
        is_packed, says_so = begin.startswith(_GZIP), file.suffix.lower() == ".gz"
        if is_packed and not says_so:
            found = "a file that is compressed with gzip"
            raise DataError(file, expected=self._what, found=found, fix=f"Rename it to {file.name + '.gz'!r}.")
        if packed := next((kind for kind, mark in _PACKED.items() if re.match(mark, begin)), None):
            fix = "Unpack it, or compress it with gzip instead."
            raise DataError(file, expected=self._what, found=f"a file that is compressed with {packed}", fix=fix)
        if begin.startswith(_ZIP):
            found = "a zip archive, as those of spreadsheets (.xlsx) are, too"
            raise DataError(file, expected=self._what, found=found, fix="Unpack it, or save the sheet as CSV.")
        if begin and says_so and not is_packed:
            fix = f"If it is a table, rename it to {file.stem!r}."
            raise DataError(file, expected=f"{self._what}, compressed with gzip", found="a file that is not compressed", fix=fix)

    def _check_text(self, file: Path, schema: Any) -> None:
        """Bytes that are no UTF-8 would make a column of neither numbers nor text, to be left out."""
        if not self.is_parquet and any(map(require("pyarrow", "io").types.is_binary, schema.types)):
            raise _encoding_error(file, self._what)

    def _compare(self, needed: Sequence[str] | None) -> None:
        """Looks at the columns of all files: those that all have stay, and a type that fits all of them is found."""
        columns = {self.files[0]: dict(self._types)}
        for file in self.files[1:]:
            with _arrow_errors(file, self._what):
                schema = self._schema(file)
                columns[file] = dict(zip(schema.names, schema.types, strict=True))
            self._check_text(file, schema)
        for name in dict.fromkeys(name for types in columns.values() for name in types):
            lacking = [file.name for file, types in columns.items() if name not in types]
            if lacking and (needed is None or name in needed):
                having = [file.name for file, types in columns.items() if name in types]
                raise self._differ(name, having, lacking, is_needed=needed is not None)
            if lacking:
                self.left_out.append(name)
        self.names = [name for name in self.names if name not in self.left_out]
        for types in list(columns.values())[1:]:
            for name in self.names:
                mine, was_number = self._types[name], self.kind(name) == "number"
                self._types[name] = types[name]
                if not was_number or self.kind(name) == "number":  # text in any part makes a column of text
                    self._types[name] = mine

    def _differ(self, name: str, having: Sequence[str], lacking: Sequence[str], *, is_needed: bool) -> DataError:
        """Names files of both kinds: which of them are the odd ones only their owner knows."""
        found = f"a column {name!r} in {listed(having, 3)}, and none in {listed(lacking, 3)}"
        fix = "Add it there, or put tables of another kind elsewhere."
        if not is_needed:
            fix = "Put tables of another kind elsewhere, or name columns that all files have with features=: others are left out."
        return DataError(self.path, expected="the same columns in all files of the folder", found=found, fix=fix)


def as_numbers(column: Any) -> NDArray[Any]:
    """(n,) an Arrow column of any kind of number: float32 as it is, else float64, NaN where missing."""
    pa = require("pyarrow", "io")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if not pa.types.is_float32(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


def check_names(asked: Iterable[str], names: Sequence[str], option: str, path: Path, *, what: str = "column") -> None:
    """Raises if names are not among those that there are. It names all of them, and what the first may have meant."""
    asked = list(asked)
    lacking = [name for name in asked if name not in names]
    if lacking:
        first = lacking[0]
        close = _closest(first, [name for name in names if name not in asked])  # those that were found are not meant by others
        fix = f"Did you mean {close[0]!r}?" if close else "Choose one of these." if len(lacking) == 1 else "Choose of these."
        expected = f"{what}s {listed([repr(name) for name in lacking], 10)}" if len(lacking) > 1 else f"a {what} {first!r}"
        raise WrongNameError(path, expected=f"{expected} ({option})", found=f"{what}s {listed(names, 30)}", fix=fix)


def _closest(asked: str, names: Sequence[str]) -> list[str]:
    """What a name may have been meant to be, the likeliest first: capitals count least, then spaces and punctuation."""
    for key in (str.casefold, name_key):
        if same := [name for name in names if key(name) == key(asked)]:
            return same
    keys = {name_key(name): name for name in reversed(names)}
    return [keys[key] for key in get_close_matches(name_key(asked), keys, n=1, cutoff=0.5)]


def name_key(name: str) -> str:
    """What the spellings of a name have in common: no capitals, spaces or punctuation."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name


@contextmanager
def _arrow_errors(path: Path, expected: str) -> Iterator[None]:
    """Turns whatever pyarrow raises about a file into a `DataError`."""
    pa = require("pyarrow", "io")
    with reading(path, expected):
        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if "Empty CSV" in str(error) and _has_text(path):
                fix = "Check the file: there must be a line with names of columns, and a line for each row."
                raise DataError(path, expected=expected, found="one line and no row below it", fix=fix) from error
            if "Empty CSV" in str(error) or (path.is_file() and not path.stat().st_size):
                raise DataError(path, expected=expected, found="an empty file", fix=_AGAIN) from error
            is_encoding = isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error) or _is_utf16(path)
            if is_encoding and path.suffix.lower() not in PARQUET:
                raise _encoding_error(path, expected) from error
            if ragged := re.search(r"Expected (\d+) columns, got (\d+): (.*)", str(error), re.DOTALL):
                raise _length_error(path, expected, *ragged.groups()) from error
            raise DataError(path, expected=expected, found=f"something else ({describe(error)})", fix=_AGAIN) from error


def _length_error(path: Path, expected: str, num_columns: str, num_values: str, row: str) -> DataError:
    """Says which row of a text file is too long or too short. pyarrow shows its beginning and not its line: it is looked for."""
    begin, where, above = next(iter(row.removesuffix(" ...").splitlines()), ""), "", ""
    with suppress(EOFError, OSError, zlib.error), _open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            above = above or text.removeprefix("\ufeff")
            if text == begin or (begin and begin != row and text.startswith(begin)):
                where = f" in line {number}"
                break
    found = f"{num_values}{where}: {begin[:60]}{'...' if len(begin) > 60 or begin != row else ''}"
    fix = "Correct that row: it lacks a value, or a value in it holds a separator and needs quotes."
    if where == " in line 2" and int(num_values) > int(num_columns):  # below sep=; of a spreadsheet, or a title
        fix = f"The first line must be the names of columns: remove {above[:60]!r} if it is none. {fix}"
    return DataError(path, expected=f"{expected} with {num_columns} values in every row", found=found, fix=fix)


def _with_plain_texts(rows: Any) -> Any:
    """The same rows; texts stored as views, of which pyarrow cannot take some, as others are."""
    pa = require("pyarrow", "io")
    views = [pa.types.is_string_view(column.type) for column in rows.columns]
    if not any(views):
        return rows
    columns = [column.cast(pa.string()) if is_view else column for column, is_view in zip(rows.columns, views, strict=True)]
    return pa.record_batch(columns, names=rows.schema.names)


def _has_line_ends(rows: Any) -> bool:
    """Whether a text among some rows goes over several lines."""
    pa, compute = require("pyarrow", "io"), require("pyarrow.compute", "io")
    texts = [column for column in rows.columns if pa.types.is_string(column.type)]
    return any(compute.any(compute.match_substring(column, "\n")).as_py() for column in texts)


def _check_quotes(path: Path, expected: str) -> None:
    """That quotes come in pairs. pyarrow takes all rows after one that is not closed, up to the next quote, for one text."""
    most = csv.field_size_limit(sys.maxsize)  # such a text may be as long as the file
    begin = 1
    try:
        # pyarrow tells of a damaged file, and of other encodings in columns that are read
        damage = suppress(EOFError, OSError, zlib.error)
        with damage, io.TextIOWrapper(_open_bytes(path), "utf-8-sig", "replace", newline="") as lines:
            reader = csv.reader(lines, delimiter=_dialect(path)[0], strict=True)
            for _ in reader:
                begin = reader.line_num + 1
    except csv.Error:
        found = f"one that is not closed, or stands within a text, in the row that begins in line {begin}"
        fix = "Close it, or write a quote that is part of a text twice, between quotes."
        raise DataError(path, expected=f"{expected} with quotes in pairs", found=found, fix=fix) from None
    finally:
        csv.field_size_limit(most)


def _has_text(path: Path) -> bool:
    with suppress(EOFError, OSError, zlib.error), _open_bytes(path) as file:
        return bool(file.read(2**16).removeprefix(b"\xef\xbb\xbf").strip())
    return False


def _is_utf16(path: Path) -> bool:
    with suppress(EOFError, OSError, zlib.error), _open_bytes(path) as file:
        return file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    return False


def _encoding_error(path: Path, expected: str) -> DataError:
    """Says where a file ceases to be UTF-8. It reads up to there."""
    found = "text in another encoding"
    with suppress(EOFError, OSError, zlib.error), _open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                found += f", first in line {number}"
                break
    return DataError(path, expected=f"{expected} in UTF-8", found=found, fix="Save it as UTF-8 ('CSV UTF-8' in a spreadsheet).")


def _open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _first_lines(file: Path) -> list[str]:
    with require("pyarrow", "io").input_stream(str(file), compression="gzip" if file.suffix.lower() == ".gz" else None) as stream:
        raw: bytes = stream.read(_LOOKED_AT)
    lines = raw.decode("utf-8-sig", "replace").splitlines()
    return lines[:-1] if len(raw) == _LOOKED_AT and len(lines) > 1 else lines  # the last one may be cut, within a number, too


def _dialect(file: Path) -> tuple[str, str]:
    """What separates columns (by the suffix, or what the header has most of), and the decimal point.

    1,702 may be a number between 1 and 2 or one of thousands: a comma is a decimal point where another number tells. The first
    lines with a number that tells decide: those before them may be whole numbers.
    """
    lines = _first_lines(file)
    header = lines[0] if lines else ""
    if re.search(r"\.tsv(\.gz)?$", file.name, re.I) or header.count("\t") > max(header.count(","), header.count(";")):
        delimiter = "\t"
    elif header.count(";") <= header.count(","):
        return ",", "."
    else:
        delimiter = ";"
    for start in range(1, len(lines), _LINES):
        told = [line for line in lines[start : start + _LINES] if _has_point(line)]
        cells = [cell.strip('"') for line in told for cell in line.split(delimiter) if _has_point(cell)]
        if any(re.fullmatch(r"-?\d+,\d+(e-?\d+)?", cell, re.I) and not _AMBIGUOUS.fullmatch(cell) for cell in cells):
            return delimiter, ","
        if any(re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", cell, re.I) for cell in cells):
            break
    return delimiter, "."


def _has_point(text: str) -> bool:
    return "," in text or "." in text


def decimal_of(file: Path) -> str:
    """The decimal point of a table: `.` or `,`."""
    return "." if file.suffix.lower() in PARQUET else _dialect(file)[1]


def first_text(column: Any, decimal: str = ".") -> tuple[int, str] | None:
    """Position and content of the first value of a text column that is no number."""
    for position, value in enumerate(column.cast(require("pyarrow", "io").string()).to_pylist()):
        if value is not None and not is_number(value, decimal):
            return position, value
    return None


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a text reads as a number with this decimal point."""
    if decimal != ".":
        text = text.translate({ord("."): decimal, ord(decimal): "."})
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_code(texts: Iterable[Any]) -> str | None:
    """A text such as 005, if these are whole numbers: a number has no zeros before it, so they are codes. None if it is none.

    Texts with a decimal point or a sign are amounts, however many zeros are before them, and one of them is enough.
    """
    found = None
    for text in texts:
        if text is not None and not (isinstance(text, str) and _CODE.fullmatch(text)):
            return None
        if found is None and text is not None and len(text.strip()) > 1 and text.strip().startswith("0"):
            found = text.strip()
    return found


def tell_codes(names: Sequence[str]) -> list[str]:
    """That columns are words, although they look like numbers to other programs."""
    return [f"taken for words, because whole numbers in them have leading zeros: {listed(names, 30)}."] if names else []


def separated_example(values: Iterable[Any], decimal: str = ".") -> str | None:
    """A text such as 1,410, if nearly all texts among the values are numbers, and some of them written like that."""
    texts = [value for value in values if isinstance(value, str)]
    odd = [text for text in texts if not is_number(text, decimal)]
    separated = [text for text in odd if has_separators(text)]
    return separated[0] if separated and len(odd) - len(separated) < 0.1 * len(texts) else None


def has_separators(text: str) -> bool:
    """Whether a text is a number with separators of thousands, or a decimal comma: 1,410 or 1.410,80 or 0,5."""
    return bool(_THOUSANDS.fullmatch(text.strip()) or _DECIMAL_COMMA.fullmatch(text.strip()))
