"""Rows brought together on disk: `regroup.py`; columns known per set: `per_set.py`; the store of samples: `sample_store.py`."""

import numpy as np
import pyarrow as pa
import pytest

from orderless.io import regroup
from orderless.io.per_set import ConstantColumns, SetNumbers, natural_order, plain, set_name
from orderless.io.sample_store import as_arrow, as_column
from orderless.io.store import open_or_build


def test_buckets_hold_runs_of_sets_and_a_large_set_is_alone():
    assert regroup._deal(np.array([3, 3, 3, 20, 1, 0, 0, 9]), 9) == [0, 3, 4, 7, 8]
    assert regroup._deal(np.array([20]), 9) == [0, 1]
    assert regroup._deal(np.array([0, 0]), 9) == [0, 2]


@pytest.mark.parametrize("bucket_bytes", [1, 200, 2**26], ids=["one set each", "some", "one bucket"])
def test_rows_find_their_sets_in_their_order(tmp_path, monkeypatch, bucket_bytes):
    monkeypatch.setattr(regroup, "BUCKET_BYTES", bucket_bytes)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, 300)
    codes[codes == 4] = 5  # a set without a row
    rows = rng.normal(size=(300, 2)).astype(np.float32)

    def build(writer):
        regrouper = regroup.Regrouper(writer.folder / "scratch", np.bincount(codes, minlength=9), 2)
        for start in range(0, 300, 37):
            regrouper.add(codes[start : start + 37], rows[start : start + 37])
        regrouper.add(codes[:0], rows[:0])
        regrouper.write(writer, "all", {"number": np.arange(9)})
        assert not list((writer.folder / "scratch").iterdir())
        return {}

    sets = open_or_build(tmp_path / "store", build, key={}, element_shape=(2,))["all"]
    assert sets.columns["number"].tolist() == list(range(9))
    for code in range(9):
        np.testing.assert_array_equal(sets.gather([code]), rows[codes == code])


def test_columns_are_followed_until_they_vary_within_a_set():
    numbers, columns = SetNumbers(), ConstantColumns(["same", "later", "gap"])
    batches = [
        {"set": ["a", "b", "a"], "same": [1, 2, 1], "later": ["x", "y", "x"], "gap": [None, 1.0, None]},
        {"set": ["b", "c"], "same": [2, 3], "later": ["z", "w"], "gap": [1.0, float("nan")]},
    ]
    for batch in batches:
        groups = numbers.number(pa.array(batch["set"]))
        for name in ("same", "later", "gap"):
            columns.see(name, pa.array(batch[name]), groups)
    assert numbers.sizes.tolist() == [2, 2, 1]
    assert columns.varying == {"later"}
    assert columns.values == {"same": {0: 1, 1: 2, 2: 3}, "gap": {0: None, 1: 1.0, 2: None}}


def test_names_that_no_row_has_make_no_set():
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "unused"]))
    numbers = SetNumbers()
    groups = numbers.number(coded)
    assert list(numbers.names) == ["a"]
    assert numbers.sizes.tolist() == [2]
    columns = ConstantColumns(["x"])
    columns.see("x", pa.array([5, 5]), groups)
    assert columns.values == {"x": {0: 5}}


def test_names_are_ordered_as_a_person_would():
    names = ["s10", "s2", "S1", "s2b", "s", "s2a", "s02", "s" + "9" * 5000]
    assert [names[i] for i in natural_order(names)][:-1] == ["S1", "s", "s02", "s2", "s2a", "s2b", "s10"]
    numbers = ["10", "-1", "9.5"]
    assert [numbers[i] for i in natural_order(numbers)] == ["-1", "9.5", "10"]
    assert [set_name(value) for value in (1.0, 1.5, 2, "03")] == ["1", "1.5", "2", "03"]
    assert plain(float("nan")) is None


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], np.int64, [1, 2]),
        ([True, False], np.bool_, [True, False]),
        ([1, 2.5], np.float64, [1, 2.5]),
        (["a", None], object, ["a", None]),
        (["a", 1], object, ["a", "1"]),
        ([None, None], object, [None, None]),
        ([2**70, 1], np.float64, [2.0**70, 1]),
        ([2**53 + 1, 1.5], object, ["9007199254740993", "1.5"]),
        ([2**60 + 1, None, 2**60 + 3], object, [str(2**60 + 1), None, str(2**60 + 3)]),
        ([2**70 + 1, 10**400], object, [str(2**70 + 1), str(10**400)]),
        ([True, None, False], object, ["True", None, "False"]),
    ],
    ids=[
        "whole",
        "bool",
        "numbers",
        "text",
        "mixed",
        "nothing",
        "too large",
        "inexact",
        "inexact with a gap",
        "far too large",
        "bool with a gap",
    ],
)
def test_values_of_sets_keep_their_kind(values, kind, expected):
    column = as_column(values)
    assert column.dtype == kind
    assert column.tolist() == expected
    assert as_arrow(values).to_numpy(zero_copy_only=False).tolist() == expected
