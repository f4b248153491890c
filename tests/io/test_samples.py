"""Named sets, in memory and chosen from others: `samples.py`, `memory_sets.py`."""

import numpy as np
import pytest

from orderless.io import MemorySets, Samples
from orderless.io.samples import by_set_name, listed

SETS = [np.arange(6.0).reshape(3, 2), np.empty((0, 2)), np.arange(8.0, 12.0).reshape(2, 2)]


def make_samples():
    return Samples(MemorySets(SETS), ("a", "b", "c"), ("x", "y"), columns={"age": np.array([1, 2, 3])})


def test_sets_in_memory_speak_as_stored_ones_do():
    sets = MemorySets(SETS, columns={"age": np.array([1, 2, 3])})
    assert len(sets) == 3
    assert sets.sizes.tolist() == [3, 0, 2]
    assert sets.element_shape == (2,)
    np.testing.assert_array_equal(sets.gather([2, 0, 1]), np.concatenate([SETS[2], SETS[0]]))
    assert sets.gather([]).shape == (0, 2)
    assert [block.tolist() for block in sets.blocks(0, 2)] == [SETS[0][:2].tolist(), SETS[0][2:].tolist()]
    np.testing.assert_array_equal(sets.take(0, [2, 2, 0]), SETS[0][[2, 2, 0]])


def test_what_is_given_out_is_a_copy():
    sets = MemorySets([np.zeros((2, 1), np.float32)])
    for copy in (sets.gather([0]), next(sets.blocks(0)), sets.take(0, [0])):
        copy += 1
    assert not sets.gather([0]).any()


@pytest.mark.parametrize(
    ("sets", "options", "message"),
    [
        ([np.zeros((1, 2)), np.zeros((1, 3))], {}, r"the same D, got \(n, 2\) and \(n, 3\)"),
        ([np.zeros(3)], {}, r"arrays \(n, D\)"),
        ([], {}, "got no set and no num_features"),
        ([np.zeros((1, 2))], {"num_features": 3}, r"got \(n, 2\) and \(n, 3\)"),
        ([np.zeros((1, 2))], {"columns": {"age": np.zeros(2)}}, "column 'age' must have 1 values, got 2"),
    ],
    ids=["widths", "flat", "none", "stated", "column"],
)
def test_sets_that_do_not_fit_together_are_refused(sets, options, message):
    with pytest.raises(ValueError, match=message):
        MemorySets(sets, **options)
    assert MemorySets([], num_features=4).gather([]).shape == (0, 4)


def test_sets_without_elements_are_known_by_name_also_in_a_choice():
    samples = make_samples()
    assert samples.empty == ("b",)
    assert samples.select([2, 1]).empty == ("b",)
    assert samples.select([0, 2]).empty == ()
    assert repr(samples.select([0])) == "Samples(1 set, 3 elements, features x, y)"


def test_a_choice_keeps_the_order_asked_for_and_does_not_pile_up():
    chosen = make_samples().select([2, 0, 1]).select([1, 0])
    assert chosen.ids == ("a", "c")
    assert chosen.sizes.tolist() == [3, 2]
    assert chosen.columns["age"].tolist() == [1, 3]
    assert isinstance(chosen.sets.whole, MemorySets)
    np.testing.assert_array_equal(chosen[1], SETS[2])
    np.testing.assert_array_equal(chosen.sets.gather([1, 0]), np.concatenate([SETS[2], SETS[0]]))
    np.testing.assert_array_equal(next(chosen.sets.blocks(1)), SETS[2])
    np.testing.assert_array_equal(chosen.sets.take(1, [1]), SETS[2][[1]])


def test_one_set_is_asked_for_by_number():
    samples = make_samples()
    np.testing.assert_array_equal(samples[-1], SETS[2])
    with pytest.raises(IndexError):
        samples[3]
    assert samples.units == ("", "")
    assert repr(samples) == "Samples(3 sets, 1 of them empty, 5 elements, features x, y)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ("a", "b")}, "ids must have one value for each of 3 sets, got 2"),
        ({"ids": ("a", "b", "a")}, "ids must be unique, got a more than once"),
        ({"features": ("x",)}, "features must name each of"),
        ({"features": ("x", "x")}, "features must be unique"),
        ({"columns": {"age": np.zeros(1)}}, "column 'age' must have one value for each of 3 sets, got 1"),
    ],
    ids=["ids", "twice", "features", "same features", "column"],
)
def test_names_must_fit_the_sets(changes, message):
    with pytest.raises(ValueError, match=message):
        Samples(**{"sets": MemorySets(SETS), "ids": ("a", "b", "c"), "features": ("x", "y"), **changes})


def test_long_lists_are_cut():
    assert listed(["a" * 100, "b\nc", *range(10)], 2) == "a" * 60 + "..., 'b\\nc' and 10 more"
    assert listed(["Ill", "Ill ", "a b"]) == "Ill, 'Ill ', a b", "what cannot be seen is quoted"


def test_values_with_names_of_sets_are_put_in_their_order():
    import pandas as pd

    ids = ["b", "a", "10"]
    assert by_set_name(pd.Series([1, 2, 3], index=["a", "b", 10]), ids, "y").tolist() == [2, 1, 3]
    assert by_set_name(pd.DataFrame({"x": [1, 2, 3]}, index=["a", "b", "10"]), ids, "covariates")["x"].tolist() == [2, 1, 3]
    for as_they_stand in (pd.Series([1, 2, 3]), pd.Series([1, 2, 3], index=["x", "y", "z"]), [1, 2, 3], np.arange(3), None):
        assert by_set_name(as_they_stand, ids, "y") is as_they_stand
    with pytest.raises(ValueError, match=r"y has names of sets .* values of no set \(c\) and no value of \(a\).*y\.to_numpy\(\)"):
        by_set_name(pd.Series([1, 2, 3], index=["c", "b", "10"]), ids, "y")
    with pytest.raises(ValueError, match=r"more than one value of \(a\)"):
        by_set_name(pd.Series([1, 2, 3, 4], index=["a", "a", "b", "10"]), ids, "y")
