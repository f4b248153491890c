"""Bundles: what comes back is what was saved, and what makes no sense is refused. Covers `bundle_entries.py`."""

import copy
import hashlib
import json
import shutil
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import orderless as ol
from orderless.estimators import SetClassifier, SetRegressor
from orderless.estimators import bundle as bundles
from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.estimators.bundle_files import COVARIATES, DESCRIPTION, member_name
from orderless.estimators.schema import match_features
from orderless.io import DataError

SMALL = {"depth": 2, "width": 8, "epochs": 1, "ensemble_size": 2, "random_state": 0}
RNG = np.random.default_rng(0)
SETS = [RNG.normal(100, [1, 5, 30], (size, 3)).astype(np.float32) for size in (4, 1, 9, 0, 7, 2, 30, 5)]
BESIDE = pd.DataFrame({"age": RNG.normal(50, 9, len(SETS)), "site": ["Basel", "Kyoto"] * 4})


@pytest.fixture(scope="module")
def classifier():
    weights = {1: 1.0, 7: 2.5}
    return SetClassifier(**SMALL, class_weight=weights, device="cpu", work_dir=None).fit(SETS, np.array([1, 7] * 4))


@pytest.fixture(scope="module")
def regressor():
    sizes = {"depth": 1, "num_inducing": 2}
    model = SetRegressor("set_transformer++", **SMALL | sizes)
    return model.fit(SETS, RNG.normal(1e5, [1, 1e3], (len(SETS), 2)), covariates=BESIDE)


@pytest.fixture(scope="module")
def original(classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "bundle"
    save_bundle(classifier, folder, features=["a", "b", "c"], units=["", "mm", ""], target_name="CMV")
    return folder


@pytest.fixture(scope="module")
def original_with_covariates(regressor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "bundle"
    save_bundle(regressor, folder)
    return folder


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "bundle")


def test_a_classifier_predicts_the_same_to_the_last_bit(classifier, original):
    loaded = load_bundle(original)
    assert type(loaded) is SetClassifier
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(SETS), classifier.predict_proba(SETS))
    np.testing.assert_array_equal(loaded.predict(SETS), classifier.predict(SETS))
    assert loaded.predict(SETS).dtype == classifier.predict(SETS).dtype
    assert (loaded.n_features_in_, loaded.n_iter_, loaded.history_) == (3, classifier.n_iter_, classifier.history_)


def test_a_bundle_that_a_killed_save_had_moved_is_loaded(classifier, bundle):
    """Where the system cannot exchange two folders in one step, a kill between two renames leaves none under the name."""
    bundle.rename(bundle.with_name(".bundle.01234567.former"))
    with pytest.warns(UserWarning, match="a save to .* was killed"):
        loaded = load_bundle(bundle)
    np.testing.assert_array_equal(loaded.predict(SETS), classifier.predict(SETS))
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_bundle_that_is_replaced_while_it_is_loaded_is_one_of_the_two(bundle, monkeypatch):
    other = SetClassifier(**SMALL | {"random_state": 1}).fit([3 * x for x in SETS], np.array([1, 7] * 4))
    load_member = bundles._load_member

    def load_of_another(path, estimator):
        monkeypatch.undo()
        save_bundle(other, bundle)
        return load_member(path, estimator)

    monkeypatch.setattr(bundles, "_load_member", load_of_another)
    np.testing.assert_array_equal(load_bundle(bundle).predict_proba(SETS), other.predict_proba(SETS))


def test_a_regressor_with_covariates_and_two_targets_predicts_the_same_to_the_last_bit(regressor, original_with_covariates):
    loaded = load_bundle(original_with_covariates)
    np.testing.assert_array_equal(loaded.predict(SETS, covariates=BESIDE), regressor.predict(SETS, covariates=BESIDE))
    swapped = BESIDE[["site", "age"]]
    np.testing.assert_array_equal(loaded.predict(SETS, covariates=swapped), regressor.predict(SETS, covariates=BESIDE))
    assert loaded.schema_.covariates == ("age", "site")
    with pytest.raises(ValueError, match="fitted with 2 covariates"):
        loaded.predict(SETS)


def test_one_number_per_set_comes_back_as_one(tmp_path):
    model = SetRegressor(**SMALL | {"ensemble_size": 1}).fit(SETS, np.arange(8.0))
    save_bundle(model, tmp_path / "bundle", target_name="age", target_unit="years")
    loaded = load_bundle(tmp_path / "bundle")
    assert loaded.predict(SETS).shape == (8,)
    np.testing.assert_array_equal(loaded.predict(SETS), model.predict(SETS))
    assert (loaded.schema_.targets, loaded.schema_.target_unit) == (("age",), "years")
    assert "age: a number in years" in (tmp_path / "bundle" / "README.txt").read_text()


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-3, 12]),
        np.array([0, 255], np.uint8),
        np.array(["healthy", "krank \N{LATIN SMALL LETTER A WITH DIAERESIS}"]),
        np.array([False, True]),
        np.array([0.1, 2.0]),
        np.array([0.1, 1e30], np.float32),
        np.array(["no", "yes"], object),
        np.array([np.str_("no"), "yes"], object),
        np.array([1, 2.5], object),
    ],
    ids=lambda classes: classes.dtype.name,
)
def test_classes_of_every_type_survive(classifier, tmp_path, classes):
    model = copy.copy(classifier)
    model.classes_ = classes
    save_bundle(model, tmp_path / "bundle")
    loaded = load_bundle(tmp_path / "bundle").classes_
    assert loaded.dtype.kind == classes.dtype.kind
    assert loaded.dtype.itemsize == classes.dtype.itemsize
    assert [(type(c), c) for c in loaded.tolist()] == [
        (type(c.item() if isinstance(c, np.generic) else c), c) for c in classes.tolist()
    ]


def test_what_a_bundle_expects_of_data_is_known_after_loading(original):
    loaded = load_bundle(original)
    assert loaded.schema_.features == ("a", "b", "c")
    assert loaded.schema_.units == ("", "mm", "")
    assert loaded.schema_.targets == ("CMV",)
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    assert match_features(loaded.schema_, ["c", "x", "a", "b"]).order == (2, 3, 0)
    assert set(loaded.versions_) == {"orderless", "torch", "numpy", "python"}


def test_a_loaded_bundle_is_saved_again_as_it_was(original, tmp_path):
    save_bundle(load_bundle(original), tmp_path / "again")
    ours, again = (json.loads((folder / DESCRIPTION).read_text()) for folder in (original, tmp_path / "again"))
    assert ours == again


def test_origin_and_summary_are_kept(classifier, tmp_path):
    origin = {"kind": "fcs", "cofactor": np.float64(5), "columns": ("a", "b")}
    save_bundle(classifier, tmp_path / "bundle", origin=origin, summary={"auc": np.float32(0.5), "bad": float("nan")})
    loaded = load_bundle(tmp_path / "bundle")
    assert loaded.schema_.origin == {"kind": "fcs", "cofactor": 5.0, "columns": ["a", "b"]}
    assert (loaded.summary_["auc"], loaded.summary_["bad"]) == (0.5, None)


def test_names_of_covariates_that_came_without_are_given_when_saving(tmp_path):
    model = SetRegressor(**SMALL).fit(SETS, np.arange(8.0), covariates=BESIDE[["age"]].to_numpy())
    save_bundle(model, tmp_path / "bundle", covariate_names=["age"])
    loaded = load_bundle(tmp_path / "bundle")
    expected = model.predict(SETS, covariates=BESIDE[["age"]].to_numpy())
    np.testing.assert_array_equal(loaded.predict(SETS, covariates=BESIDE[["age"]]), expected)
    with pytest.raises(ValueError, match="covariate_names must be 1 names"):
        save_bundle(model, tmp_path / "bundle", covariate_names=["age", "site"])


def test_what_tells_of_the_machine_is_left_behind(classifier, tmp_path):
    model = copy.copy(classifier).set_params(device="cuda:1", work_dir=tmp_path / "work", random_state=np.random.RandomState(0))
    save_bundle(model, tmp_path / "bundle")
    loaded = load_bundle(tmp_path / "bundle")
    assert (loaded.device, loaded.work_dir, loaded.random_state) == ("auto", None, None)
    assert str(tmp_path) not in "".join(path.read_text(errors="replace") for path in (tmp_path / "bundle").iterdir())


def test_loading_draws_no_random_numbers(original_with_covariates):
    before = torch.random.get_rng_state()
    load_bundle(original_with_covariates)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_loaded_estimator_can_be_cloned_and_fitted_on(original):
    loaded = load_bundle(original)
    assert not hasattr(clone(loaded), "models_")
    loaded.set_params(warm_start=True).fit(SETS, np.array([1, 7] * 4))


def test_a_bundle_loads_without_the_libraries_for_training_and_files(original):
    missing = ["lightning_fabric", "torchmetrics", "pyarrow", "matplotlib", "h5py", "pandas", "anndata", "flowio", "onnx", "PIL"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); import numpy as np; "
        "from orderless.estimators.bundle import load_bundle; "
        f"print(load_bundle({str(original)!r}).predict([np.zeros((2, 3), np.float32)]).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "(1,)\n", done.stderr


def test_only_fitted_estimators_of_ours_are_saved(classifier, tmp_path):
    with pytest.raises(NotFittedError):
        save_bundle(SetClassifier(), tmp_path / "bundle")
    with pytest.raises(TypeError, match="got dict"):
        save_bundle({}, tmp_path / "bundle")
    search = GridSearchCV(classifier, {})
    search.best_estimator_ = classifier
    with pytest.raises(TypeError, match=r"got GridSearchCV\. Pass its best_estimator_"):
        save_bundle(search, tmp_path / "bundle")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["a", "b"]}, "features must be 3 names"),
        ({"features": ["a", "b", "c"], "units": ["m"]}, "units must be 3 texts"),
        ({"target_name": ["a", "b"]}, "a name for each of 1 targets"),
        ({"covariate_names": ["age"]}, "covariate_names must be 0 names"),
        ({"summary": {"model": object()}}, "a bundle holds numbers, texts"),
    ],
)
def test_words_that_do_not_fit_are_refused_and_nothing_is_written(classifier, tmp_path, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        save_bundle(classifier, tmp_path / "bundle", **arguments)
    assert not list(tmp_path.iterdir())


def test_other_names_than_those_of_the_fit_are_refused(original, tmp_path):
    with pytest.raises(ValueError, match="fitted with the features a, b, c: leave features= out"):
        save_bundle(load_bundle(original), tmp_path / "bundle", features=["x", "y", "z"])


# ------------------------------------------------------------------------ what has the right checksums and makes no sense


def restate(folder, change):
    """Changes the description and sets all checksums right: somebody who knows the format."""
    path = folder / DESCRIPTION
    said = json.loads(path.read_text())
    change(said)
    for name in said["files"]:
        content = (folder / name).read_bytes()
        said["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = json.dumps({**said, "checksum": "0" * 64}, indent=1) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(text.replace(f'"checksum": "{"0" * 64}"', f'"checksum": "{digest}"'))


def refused(folder, match):
    with pytest.raises(DataError, match=match) as caught:
        load_bundle(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert "Save the bundle again" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("kind",), "os.system", "a classifier or a regressor expected, not 'os.system'"),
        (("kind",), ["classifier"], "something else"),
        (("kind",), "regressor", "the options of SetRegressor expected"),
        (("parameters",), None, "the options of SetClassifier expected"),
        (("parameters", "callback"), "x", "the options of SetClassifier expected"),
        (("parameters", "model"), ["deep_sets"], "a number or a text in the option model"),
        (("parameters", "class_weight"), {"a": 1}, "pairs in the option class_weight"),
        (("parameters", "class_weight"), {"pairs": [[[1], 2]]}, "pairs in class_weight"),
        (("schema",), {}, "a schema expected"),
        (("schema", "num_features"), 4, "a unit for each feature"),
        (("schema", "num_features"), 10**12, "numbers of features"),
        (("schema", "num_features"), -1, "numbers of features"),
        (("schema", "features"), ["a", "b"], "features must be 3 names"),
        (("schema", "features"), ["a", "a", "b"], "several of 'a'"),
        (("schema", "features"), [1, 2, 3], "a list of texts"),
        (("schema", "num_covariates"), 1, "1 covariates expected"),
        (("schema", "origin"), [], "a unit and an origin"),
        (("classes",), None, "classes expected"),
        (("classes", "values"), [1], "two classes or more"),
        (("classes", "values"), [1, 2, 3], "network of 3 -> 2 numbers"),
        (("classes", "values"), [1, "a"], "int64 expected"),
        (("classes", "values"), [1, 1], "classes that differ"),
        (("classes", "values"), [1, True], "int64 expected"),
        (("classes", "values"), [1, 10**30], "something else"),
        (("classes", "dtype"), "O", "a type of classes"),
        (("classes", "dtype"), "datetime64", "a type of classes"),
        (("preprocessing",), [], "scaling of elements"),
        (("preprocessing", "elements", "mean"), [0.0], "3 means expected"),
        (("preprocessing", "elements", "mean"), [0.0, 0.0, "a"], "means that are finite"),
        (("preprocessing", "elements", "scale"), [0.0, 1.0, 1.0], "spreads that are finite"),
        (("preprocessing", "elements", "clip"), -1, "a bound above 0"),
        (("preprocessing", "elements", "bent"), [1, 0, 0], "truth values"),
        (("preprocessing", "elements", "bent"), [True], "truth values"),
        (("preprocessing", "covariates"), [], "no covariates expected"),
        (("summary",), [], "a summary and versions"),
        (("versions",), None, "a summary and versions"),
    ],
    ids=str,
)
def test_entries_that_make_no_sense_are_refused(bundle, place, value, message):
    def change(said):
        for name in place[:-1]:
            said = said[name]
        said[place[-1]] = value

    restate(bundle, change)
    refused(bundle, message)


def test_a_bundle_from_before_noise_was_an_option_has_none(classifier, bundle):
    restate(bundle, lambda said: said["parameters"].pop("noise"))
    loaded = load_bundle(bundle)
    assert loaded.noise == 0
    np.testing.assert_array_equal(loaded.predict_proba(SETS), classifier.predict_proba(SETS))


def rewrite_config(path, **values):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    described = json.loads(header["__metadata__"]["orderless"])
    described["config"].update(values)
    header["__metadata__"]["orderless"] = json.dumps(described)
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + length :])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"depth": 9_999}, "depth 9999, which .* tensors cannot fill"),
        ({"depth": 10**9}, "depth must be at most 10,000; got 1000000000"),
        ({"depth": "2"}, "depth must be a whole number of at least 1; got '2'"),
        ({"width": 10**12}, "something else"),
        ({"in_features": 4}, "do not fit its configuration"),
        ({"out_features": 3}, "do not fit its configuration"),
        ({"name": "resnet"}, "its configuration"),
    ],
    ids=str,
)
def test_networks_that_make_no_sense_are_refused_before_they_are_built(bundle, values, message):
    rewrite_config(bundle / member_name(1), **values)
    restate(bundle, lambda said: None)
    refused(bundle, message)


def test_a_network_that_answers_for_elements_is_refused(bundle):
    element = ol.create_model("deep_sets", 3, 2, depth=2, width=8, output="element")
    ol.save_model(element, bundle / member_name(0))
    restate(bundle, lambda said: None)
    refused(bundle, "a network of 3 -> 2 numbers per element")


def test_pickles_in_place_of_weights_are_refused_unread(bundle):
    torch.save({"a": torch.zeros(1)}, bundle / member_name(0))
    restate(bundle, lambda said: None)
    refused(bundle, "member-0.safetensors: expected what save_bundle writes")


def test_weights_of_covariates_that_do_not_fit_are_refused(original_with_covariates, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(original_with_covariates, tmp_path / "bundle")
    weights = load_file(folder / COVARIATES)
    wrong = {
        "not": {name: weight[:, :1].contiguous() for name, weight in weights.items()},
        "KeyError": {member_name(0): weights[member_name(0)]},
        "but there are 2": weights | {member_name(2): weights[member_name(0)].clone()},
    }
    for message, content in wrong.items():
        save_file(content, folder / COVARIATES)
        restate(folder, lambda said: None)
        refused(folder, message)
    (folder / COVARIATES).unlink()
    with pytest.raises(DataError, match="no such file"):
        load_bundle(folder)


def test_a_model_that_is_fitted_again_says_nothing_of_the_fit_before(original, tmp_path):
    again = load_bundle(original)
    assert again.summary_
    sets = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(8)]
    save_bundle(again.set_params(epochs=1, ensemble_size=1, class_weight=None).fit(sets, [0, 1] * 4), tmp_path / "bundle")
    other = load_bundle(tmp_path / "bundle")
    assert (other.schema_.num_features, other.schema_.targets, other.schema_.origin) == (2, (), {})
