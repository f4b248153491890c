"""What all readers share."""

import pytest

from orderless.io.errors import DataError, MissingDataError
from orderless.io.reading import describe, read_lines, reading, shown


def test_a_missing_file_is_told_apart_from_one_that_cannot_be_read(tmp_path):
    with pytest.raises(MissingDataError, match="no such file"), reading(tmp_path / "a", "a list"):
        (tmp_path / "a").read_bytes()
    with pytest.raises(DataError, match="cannot be read") as caught, reading(tmp_path, "a list"):
        tmp_path.read_bytes()
    assert not isinstance(caught.value, MissingDataError)


def test_lines_end_with_a_line_feed_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0bstill two\x1c\n\nfour\n\n \n")
    assert read_lines(tmp_path / "a", "a list") == ["one", "two\x0bstill two\x1c", "", "four"]


def test_bytes_that_are_no_text_are_an_error_that_says_where(tmp_path):
    (tmp_path / "a").write_bytes(b"abc\xff")
    with pytest.raises(DataError, match="no text, at 3"):
        read_lines(tmp_path / "a", "a list")


def test_descriptions_are_one_line_of_bounded_length():
    assert describe(ValueError("a\nb")) == "ValueError: a b"
    assert describe(ValueError()) == "ValueError"
    assert describe(FileNotFoundError(2, "No such file", "x")) == "FileNotFoundError: No such file"
    assert len(describe(ValueError("a" * 1000))) < 250
    assert shown("a\n" * 100) == repr(("a\n" * 100)[:40] + "...")
