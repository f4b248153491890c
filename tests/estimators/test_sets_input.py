import numpy as np
import pandas as pd
import pytest
import torch
from estimators.ragged import draw

import orderless as ol
from orderless.estimators.sets_input import read_sets
from orderless.io import MemorySets, Samples

X, _, _ = draw(6)
FORMS = {
    "list of arrays": X,
    "tuple of tensors": tuple(torch.from_numpy(x) for x in X),
    "object array": np.array([*X, None], dtype=object)[:-1],
    "Series": pd.Series(X, index=list("fedcba")),
    "SetBatch": ol.SetBatch.from_list(X),
}


@pytest.mark.parametrize("given", FORMS.values(), ids=FORMS.keys())
def test_every_form_gives_the_same_sets(given):
    sets = read_sets(given)
    assert sets.num_features == 3
    assert sets.sizes.tolist() == [len(x) for x in X]
    np.testing.assert_array_equal(sets.stored.gather([4, 0]), np.concatenate([X[4], X[0]]))
    np.testing.assert_array_equal(np.concatenate(list(sets.stored.blocks(5, 2))), X[5])
    np.testing.assert_array_equal(sets.stored.take(5, [1, 0]), X[5][[1, 0]])


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, lambda x: x.astype(object)])
def test_a_dense_array_is_sets_of_one_size(make):
    dense = np.arange(24.0).reshape(2, 4, 3)
    sets = read_sets(make(dense))
    assert sets.sizes.tolist() == [4, 4]
    np.testing.assert_array_equal(sets.stored.gather([1]), dense[1])


def test_sets_of_a_long_table_come_in_the_order_in_which_they_appear():
    frame = pd.DataFrame({"b": [1.0, 2, 3, 4], "who": ["z", "a", "z", "m"], "a": [5, 6, 7, 8]})
    sets = read_sets(frame, set_id="who")
    assert list(sets.names) == ["z", "a", "m"]
    assert sets.features == ("b", "a")
    np.testing.assert_array_equal(sets.stored.gather([0]), [[1, 5], [3, 7]])
    np.testing.assert_array_equal(read_sets(frame, set_id="who", wanted=("a", "b")).stored.gather([2]), [[8, 4]])


@pytest.mark.parametrize("in_a_list", [False, True], ids=["a table", "a list"])
def test_the_column_of_sets_is_no_feature_though_its_name_is_a_number(in_a_list):
    frame = pd.DataFrame({0: [1, 1, 2], 1: [0.5, 1.5, 2.5]})
    given = [part for _, part in frame.groupby(0)] if in_a_list else frame
    assert read_sets(given, set_id=0).features == ("1",)


def test_what_belongs_to_a_set_is_taken_from_columns_that_are_constant_in_it():
    frame = pd.DataFrame({"who": [7, 3, 7], "x": [0.0, 1, 2], "site": ["s", "t", "s"], "age": [1, 2, 3]}, index=[5, 6, 7])
    table = read_sets(frame, set_id="who", not_features=["site", "age"]).table
    assert table.per_set("site", "y").tolist() == ["s", "t"]
    assert table.per_set(frame["site"], "y").tolist() == ["s", "t"]
    assert table.per_set([1, 2], "y") == [1, 2]
    with pytest.raises(ValueError, match="y must be the same in all rows of a set, but set 7 has 1 and 3"):
        table.per_set("age", "y")
    with pytest.raises(ValueError, match=r"y='agee' is no column .* who, x, site, age"):
        table.per_set("agee", "y")


def test_samples_are_read_where_they_are_and_features_are_found_by_name():
    samples = Samples(MemorySets(X), tuple("abcdef"), ("f", "g", "h"))
    sets = read_sets(samples, wanted=("h", "f"))
    np.testing.assert_array_equal(sets.stored.gather([4]), X[4][:, [2, 0]].astype(np.float32))
    np.testing.assert_array_equal(sets.stored.take(4, [0]), X[4][[0]][:, [2, 0]].astype(np.float32))
    assert sets.name(4) == "set 'e'"
    assert read_sets(samples).stored is samples.sets


def test_a_column_that_the_first_set_lacks_is_not_dropped_in_silence():
    frames = [pd.DataFrame({"a": [1.0], "who": ["p"]}), pd.DataFrame({"a": [4.0], "CD8": [3.0], "who": ["q"]})]
    with pytest.raises(ValueError, match=r"set 1 has the column 'CD8', which set 0 lacks\. All sets"):
        read_sets(frames, set_id="who")
    known = read_sets(frames, wanted=("a",), set_id="who")  # a fitted model knows its features
    assert known.stored.gather([0, 1]).ravel().tolist() == [1.0, 4.0]


def test_sets_that_are_data_frames_keep_their_names_in_any_order():
    frames = [pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"b": [4.0], "a": [3.0]})]
    sets = read_sets(frames)
    assert sets.features == ("a", "b")
    np.testing.assert_array_equal(sets.stored.gather([1]), [[3, 4]])


def test_an_empty_list_is_an_empty_set():
    assert read_sets([[], [[1.0, 2.0]]]).sizes.tolist() == [0, 1]


def test_sets_that_are_all_empty_lists_have_the_features_that_are_known():
    sets = read_sets([[], []], num_features=3)
    assert (sets.sizes.tolist(), sets.num_features) == ([0, 0], 3)
    with pytest.raises(ValueError, match="there is no set"):
        read_sets([], num_features=3)


def test_a_mask_that_masks_nothing_is_ignored():
    assert type(read_sets(np.ma.masked_equal(np.ones((2, 4, 3)), -999)).stored.gather([0])) is np.ndarray


def test_float64_keeps_its_digits():
    assert read_sets([np.array([[1e9 + 1.0]])]).stored.gather([0])[0, 0] == 1e9 + 1.0


FRAME = pd.DataFrame({"who": ["a", "b"], "x": [1.0, 2.0], "word": ["u", "v"]})
BAD = {
    "rows": (np.zeros((4, 3)), {}, r"\(N, M, D\).*got shape \(4, 3\).*x\[:, None, :\]"),
    "numbers": ([np.zeros(3)], {}, r"set 0 to be an array of shape \(n, D\).*got shape \(3,\)"),
    "widths": ([np.zeros((1, 2)), np.zeros((1, 3))], {}, "set 0 has 2, set 1 has 3"),
    "words": ([np.array([["a"]])], {}, "set 0 must hold numbers"),
    "nothing": ([], {}, "there is no set"),
    "only empty": ([[], []], {}, r"number of features is unknown.*\(0, D\)"),
    "masked": ([X[4], np.ma.masked_equal([[0.0, 1, 2], [3, -999, 5]], -999)], {}, "feature 1 of element 1 of set 1 is"),
    "masked dense": (np.ma.masked_equal([[[1.0], [2]], [[-999], [4]]], -999), {}, "feature 0 of element 0 of set 1 is"),
    "a Series of numbers": (pd.Series([1.0, 2.0]), {}, r"set 0 to be an array of shape \(n, D\).*got shape \(\)"),
    "complex": ([np.zeros((1, 1), complex)], {}, "real"),
    "no id": (FRAME, {}, "needs set_id=.* who, x, word"),
    "wrong id": (FRAME, {"set_id": "whom"}, "set_id='whom' is no column"),
    "text": (FRAME, {"set_id": "who"}, "column 'word' of the table is"),
    "lacking": (FRAME, {"set_id": "who", "wanted": ("x", "y")}, "lacks the features y that the estimator was fitted on"),
    "missing id": (pd.DataFrame({"who": ["a", None], "x": [1.0, 2]}), {"set_id": "who"}, "'who' is missing in row 1"),
}


@pytest.mark.parametrize(("given", "options", "message"), BAD.values(), ids=BAD.keys())
def test_other_things_are_refused_in_words(given, options, message):
    with pytest.raises(ValueError, match=message):
        read_sets(given, **options)


def test_other_types_are_refused_with_those_that_will_do():
    with pytest.raises(TypeError, match=r"a list of \(n_i, D\) arrays.*got dict"):
        read_sets({"a": 1})


def test_a_number_that_is_not_finite_is_found_by_set_element_and_feature():
    x = [np.zeros((2, 2)), np.zeros((0, 2)), np.array([[0.0, 0], [0, np.inf]])]
    sets = read_sets(x)
    with pytest.raises(ValueError, match="feature 1 of element 1 of set 2 is inf"):
        sets.check_finite(sets.stored.gather([0, 1, 2]), [0, 1, 2])
    with pytest.raises(ValueError, match="feature 0 of element 7 of set 1 is NaN"):
        sets.check_finite(np.array([[0.0], [np.nan]]), [1], start=6)
    with pytest.raises(ValueError, match=r"at most 3\.4e\+38 in size, but feature 0 of element 1 of set 0 is -1e\+39"):
        sets.check_finite(np.array([[0.0], [-1e39]]), [0])
    sets.check_finite(np.array([[np.finfo(np.float32).max]], np.float32), [0])
    chosen = sets.choose(np.array([2]))
    with pytest.raises(ValueError, match="of set 2 is"):
        chosen.check_finite(chosen.stored.gather([0]), [0])


@pytest.mark.parametrize(("dtype", "there"), [("Float64", 1.5), ("Int64", 1), ("boolean", True)])
def test_a_gap_in_a_nullable_column_is_found_by_set_and_feature(dtype, there):
    table = pd.DataFrame({"who": list("aabb"), "x": range(4), "y": pd.array([there, there, there, pd.NA], dtype=dtype)})
    whole = read_sets(table[:3], set_id="who")
    np.testing.assert_array_equal(whole.stored.gather([0, 1])[:, 1], [there] * 3)
    one_by_one = [part[["x", "y"]] for _, part in table.groupby("who")]
    for given, options in ((table, {"set_id": "who"}), (one_by_one, {})):
        sets = read_sets(given, **options)
        with pytest.raises(ValueError, match=r"feature 'y' of element 1 of set ('b'|1) is NaN"):
            sets.check_finite(sets.stored.gather([0, 1]), [0, 1])


def test_an_empty_list_among_tables_does_not_turn_off_their_names():
    frames = [pd.DataFrame(x, columns=list("abc")) for x in X]
    turned = read_sets([*(frame[list("cba")] for frame in frames), []], wanted=("a", "b", "c"))
    np.testing.assert_array_equal(turned.stored.gather(range(6)), np.concatenate(X))
    assert turned.sizes.tolist() == [*map(len, X), 0]
    with pytest.raises(TypeError, match="set 1 is ndarray, but set 0 is a DataFrame"):
        read_sets([frames[3], X[3]])


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([["s", 1.0, 2.0]], columns=["who", "a", "a"])
    with pytest.raises(ValueError, match="more than one column of the name a"):
        read_sets(frame, set_id="who")


HALVES = {
    "a list": lambda x: list(x),
    "a dense tensor": lambda x: x,
    "a SetBatch": ol.SetBatch.from_padded,
}


@pytest.mark.parametrize("form", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_tensors_are_sets(form, dtype):
    x = torch.arange(12.0).reshape(2, 2, 3)
    assert read_sets(form(x.to(dtype))).stored.gather([0, 1]).tolist() == x.flatten(0, 1).tolist()
