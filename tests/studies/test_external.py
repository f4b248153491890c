"""How good a bundle is on another cohort (`external.py`)."""

import numpy as np
import pytest
from studies.small import QUICK

from orderless.estimators import SetClassifier, SetRegressor
from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.io import MemorySets, Samples
from orderless.studies import predict_files, score_files

N = 12


def fit(folder, kind, y, target_name):
    rng = np.random.default_rng(0)
    fitted = kind(**QUICK, random_state=0, device="cpu").fit([rng.normal(size=(5, 2)) for _ in y], y)
    save_bundle(fitted, folder, features=["a", "b"], target_name=target_name)
    return load_bundle(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    values = np.random.default_rng(1).normal(size=(8, 2))
    return {
        "numbers": fit(folder / "numbers", SetClassifier, [0, 1] * 4, "ill"),
        "codes": fit(folder / "codes", SetClassifier, ["01", "02"] * 4, "ill"),
        "bools": fit(folder / "bools", SetClassifier, np.array([True, False] * 4), "ill"),
        "amounts": fit(folder / "amounts", SetRegressor, values[:, 0], "titer"),
        "two": fit(folder / "two", SetRegressor, values, ["x", "y"]),
    }


def samples(sizes=None, **columns):
    rng = np.random.default_rng(1)
    sets = MemorySets([rng.normal(size=(n, 2)) for n in sizes or [4] * N])
    return Samples(sets, tuple(f"s{n}" for n in range(N)), ("a", "b"), columns={n: np.array(v) for n, v in columns.items()})


def score(model, given, target="ill", **options):
    return score_files(model, given, predict_files(model, given), target, **options)


def test_predictions_are_compared_with_outcomes_by_the_name_of_the_set(models):
    given = samples(ill=[0, 1] * 6)
    found = score(models["numbers"], given).evaluation
    said = predict_files(models["numbers"], given).columns["prediction"]
    assert found.models["deep_sets++"].metrics["accuracy"].value == np.mean(np.array(said) == np.array([0, 1] * 6))
    turned = given.select(np.arange(N)[::-1])
    assert score(models["numbers"], turned).evaluation.models["deep_sets++"].metrics["log_loss"].value == pytest.approx(
        found.models["deep_sets++"].metrics["log_loss"].value, rel=1e-12
    )


def test_sets_without_an_outcome_or_without_elements_are_left_out_and_named(models):
    given = samples(sizes=[4] * (N - 1) + [0], ill=[np.nan, *[1.0, 0.0] * 5, 1.0])
    found = score(models["numbers"], given)
    assert len(found.evaluation.sizes) == N - 2
    assert "Left out: 1 set without a value in ill: s0" in found.described
    assert "Left out: 1 set without elements: s11" in found.described


SPELT = {
    "numbers with gaps": ("numbers", [0.0, 1.0] * 6),
    "numbers as words": ("numbers", ["0", "1"] * 6),
    "codes as numbers": ("codes", [1, 2] * 6),
    "truth values in lower case": ("bools", ["true", "false"] * 6),
}


@pytest.mark.parametrize(("model", "outcomes"), SPELT.values(), ids=SPELT.keys())
def test_outcomes_are_known_however_a_file_spells_them(models, model, outcomes):
    found = score(models[model], samples(ill=outcomes)).evaluation
    first, second = models[model].classes_.tolist() if model != "bools" else (True, False)
    expected = [[first, second][n % 2] for n in range(N)]
    assert found.classes[found.target].tolist() == expected


def test_a_class_that_the_model_does_not_know_is_an_error_that_names_it(models):
    with pytest.raises(ValueError, match="the target ill holds 'maybe', which the model does not know: its classes are '0', '1'"):
        score(models["numbers"], samples(ill=["0", "1", "maybe"] * 4))


def test_several_targets_are_refused(models):
    with pytest.raises(ValueError, match="compares one outcome, and the model predicts 2"):
        score(models["two"], samples(x=np.arange(N)), "x")


def test_patients_are_found_and_another_column_is_told(models):
    given = samples(dose=np.linspace(0, 1, N), patient=[f"p{n // 2}" for n in range(N)])
    found = score(models["amounts"], given, "dose")
    assert "Note: the model was fitted to titer, and is compared with dose." in found.described
    assert any(line.startswith("Groups: patient, 6 of them") for line in found.described)
    assert found.evaluation.groups is not None
    assert score(models["amounts"], given, "dose", group="none").evaluation.groups is None


def test_nothing_is_said_of_simple_models_which_are_not_there(models):
    assert "simple model" not in score(models["numbers"], samples(ill=[0, 1] * 6)).verdict
