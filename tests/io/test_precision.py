"""A feature whose digits do not fit into float32 is named (`precision.py`)."""

import numpy as np
import pytest

from orderless.io import open_samples
from orderless.io.precision import LostDigits

RNG = np.random.default_rng(0)


def find(*blocks):
    digits = LostDigits(["good", "x"])
    for values in blocks:
        values = np.asarray(values)
        digits.see(np.stack([RNG.normal(size=len(values)).astype(values.dtype), values], axis=1))
    return digits.notes()


@pytest.mark.parametrize(
    "values",
    [
        1e8 + np.arange(4),
        1.6e9 + RNG.integers(0, 100_000, 50_000),
        -1e12 + RNG.normal(size=100),
        np.array([1e8, 1e8 + 1, np.nan, 1e8 + 2, 1e8 + 3]),
    ],
    ids=["few", "seconds", "negative", "with a gap"],
)
def test_numbers_that_become_one_are_told(values):
    (note,) = find([0.5, 1.5], values, values)
    assert note.startswith("feature 'x' loses digits: numbers are stored as float32, in which ")


def test_the_example_is_two_numbers_that_differ():
    assert "in which 100000000 and 100000001 are the same" in find(1e8 + np.arange(4))[0]


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=100_000),
        RNG.integers(0, 2**24, 1000).astype(np.float64),
        np.full(50, 1e8 + 1),
        (1e8 + np.arange(4)).astype(np.float32),
        RNG.integers(0, 3, 1000),
        RNG.integers(0, 2, 1000).astype(bool),
        np.array([0, np.inf, 1e300, np.nan]),
        np.full(3, np.nan),
        np.empty(0),
    ],
    ids=["measured", "whole", "constant", "float32 already", "small", "bool", "infinite", "missing", "empty"],
)
def test_other_numbers_are_no_news(values):
    assert find(values) == []


def test_files_tell_it(tmp_path):
    rows = "".join(f"s{i % 2},{i * 0.1},{100_000_000 + i}\n" for i in range(4))
    (tmp_path / "t.csv").write_text(f"sample,a,stamp\n{rows}")
    samples = open_samples(tmp_path / "t.csv", set_id="sample", cache_dir=tmp_path / "cache")
    assert [note for note in samples.notes if "loses digits" in note and "'stamp'" in note]
