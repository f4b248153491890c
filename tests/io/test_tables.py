"""Tables of text and Parquet as files: dialects, and what is no table."""

import bz2
import gzip
import lzma
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderless.io.errors import DataError
from orderless.io.tables import Tables, TypesChangedError, check_names, is_number, separated_example


def read(path, **options):
    tables = Tables(path, [path], **options)
    batches = list(tables.batches(tables.names))
    return {name: [value for batch in batches for value in batch.rows.column(name).to_pylist()] for name in tables.names}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.csv", "a,b\n1,x\n", {"a": [1], "b": ["x"]}),
        ("t.tsv", "a\tb\n1\tx, y\n", {"a": [1], "b": ["x, y"]}),
        ("T.TSV", "a\tb\n1\tx, y, z\n", {"a": [1], "b": ["x, y, z"]}),
        ("t.csv", "a\tb\tc,d\n1\tx\ty\n", {"a": [1], "b": ["x"], "c,d": ["y"]}),
        ("t.csv", "a;b\n1,5;2\n", {"a": [1.5], "b": [2]}),
        ("t.csv", "a;b\n1.5;2\n", {"a": [1.5], "b": [2]}),
        ("t.csv", "\ufeffa,b\r\n1,2\r\n", {"a": [1], "b": [2]}),
        ("t.csv", 'a,b\n1,"two\nlines"\n', {"a": [1], "b": ["two\nlines"]}),
        ("t.csv", "BZh9,b\n1,2\n", {"BZh9": [1], "b": [2]}),
    ],
    ids=[
        "commas",
        "tabs",
        "capitals",
        "more tabs",
        "decimal commas",
        "semicolons",
        "byte order mark",
        "line breaks",
        "nearly bzip2",
    ],
)
def test_dialects_are_told_from_the_file(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert read(tmp_path / name) == expected


def test_a_page_of_parquet_that_is_not_what_its_checksum_says_is_an_error(tmp_path):
    path, numbers = tmp_path / "t.parquet", np.linspace(1, 2, 100)
    pq.write_table(pa.table({"a": numbers}), path, compression="none", use_dictionary=False, write_page_checksum=True)
    assert read(path) == {"a": numbers.tolist()}
    content = path.read_bytes()
    path.write_bytes(content.replace(numbers[50].tobytes(), numbers[51].tobytes(), 1))
    with pytest.raises(DataError, match=r"t\.parquet: expected a Parquet file.*CRC"):
        read(path)


def test_decimal_commas_are_told_however_late_they_come(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "0;1\n" * 50 + "1,5;1,702\n")
    assert read(path) == {"a": [0.0] * 50 + [1.5], "b": [1.0] * 50 + [1.702]}
    names = [f"a column with a name of some length {i}" for i in range(3000)]  # the header alone is 100 kB
    path.write_text(";".join(names) + "\n" + ";".join(["0,5"] * 3000) + "\n")
    assert read(path) == {key: [0.5] for key in names}
    # where a number with a point came first, it is a text that has a comma
    path.write_text("a;b\n" + "0.5;x\n" * 50 + "0.5;1,5\n")
    assert read(path) == {"a": [0.5] * 51, "b": ["x"] * 50 + ["1,5"]}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\x00\xff\xfe" * 9, b"PAR1", gzip.compress(b"a,b\n1,2\n", mtime=0)[:15]], ids=repr
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: expected") as raised:
        read(tmp_path / name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(DataError, match=r"expected a .*, found an empty file\. Check the file"):
        read(tmp_path / name)


@pytest.mark.parametrize("text", ["a,b,c", "<!DOCTYPE html><html><body>Not found</body></html>"], ids=["header", "web page"])
def test_a_file_of_one_line_is_not_said_to_be_empty(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=r"found one line and no row below it\. Check the file: there must be"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_packed_file_under_the_name_of_a_plain_one_is_told(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(DataError, match=rf"found a file that is compressed with gzip\. Rename it to '{name}\.gz'\."):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(DataError, match=r"found a zip archive, as those of spreadsheets \(\.xlsx\) are, too\. Unpack it"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    ("kind", "content"),
    [("bzip2", bz2.compress(b"a,b\n1,2\n")), ("xz", lzma.compress(b"a,b\n1,2\n")), ("zstd", b"\x28\xb5\x2f\xfd" + bytes(30))],
)
def test_a_file_that_is_packed_in_another_way_is_told(tmp_path, name, kind, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"found a file that is compressed with {kind}\. Unpack it, or compress it with gzip"):
        read(tmp_path / name)


def test_a_plain_file_under_the_name_of_a_packed_one_is_told(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"with gzip, found a file that is not compressed\. .* rename it to 't\.csv'\."):
        read(tmp_path / "t.csv.gz")


def test_columns_without_a_name_are_said_to_be_that(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,,\n1,2,,\n")
    with pytest.raises(DataError, match=r"found several without a name\. Name them, or remove delimiters at the end of lines\."):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("name,a\nRené,1\n".encode("latin-1"), 2),
        ("naïve,a\nRené,1\n".encode("latin-1"), 1),
        ("name,a\nRené,1\n".encode("utf-16"), 1),
    ],
    ids=["a cell", "the header", "UTF-16"],
)
@pytest.mark.parametrize("options", [{}, {"text": ["name"]}], ids=["by itself", "as text"])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
def test_another_encoding_is_told_with_its_line(tmp_path, content, line, options, is_packed):
    path = tmp_path / ("t.csv.gz" if is_packed else "t.csv")
    path.write_bytes(gzip.compress(content) if is_packed else content)
    with pytest.raises(DataError, match=rf"in UTF-8, found text in another encoding, first in line {line}\. Save it as UTF-8"):
        read(path, **options)


@pytest.mark.parametrize(
    ("asked", "names", "meant"),
    [
        ("CD16", ("CD3", "cd16"), "cd16"),
        ("CD16", ("CD-16", "CD3", "cd16"), "cd16"),
        ("HLA-DR", ("HLA-DQ", "hla dr"), "hla dr"),
        ("sample_id", ("sample_ix", "SampleID"), "SampleID"),
        ("smaple", ("a", "Sample"), "Sample"),
    ],
)
def test_the_name_that_was_meant_is_suggested(tmp_path, asked, names, meant):
    with pytest.raises(DataError, match=f"Did you mean {meant!r}"):
        check_names([asked], names, "features=", tmp_path)


@pytest.mark.parametrize("above", ["sep=;", "Export; plate 1"], ids=["a spreadsheet's", "a title"])
def test_a_line_above_the_names_of_columns_is_told(tmp_path, above):
    (tmp_path / "t.csv").write_text(f"\ufeff{above}\ns;a;b\n1;2;3\n")
    with pytest.raises(DataError, match=f"in line 2: s;a;b. The first line must be the names of columns: remove '{above}' if"):
        read(tmp_path / "t.csv")


def test_rows_of_another_length_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError, match=r"with 2 values in every row, found 1 in line 3: 3\. Correct that row"):
        read(tmp_path / "t.csv")


def test_a_row_of_spaces_is_found_where_it_is(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n   \n5,6\n")
    with pytest.raises(DataError, match=r"with 2 values in every row, found 1 in line 4: "):
        read(tmp_path / "t.csv")


def test_a_long_row_of_another_length_is_found_by_its_beginning(tmp_path):
    long = ",".join(["12345678"] * 40)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"a,b\n1,2\n3,4\n{long}\n".encode()))
    with pytest.raises(DataError, match=r"found 40 in line 4: (12345678,)+\d+\.\.\.\. Correct that row"):
        read(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ('1,x\n2,"5 inch\n3,y\n4,z\n', 3),
        ('1,x\n2,"5 inch\n3,y\n4,"6 inch\n5,z\n', 3),
        ('1,"two\nlines"\n2,"5 inch\n' + "3,y\n" * 50_000, 4),
    ],
    ids=["to the end", "to the next quote", "many rows"],
)
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_rows_are_not_swallowed_by_a_quote_that_is_not_closed(tmp_path, rows, line, is_packed):
    path = tmp_path / ("t.csv.gz" if is_packed else "t.csv")
    content = f"n,note\n{rows}".encode()
    path.write_bytes(gzip.compress(content) if is_packed else content)
    with pytest.raises(
        DataError, match=rf"with quotes in pairs, found one that is not closed.* begins in line {line}\. Close it"
    ):
        read(path)


def test_a_packed_file_that_is_cut_is_told_where_texts_go_over_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 64)
    rows = b'n,note\n1,"two\nlines"\n' + b"".join(b"2,%d\n" % n for n in range(10**5))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(rows, mtime=0)[:-20])
    with pytest.raises(DataError, match="found something else"):
        read(tmp_path / "t.csv.gz")


def test_quotes_within_texts_are_put_up_with_where_no_row_is_lost(tmp_path):
    (tmp_path / "t.csv").write_text('n,note\n1,"two ""quoted""\nlines"\n2,5" wide\n')
    assert read(tmp_path / "t.csv") == {"n": [1, 2], "note": ['two "quoted"\nlines', '5" wide']}


def test_how_much_is_done_grows_to_all(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 64)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 100)
    done = [batch.done for batch in Tables(tmp_path, [tmp_path / "t.csv"]).batches(["a"])]
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert len(done) > 1


def test_first_rows_are_counted_within_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 16)
    (tmp_path / "t.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(100, 130)))
    for batch in Tables(tmp_path, [tmp_path / "t.csv"]).batches(["a"]):
        np.testing.assert_array_equal(batch.numbers("a"), np.arange(batch.rows.num_rows) + 99 + batch.first_row)


def test_texts_that_are_numbers_are_known():
    assert [is_number(text) for text in ("1", "-1e5", "nan", "x", "")] == [True, True, True, False, False]


def test_decimal_commas_are_numbers_where_the_table_has_them():
    assert [is_number(text, ",") for text in ("1,5", "-1,5e5", "1.410,80", "1.5")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("values", "decimal", "example"),
    [
        (["950", "1,007", "2,400,000.5"], ".", "1,007"),
        (["950,5", "1.410,80"], ",", "1.410,80"),
        (["2", "0,5"], ".", "0,5"),
        (["1 410", "3"], ".", "1 410"),
        (["2", "x1", "1,007"], ".", None),
        (["1", "2.5", None], ".", None),
        (["2020.01.02", "1,2,3"], ".", None),
    ],
)
def test_separators_in_numbers_are_found(values, decimal, example):
    assert separated_example(values, decimal) == example


def test_a_value_that_does_not_fit_is_found_in_a_table_of_any_width(tmp_path, monkeypatch):
    """A header of 100 KiB, and a quoted line break in it."""
    monkeypatch.setattr("orderless.io.tables._BLOCK", 2**18)
    header = ['"a\nb"', *(f"ENSG{n:011d}" for n in range(6000)), "last"]
    rows = [",".join(["1"] * 6002)] * 40 + [",".join(["1"] * 6001 + ["0.5"])]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(header), *rows]) + "\n")
    tables = Tables(tmp_path, [tmp_path / "wide.csv"])
    with pytest.raises(TypesChangedError):
        list(tables.batches(["last"]))
    assert [x for batch in tables.batches(["last"]) for x in batch.numbers("last").tolist()] == [1.0] * 40 + [0.5]


NAMES = ["27600000000000000100", "27600000000000000101", "7"]


@pytest.mark.parametrize("rows_before", [0, 50], ids=["at once", "later"])
def test_names_of_twenty_digits_keep_all_of_them(tmp_path, monkeypatch, rows_before):
    monkeypatch.setattr("orderless.io.tables._BLOCK", 256)
    rows = [f"{n},{n}.5" for n in range(rows_before)] + [f"{name},1e20" for name in NAMES]
    (tmp_path / "t.csv").write_text("\n".join(["who,x", *rows]) + "\n")
    tables = Tables(tmp_path, [tmp_path / "t.csv"])
    with suppress(TypesChangedError):
        list(tables.batches(["who", "x"]))
    read = list(tables.batches(["who", "x"]))
    assert [who for batch in read for who in batch.rows.column("who").to_pylist()][-3:] == NAMES
    assert [x for batch in read for x in batch.numbers("x").tolist()][-3:] == [1e20] * 3  # an amount


def test_a_column_that_is_there_twice_is_told_whatever_it_holds(tmp_path):
    (tmp_path / "t.csv").write_text("who,who\n" + "27600000000000000100,1\n" * 3)
    with pytest.raises(DataError, match="expected columns with different names, found who more than once"):
        Tables(tmp_path, [tmp_path / "t.csv"])
