"""Predictions for files (`predicting.py`)."""

import numpy as np
import pytest
from studies.small import QUICK

from orderless.estimators import SetRegressor
from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.io import MemorySets, Samples
from orderless.studies import predict_files


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two numbers of each set."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(5, 2)) for _ in range(8)]
    fitted = SetRegressor(**QUICK, random_state=0, device="cpu").fit(sets, rng.normal(size=(8, 2)))
    folder = tmp_path_factory.mktemp("model") / "bundle"
    save_bundle(fitted, folder, features=["a", "b"], units=["fl", ""], target_name=["x", "y"])
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


def test_sets_that_are_all_empty_get_rows_without_predictions(model):
    assert predict_files(model, samples(sizes=(0, 0))).columns["prediction"] == [None, None]
