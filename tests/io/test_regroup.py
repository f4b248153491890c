"""Rows brought together on disk: `regroup.py`; columns known per set: `per_set.py`; the store of samples: `sample_store.py`."""

import numpy as np
import pyarrow as pa
import pytest

from orderless.io import regroup
from orderless.io.errors import DataError
from orderless.io.per_set import ConstantColumns, SetNumbers, natural_order, plain, text_of
from orderless.io.sample_store import as_arrow, as_column
from orderless.io.samples import Varies
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


def test_a_disk_that_is_full_within_the_last_rows_is_an_error(tmp_path):
    resource = pytest.importorskip("resource")
    regrouper = regroup.Regrouper(tmp_path / "scratch", np.array([3000, 0]), 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))  # 3,000 rows of 4 bytes take two whole pages and some more
    try:
        with pytest.raises(DataError, match="room and permission"):
            regrouper.add(np.zeros(3000, np.int64), np.ones((3000, 1), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_columns_that_vary_within_a_set_are_known_with_the_first_row_that_differs():
    numbers, columns = SetNumbers(), ConstantColumns(["same", "later", "gap"])
    batches = [
        {"set": ["a", "b", "a"], "same": [1, 2, 1], "later": ["x", "y", "x"], "gap": [None, 1.0, None]},
        {"set": ["b", "c"], "same": [2, 3], "later": ["z", "w"], "gap": [1.0, float("nan")]},
    ]
    for batch in batches:
        groups = numbers.number(pa.array(batch["set"]))
        for name in ("same", "later", "gap"):
            columns.see(name, pa.array(batch[name]), groups, first_row=1 if batch is batches[0] else 4)
    assert numbers.sizes.tolist() == [2, 2, 1]
    assert columns.values == {"same": {0: 1, 1: 2, 2: 3}, "gap": {0: None, 1: 1.0, 2: None}}
    assert columns.describe_varying(list(numbers.names), numbers.sizes) == {"later": Varies("set b ('y', and 'z' in row 4)")}


def follow(values, *, sizes, batch=1000, kind=None):
    """Slips of a column, given the values of each set."""
    numbers, columns = SetNumbers(), ConstantColumns(["x"])
    sets = [f"s{n}" for n, size in enumerate(sizes) for _ in range(size)]
    rows = [value for of_set in values for value in of_set]
    for start in range(0, len(sets), batch):
        groups = numbers.number(pa.array(sets[start : start + batch]))
        columns.see("x", pa.array(rows[start : start + batch], kind), groups, first_row=start + 1)
    return [slip.describe(list(numbers.names)) for slip in columns.slips("x", numbers.sizes)], columns


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize(
    ("usual", "slip", "said"),
    [
        ([0, 1], 7, "set s3 (1, and 7 in row 14)"),
        ([0.5, 1.5], 7.0, "set s3 (1.5, and 7.0 in row 14)"),
        ([0.5, 1.5], None, "set s3 (1.5, and nothing in row 14)"),
        (["a", "b"], "B", "set s3 ('b', and 'B' in row 14)"),
        ([False, True], False, "set s3 (True, and False in row 14)"),
        ([2**60 + 1, 2**60 + 2], 2**60 + 3, f"set s3 ({2**60 + 2}, and {2**60 + 3} in row 14)"),
    ],
    ids=["whole", "numbers", "a gap", "words", "bools", "large"],
)
def test_a_column_that_is_constant_within_nine_of_ten_sets_has_slips(usual, slip, said, batch):
    values = [[usual[n % 2]] * 4 for n in range(10)]
    assert follow(values, sizes=[4] * 10, batch=batch)[0] == [], "none"
    values[3][1] = slip
    assert follow(values, sizes=[4] * 10, batch=batch)[0] == [said]
    values[5][2] = slip
    assert follow(values, sizes=[4] * 10, batch=batch)[0] == [], "one of five sets"


def test_sets_of_one_row_do_not_make_a_column_constant():
    values = [[n % 2] * 4 for n in range(8)] + [[0]] * 50
    values[3][1] = 7
    assert follow(values, sizes=[4] * 8 + [1] * 50)[0] == []


def test_a_rare_feature_is_no_constant_with_slips():
    assert follow([[0, 0, 1, 0], *([[0] * 4] * 30)], sizes=[4] * 31)[0] == [], "0 in all other sets"
    values = [[0, 1]] * 5 + [[1, 1]] * 3 + [[0, 0]] * 92
    assert follow(values, sizes=[2] * 100)[0] == [], "more often mixed than all 1"
    assert len(follow([*values, *([[1, 1]] * 2)], sizes=[2] * 102)[0]) == 5


def test_a_column_that_varies_within_most_sets_is_not_followed_to_the_end():
    columns = follow(np.random.default_rng(0).normal(size=(30, 4)).tolist(), sizes=[4] * 30, batch=40)[1]
    assert columns.followed == []
    assert list(columns.varying["x"]) == [0]


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
    assert [text_of(value) for value in (1.0, 1.5, 2, "03")] == ["1", "1.5", "2", "03"]
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
