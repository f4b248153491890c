"""Splits: no group on both sides, classes spread evenly, everything tested once a repeat, and what cannot be split is said."""

import numpy as np
import pytest

from orderless.evaluate import Fold, check_no_straddling, folds_by_hand, make_folds
from orderless.evaluate.splits import check_target

PATIENTS = np.repeat([f"P{n}" for n in range(10)], 3)
CLASSES = np.repeat(np.arange(10) % 2, 3)


@pytest.mark.parametrize("objective", ["classification", "regression"])
@pytest.mark.parametrize("groups", [None, PATIENTS], ids=["alone", "by patient"])
def test_every_set_is_tested_once_a_repeat_and_no_group_straddles(objective, groups):
    y = CLASSES if objective == "classification" else np.arange(30.0)
    folds = make_folds(y, groups=groups, objective=objective, num_folds=5, num_repeats=3, seed=1)
    assert [fold.repeat for fold in folds] == [0] * 5 + [1] * 5 + [2] * 5
    for repeat in range(3):
        of_repeat = [fold for fold in folds if fold.repeat == repeat]
        assert sorted(np.concatenate([fold.test for fold in of_repeat])) == list(range(30))
        for fold in of_repeat:
            assert sorted([*fold.train, *fold.test]) == list(range(30))
            if groups is not None:
                assert not set(groups[fold.train]) & set(groups[fold.test])
            if objective == "classification":
                assert sorted(set(CLASSES[fold.test])) == [0, 1]
    parts = [tuple(fold.test) for fold in folds]
    assert len(set(parts)) > 5  # repeats are dealt anew
    again = make_folds(y, groups=groups, objective=objective, num_folds=5, num_repeats=3, seed=1)
    assert parts == [tuple(fold.test) for fold in again]
    assert parts != [tuple(f.test) for f in make_folds(y, groups=groups, objective=objective, num_repeats=3, seed=2)]


def test_groups_of_unequal_size_fill_folds_evenly():
    groups = np.repeat(np.arange(8), [9, 8, 7, 1, 1, 1, 2, 1])
    folds = make_folds(np.arange(30.0), groups=groups, objective="regression", num_folds=3)
    assert sorted(len(fold.test) for fold in folds) == [10, 10, 10]


def test_too_few_groups_or_sets_of_a_class_make_fewer_folds_and_say_why():
    with pytest.warns(UserWarning, match="3 folds instead of 5: there are only 3 groups"):
        assert len(make_folds(np.arange(9.0), groups=np.arange(9) % 3, objective="regression")) == 3
    y = np.array(["a"] * 20 + ["b"] * 2)
    with pytest.warns(UserWarning, match="2 folds instead of 5: class b is found in only 2 sets"):
        assert len(make_folds(y, objective="classification")) == 2
    with pytest.warns(UserWarning, match="class a is found in only 2 groups"):
        make_folds(np.array(["a", "b"] * 6), groups=np.array([0, 1, 2, 3] * 3), objective="classification")


def test_of_several_classes_a_rare_one_does_not_cost_folds():
    y = np.array(["a"] * 10 + ["b"] * 10 + ["rare"])
    assert len(make_folds(y, objective="classification")) == 5


def test_training_parts_have_both_classes_where_groups_allow_it():
    groups = np.array([0] * 6 + [1] * 6 + list(range(2, 10)))
    y = np.array([1] * 12 + [0] * 8)  # one class has two groups, which must not be tested together
    for seed in range(10):
        folds = make_folds(y, groups=groups, objective="classification", num_folds=2, seed=seed)
        assert all(len(set(y[fold.train])) == 2 for fold in folds)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a"] * 6, {}, "at least two classes, got 1: all sets are a"),
        (["a"] * 6 + ["b"], {}, "class b is found in only one set"),
        (["a", "b"] * 3, {"groups": [0] * 6}, "at least two groups, got 1"),
        (["a", "b"] * 3, {"groups": [0, 1] * 3}, "is found in only one group"),
        (["a", "b"] * 3, {"groups": [0, 1]}, "each of the 6 sets"),
        (["a", "b"] * 3, {"groups": [0, 1, 2, 3, 4, None]}, "1 of 6 are missing"),
        (["a", "b", None] * 3, {}, "3 of 9 are missing"),
        (["a", "b", float("nan")] * 3, {"objective": "regression"}, "needs numbers as targets, got 'a'"),
        ([1.0, np.nan, 2.0], {"objective": "regression"}, "1 of 3 targets are missing"),
        ([], {}, "got none"),
        (["a", "b"] * 3, {"num_folds": 1}, "num_folds must be 2 or more, got 1"),
        (["a", "b"] * 3, {"num_repeats": 0, "num_folds": 2}, "num_repeats must be 1 or more"),
        (["a", "b"] * 3, {"objective": "ranking"}, "objective must be"),
        (np.zeros((4, 2)), {}, r"shape \(N,\)"),
    ],
)
def test_what_cannot_be_split_is_said(y, options, message):
    with pytest.raises(ValueError, match=message):
        make_folds(y, **{"objective": "classification", **options})


def test_a_group_on_both_sides_is_named():
    with pytest.raises(ValueError, match="group P1 is in both train and test"):
        check_no_straddling([0, 1, 2, 3], [4, 5], PATIENTS)
    with pytest.raises(ValueError, match=r"groups P0, P1, P2, P3, P4 and 5 more are in both"):
        check_no_straddling(np.arange(0, 30, 3), np.arange(1, 30, 3), PATIENTS)
    with pytest.raises(ValueError, match="set 2 is in both"):
        check_no_straddling([0, 1, 2], [2], PATIENTS)
    check_no_straddling([0, 1, 2], [3, 4], PATIENTS)


MASK = np.arange(30) < 20


@pytest.mark.parametrize("parts", [(MASK, ~MASK), (MASK.tolist(), (~MASK).tolist())], ids=["arrays", "lists"])
def test_masks_are_refused_with_what_to_write_instead(parts):
    says = r"train must hold numbers of sets, got a mask of True and False\. Give np\.flatnonzero\(train\) instead"
    with pytest.raises(ValueError, match=says):
        check_no_straddling(*parts, PATIENTS)
    with pytest.raises(ValueError, match=says):
        Fold(*parts)
    with pytest.raises(ValueError, match="test must hold numbers of sets, got a mask"):
        Fold(np.flatnonzero(parts[0]), parts[1])


def test_what_is_no_number_of_a_set_is_refused():
    with pytest.raises(ValueError, match=r"train must hold numbers of sets, shape \(n,\), got float64 of shape \(2,\)"):
        Fold(np.array([0.5, 1.0]), np.array([2]))
    for number in (-1, 30):
        with pytest.raises(ValueError, match=f"numbers of sets, 0 to 29 as groups has them; got {number}"):
            check_no_straddling([0, 1], [number], PATIENTS)
    fold = Fold([2, 0], [])
    assert (fold.train.tolist(), fold.test.tolist(), fold.test.dtype) == ([2, 0], [], np.int64)


def test_a_column_gives_the_split():
    (fold,) = folds_by_hand([" Train", "TEST", "train", "test"])
    assert fold.train.tolist() == [0, 2]
    assert fold.test.tolist() == [1, 3]
    folds = folds_by_hand(np.array([10, 2, 10, 1]), groups=["a", "b", "a", "c"])
    assert [fold.test.tolist() for fold in folds] == [[3], [1], [0, 2]]


def test_a_fold_in_two_spellings_is_one():
    folds = folds_by_hand(["C\u00f3rdoba", "Oslo", "Co\u0301rdoba", "oslo\u200b"])
    assert [fold.test.tolist() for fold in folds] == [[1, 3], [0, 2]]


@pytest.mark.parametrize("other", ["P0\u200b", "p0", "P00", " P0", "\uff300"])
def test_a_group_in_two_spellings_is_refused(other):
    groups = PATIENTS.astype(object)
    groups[1] = other
    with pytest.raises(ValueError, match=r"groups must have one spelling each, but 'P0' and .* Write them alike, or number"):
        make_folds(CLASSES, groups=groups, objective="classification")
    with pytest.raises(ValueError, match="groups must have one spelling each"):
        check_no_straddling([0], [1], groups)


def test_names_of_sites_are_folds():
    assert len(folds_by_hand(["T", "N", "T", "N"])) == 2  # tumour and normal
    folds = folds_by_hand(["Valencia", "Devon", "Holland", "Valencia"])
    assert [fold.test.tolist() for fold in folds] == [[1], [2], [0, 3]]


@pytest.mark.parametrize(
    ("column", "groups", "message"),
    [
        (["train", "test", "train"], ["a", "a", "b"], "group a is in both train and test"),
        ([0, 1, 1], ["a", "a", "b"], "group a is in both"),
        (["train"] * 3, None, "got train"),
        (["train", "test", "val"], None, "Call val train"),
        (["training", "Testing", "training"], None, "got testing, training.*known are train and test: rename testing and"),
        (["Training set", "hold-out", "hold-out"], None, "got hold-out, training set"),
        (["dev", "val", "val2"], None, "rename dev and val and val2, or number the folds"),
        (["Training", "rest", "rest"], None, "rename training, or number"),
        ([True, False, True], None, "got false, true, which would be two folds. Call them train and test"),
        (["Yes", "no", "no"], None, "got no, yes, which would be two folds"),
        ([1, 1, 1], None, "at least two values"),
        (["train", None, "test"], None, "no value for set 1"),
        ([], None, "one value for each set"),
    ],
)
def test_a_column_that_leaks_or_says_no_split_is_refused(column, groups, message):
    with pytest.raises(ValueError, match=message):
        folds_by_hand(column, groups=groups)


def test_missing_values_of_pandas_count_as_missing():
    import pandas as pd

    with pytest.raises(ValueError, match="1 of 3 are missing"):
        make_folds(pd.Series(["a", "b", None], dtype="string"), objective="classification")
    with pytest.raises(ValueError, match="1 of 3 are missing"):
        make_folds([1.0, 2.0, 3.0], groups=pd.Series(["a", "b", None]), objective="regression")


def test_gaps_in_lists_are_no_word():
    """numpy makes the word `nan` of a gap among words."""
    with pytest.raises(ValueError, match="groups must be known for every set, but 1 of 3 are missing"):
        make_folds([1.0, 2.0, 3.0], groups=["a", float("nan"), "b"], objective="regression")
    with pytest.raises(ValueError, match="y must hold a class for each set, but 1 of 3 are missing"):
        make_folds(["a", float("nan"), "b"], objective="classification")


def test_a_number_written_in_two_ways_is_one_class():
    assert np.unique(check_target(np.array([0, 1.0, 0.0, 1], dtype=object), "classification")).tolist() == [0, 1]
