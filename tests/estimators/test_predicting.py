import numpy as np
import pytest
from estimators.ragged import classifier, draw, regressor
from legal import few_centroids_and_pixels

from orderless.estimators import SetRegressor, defaults, predicting

X, Y, CENTRE = draw(24, largest=40)
NEW = [np.random.default_rng(1).normal(size=(n, 3)) for n in (0, 1, 90, 7, 33)]


@pytest.fixture(scope="module")
def fitted():
    return classifier(ensemble_size=2).fit(X, Y)


def test_a_prediction_does_not_depend_on_who_else_is_predicted(fitted):
    together = fitted.predict_proba(NEW)
    alone = np.concatenate([fitted.predict_proba([x]) for x in NEW])
    np.testing.assert_allclose(alone, together, atol=1e-6)  # float32: products of other shapes round otherwise
    np.testing.assert_allclose(fitted.predict_proba(NEW[::-1])[::-1], together, atol=1e-6)


@pytest.mark.parametrize("model", ["deep_sets++", "set_transformer++"])
@pytest.mark.parametrize("covariates", [None, CENTRE], ids=["alone", "covariates"])
def test_a_set_larger_than_a_batch_goes_through_in_chunks_with_the_same_answer(monkeypatch, model, covariates):
    fitted = regressor(model=model, epochs=1).fit(X, CENTRE, covariates=covariates)
    beside = None if covariates is None else np.arange(5.0)
    at_once = fitted.predict(NEW, covariates=beside)
    asked = []
    monkeypatch.setattr(defaults, "LARGE_SET", 10)
    monkeypatch.setattr(predicting.chunked, "predict", lambda *a: asked.append(1) or chunked_predict(*a, chunk_elements=16))
    np.testing.assert_allclose(fitted.predict(NEW, covariates=beside), at_once, atol=1e-5)  # float32 in another order
    assert len(asked) == 2


chunked_predict = predicting.chunked.predict


def test_batches_by_elements_change_nothing(monkeypatch, fitted):
    at_once = fitted.predict_proba(NEW)
    monkeypatch.setattr(defaults, "PREDICT_ELEMENTS", 35)
    np.testing.assert_allclose(fitted.predict_proba(NEW), at_once, atol=1e-6)


@pytest.mark.parametrize("budget", [10, 1_000])
def test_a_missing_number_is_found_in_batches_and_in_chunks(monkeypatch, fitted, budget):
    monkeypatch.setattr(defaults, "LARGE_SET", budget)
    bad = [x.copy() for x in NEW]
    bad[2][55, 1] = np.nan
    with pytest.raises(ValueError, match="feature 1 of element 55 of set 2 is NaN"):
        fitted.predict(bad)


def test_predict_takes_all_elements_whatever_training_drew():
    model = regressor(max_elements=3, epochs=2).fit(X, CENTRE)
    far = np.concatenate([NEW[2], np.full((30, 3), 5.0)])
    assert model.predict([far])[0] != model.predict([NEW[2]])[0]
    np.testing.assert_array_equal(model.predict([far]), model.predict([far]))


def test_networks_that_measure_distances_get_large_sets_in_one_piece(monkeypatch):
    with few_centroids_and_pixels():
        model = SetRegressor("simpleview", epochs=1, ensemble_size=1, random_state=0, device="cpu").fit(X[:4], CENTRE[:4])
    at_once = model.predict(NEW)
    monkeypatch.setattr(defaults, "LARGE_SET", 10)
    np.testing.assert_array_equal(model.predict(NEW), at_once)
