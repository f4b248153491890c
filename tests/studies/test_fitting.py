"""Fitting a study (`fitting.py`), folds that are kept (`kept.py`), evaluations that are read back (`stored.py`)."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
from sklearn.base import clone
from studies.small import QUICK, write_cells, write_labels

from orderless.estimators import SetClassifier
from orderless.estimators.bundle import load_bundle
from orderless.io import DataError, join_labels, open_samples
from orderless.studies import FitSettings, fit_study, kept, make_study
from orderless.studies.fit_folder import read_fit
from orderless.studies.fitting import evaluate_study, make_estimator
from orderless.studies.kept import KeptFit
from orderless.studies.stored import read_evaluation

SETTINGS = FitSettings(options=QUICK, num_folds=2, device="cpu")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    samples = open_samples(write_cells(folder), set_id="sample", cache_dir=folder / "cache")
    return make_study(join_labels(samples, write_labels(folder)), "ill", covariates=["site", "age"])


@pytest.fixture(scope="module")
def done(study, tmp_path_factory):
    """A fit that nobody disturbed."""
    out = tmp_path_factory.mktemp("fit") / "out"
    return out, fit_study(study, SETTINGS, out)


def test_a_fit_leaves_a_bundle_an_evaluation_and_pictures(done, study):
    out, said = done
    assert sorted(path.name for path in out.iterdir()) == ["bundle", "evaluation.json", "fit.json", "pictures"]
    assert (out / "pictures" / "roc.png").stat().st_size > 1000
    model = load_bundle(out / "bundle")
    assert model.schema_.covariates == ("site", "age")
    assert model.schema_.targets == ("ill",)
    assert model.summary_["evaluation"]["metrics"]["accuracy"][0] is not None
    assert said["settings"]["group"] == "patient"
    assert said["versions"]["orderless"]
    values = study.covariates.values
    direct = SetClassifier(**QUICK, random_state=0, device="cpu").fit(
        study.samples, study.y, groups=study.groups, covariates=values
    )
    assert (model.predict_proba(study.samples, covariates=values) == direct.predict_proba(study.samples, covariates=values)).all()


def test_out_of_fold_predictions_come_with_the_names_of_their_sets(done, study):
    kept_there = json.loads((done[0] / "evaluation.json").read_text())
    assert kept_there["ids"] == list(study.samples.ids)
    assert len(kept_there["models"][0]["output"][0]) == len(kept_there["ids"])


@pytest.mark.parametrize("name", ["bundle", "evaluation.json"])
def test_a_finished_fit_of_which_a_part_is_gone_is_no_success(study, done, tmp_path, name):
    out = shutil.copytree(done[0], tmp_path / "out")
    shutil.rmtree(out / name) if name == "bundle" else (out / name).unlink()
    with pytest.raises(DataError, match=f"{name}: expected what the finished fit has written there, found nothing"):
        fit_study(study, SETTINGS, out)


def test_pictures_of_a_finished_fit_are_drawn_again(study, done, tmp_path):
    out = shutil.copytree(done[0], tmp_path / "out")
    shutil.rmtree(out / "pictures")
    assert fit_study(study, SETTINGS, out) == done[1]
    assert (out / "pictures" / "roc.png").exists()


@pytest.mark.parametrize("stop_at", [1, 2, 3], ids=["in the first fold", "in the second", "in the last fit"])
def test_a_fit_that_was_stopped_goes_on_and_ends_the_same(study, done, tmp_path, monkeypatch, stop_at):
    fit, begun = SetClassifier.fit, []

    def stopping(self, sets, *rest, **more):
        if hasattr(sets, "ids"):  # not the rehearsal
            begun.append(sets.ids)
            if len(begun) == stop_at:
                raise KeyboardInterrupt
        return fit(self, sets, *rest, **more)

    monkeypatch.setattr(SetClassifier, "fit", stopping)
    monkeypatch.setattr("orderless.studies.fitting.draw_evaluation", lambda *_: None)  # which takes most of the time
    with pytest.raises(KeyboardInterrupt):
        fit_study(study, SETTINGS, tmp_path / "out")
    assert not (tmp_path / "out" / "bundle").exists()
    begun.clear()
    begun.extend([None] * 9)  # does not stop again
    fit_study(study, SETTINGS, tmp_path / "out")
    assert len(begun) - 9 == 4 - stop_at, "what was done is not done again"
    then, now = (read_evaluation(folder / "evaluation.json") for folder in (done[0], tmp_path / "out"))
    assert (then.models["deep_sets++"].output == now.models["deep_sets++"].output).all()
    files = sorted(path.name for path in (done[0] / "bundle").glob("member*"))
    assert all((done[0] / "bundle" / name).read_bytes() == (tmp_path / "out" / "bundle" / name).read_bytes() for name in files)
    assert fit_study(study, SETTINGS, tmp_path / "out")["state"] == "finished"
    assert len(begun) - 9 == 4 - stop_at, "and when all is done, nothing is"


def test_a_full_disk_stops_a_fit_and_the_same_call_repeats_the_fold(study, done, tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    save, saved = kept.save_bundle, []

    def save_once(*arguments, **options):
        if saved:
            raise full
        saved.append(save(*arguments, **options))

    monkeypatch.setattr("orderless.studies.fitting.draw_evaluation", lambda *_: None)
    with monkeypatch.context() as in_the_second_fold:
        in_the_second_fold.setattr(kept, "save_bundle", save_once)
        with pytest.raises(OSError, match="No space left on device"):
            fit_study(study, SETTINGS, tmp_path / "out")
    assert read_fit(tmp_path / "out")["state"] == "begun"
    assert not (tmp_path / "out" / "evaluation.json").exists()
    assert fit_study(study, SETTINGS, tmp_path / "out")["state"] == "finished"
    then, now = (read_evaluation(folder / "evaluation.json").models["deep_sets++"] for folder in (done[0], tmp_path / "out"))
    assert now.failures == ()
    assert (then.output == now.output).all()


@pytest.mark.parametrize("name", ["bundle.json", "member-0.safetensors"])
def test_a_kept_fit_that_was_damaged_is_fitted_again(study, tmp_path, name):
    model = KeptFit(SetClassifier(**QUICK, random_state=0, device="cpu"), tmp_path)
    whole = clone(model).fit(study.samples, study.y).predict_proba(study.samples)
    (path,) = tmp_path.glob(f"*/bundle/{name}")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(UserWarning, match=f"{name}: expected .* It is fitted again"):
        again = clone(model).fit(study.samples, study.y)
    assert (again.predict_proba(study.samples) == whole).all()
    load_bundle(path.parent)  # which is whole again


def test_without_evaluation_there_is_only_the_model(study, tmp_path):
    fit_study(study, FitSettings(options=QUICK, evaluate=False, device="cpu"), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bundle", "fit.json"]


def test_kept_fits_know_words_of_covariates(study, tmp_path):
    inner = SetClassifier(**QUICK, random_state=0, device="cpu")
    kept = KeptFit(inner, tmp_path, study.covariates).fit(study.samples, study.y, covariates=study.covariates.encoded)
    assert [column.categories for column in kept.fitted_.covariate_scaler_.columns] == [("north", "south"), None]
    again = KeptFit(inner, tmp_path, study.covariates).fit(study.samples, study.y, covariates=study.covariates.encoded)
    told = study.covariates.encoded
    assert (kept.predict(study.samples, covariates=told) == again.predict(study.samples, covariates=told)).all()
    assert len(list(tmp_path.iterdir())) == 1
    KeptFit(inner, tmp_path, study.covariates).fit(study.samples, 1 - study.y, covariates=told)
    assert len(list(tmp_path.iterdir())) == 2, "another target is another fit"


def test_a_kept_fit_is_found_on_another_device(study, tmp_path):
    kept = KeptFit(SetClassifier(**QUICK, random_state=0, device="cpu"), tmp_path)
    kept.fit(study.samples, study.y)
    clone(kept).set_params(estimator__device="auto").fit(study.samples, study.y)
    assert len(list(tmp_path.iterdir())) == 1, "where it is computed is no part of what a fit is"


WRONG = {
    "unknown": ({"zzz": 3}, r"--set zzz=...: there is no such option\. Options: batch_elements, class_weight, depth"),
    "a slip": ({"epoch": 3}, r"--set epoch=...: there is no such option\. Did you mean 'epochs'\? Options:"),
    "of the shell": ({"random_state": 3}, "--set random_state=...: give --seed instead"),
    "of no use": ({"warm_start": True}, "no such option"),
    "will not do": ({"epochs": 0}, "epochs must be a whole number of at least 1"),
    "no such norm": ({"norm": "sett"}, "norm"),
}


@pytest.mark.parametrize(("options", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_slip_in_the_options_shows_before_anything_is_trained(study, options, says):
    with pytest.raises(ValueError, match=says):
        make_estimator(study, FitSettings(options=options))


def test_a_word_for_nothing_is_none(study):
    assert make_estimator(study, FitSettings(options={"patience": "none"})).patience is None


def test_the_norm_called_none_is_that_norm(study):
    """None, the estimator's default, is set norm."""
    assert make_estimator(study, FitSettings(options={"norm": "none"})).norm == "none"


def test_a_model_that_fails_in_every_fold_is_an_error(study, monkeypatch):
    def fail(self, *_, **__):
        raise RuntimeError("no memory")

    monkeypatch.setattr(KeptFit, "fit", fail)
    with pytest.raises(ValueError, match="could not be fitted in any fold: RuntimeError: no memory"):
        evaluate_study(study, SETTINGS)


def test_an_evaluation_is_read_back_as_it_was(study, tmp_path):
    found = evaluate_study(study, SETTINGS, baselines_only=True)
    (tmp_path / "e.json").write_text(json.dumps(found.as_json(predictions=True)))
    read = read_evaluation(tmp_path / "e.json")
    assert read.table() == found.table()
    assert json.dumps(read.as_json(predictions=True)) == json.dumps(found.as_json(predictions=True))
    assert all(np.array_equal(a.train, b.train) for a, b in zip(read.folds, found.folds, strict=True))


@pytest.mark.parametrize("content", ["{", "[]", '{"fold": [[0]]}'], ids=["no JSON", "a list", "entries missing"])
def test_a_damaged_evaluation_is_told(tmp_path, content):
    (tmp_path / "e.json").write_text(content)
    with pytest.raises(DataError, match="expected an evaluation"):
        read_evaluation(tmp_path / "e.json")
