"""Errors about files: what they say, and that they travel between processes."""

import pickle
from pathlib import Path

import pytest

from orderless.io.errors import DataError, MissingDataError


def test_an_error_says_which_file_what_was_expected_and_what_to_do():
    error = DataError("a.h5", expected="three", found="two", fix="Get it again.")
    assert str(error) == "a.h5: expected three, found two. Get it again."
    assert error.path == Path("a.h5")


def test_an_error_without_a_fix_ends_with_what_was_found():
    assert str(DataError("a.h5", expected="three", found="two")) == "a.h5: expected three, found two."


def test_a_missing_file_is_a_data_error_and_a_value_error():
    assert issubclass(MissingDataError, DataError)
    assert issubclass(DataError, ValueError)


@pytest.mark.parametrize("kind", [DataError, MissingDataError])
def test_errors_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("a.h5", expected="three", found="two", fix="Get it again.")))
    assert type(error) is kind
    assert (error.path, error.expected, error.found, error.fix) == (Path("a.h5"), "three", "two", "Get it again.")
    assert str(error) == "a.h5: expected three, found two. Get it again."
