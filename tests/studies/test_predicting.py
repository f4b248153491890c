"""Predictions for files (`predicting.py`), and what is told of elements and covariates on another scale (`scale.py`)."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from studies.small import QUICK

from orderless.estimators import SetClassifier, SetRegressor
from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.io import MemorySets, Samples
from orderless.studies import predict_files

NUMBERS = np.random.default_rng(1).normal(size=(8, 2))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two numbers of each set."""
    return fit(tmp_path_factory.mktemp("model") / "bundle", SetRegressor, NUMBERS, ["x", "y"])


def fit(folder, kind, y, target_name):
    rng = np.random.default_rng(0)
    fitted = kind(**QUICK, random_state=0, device="cpu").fit([rng.normal(size=(5, 2)) for _ in y], y)
    save_bundle(fitted, folder, features=["a", "b"], units=["fl", ""], target_name=target_name)
    return load_bundle(folder)


def samples(features=("a", "b"), units=(), sizes=(3, 0, 2)):
    rng = np.random.default_rng(1)
    sets = MemorySets([rng.normal(size=(n, len(features))) for n in sizes])
    return Samples(sets, tuple(f"s{n}" for n in range(len(sizes))), features, units=units)


def test_several_targets_have_a_column_each(model):
    found = predict_files(model, samples())
    assert list(found.columns) == ["id", "size", "prediction_x", "prediction_y"]
    expected = model.predict(samples().select([0, 2]))
    assert [row["prediction_y"] for row in found.rows()] == [expected[0, 1], None, expected[1, 1]]


def test_features_are_found_by_name_and_others_left_out(model):
    given = samples(("c", "b", "a"))
    turned = Samples(MemorySets([x[:, [2, 1]] for x in (given[n] for n in range(3))]), given.ids, ("a", "b"))
    assert predict_files(model, given).columns == predict_files(model, turned).columns
    assert any("left out: 'c'" in note for note in predict_files(model, given).notes)


WRONG = {
    "missing": (("a", "c"), ("", ""), "the data lack 1 of the 2 features.*'b'"),
    "unit": (("a", "b"), ("ml", ""), "'a' in 'ml'"),
}


@pytest.mark.parametrize(("features", "units", "says"), WRONG.values(), ids=WRONG.keys())
def test_another_schema_is_an_error_that_names_columns(model, features, units, says):
    with pytest.raises(ValueError, match=says):
        predict_files(model, samples(features, units))


def changed(change):
    """Sets of the distribution that the model was trained on, then changed."""
    rng = np.random.default_rng(1)
    return Samples(MemorySets([change(rng.normal(size=(40, 2))) for _ in range(3)]), ("s0", "s1", "s2"), ("a", "b"))


OTHER_SCALES = {
    "shifted": lambda x: x + np.array([0, 100]),
    "raw instead of a transform": lambda x: x * [1, 50],
    "another unit, around the same zero": lambda x: x * [1, 0.01],
    "a channel that failed": lambda x: np.column_stack([x[:, 0], np.full(len(x), 2.0)]),
}


@pytest.mark.parametrize("change", OTHER_SCALES.values(), ids=OTHER_SCALES)
def test_features_on_another_scale_are_named(model, change):
    (note,) = predict_files(model, changed(change)).notes
    assert "other numbers than in training" in note
    assert " b (mean" in note
    assert " a (mean" not in note


SAME_SCALES = {
    "as in training": lambda x: x,
    "another cohort": lambda x: x * [1.5, 0.7] + [0.8, -0.5],
    "a rare event that is not there": lambda x: x * [1, 0],
    "one wild element": lambda x: np.concatenate([x, [[30.0, -30.0]]]),
}


@pytest.mark.parametrize("change", SAME_SCALES.values(), ids=SAME_SCALES)
def test_what_cohorts_differ_by_is_not_called_another_scale(model, change):
    assert predict_files(model, changed(change)).notes == ()


def test_one_set_that_is_far_from_the_others_is_named(tmp_path):
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(20, 2)) for _ in range(12)]
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu").fit(sets, rng.normal(size=12))
    save_bundle(fitted, tmp_path / "b", features=["a", "b"])
    sets[3] = sets[3] + 8.0
    ids = tuple(f"s{n}" for n in range(12))
    (note,) = predict_files(load_bundle(tmp_path / "b"), Samples(MemorySets(sets), ids, ("a", "b"))).notes
    assert note.startswith("sets whose mean is so many spreads of training from that of training: s3 (")
    assert "s4" not in note


def test_few_elements_say_nothing_of_a_spread_but_of_a_scale(model):
    rng = np.random.default_rng(2)
    few = Samples(MemorySets([rng.normal(size=(4, 2))]), ("s0",), ("a", "b"))
    assert predict_files(model, few).notes == ()
    far = Samples(MemorySets([np.full((4, 2), 100.0)]), ("s0",), ("a", "b"))
    assert "s0 (" in predict_files(model, far).notes[0]


def test_covariates_that_are_far_out_and_new_words_are_told(tmp_path):
    rng = np.random.default_rng(0)
    sets, ids = [rng.normal(size=(5, 2)) for _ in range(8)], tuple(f"s{n}" for n in range(8))
    columns = {"age": np.arange(40.0, 48.0), "site": np.array(["north", "south"] * 4, dtype=object)}
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu")
    fitted.fit(sets, rng.normal(size=8), covariates=pd.DataFrame(columns))
    save_bundle(fitted, tmp_path / "b", features=["a", "b"])
    loaded = load_bundle(tmp_path / "b")
    assert predict_files(loaded, Samples(MemorySets(sets), ids, ("a", "b"), columns=columns)).notes == ()
    columns["age"][2], columns["site"][5] = 5000.0, "mars"
    notes = predict_files(loaded, Samples(MemorySets(sets), ids, ("a", "b"), columns=columns)).notes
    assert [note for note in notes if "age" in note and "s2 (5000)" in note]
    assert [note for note in notes if "site has words that training did not have" in note and "mars" in note]


def test_flat_sides_of_clouds_and_few_sets_are_no_other_scale(tmp_path):
    rng = np.random.default_rng(0)
    clouds = [rng.uniform(size=(40, 3)) * [100.0, 100.0, 3.0] for _ in range(6)]
    options = {**QUICK, "depth": None, "width": 32, "model": "pointnet++"}
    fitted = SetRegressor(**options, random_state=0, device="cpu").fit(clouds, rng.normal(size=6))
    save_bundle(fitted, tmp_path / "b", features=["x", "y", "z"])
    given = Samples(MemorySets(clouds), tuple(f"s{n}" for n in range(6)), ("x", "y", "z"))
    assert predict_files(load_bundle(tmp_path / "b"), given).notes == ()


def test_words_stay_words_where_the_rest_of_them_could_be_bools_or_numbers(tmp_path):
    rng = np.random.default_rng(0)
    sets, ids = [rng.normal(size=(5, 2)) for _ in range(9)], tuple(f"s{n}" for n in range(9))
    words = {"smoker": ["True", "FALSE", "unknown"] * 3, "site": ["01", "02", "3A"] * 3}
    columns = {name: np.array(column, dtype=object) for name, column in words.items()}
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu")
    fitted.fit(sets, rng.normal(size=9), covariates=pd.DataFrame(columns))
    save_bundle(fitted, tmp_path / "b", features=["a", "b"])
    loaded = load_bundle(tmp_path / "b")
    whole = predict_files(loaded, Samples(MemorySets(sets), ids, ("a", "b"), columns=columns)).columns["prediction"]
    some = [0, 1, 3, 4]  # without unknown and 3A, which a reader of CSV takes for bools and numbers
    read = {"smoker": np.array([True, False] * 2), "site": np.array([1, 2] * 2)}
    chosen = Samples(MemorySets([sets[n] for n in some]), tuple(ids[n] for n in some), ("a", "b"), columns=read)
    part = predict_files(loaded, chosen)
    assert part.notes == ()
    np.testing.assert_allclose(part.columns["prediction"], [whole[n] for n in some], rtol=1e-6)  # sums in another order


def test_files_that_are_not_compensated_as_those_of_training_are_told(model):
    trained = copy.copy(model)
    trained.schema_ = replace(model.schema_, origin={"kind": "FCS", "compensated": "all files"})
    given = replace(samples(), origin={"kind": "FCS", "compensated": "no file"})
    notes = predict_files(trained, given).notes
    assert any("which are compensated: of training all files, here no file" in note for note in notes)
    alike = replace(given, origin={"kind": "FCS", "compensated": "all files"})
    assert not any("compensated" in note for note in predict_files(trained, alike).notes)


def test_no_note_is_lost_for_its_words(model):
    noted = replace(samples(), notes=("left out: the columns 'sets that have no element' and 'x'.",))
    assert predict_files(model, noted).notes == (*noted.notes, "no prediction for 1 set without elements: s1.")


OUTPUTS = {
    "classes": (SetClassifier, ["no", "yes"] * 4, "ill", ["prediction", "probability_no", "probability_yes"]),
    "a number": (SetRegressor, NUMBERS[:, 0], "x", ["prediction"]),
    "numbers": (SetRegressor, NUMBERS, ["x", "y"], ["prediction_x", "prediction_y"]),
    "numbers without names": (SetRegressor, NUMBERS, None, ["prediction_0", "prediction_1"]),
}


@pytest.mark.parametrize(("kind", "y", "target_name", "names"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_sets_that_are_all_empty_get_the_same_columns_without_predictions(tmp_path, kind, y, target_name, names):
    model = fit(tmp_path / "bundle", kind, y, target_name)
    found = predict_files(model, samples(sizes=(0, 0)))
    assert list(found.columns) == list(predict_files(model, samples()).columns) == ["id", "size", *names]
    assert [found.columns[name] for name in names] == [[None, None]] * len(names)
    assert found.notes == ("no prediction for 2 sets without elements: s0, s1.",)


def test_a_channel_that_is_the_same_everywhere_is_named_where_many_elements_say_so(model):
    rng = np.random.default_rng(3)
    dead = Samples(MemorySets([rng.normal(size=(200, 2)) * [1, 0] for _ in range(2)]), ("s0", "s1"), ("a", "b"))
    (note,) = predict_files(model, dead).notes
    assert " b (mean" in note
    assert "spread 0)" in note


def test_a_word_for_a_covariate_that_is_a_number_is_named_with_its_set(tmp_path):
    rng = np.random.default_rng(0)
    sets, ids = [rng.normal(size=(5, 2)) for _ in range(8)], tuple(f"s{n}" for n in range(8))
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu")
    fitted.fit(sets, rng.normal(size=8), covariates=pd.DataFrame({"age": np.arange(40.0, 48.0)}))
    save_bundle(fitted, tmp_path / "b", features=["a", "b"])
    age = np.array([*range(7), "old"], dtype=object)
    with pytest.raises(ValueError, match="age was a number in training, and is 'old' for set 's7'"):
        predict_files(load_bundle(tmp_path / "b"), Samples(MemorySets(sets), ids, ("a", "b"), columns={"age": age}))


def test_codes_are_what_they_were_in_training_whichever_way_files_write_them(tmp_path):
    rng = np.random.default_rng(0)
    sets, ids = [rng.normal(size=(5, 2)) for _ in range(8)], tuple(f"s{n}" for n in range(8))
    training = {"site": np.array(["01", "02"] * 4, dtype=object), "month": np.array([1.0, 2, 3, 12] * 2)}
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu")
    fitted.fit(sets, rng.normal(size=8), covariates=pd.DataFrame(training))
    save_bundle(fitted, tmp_path / "b", features=["a", "b"])
    loaded = load_bundle(tmp_path / "b")
    same = predict_files(loaded, Samples(MemorySets(sets), ids, ("a", "b"), columns=training))
    written = {"site": np.array(["001", "002"] * 4, dtype=object), "month": np.array(["01", "02", "03", "12"] * 2, dtype=object)}
    other = predict_files(loaded, Samples(MemorySets(sets), ids, ("a", "b"), columns=written))
    assert (same.notes, other.notes) == ((), ())
    assert other.columns["prediction"] == same.columns["prediction"]
