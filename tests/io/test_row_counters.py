"""Columns that number rows are known from those that only look like it (`row_counters.py`)."""

import numpy as np
import pyarrow as pa
import pytest

from orderless.io.per_set import SetNumbers
from orderless.io.row_counters import RowCounters

SORTED = ["a"] * 6 + ["b"] * 12 + ["c"]
MIXED = [SORTED[i] for i in np.random.default_rng(0).permutation(19)]


def count_in_sets(sets):
    return [sets[:i].count(name) for i, name in enumerate(sets)]


def is_found(values, sets, *, batch=19, file=19, name="x"):
    numbers, counters = SetNumbers(), RowCounters([name])
    for start in range(0, len(sets), batch):
        groups = numbers.number(pa.array(sets[start : start + batch]))
        part = np.array(values[start : start + batch])
        counters.see(lambda name, part=part: part, groups, numbers.sizes, is_new_file=start % file == 0)
    return name in counters.found(numbers.sizes)


@pytest.mark.parametrize("batch", [1, 4, 19])
@pytest.mark.parametrize("sets", [SORTED, MIXED], ids=["sorted", "mixed"])
@pytest.mark.parametrize("start", [0, 1, -3, 1000])
def test_an_index_is_found_whatever_its_start(sets, start, batch):
    assert is_found(np.arange(19) + start, sets, batch=batch)
    assert is_found(np.arange(19.0) + start, sets, batch=batch)
    assert is_found(np.array(count_in_sets(sets)) + start, sets, batch=batch)


def test_an_index_may_begin_again_with_a_file():
    assert is_found([*range(8), *range(8), *range(3)], MIXED, batch=4, file=8)
    assert not is_found([*range(7), *range(7), *range(5)], MIXED, batch=4, file=8)


@pytest.mark.parametrize("batch", [1, 4, 19])
@pytest.mark.parametrize(
    "values", [[*range(18), 19], np.arange(19) * 2, np.arange(19.0) ** 3 - 7], ids=["one", "many", "growing"]
)
def test_an_index_may_have_gaps(values, batch):
    assert is_found(values, SORTED, batch=batch)
    assert is_found(values, MIXED, batch=batch)


def test_an_index_with_gaps_may_begin_anew_with_a_file():
    values = [3, 5, 6, 7, 9, 10, 12, 15, 18, 19, 20, 21, 1, 2, 4, 7, 9, 11, 14]
    assert is_found(values, SORTED, batch=4, file=12)
    assert not is_found(values, SORTED, batch=4)
    assert not is_found([*values[:6], *values[:6], *values[:6], 3], SORTED, batch=2, file=6), (
        "by accident, in files of a few rows"
    )


@pytest.mark.parametrize("name", ["Unnamed: 0", "index", "Index", "level_0", "row_id", "RowNumber"])
def test_whole_numbers_under_the_name_of_an_index_are_one_in_any_order(name):
    order = np.random.default_rng(0).permutation(19)
    assert is_found(order, SORTED, name=name)
    assert not is_found(order + 0.5, SORTED, name=name)
    assert not is_found(order, SORTED, name="index_of_refraction")


@pytest.mark.parametrize("batch", [1, 4, 19])
@pytest.mark.parametrize(
    "values",
    [
        [*range(18), 16],
        [*range(18), 17],
        [*range(18), np.nan],
        [*range(18), np.inf],
        np.arange(19) + 0.5,
        np.arange(19)[::-1],
        [0] * 19,
        np.array(count_in_sets(SORTED)) + np.repeat([0, 1], [6, 13]),
        [np.nan] * 19,
    ],
    ids=["a slip", "twice", "nothing at the end", "infinite", "halves", "backwards", "constant", "other starts", "nothing"],
)
def test_other_numbers_are_no_index(values, batch):
    assert not is_found(values, SORTED, batch=batch)


def test_few_rows_may_be_numbers_by_accident():
    assert not is_found([1, 2, 3], ["a", "a", "b"])
    assert not is_found([0, 1] * 8, [name for name in "abcdefgh" for _ in range(2)])  # left and right, say


@pytest.mark.parametrize("batch", [3, 7, 30])
@pytest.mark.parametrize("order", ["shuffled", "in parts"])
def test_an_index_of_rows_that_were_sorted_by_set_is_found_in_any_order(order, batch):
    sets = np.repeat([*"abcde"], 6)
    places = np.random.default_rng(1).permutation(30) if order == "shuffled" else np.argsort(sets[::-1], kind="stable")
    index = np.arange(30) * 2 + 100  # every second row was left out
    assert is_found(index[places], sets[places].tolist(), batch=batch)


def test_numbers_that_merely_differ_from_set_to_set_are_no_index():
    sets = np.repeat([*"abcde"], 6)
    order = np.random.default_rng(1).permutation(30)
    level = np.repeat([10, 20, 30, 40, 50], 6) + np.tile([0, 1, 2, 0, 1, 2], 5)  # repeats itself within sets
    assert not is_found(level[order], sets[order].tolist())
    assert not is_found((np.arange(30) + 0.5)[order], sets[order].tolist())
    few = np.repeat([*"abcd"], 6)
    order = np.random.default_rng(1).permutation(24)
    assert not is_found(np.arange(24)[order], few[order].tolist()), "of four sets it may be chance"


LARGE = {"near 2**60": (2**60, np.int64), "at the end of int64": (2**63 - 20, np.int64), "beyond int64": (2**63 + 5, np.uint64)}


@pytest.mark.parametrize(("start", "dtype"), LARGE.values(), ids=LARGE.keys())
def test_large_whole_numbers_are_an_index_if_they_count_and_none_if_they_are_alike_as_floats_alone(start, dtype):
    def large(offsets):
        return np.array([start + int(offset) for offset in offsets], dtype=dtype)

    assert is_found(large(range(19)), MIXED, batch=4)
    assert is_found(large(count_in_sets(SORTED)), SORTED, batch=4)
    assert is_found(large([*range(18), 19]), MIXED, batch=4), "it goes up"
    assert not is_found(large(np.random.default_rng(0).integers(0, 19, 19)), MIXED, batch=4)
    assert not is_found(large([0, 1, 2, 1, *range(4, 19)]), MIXED, batch=19)


def test_floats_that_are_too_large_to_count_do_not():
    assert not is_found(2.0**60 + np.arange(19), MIXED)
    assert not is_found(np.full(19, 2.0**60), MIXED)


def test_ranges_of_large_whole_numbers_are_told_exactly():
    names = np.repeat([f"s{i}" for i in range(8)], 5)
    within = np.tile(np.random.default_rng(0).permutation(5), 8)
    apart = 2**60 + np.repeat(np.arange(8)[::-1] * 10, 5) + within
    assert is_found(apart, list(names), batch=7, file=40)
    assert not is_found(apart - within + within // 2, list(names), batch=7, file=40), "too narrow for their rows"
    assert not is_found(apart - (np.arange(40) == 0) * 10, list(names), batch=7, file=40), "one is in the range of another"
