"""scikit-learn's checks again, for lists of sets of different sizes: each check has its counterpart here."""

import pickle
import re
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from estimators.ragged import classifier, draw, regressor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import orderless as ol

X, Y, CENTRE = draw(24)
CASES = {"classifier": (classifier, Y), "regressor": (regressor, CENTRE)}
both = pytest.mark.parametrize(("make", "y"), CASES.values(), ids=CASES.keys())
quick = {"epochs": 1}


def outputs(model, sets):
    return model.predict_proba(sets) if hasattr(model, "predict_proba") else model.predict(sets)


@both
def test_parameters_are_set_and_nothing_else_before_fit(make, y):
    kind = type(make())
    names = set(signature(kind.__init__).parameters) - {"self"}
    fresh = kind()
    assert set(vars(fresh)) == set(fresh.get_params()) == names
    odd = kind(width="nonsense").set_params(epochs=-1)  # nothing is looked at before fit
    assert clone(odd).get_params() == odd.get_params()
    assert re.fullmatch(rf"{kind.__name__}\(epochs=-1, width='nonsense'\)", repr(odd))


@both
def test_fit_changes_no_parameter_no_data_and_gives_itself_back(make, y):
    model, copies, target = make(**quick), [x.copy() for x in X], y.copy()
    before = dict(model.get_params())
    assert model.fit(X, y) is model
    assert model.get_params() == before
    assert all(name.endswith("_") or name.startswith("_") or name in before for name in vars(model))
    known = dict(vars(model))
    outputs(model, X)
    assert vars(model) == known
    assert all(np.array_equal(a, b) for a, b in zip(X, copies, strict=True))
    assert np.array_equal(y, target)


@both
def test_a_target_is_asked_for(make, y):
    assert list(signature(make().fit).parameters)[:2] == ["X", "y"]
    assert list(signature(make().score).parameters)[:2] == ["X", "y"]
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        make().fit(X, None)


@both
def test_before_fit_it_says_so(make, y):
    with pytest.raises(NotFittedError):
        make().predict(X)
    with pytest.raises(NotFittedError):
        check_is_fitted(make())
    check_is_fitted(make(**quick).fit(X, y))


@both
def test_the_tags_say_what_it_takes(make, y):
    tags = get_tags(make())
    assert (tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.sparse) == (False, True, False)
    assert not tags.input_tags.allow_nan
    assert not tags.input_tags.positive_only
    assert tags.target_tags.required
    assert not tags.non_deterministic
    assert not hasattr(make(), "partial_fit")
    assert not hasattr(make(), "decision_function")


@both
def test_numbers_and_memory_of_any_kind_give_the_same(make, y):
    whole = [np.round(4 * x) for x in X]  # whole numbers, exact in every type
    expected = outputs(make(**quick).fit(whole, y), whole)
    readonly = [x.copy() for x in whole]
    for x in readonly:
        x.setflags(write=False)
    kinds = {
        "float32": [x.astype(np.float32) for x in whole],
        "int64": [x.astype(np.int64) for x in whole],
        "int8": [x.astype(np.int8) for x in whole],
        "big-endian": [x.astype(">f8") for x in whole],
        "objects": [x.astype(object) for x in whole],
        "Fortran": [np.asfortranarray(x) for x in whole],
        "read-only": readonly,
        "lists": [x.tolist() or np.zeros((0, 3)) for x in whole],
        "frames": [pd.DataFrame(x, columns=list("abc")) for x in whole],
        "tuple": tuple(whole),
        "SetBatch": ol.SetBatch.from_list(whole),
    }
    for name, sets in kinds.items():
        # float32 elements are scaled in float32: 1e-4 covers its rounding through one epoch of training
        np.testing.assert_allclose(outputs(make(**quick).fit(sets, y), sets), expected, atol=1e-4, err_msg=name)


@both
def test_what_is_no_number_is_refused(make, y):
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        make().fit([*X[:-1], np.array([[{}, 1, 2]], dtype=object)], y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        make().fit([*X[:-1], np.zeros((1, 3), complex)], y)
    for value, word in ((np.nan, "NaN"), (np.inf, "inf"), (1e39, r"1e\+39"), (1e300, r"1e\+300")):
        bad = [x.copy() for x in X]
        bad[5][0, 1] = value
        with pytest.raises(ValueError, match=f"feature 1 of element 0 of set 5 is {word}"):
            make().fit(bad, y)
        with pytest.raises(ValueError, match=word):
            make(**quick).fit(X, y).predict(bad)


@both
def test_sparse_sets_are_refused_in_words(make, y):
    class Sparse:
        def toarray(self):
            return np.zeros((1, 3))

    with pytest.raises(TypeError, match="sparse"):
        make().fit([*X[:-1], Sparse()], y)


@both
def test_nothing_is_not_enough(make, y):
    with pytest.raises(ValueError, match="there is no set"):
        make().fit([], [])
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(\d+, 0\)\) while a minimum of 1 is required"):
        make().fit([x[:, :0] for x in X], y)
    with pytest.raises(ValueError, match=r"class|minimum of 2"):
        make().fit(X[:1], y[:1])


@both
def test_one_feature_and_one_set_with_elements_are_enough(make, y):
    one = [x[:, :1] for x in X]
    assert np.isfinite(outputs(make(**quick).fit(one, y), one)).all()
    empty = [np.zeros((0, 2))] * 24
    predicted = outputs(make(**quick).fit([*empty[1:], np.ones((1, 2))], y), empty)
    assert (predicted == predicted[0]).all()


@both
def test_nothing_is_learned_from_empty_sets_alone(make, y):
    with pytest.raises(ValueError, match="all 24 sets are empty: there is nothing to learn from"):
        make().fit([np.zeros((0, 2))] * 24, y)
    with pytest.raises(ValueError, match="all 2 sets are empty"):
        make().fit([[], [], *X[2:]], y, sample_weight=np.arange(24) < 2)


@both
def test_empty_lists_alone_are_predicted(make, y):
    model = make(**quick).fit(X, y)
    np.testing.assert_array_equal(outputs(model, [[], []]), outputs(model, [np.zeros((0, 3))] * 2))
    with pytest.raises(ValueError, match="there is no set"):
        model.predict([])


@both
def test_the_number_of_features_is_that_of_fit(make, y):
    model = make(**quick)
    assert not hasattr(model, "n_features_in_")
    assert model.fit(X, y).n_features_in_ == 3
    with pytest.raises(ValueError, match=r"X has 1 features, but \w+ is expecting 3 features as input"):
        model.predict([x[:, :1] for x in X])
    with pytest.raises(ValueError, match="every set must have the same features"):
        model.predict([*X[:-1], np.zeros((2, 4))])


@both
def test_a_set_of_the_wrong_shape_is_refused(make, y):
    with pytest.raises(ValueError, match="Reshape your data"):
        make().fit([x[:, 0] for x in draw(24, smallest=1)[0]], y)
    with pytest.raises(ValueError, match="Reshape your data"):
        make(**quick).fit(X, y).predict([np.zeros(3)])
    with pytest.raises(ValueError, match="Reshape your data"):
        make().fit(np.zeros((24, 3)), y)


@both
def test_weights_may_come_as_a_series_a_list_or_an_array_and_stay_as_they_are(make, y):
    weight = np.arange(24) % 3.0
    expected = outputs(make(**quick).fit(X, y, sample_weight=weight), X)
    assert np.array_equal(weight, np.arange(24) % 3.0)
    for form in (pd.Series(weight, index=np.arange(24) + 7), weight.tolist(), weight.astype(np.float32)):
        np.testing.assert_array_equal(outputs(make(**quick).fit(X, y, sample_weight=form), X), expected)


@both
def test_wrong_weights_are_refused(make, y):
    with pytest.raises(ValueError, match=r"weight.* zero"):
        make().fit(X, y, sample_weight=np.zeros(24))
    with pytest.raises(ValueError, match="1 dimension"):
        make().fit(X, y, sample_weight=np.ones((24, 2)))


@both
def test_leaving_a_set_out_is_a_weight_of_zero(make, y):
    weight = np.where(np.arange(24) < 20, 1.0, 0.0)
    left_out = make(**quick).fit(X[:20], y[:20])
    np.testing.assert_array_equal(outputs(make(**quick).fit(X, y, sample_weight=weight), X), outputs(left_out, X))


@both
def test_a_pipeline_predicts_as_it_does_alone(make, y):
    alone, piped = make(**quick).fit(X, y), make_pipeline(make(**quick)).fit(X, y)
    np.testing.assert_array_equal(outputs(piped, X), outputs(alone, X))
    assert piped.score(X, y) == alone.score(X, y)


@both
def test_it_survives_pickling(make, y):
    model = make(**quick).fit(X, y)
    np.testing.assert_array_equal(outputs(pickle.loads(pickle.dumps(model)), X), outputs(model, X))
    assert pickle.loads(pickle.dumps(make())).get_params() == make().get_params()


@both
def test_sets_in_another_order_or_fewer_of_them_get_the_same_predictions(make, y):
    model = make(**quick).fit(X, y)
    whole = outputs(model, X)
    order = np.random.default_rng(0).permutation(24)
    # float32 products of other shapes round otherwise
    np.testing.assert_allclose(outputs(model, [X[i] for i in order]), whole[order], atol=1e-6)
    np.testing.assert_allclose(np.concatenate([outputs(model, [x]) for x in X]), whole, atol=1e-6)


@both
def test_fitting_twice_gives_the_same(make, y):
    model = make(**quick).fit(X, y)
    first = outputs(model, X)
    np.testing.assert_array_equal(outputs(model.fit(X, y), X), first)
    assert model.n_iter_ == 1


def test_classes_are_those_that_were_given():
    for labels in (["no", "yes"], [False, True], [-1, 1]):
        y = np.asarray(labels)[Y]
        model = classifier(**quick).fit(X, y)
        assert model.classes_.tolist() == labels
        assert set(model.predict(X)) <= set(labels)
        assert model.predict(X).dtype == y.dtype
    with pytest.raises(ValueError, match="class"):
        classifier().fit(X, np.ones(24))
    with pytest.raises(ValueError, match="class"):
        classifier().fit(X, Y, sample_weight=Y)
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, CENTRE)


@both
def test_targets_that_are_missing_or_columns_are_treated_as_scikit_learn_does(make, y):
    with pytest.raises(ValueError, match="NaN"):
        make().fit(X, np.where(np.arange(24) == 3, np.nan, y))
    if make is classifier:
        with pytest.warns(match="A column-vector y was passed"):
            column = make(**quick).fit(X, y[:, None])
    else:
        column = make(**quick).fit(X, y[:, None])
    np.testing.assert_array_equal(outputs(column, X).ravel(), outputs(make(**quick).fit(X, y), X).ravel())


@both
def test_it_learns_from_ragged_sets(make, y):
    sets, labels, centre = draw(40, smallest=2)
    target = labels if make is classifier else centre
    assert make(epochs=12).fit(sets, target).score(sets, target) > 0.8


def test_rare_classes_can_be_made_to_count():
    y = (np.arange(24) >= 20).astype(int)
    plain, heavy = (classifier(epochs=5, class_weight=w).fit(X, y) for w in (None, {0: 1e-3, 1: 1.0}))
    assert heavy.predict(X).sum() > plain.predict(X).sum()
    assert heavy.predict(X).mean() > 0.87  # as scikit-learn asks


def test_whole_numbers_are_targets_as_good_as_others():
    y = np.round(10 * CENTRE)
    np.testing.assert_array_equal(regressor(**quick).fit(X, y).predict(X), regressor(**quick).fit(X, y.astype(int)).predict(X))
    assert regressor(**quick).fit(X, np.column_stack([y, y])).predict(X).shape == (24, 2)


_PARAMETERS = "test_parameters_are_set_and_nothing_else_before_fit"
_UNCHANGED = "test_fit_changes_no_parameter_no_data_and_gives_itself_back"
_TAGS = "test_the_tags_say_what_it_takes"
_KINDS = "test_numbers_and_memory_of_any_kind_give_the_same"
_WEIGHT_FORMS = "test_weights_may_come_as_a_series_a_list_or_an_array_and_stay_as_they_are"
_NOT_NUMBERS = "test_what_is_no_number_is_refused"
_SPARSE = "test_sparse_sets_are_refused_in_words"
_CLASSES = "test_classes_are_those_that_were_given"
_SUBSETS = "test_sets_in_another_order_or_fewer_of_them_get_the_same_predictions"
_TARGETS = "test_targets_that_are_missing_or_columns_are_treated_as_scikit_learn_does"
_SHAPE = "test_a_set_of_the_wrong_shape_is_refused"
_LEARNS = "test_it_learns_from_ragged_sets"
COUNTERPARTS = {
    "check_estimator_cloneable": _PARAMETERS,
    "check_estimator_repr": _PARAMETERS,
    "check_no_attributes_set_in_init": _PARAMETERS,
    "check_do_not_raise_errors_in_init_or_set_params": _PARAMETERS,
    "check_parameters_default_constructible": _PARAMETERS,
    "check_get_params_invariance": _PARAMETERS,
    "check_set_params": _PARAMETERS,
    "check_estimators_overwrite_params": _UNCHANGED,
    "check_dont_overwrite_parameters": _UNCHANGED,
    "check_estimators_fit_returns_self": _UNCHANGED,
    "check_dict_unchanged": _UNCHANGED,
    "check_fit_score_takes_y": "test_a_target_is_asked_for",
    "check_requires_y_none": "test_a_target_is_asked_for",
    "check_estimators_unfitted": "test_before_fit_it_says_so",
    "check_fit_check_is_fitted": "test_before_fit_it_says_so",
    "check_estimator_tags_renamed": _TAGS,
    "check_valid_tag_types": _TAGS,
    "check_mixin_order": _TAGS,
    "check_positive_only_tag_during_fit": _TAGS,
    "check_estimators_partial_fit_n_features": _TAGS,
    "check_decision_proba_consistency": _TAGS,
    "check_regressors_no_decision_function": _TAGS,
    "check_estimators_dtypes": _KINDS,
    "check_readonly_memmap_input": _KINDS,
    "check_f_contiguous_array_estimator": _KINDS,
    "check_classifier_data_not_an_array": _KINDS,
    "check_regressor_data_not_an_array": _KINDS,
    "check_array_api_input": _KINDS,
    "check_sample_weights_pandas_series": _WEIGHT_FORMS,
    "check_sample_weights_not_an_array": _WEIGHT_FORMS,
    "check_sample_weights_list": _WEIGHT_FORMS,
    "check_sample_weights_not_overwritten": _WEIGHT_FORMS,
    "check_all_zero_sample_weights_error": "test_wrong_weights_are_refused",
    "check_sample_weights_shape": "test_wrong_weights_are_refused",
    "check_sample_weight_equivalence_on_dense_data": "test_leaving_a_set_out_is_a_weight_of_zero",
    "check_complex_data": _NOT_NUMBERS,
    "check_dtype_object": _NOT_NUMBERS,
    "check_estimators_nan_inf": _NOT_NUMBERS,
    "check_estimator_sparse_tag": _SPARSE,
    "check_estimator_sparse_array": _SPARSE,
    "check_estimator_sparse_matrix": _SPARSE,
    "check_estimators_empty_data_messages": "test_nothing_is_not_enough",
    "check_fit2d_1sample": "test_nothing_is_not_enough",
    "check_fit2d_1feature": "test_one_feature_and_one_set_with_elements_are_enough",
    "check_pipeline_consistency": "test_a_pipeline_predicts_as_it_does_alone",
    "check_estimators_pickle": "test_it_survives_pickling",
    "check_n_features_in": "test_the_number_of_features_is_that_of_fit",
    "check_n_features_in_after_fitting": "test_the_number_of_features_is_that_of_fit",
    "check_fit1d": _SHAPE,
    "check_fit2d_predict1d": _SHAPE,
    "check_methods_sample_order_invariance": _SUBSETS,
    "check_methods_subset_invariance": _SUBSETS,
    "check_fit_idempotent": "test_fitting_twice_gives_the_same",
    "check_non_transformer_estimators_n_iter": "test_fitting_twice_gives_the_same",
    "check_classifiers_one_label": _CLASSES,
    "check_classifiers_one_label_sample_weights": _CLASSES,
    "check_classifiers_classes": _CLASSES,
    "check_classifiers_regression_target": _CLASSES,
    "check_supervised_y_no_nan": _TARGETS,
    "check_supervised_y_2d": _TARGETS,
    "check_class_weight_classifiers": "test_rare_classes_can_be_made_to_count",
    "check_classifiers_train": _LEARNS,
    "check_regressors_train": _LEARNS,
    "check_regressor_multioutput": "test_whole_numbers_are_targets_as_good_as_others",
    "check_regressors_int": "test_whole_numbers_are_targets_as_good_as_others",
}
