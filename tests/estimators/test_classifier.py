import numpy as np
import pandas as pd
import pytest
import torch
from estimators.ragged import classifier, draw

X, Y, _ = draw(40, smallest=2)


def test_it_learns():
    new, truth, _ = draw(40, seed=1, smallest=2)
    model = classifier(epochs=12).fit(X, Y)
    assert model.score(new, truth) > 0.9
    probabilities = model.predict_proba(new)
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(model.predict(new), probabilities.argmax(1))
    np.testing.assert_array_equal(model.predict_log_proba(new), np.log(probabilities))


@pytest.mark.parametrize(
    "labels",
    [np.array(["well", "ill"]), np.array([True, False]), np.array([7, -3]), np.array([0.0, 1.0]), ["b", "a"]],
    ids=["words", "truth values", "numbers", "floats", "list"],
)
def test_labels_may_be_of_any_kind(labels):
    y = [labels[i] for i in Y]
    model = classifier(epochs=1).fit(X, y)
    assert model.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(1)])
    assert model.predict(X).dtype == np.asarray(labels).dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(y, dtype="UInt8"),
        lambda y: pd.array(y, dtype="Int64"),
        lambda y: pd.Series(y, dtype=object),
        lambda y: np.array([int(one) for one in y], dtype=object),
        lambda y: np.array(list(y), dtype=object),
        lambda y: pd.Series(y, dtype="Int64").astype("category"),
    ],
    ids=["Int64", "UInt8", "array of Int64", "objects in a Series", "objects", "objects of numpy's", "category"],
)
def test_whole_numbers_stay_whole_numbers(make):
    large = 2**60  # which floats could not tell from the next
    y = make(Y) if "UInt8" in str(getattr(make(Y), "dtype", "")) else make(Y + large)
    model = classifier(epochs=1).fit(X, y)
    assert model.classes_.dtype.kind in "iu"
    assert model.classes_.tolist() == sorted({int(one) for one in y})
    assert model.score(X, y) == np.mean(model.predict(X) == np.array([int(one) for one in y]))


def test_truth_values_stay_truth_values():
    for y in (pd.Series(Y == 1, dtype="boolean"), (Y == 1).astype(object)):
        assert classifier(epochs=1).fit(X, y).classes_.dtype == bool


def test_whole_numbers_of_a_long_table_stay_whole_numbers():
    numbers = np.repeat(np.arange(len(X)), [len(one) for one in X])
    table = pd.DataFrame(np.concatenate(X), columns=[f"f{d}" for d in range(X[0].shape[1])])
    table = table.assign(set=numbers, y=pd.Series(Y[numbers], dtype="Int64"))
    model = classifier(epochs=1, set_id="set").fit(table, "y")
    assert model.classes_.dtype.kind == "i"
    assert 0 <= model.score(table, "y") <= 1


def test_labels_may_be_a_tensor_or_a_column():
    assert classifier(epochs=1).fit(X, torch.as_tensor(Y)).classes_.tolist() == [0, 1]
    with pytest.warns(match="column-vector y was passed"):
        classifier(epochs=1).fit(X, Y[:, None])


def test_there_may_be_many_classes():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    sets = [rng.normal(loc=[3 * (c == 0), 3 * (c == 1)], size=(5, 2)) for c in y]
    model = classifier(epochs=30).fit(sets, y)
    assert model.predict_proba(sets).shape == (60, 3)
    assert model.score(sets, y) > 0.8


def test_class_weights_count_as_weights_of_sets():
    y = (np.arange(40) < 30).astype(int)
    same_sets = [np.zeros((2, 1))] * 40
    plain, balanced = (classifier(epochs=30, class_weight=w).fit(same_sets, y) for w in (None, "balanced"))
    # steps of finite size, 40 sets
    assert plain.predict_proba(same_sets)[0, 1] == pytest.approx(0.75, abs=0.06)
    assert balanced.predict_proba(same_sets)[0, 1] == pytest.approx(0.5, abs=0.06)
    by_hand = classifier(class_weight={0: 1.0, 1: 2.0}).fit(X, Y)
    weighed = classifier().fit(X, Y, sample_weight=1.0 + Y)
    np.testing.assert_array_equal(by_hand.predict_proba(X), weighed.predict_proba(X))


def test_one_class_is_too_few():
    with pytest.raises(ValueError, match="at least two classes, but all 40 are of one class: 'a'"):
        classifier().fit(X, ["a"] * 40)
    with pytest.raises(ValueError, match="at least two classes, but all 20 are of one class"):
        classifier().fit(X, Y, sample_weight=Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [(Y[:-1], "40 sets, 39 labels"), (np.where(Y, np.nan, 0.0), "NaN"), (np.linspace(0, 1, 40), "Unknown label type")],
)
def test_wrong_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, y)


def test_score_weighs_sets():
    model = classifier(epochs=1).fit(X, Y)
    right = (model.predict(X) == Y).astype(float)
    assert model.score(X, Y, sample_weight=right + 1e-9) == pytest.approx(1)


def test_sets_of_weight_zero_do_not_count_for_balance():
    weight = np.ones(40)
    weight[:12:2] = 0
    kept = np.flatnonzero(weight)
    all_of_them = classifier(class_weight="balanced").fit(X, Y, sample_weight=weight)
    some = classifier(class_weight="balanced").fit([X[i] for i in kept], Y[kept])
    np.testing.assert_array_equal(all_of_them.predict_proba(X), some.predict_proba(X))


def test_a_class_all_of_whose_sets_have_weight_zero_is_as_if_it_were_not_there():
    labels = np.where(np.arange(40) < 6, "dropped", np.where(Y == 1, "x", "a"))
    kept = np.flatnonzero(labels != "dropped")
    weighed = classifier().fit(X, labels, sample_weight=(labels != "dropped").astype(float))
    by_class = classifier(class_weight={"dropped": 0, "x": 1, "a": 1}).fit(X, labels)
    alone = classifier().fit([X[i] for i in kept], labels[kept])
    for model in (weighed, by_class):
        assert model.classes_.tolist() == ["a", "x"]
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_balance_counts_a_set_of_weight_two_as_two():
    sets, y = [np.zeros((2, 1))] * 40, (np.arange(40) < 20).astype(int)
    model = classifier(epochs=30, class_weight="balanced").fit(sets, y, sample_weight=1.0 + 2.0 * y)
    assert model.predict_proba(sets)[0, 1] == pytest.approx(0.5, abs=0.06)  # and not 0.75


def test_gaps_in_a_list_of_groups_are_no_group():
    with pytest.raises(ValueError, match="groups must not be missing: that of set 1 is nan"):
        classifier().fit(X, Y, groups=["a", float("nan"), *"b" * 38])


@pytest.mark.parametrize("weight", [-1.0, float("nan")])
def test_class_weights_that_are_no_weights_are_refused(weight):
    with pytest.raises(ValueError, match="class_weight must be finite numbers of 0 or more"):
        classifier(class_weight={0: 1.0, 1: weight}).fit(X, Y)


def test_class_weights_of_zero_are_refused():
    with pytest.raises(ValueError, match="class_weight is zero for every set that counts: there is nothing to learn from"):
        classifier(class_weight={0: 0, 1: 0}).fit(X, Y)
    with pytest.raises(ValueError, match="class_weight is zero for every set that counts"):
        classifier(class_weight={0: 1, 1: 0}).fit(X, Y, sample_weight=Y)


@pytest.mark.parametrize("make", [list, lambda labels: np.array(labels, dtype=object)], ids=["list", "object array"])
def test_labels_that_are_words_and_numbers_are_refused(make):
    with pytest.raises(ValueError, match="all words or all numbers, got both: 'a' and 1"):
        classifier().fit(X, make(["a", 1] * 20))


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT])
def test_a_missing_label_among_words_is_no_class(gap):
    with pytest.raises(ValueError, match="labels must not be missing"):
        classifier().fit(X, [gap, *"np" * 20][:40])
    with pytest.raises(ValueError, match="labels must not be missing"):
        classifier().fit(X, pd.Series([gap, *"np" * 20][:40], dtype="string"))
