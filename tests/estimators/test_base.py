"""What both estimators do as scikit-learn's do: parameters, weights, seeds, going on, and working inside its tools."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from estimators.ragged import classifier, draw, regressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import orderless as ol
from orderless.estimators import defaults, members
from orderless.estimators.base import SetEstimator
from orderless.io import MemorySets, Samples

X, Y, CENTRE = draw(30)


def as_objects(sets):
    array = np.empty(len(sets), dtype=object)
    array[:] = sets
    return array


def same(a, b):
    return np.array_equal(a.predict(X), b.predict(X))


FORMS = {"list": X, "object array": as_objects(X), "Series": pd.Series(X)}
forms = pytest.mark.parametrize("given", FORMS.values(), ids=FORMS.keys())


@forms
def test_it_works_inside_cross_val_score(given):
    scores = cross_val_score(classifier(), given, Y, cv=3)
    assert np.isfinite(scores).all()
    assert cross_val_predict(regressor(epochs=1), given, CENTRE, cv=2).shape == (30,)


@forms
def test_it_works_inside_a_grid_search(given):
    search = GridSearchCV(classifier(epochs=1), {"width": [4, 8], "pool": ["max"]}, cv=2).fit(given, Y)
    assert search.best_estimator_.models_[0].config.pool == "max"
    assert search.predict(given).shape == (30,)


def test_numbers_of_numpy_are_taken_as_pythons_own(tmp_path):
    # as a grid of np.logspace and np.arange gives them; np.float32 is no float of Python's
    given = {"learning_rate": np.float32(2**-10), "weight_decay": np.float32(0.5), "patience": np.int64(2), "epochs": np.int64(1)}
    model = classifier(**given, ensemble_size=1, work_dir=tmp_path).fit(X, Y)
    assert same(model, classifier(**{name: value.item() for name, value in given.items()}, ensemble_size=1).fit(X, Y))


@forms
def test_it_works_inside_a_pipeline(given):
    shifted = FunctionTransformer(lambda sets: [x + 1 for x in sets])
    pipeline = make_pipeline(shifted, classifier()).fit(given, Y)
    assert pipeline.predict_proba(given).shape == (30, 2)
    assert pipeline.set_params(setclassifier__epochs=1).named_steps["setclassifier"].epochs == 1


@forms
def test_it_works_inside_a_calibration(given):
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(given, Y)
    np.testing.assert_allclose(calibrated.predict_proba(given).sum(1), 1)


def test_groups_weights_and_covariates_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier(epochs=1).set_fit_request(sample_weight=True, groups=True, covariates=True)
        model.set_predict_request(covariates=True).set_score_request(sample_weight=True, covariates=True)
        known = {"sample_weight": np.ones(30), "groups": np.arange(30) // 3, "covariates": CENTRE}
        scores = cross_val_score(model, X, Y, cv=GroupKFold(3), params=known)
    assert np.isfinite(scores).all()


def test_parameters_are_kept_as_given_and_cloned():
    model = classifier(pool="max", class_weight={0: 2.0, 1: 1.0})
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not [name for name in vars(again) if name.endswith("_")]
    assert again.set_params(width=4).width == 4
    assert set(regressor().get_params()) == set(model.get_params()) - {"class_weight"}


def test_a_fitted_estimator_can_be_pickled():
    model = classifier(ensemble_size=2).fit(X, Y, covariates=CENTRE)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X, covariates=CENTRE), model.predict_proba(X, covariates=CENTRE))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score"])
def test_before_fit_nothing_is_predicted(method):
    with pytest.raises(NotFittedError):
        getattr(classifier(), method)(*([X, Y] if method == "score" else [X]))


def test_the_same_seed_gives_the_same_predictions_and_leaves_random_numbers_alone():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the user's own
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    first = regressor(random_state=3).fit(X, CENTRE)
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002
    assert same(first, regressor(random_state=3).fit(X, CENTRE))
    assert same(first, first.fit(X, CENTRE))
    assert not same(first, regressor(random_state=4).fit(X, CENTRE))
    draws = np.random.RandomState(0)
    model = regressor(random_state=draws)
    before = model.fit(X, CENTRE).predict(X)
    assert not np.array_equal(before, model.fit(X, CENTRE).predict(X))
    assert not same(regressor(random_state=None).fit(X, CENTRE), regressor(random_state=None).fit(X, CENTRE))


def test_a_set_of_weight_zero_is_as_if_it_were_not_there():
    weight = (np.arange(30) % 5 != 0).astype(float)
    kept = weight > 0
    weighed = regressor(max_elements=4).fit(X, CENTRE, sample_weight=weight, covariates=Y)
    absent = regressor(max_elements=4).fit([x for x, k in zip(X, kept, strict=True) if k], CENTRE[kept], covariates=Y[kept])
    np.testing.assert_array_equal(weighed.predict(X, covariates=Y), absent.predict(X, covariates=Y))


def test_all_weights_times_two_change_nothing():
    assert same(regressor().fit(X, CENTRE), regressor().fit(X, CENTRE, sample_weight=np.full(30, 2.0)))


def test_weights_move_predictions_towards_the_heavy():
    same_sets = [np.zeros((3, 1))] * 40
    y = np.arange(40) % 2
    heavy = np.where(y, 9.0, 1.0)
    model = classifier(epochs=30).fit(same_sets, y, sample_weight=heavy)
    # without weights both are near 0.5; steps of finite size do not get to 0.9 exactly
    assert model.predict_proba(same_sets)[0, 1] == pytest.approx(0.9, abs=0.08)
    number = regressor(epochs=30).fit(same_sets, y, sample_weight=heavy)
    assert number.predict(same_sets)[0] == pytest.approx(0.9, abs=0.08)


@pytest.mark.parametrize("wrong", [np.ones(29), -np.ones(30), np.full(30, np.nan), np.ones((30, 2)), np.zeros(30)])
def test_wrong_weights_are_refused(wrong):
    with pytest.raises(ValueError, match="sample_weight"):
        regressor().fit(X, CENTRE, sample_weight=wrong)


def test_warm_start_goes_on_from_the_weights_with_the_scaling_it_had():
    start = regressor(epochs=1, warm_start=True, learning_rate=1e-30).fit(X, CENTRE)  # a rate that moves nothing
    before, scaler = start.predict(X), start.scaler_
    start.fit(X, CENTRE + 100)
    np.testing.assert_array_equal(start.predict(X), before)
    assert start.scaler_ is scaler
    start.set_params(warm_start=False).fit(X, CENTRE + 100)
    assert start.predict(X).mean() > 50
    with pytest.raises(ValueError, match="3 networks"):
        regressor(epochs=1, warm_start=True, ensemble_size=3).fit(X, CENTRE).set_params(ensemble_size=2).fit(X, CENTRE)
    labels = classifier(epochs=1, warm_start=True).fit(X, Y)
    labels.fit(X, np.ones(30, int))  # one of the classes that it knows
    assert labels.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"classes \[0, 1\], got \[0, 1, 2\]"):
        labels.fit(X, np.arange(30) % 3)


def state(model):
    """All that it has, and what it predicts."""
    return dict(vars(model)), model.predict(X).tolist()


def as_it_was(model, before):
    attributes, predicted = before
    same_objects = vars(model).keys() == attributes.keys() and all(vars(model)[name] is attributes[name] for name in attributes)
    return same_objects and model.predict(X).tolist() == predicted


def test_a_refit_that_fails_leaves_the_classifier_as_it_was():
    """Of three words, two outputs would have said the first or the second."""
    model = classifier(epochs=1).fit(X, Y)
    before = state(model)
    words = np.array(["fit", "ill", "sick"])[np.arange(30) % 3]
    broken = [np.full((1, 3), np.nan), *X[1:]]
    with pytest.raises(ValueError, match="of set 0 is NaN"):
        model.fit(broken, words)
    assert as_it_was(model, before)
    with pytest.raises(ValueError, match="of set 0 is NaN"):
        model.fit(pd_frames(broken), words, covariates=CENTRE)
    assert as_it_was(model, before)


def pd_frames(sets):
    return [pd.DataFrame(x, columns=list("abc")) for x in sets]


@pytest.mark.parametrize("options", [{}, {"warm_start": True}], ids=["anew", "going on"])
def test_a_refit_that_is_stopped_leaves_the_regressor_as_it_was(monkeypatch, options):
    """In the second network: the first is trained, and must not predict beside an old one, nor in another unit."""
    model = regressor(epochs=2, ensemble_size=2, **options).fit(X, CENTRE)
    before, trained = state(model), []

    def train_one(*args, **kwargs):
        if trained:
            raise KeyboardInterrupt
        trained.append(members.train_member(*args, **kwargs))
        return trained[-1]

    monkeypatch.setattr("orderless.estimators.base.train_member", train_one)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, CENTRE * 1000)
    assert as_it_was(model, before)


def test_a_first_fit_that_fails_leaves_nothing():
    model = classifier(epochs=1)
    with pytest.raises(ValueError, match="of set 0 is NaN"):
        model.fit([np.full((1, 3), np.nan), *X[1:]], Y)
    assert vars(model) == vars(classifier(epochs=1))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_refit_forgets_what_the_last_fit_knew_and_it_does_not():
    model = regressor(epochs=1).fit(pd_frames(X), CENTRE, covariates=Y)
    model.fit(X, CENTRE)
    assert not hasattr(model, "feature_names_in_")
    assert (model.n_covariates_in_, model.covariate_scaler_) == (0, None)


def test_members_of_the_ensemble_differ_and_are_averaged():
    model = regressor(ensemble_size=3).fit(X, CENTRE)
    assert len(model.models_) == len(model.history_) == 3
    alone = []
    for network in list(model.models_):
        model.models_ = [network]
        alone.append(model.predict(X))
    assert not np.array_equal(alone[0], alone[1])
    model.fit(X, CENTRE)
    np.testing.assert_allclose(model.predict(X), np.mean(alone, axis=0))


def test_a_group_in_two_spellings_is_refused():
    groups = [f"p{n}" for n in range(29)] + ["P0"]
    with pytest.raises(ValueError, match="groups must have one spelling each, but 'p0' and 'P0' differ only by capitals"):
        regressor().fit(X, Y, groups=groups)


def test_validation_sets_stop_training_and_groups_never_straddle(monkeypatch):
    seen = []

    def spy(network, lesson, split, settings, **rest):
        seen.append(split)
        return members.train_member(network, lesson, split, settings, **rest)

    monkeypatch.setattr("orderless.estimators.base.train_member", spy)
    groups = np.arange(30) // 3
    noise = np.random.default_rng(0).normal(size=30)
    model = regressor(epochs=60, patience=2, ensemble_size=2, learning_rate=0.3).fit(X, noise, groups=groups)
    assert all(not set(groups[learn]) & set(groups[validate]) and len(validate) for learn, validate in seen)
    assert model.n_iter_ < 60
    rows = model.history_[0]
    best = min(row["validation_mse"] for row in rows[1:])
    assert [row["validation_mse"] for row in rows[1:]].index(best) == len(rows) - 1 - 1 - 2


def test_few_sets_are_all_learned_from_to_the_last_epoch():
    few = defaults.MIN_SETS_TO_VALIDATE - 1
    model = regressor(epochs=4, patience=1).fit(X[:few], CENTRE[:few])
    assert [row["epoch"] for row in model.history_[0]] == [0, 1, 2, 3, 4]
    assert not [name for row in model.history_[0] for name in row if name.startswith("validation")]
    assert regressor(epochs=2, validation_fraction=0).fit(X, CENTRE).n_iter_ == 2


def test_a_long_table_is_fitted_by_the_names_of_its_columns():
    rows = [(f"s{i}", *element, Y[i], CENTRE[i], i // 2) for i, x in enumerate(X) for element in x]
    frame = pd.DataFrame(rows, columns=["who", "a", "b", "c", "sick", "age", "patient"]).sample(frac=1, random_state=0)
    model = classifier(set_id="who").fit(frame, "sick", groups="patient", covariates=["age"])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_covariates_in_ == 1
    order = frame["who"].drop_duplicates().tolist()
    again = model.predict_proba(frame[["age", "c", "who", "a", "b"]], covariates=["age"])
    lists = [frame.loc[frame["who"] == name, ["a", "b", "c"]].to_numpy() for name in order]
    ages = frame.drop_duplicates("who")[["age"]]
    np.testing.assert_allclose(again, model.predict_proba(lists, covariates=ages), atol=1e-6)  # float32, other batches
    with pytest.raises(ValueError, match="lacks the features b"):
        model.predict(frame.drop(columns="b"), covariates=["age"])


def test_samples_are_fitted_as_they_are():
    samples = Samples(MemorySets(X), tuple(f"p{i}" for i in range(30)), ("a", "b", "c"))
    model = classifier(max_elements=5).fit(samples, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    turned = Samples(MemorySets([x[:, ::-1] for x in X]), samples.ids, ("c", "b", "a"))
    np.testing.assert_array_equal(model.predict_proba(turned), model.predict_proba(samples))
    assert clone(model).fit(samples.select(range(25)), Y[:25]).score(samples, Y) >= 0


def test_every_form_gives_the_same_predictions():
    dense = np.random.default_rng(0).normal(size=(24, 5, 3)).astype(np.float32)
    y = dense.mean((1, 2))
    expected = regressor().fit(list(dense), y).predict(dense)
    for form in (dense, torch.from_numpy(dense), ol.SetBatch.from_padded(torch.from_numpy(dense)), as_objects(list(dense))):
        np.testing.assert_array_equal(regressor().fit(form, y).predict(form), expected)


def test_what_comes_beside_the_sets_may_be_tensors_of_any_precision():
    halves = [torch.as_tensor(values, dtype=torch.bfloat16) for values in (Y, np.ones(30), CENTRE)]
    target, weight, age = (half.requires_grad_() for half in halves)
    model = regressor(epochs=1).fit(X, target, sample_weight=weight, groups=weight, covariates=age)
    same = regressor(epochs=1).fit(X, Y, groups=np.ones(30), covariates=age.detach().float().numpy())
    np.testing.assert_array_equal(model.predict(X, covariates=age), same.predict(X, covariates=age))
    assert model.score(X, target, covariates=age) == same.score(X, Y, covariates=age)
    assert classifier(epochs=1).fit(X, target).classes_.tolist() == [0, 1]


def test_the_number_of_features_must_be_that_of_training():
    with pytest.raises(ValueError, match="X has 2 features, but SetRegressor is expecting 3 features as input"):
        regressor(epochs=1).fit(X, CENTRE).predict([np.zeros((1, 2))])


WRONG = {
    "model": ("deep_set", "model must be one of"),
    "depth": (1, "depth must be at least 2"),
    "pool": ("median", "pool must be one of"),
    "num_inducing": (4, "num_inducing=4 has no effect"),
    "epochs": ("many", "epochs must be a whole number of at least 1, or 'auto'; got 'many'"),
    "batch_elements": (0, "batch_elements"),
    "max_elements": (2.5, "max_elements must be a whole number of at least 1, or 'auto', or None"),
    "ensemble_size": (0, "ensemble_size"),
    "patience": (0, "patience"),
    "learning_rate": (np.inf, "learning_rate must be a finite number of at least 1e-30; got inf"),
    "weight_decay": (-1.0, "weight_decay"),
    "noise": (-0.1, "noise must be a finite number from 0 to 100; got -0.1"),
    "validation_fraction": (1.0, "validation_fraction must be a finite number from 0 to 0.9"),
    "set_id": (["p"], r"set_id must be the name of a column, or None; got \['p'\]"),
    "work_dir": (5, "work_dir must be the path of a folder, or None; got 5"),
    "warm_start": ("no", "warm_start must be True or False; got 'no'"),
    "verbose": ("x", "verbose must be a whole number, or True or False; got 'x'"),
    "device": ("tpu", "device must be"),
}


def test_weights_that_are_no_numbers_are_refused_by_their_name():
    with pytest.raises(ValueError, match="sample_weight must be numbers, one of each set: could not convert"):
        classifier().fit(X, Y, sample_weight=["a"] * len(X))


def test_no_noise_may_be_said_in_two_ways():
    models = [classifier(noise=noise, random_state=0).fit(X, Y) for noise in (0, None, 0.4)]
    first, second, noisy = (model.predict_proba(X) for model in models)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, noisy)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_parameter_is_refused_in_fit_and_not_before(name):
    value, message = WRONG[name]
    model = regressor(**{name: value})
    with pytest.raises(ValueError, match=message):
        model.fit(X, CENTRE)


def test_a_sum_over_part_of_a_set_is_refused():
    with pytest.raises(ValueError, match="pool='sum' adds up all elements"):
        regressor(pool="sum", max_elements=5).fit(X, CENTRE)
    assert regressor(pool="sum", epochs=1).fit(X, CENTRE).predict(X).shape == (30,)


def test_every_network_can_be_fitted():
    for name in ol.list_models():
        if name in ("pointnet++", "simpleview"):  # for points in space alone: see below
            continue
        options = {"depth": None, "width": 8} if name.endswith("pointcloud") else {}
        assert np.isfinite(regressor(model=name, epochs=1, **options).fit(X, CENTRE).predict(X)).all()


@pytest.mark.parametrize("name", ["pointnet++", "simpleview"])
def test_networks_for_point_clouds_are_fitted_to_points_in_space(name):
    clouds = [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (5, 9, 1, 12, 7, 3)]
    y = np.arange(6.0)
    options = {"model": name, "depth": None, "width": 32, "epochs": 1}
    assert np.isfinite(regressor(**options).fit(clouds, y).predict(clouds)).all()
    with pytest.raises(ValueError, match="in_features must be 3"):
        regressor(**options).fit([cloud[:, :2] for cloud in clouds], y)


def test_verbose_says_nothing_where_there_is_no_terminal(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor(epochs=1, verbose=1).fit(X, CENTRE)
    assert capfd.readouterr() == ("", "")


def test_a_target_is_required():
    with pytest.raises(ValueError, match="requires y"):
        classifier().fit(X, None)
    with pytest.raises(NotImplementedError):
        SetEstimator()._num_outputs()


def test_the_docs_describe_every_option():
    text = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text()
    described = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.M))
    assert described == {name: repr(value) for name, value in ol.SetClassifier().get_params().items()}


# ---------------------------------------------------------------------------------------- what is said beside a long table


def long_table(**columns):
    """Sets s11, s10, ... in this order, and columns that are the same in all rows of a set."""
    full = [i for i, x in enumerate(X) if len(x)][::-1]
    frames = [pd.DataFrame(X[i], columns=list("abc")).assign(sid=f"s{i}", **{k: v[i] for k, v in columns.items()}) for i in full]
    return pd.concat(frames, ignore_index=True), full


def test_what_was_taken_from_the_table_is_no_feature():
    table, full = long_table(out=Y, weight=np.ones(30), who=np.arange(30) % 7)
    model = classifier(set_id="sid").fit(table, table["out"], sample_weight=table["weight"], groups=table["who"])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    by_name = classifier(set_id="sid").fit(table, "out", sample_weight="weight", groups="who")
    np.testing.assert_array_equal(model.predict_proba(table), by_name.predict_proba(table))
    assert model.score(table, "out") == model.score(table, Y[full])


def test_the_target_among_the_features_is_refused():
    table, full = long_table(out=Y)
    with pytest.raises(ValueError, match="column 'out' of the table is the target: name it, y='out'"):
        classifier(set_id="sid").fit(table, Y[full])
    with pytest.raises(ValueError, match="column 'out' of the table is the target"):
        regressor(set_id="sid").fit(table, np.stack([CENTRE[full], Y[full]], 1))


def frames(**columns):
    """The sets as DataFrames in a list, the empty ones too."""
    return [pd.DataFrame(x, columns=list("abc")).assign(**{k: v[i] for k, v in columns.items()}) for i, x in enumerate(X)]


def test_the_target_among_the_columns_of_a_list_of_tables_is_refused():
    with pytest.raises(ValueError, match="column 'out' of the sets is the target, y, in every row: leave it out"):
        classifier().fit(frames(out=Y), Y)
    with pytest.raises(ValueError, match="column 'out' of the sets is the target"):
        regressor().fit(frames(out=CENTRE), np.stack([Y, CENTRE], 1))


def test_the_target_among_features_without_names_is_warned_of():
    sets = [np.column_stack([x, np.full(len(x), y)]) for x, y in zip(X, Y, strict=True)]
    with pytest.warns(UserWarning, match="feature 3 is the target, y, in every element of every set") as told:
        classifier(epochs=1).fit(sets, Y)
    assert [Path(warning.filename) for warning in told] == [Path(__file__)]


def test_names_of_sets_in_a_list_of_tables_are_no_feature():
    patients = np.arange(len(X))
    model = classifier(set_id="patient", epochs=1).fit(frames(patient=patients), Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict_proba(frames(patient=patients + 100)), model.predict_proba(frames()))
    mixed = frames(patient=patients)
    place = next(i for i, x in enumerate(X) if len(x) > 1)
    mixed[place].loc[0, "patient"] = 99
    with pytest.raises(ValueError, match=rf"set {place} has rows of 2 sets by its column 'patient': 99, {place}\. .*pd\.concat"):
        model.fit(mixed, Y)


def test_columns_of_sets_in_a_list_of_tables_are_warned_of_and_slips_refused():
    with pytest.warns(UserWarning, match=r"one value per set: control\. .*tell the target.* from the sets"):
        classifier(epochs=1).fit(frames(control=1 - Y), Y)
    sets = frames(control=1 - Y)
    place = next(i for i, x in enumerate(X) if len(x) > 2)
    sets[place].loc[2, "control"] = Y[place]
    says = rf"column 'control' of the sets .*: set {place} \({1 - Y[place]}, and {Y[place]} in row 2\)\."
    with pytest.raises(ValueError, match=says):
        classifier(epochs=1).fit(sets, Y)


def test_an_outcome_with_a_slip_among_the_features_is_refused():
    table, full = long_table(out=Y, control=1 - Y)
    last = full[0]  # the first set of the table
    table.loc[1, "control"] = Y[last]
    says = rf"column 'control' .* within 1 of \d+: set 's{last}' \({1 - Y[last]}, and {Y[last]} in row 1\)\. .*drop the column"
    with pytest.raises(ValueError, match=says):
        classifier(set_id="sid").fit(table, "out")
    with pytest.raises(ValueError, match="column 'control' of the table is the same in all rows of nearly every set"):
        classifier(set_id="sid").fit(table.sample(frac=1, random_state=0), "out")
    lists = [table.loc[table["sid"] == f"s{i}", [*"abc", "control"]].to_numpy() for i in full]
    classifier(epochs=1).fit(lists, Y[full])  # these features were chosen


def test_features_with_one_value_per_set_are_warned_of_when_fitting():
    table, _ = long_table(out=Y, control=1 - Y, age=CENTRE, year=np.full(30, 2024))
    model = classifier(set_id="sid", epochs=1)
    with pytest.warns(UserWarning, match=r"one value per set: control, age\. .*tell the target.* Drop .* covariates="):
        model.fit(table, "out")
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "control", "age", "year"]
    model.predict(table)
    model.fit(table.drop(columns="control"), "out", covariates=["age"])
    model.fit(table.drop_duplicates("sid"), "out")  # every set has one row


def test_features_that_number_rows_are_warned_of_when_fitting():
    table, _ = long_table(out=Y)
    rng = np.random.default_rng(0)
    table = table.assign(cell=np.arange(len(table)) + 7, gaps=np.cumsum(rng.integers(1, 4, len(table))))
    table["Unnamed: 0"] = rng.permutation(len(table))
    model = classifier(set_id="sid", epochs=1)
    with pytest.warns(UserWarning, match="features that") as told:
        model.fit(table, "out")
    said = [str(warning.message) for warning in told]
    for reason in ("count the rows one by one: cell", "go up with every row: gaps", "are called as an index is: Unnamed: 0"):
        assert sum(text.startswith(f"features that {reason}. They are no measurements") for text in said) == 1
    assert len(said) == 3
    assert all(Path(warning.filename) == Path(__file__) for warning in told)
    numbers = ["cell", "gaps", "Unnamed: 0"]
    model.fit(table.drop(columns=numbers), "out")
    mixed = table.sample(frac=1, random_state=0)
    with pytest.warns(UserWarning, match="features that are whole numbers of which every set has a range of its own") as told:
        model.fit(mixed.drop(columns="Unnamed: 0"), "out")  # the table was sorted by set before it was shuffled
    assert ": cell, gaps. They are no measurements" in str(told[0].message)


def test_columns_may_be_called_by_numbers():
    table, _ = long_table(out=Y)
    table = table.rename(columns={"a": 0, "b": 1, "c": 2})
    assert classifier(set_id="sid", epochs=1).fit(table, "out").feature_names_in_.tolist() == ["0", "1", "2"]


def test_labels_that_are_called_like_features_leave_these_alone():
    table, full = long_table()
    model = classifier(set_id="sid").fit(
        table, [("a", "other")[y] for y in Y[full]], groups=["b", "c"] * (len(full) // 2) + ["b"] * (len(full) % 2)
    )
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_values_with_the_names_of_sets_go_by_name():
    table, full = long_table()
    named = pd.Series(Y[full], index=[f"s{i}" for i in full])
    ages = pd.DataFrame({"age": CENTRE[full]}, index=named.index)
    plain = classifier(set_id="sid").fit(table, Y[full], covariates=ages.to_numpy())
    shuffled = classifier(set_id="sid").fit(table, named.sort_index(), covariates=ages.sort_index())
    np.testing.assert_array_equal(
        plain.predict_proba(table, covariates=ages.to_numpy()), shuffled.predict_proba(table, covariates=ages.sort_index())
    )


WRONG_NAMES = {
    "mistyped": ({"s7": "s07"}, r"values of no set \(s07\) and no value of \(s7\)"),
    "twice": ({"s7": "s9"}, r"more than one value of \(s9\) and no value of \(s7\)"),
    "most of them": (
        {f"s{i}": f"S{i}" for i in range(30) if i != 7},
        r"values of no set \(S.* and \d+ more\) and no value of \(",
    ),
}


@pytest.mark.parametrize(("renamed", "says"), WRONG_NAMES.values(), ids=WRONG_NAMES.keys())
@pytest.mark.parametrize("name", ["y", "sample_weight", "groups", "covariates"])
def test_names_of_which_some_are_no_sets_are_refused_and_not_passed_over(name, renamed, says):
    table, full = long_table()
    named = pd.Series(Y[full] + 1, index=[f"s{i}" for i in full]).sort_index().rename(index=renamed)
    given = {"y": Y[full], name: named.to_frame("age") if name == "covariates" else named}
    with pytest.raises(ValueError, match=rf"{name} has names of sets in its index .* but has {says}.*pass {name}\.to_numpy\(\)"):
        classifier(set_id="sid").fit(table, **given)


def test_a_set_without_a_value_and_values_of_further_sets_are_named():
    table, full = long_table()
    named = pd.Series(Y[full], index=[f"s{i}" for i in full])
    with pytest.raises(ValueError, match=rf"y .* but has no value of \(s{full[2]}\)\."):
        classifier(set_id="sid").fit(table, named.drop(f"s{full[2]}"))
    with pytest.raises(ValueError, match=r"y .* but has values of no set \(s99\)\."):
        classifier(set_id="sid").fit(table, pd.concat([named, pd.Series([1], index=["s99"])]))


def test_values_under_other_names_are_in_the_order_of_the_sets():
    table, full = long_table()
    model = classifier(set_id="sid", epochs=1, random_state=0)
    expected = model.fit(table, Y[full]).predict_proba(table)
    for index in (range(len(full)), range(100, 100 + len(full)), [f"row {i}" for i in full], ["x"] * len(full)):
        np.testing.assert_array_equal(model.fit(table, pd.Series(Y[full], index=index)).predict_proba(table), expected)


@pytest.mark.parametrize("name", ["y", "sample_weight", "groups", "covariates"])
def test_masked_values_are_refused(name):
    masked = np.ma.masked_equal(np.where(np.arange(30) == 4, -999, Y), -999)
    with pytest.raises(ValueError, match=f"{name} must not be masked: that of set 4 is"):
        classifier().fit(X, **{"y": Y, name: masked})


@pytest.mark.parametrize("groups", [["a", None] * 15, [1.0, float("nan")] * 15, ["a", pd.NA] * 15])
def test_missing_groups_are_refused(groups):
    with pytest.raises(ValueError, match="groups must not be missing: that of set 1 is"):
        classifier().fit(X, Y, groups=groups)


def test_going_on_with_another_width_is_refused():
    model = classifier(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start continues with networks as they are"):
        model.set_params(width=16).fit(X, Y)


def test_going_on_with_elements_that_are_not_finite_is_refused():
    model = regressor(epochs=1, warm_start=True).fit(X, CENTRE)
    with pytest.raises(ValueError, match="of set 0 is NaN"):
        model.fit([np.full((1, 3), np.nan), *X[1:]], CENTRE)


def test_it_learns_where_gradients_are_off():
    with torch.no_grad():
        model = classifier().fit(X, Y)
    assert same(model, classifier().fit(X, Y))


def test_beside_samples_labels_groups_weights_and_covariates_go_by_name():
    X, y, _ = draw(30)
    samples = Samples(MemorySets(X), tuple(f"p{i}" for i in range(30)), ("a", "b", "c"))
    turned = np.arange(30)[::-1]
    beside = pd.DataFrame({"y": y, "who": np.arange(30) // 2, "weight": 1.0 + np.arange(30), "age": y * 1.0}, index=samples.ids)
    tables = (beside, beside.iloc[turned])
    models = [
        regressor().fit(samples, table["y"], groups=table["who"], sample_weight=table["weight"], covariates=table[["age"]])
        for table in tables
    ]
    answers = [model.predict(samples, covariates=table[["age"]]) for model, table in zip(models, tables, strict=True)]
    np.testing.assert_array_equal(*answers)
    scores = [models[0].score(samples, table["y"], covariates=table[["age"]]) for table in tables]
    assert scores[0] == scores[1]
