import json

import numpy as np
import pandas as pd
import pytest
import torch
from estimators.ragged import classifier, draw, regressor

import orderless as ol
from orderless.estimators.covariates import CovariateModel, CovariateScaler, SetsWithCovariates, choose_rows

AGES = [30.0, 40.0, 80.0]
TABLE = pd.DataFrame({"age": AGES, "site": ["b", "a", "b"]})
ONES = np.ones(3)


def test_numbers_are_standardised_and_words_become_columns():
    scaler = CovariateScaler().fit(TABLE, ONES)
    assert (scaler.num_covariates, scaler.num_outputs) == (2, 3)
    expected = np.column_stack([(np.array(AGES) - 50) / np.std(AGES), [0, 1, 0], [1, 0, 1]])
    np.testing.assert_allclose(scaler.transform(TABLE, 3), expected, rtol=1e-6)  # float32


def test_columns_of_a_table_are_found_by_name():
    scaler = CovariateScaler().fit(TABLE, ONES)
    np.testing.assert_array_equal(scaler.transform(TABLE[["site", "age"]], 3), scaler.transform(TABLE, 3))
    with pytest.raises(ValueError, match="lack the columns 'site'"):
        scaler.transform(TABLE.rename(columns={"site": "place"}), 3)


def test_a_word_that_training_did_not_see_is_zeros():
    scaler = CovariateScaler().fit(np.array([["a"], ["b"]], dtype=object), np.ones(2))
    assert scaler.transform(np.array([["new"]], dtype=object), 1).tolist() == [[0, 0]]


def test_weights_count():
    scaler = CovariateScaler().fit(np.array([0.0, 3.0]), np.array([2.0, 1.0]))
    assert scaler.columns[0].mean == pytest.approx(1)


def test_it_can_be_written_down_and_read():
    scaler = CovariateScaler().fit(TABLE, ONES)
    again = CovariateScaler.from_description(json.loads(json.dumps(scaler.describe())))
    np.testing.assert_array_equal(again.transform(TABLE, 3), scaler.transform(TABLE, 3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([1.0, np.nan, 2]), "'covariate 0' of set 1 is nan"),
        (np.zeros((2, 1)), "one row per set: 3 sets, 2 rows"),
        (np.zeros((3, 1, 1)), r"\(N, K\)"),
        (np.zeros((3, 0)), "at least one column"),
    ],
)
def test_other_covariates_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CovariateScaler().fit(given, ONES)


def test_prediction_refuses_what_training_did_not_have():
    scaler = CovariateScaler().fit(TABLE, ONES)
    with pytest.raises(ValueError, match="have 1 columns, but the estimator was fitted with 2"):
        scaler.transform(np.zeros(3), 3)
    with pytest.raises(ValueError, match="fitted with numbers in 'age', but it holds words now, such as 'x'"):
        scaler.transform(TABLE.assign(age=["x", "y", "z"]), 3)


def test_rows_of_some_sets():
    assert choose_rows(TABLE, np.array([2]))["age"].tolist() == [80]
    assert choose_rows(torch.tensor(AGES), np.array([1])).tolist() == [40]


def test_covariates_join_the_pooled_vector_before_the_decoder():
    torch.manual_seed(0)
    plain = ol.create_model("deep_sets++", 3, 2, depth=2, width=8)
    batch = ol.SetBatch.from_list([torch.randn(4, 3), torch.randn(0, 3)])
    expected = plain(batch)
    model = CovariateModel(plain, 2)
    torch.testing.assert_close(model(SetsWithCovariates(batch, torch.zeros(2, 2))), expected, rtol=0, atol=0)
    moved = model(SetsWithCovariates(batch, torch.tensor([[1.0, 0], [0, 0]])))
    assert not torch.equal(moved[0], expected[0])
    torch.testing.assert_close(moved[1], expected[1])


def test_an_estimator_learns_from_covariates_alone_where_sets_tell_nothing():
    X, y, _ = draw(40)
    empty = [np.zeros((2, 1))] * 40
    site = np.where(y, "north", "south").astype(object)
    model = classifier(epochs=10).fit(empty, y, covariates=site)
    assert model.score(empty, y, covariates=site) == 1
    assert model.n_covariates_in_ == 1
    number = regressor(epochs=20).fit(X, 3.0 * y, covariates=pd.DataFrame({"age": y * 10.0}))
    assert number.score(X, 3.0 * y, covariates=pd.DataFrame({"age": y * 10.0})) > 0.9


def test_covariates_are_asked_for_where_there_were_some_and_refused_where_there_were_none():
    X, y, _ = draw()
    with pytest.raises(ValueError, match=r"fitted with 1 covariates: pass covariates= here"):
        classifier(epochs=1).fit(X, y, covariates=y).predict(X)
    with pytest.raises(ValueError, match="fitted without any"):
        classifier(epochs=1).fit(X, y).predict(X, covariates=y)


def test_words_that_read_as_numbers_elsewhere_are_the_same_words():
    scaler = CovariateScaler().fit(pd.DataFrame({"site": ["1", "2", "3A"]}), ONES)
    assert scaler.transform(pd.DataFrame({"site": [1.0, 2.0]}), 2).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_numbers_in_a_list_with_words_stay_numbers():
    scaler = CovariateScaler().fit([[20, "n"], [30, "s"], [40, "n"]], ONES)
    assert [column.categories for column in scaler.columns] == [None, ("n", "s")]


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_a_word_that_is_missing_is_refused(gap):
    with pytest.raises(ValueError, match=r"'site' of set 1 is (None|nan|<NA>)\. Fill in"):
        CovariateScaler().fit(pd.DataFrame({"site": ["a", gap, "b"]}, dtype=object), ONES)


def test_a_number_beyond_float32_is_refused():
    scaler = CovariateScaler().fit([1.0, 2.0, 3.0], ONES)
    with pytest.raises(ValueError, match=r"'covariate 0' of set 1 is 1e\+39"):
        scaler.transform([1.0, 1e39], 2)


def test_covariates_are_clipped_as_elements_are_and_constants_are_zero():
    ages, constant = np.array([40.0, 50.0, 60.0]), np.full(3, 2.0)
    scaler = CovariateScaler().fit(np.column_stack([ages, constant]), np.ones(3))
    found = scaler.transform(np.array([[1e6, 500.0], [-1e6, 2.0], [50.0, -1.0]]), 3)
    np.testing.assert_allclose(found, [[10, 0], [-10, 0], [0, 0]], atol=1e-30)
