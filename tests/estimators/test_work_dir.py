"""A fit that is stopped is resumed in its folder, bit for bit; a folder of another fit is left alone."""

import json

import numpy as np
import pytest
from estimators.ragged import classifier, draw, regressor

from orderless.estimators import defaults, members
from orderless.estimators.sets_input import read_sets
from orderless.estimators.work_dir import fingerprint_of
from orderless.io import DataError

X, Y, CENTRE = draw(24)


class Stop(Exception):  # noqa: N818
    pass


def stop_after(monkeypatch, steps):
    """Whoever trains stops after so many steps in all."""
    taken = []
    loss = members.WeighingJudge.loss

    def counted(self, output, target):
        taken.append(1)
        if len(taken) > steps:
            raise Stop
        return loss(self, output, target)

    monkeypatch.setattr(members.WeighingJudge, "loss", counted)


@pytest.mark.parametrize("options", [{}, {"max_elements": 3}], ids=["whole sets", "drawn elements"])
def test_a_stopped_fit_goes_on_bit_for_bit(monkeypatch, tmp_path, options):
    monkeypatch.setattr(defaults, "CHECKPOINT_SECONDS", 0.0)
    options = {"ensemble_size": 2, "epochs": 3, "batch_elements": 30, **options}
    whole = regressor(**options).fit(X, CENTRE)
    steps = whole.history_[0][-1]["step"]
    for stop in (2, steps + 1):  # in the first network, then in the second
        with monkeypatch.context() as patch:
            stop_after(patch, stop)
            with pytest.raises(Stop):
                regressor(**options, work_dir=tmp_path / "fit").fit(X, CENTRE)
    resumed = regressor(**options, work_dir=tmp_path / "fit").fit(X, CENTRE)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    with monkeypatch.context() as patch:
        stop_after(patch, 0)
        done = regressor(**options, work_dir=tmp_path / "fit").fit(X, CENTRE)  # over: not a step is taken
    np.testing.assert_array_equal(done.predict(X), whole.predict(X))


def test_without_a_seed_a_fit_goes_on_with_the_one_it_had(tmp_path):
    first = regressor(random_state=None, work_dir=tmp_path).fit(X, CENTRE)
    again = regressor(random_state=None, work_dir=str(tmp_path)).fit(X, CENTRE)
    np.testing.assert_array_equal(again.predict(X), first.predict(X))


OTHERS = {
    "elements": lambda folder: classifier(epochs=1, work_dir=folder).fit([x + 1e-9 for x in X], Y),
    "target": lambda folder: classifier(epochs=1, work_dir=folder).fit(X, 1 - Y),
    "sample_weight": lambda folder: classifier(epochs=1, work_dir=folder).fit(X, Y, sample_weight=1.0 + Y),
    "groups": lambda folder: classifier(epochs=1, work_dir=folder).fit(X, Y, groups=np.arange(24).astype(str)),
    "covariates": lambda folder: classifier(epochs=1, work_dir=folder).fit(X, Y, covariates=CENTRE),
    "parameters": lambda folder: classifier(epochs=2, work_dir=folder).fit(X, Y),
    "seed": lambda folder: classifier(epochs=1, work_dir=folder, random_state=1).fit(X, Y),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    classifier(epochs=1, work_dir=folder).fit(X, Y)
    return folder


@pytest.mark.parametrize("what", OTHERS)
def test_a_folder_of_another_fit_is_refused_and_what_differs_named(fitted, what):
    with pytest.raises(ValueError, match=f"holds another fit: its {what} differ"):
        OTHERS[what](fitted)


def test_where_and_how_may_differ(fitted):
    classifier(epochs=1, work_dir=fitted, verbose=1, device="cpu").fit(X, Y)


def test_folders_that_are_none_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        classifier(work_dir=tmp_path / "file").fit(X, Y)
    (tmp_path / "odd" / "member-0").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no fit\.json"):
        classifier(work_dir=tmp_path / "odd").fit(X, Y)


DAMAGED = {
    "empty": b"",
    "cut": b'{"elements": "ab',
    "a list": b"[]",
    "no seed": b"{}",
    "no number": b'{"seed": "1"}',
    "no text": b"\xff\xfe",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_description_is_an_error_that_says_what_to_do(tmp_path, content):
    (tmp_path / "fit.json").write_bytes(content)
    with pytest.raises(DataError, match=r"fit\.json: expected the JSON that a fit wrote.* Delete .* or choose another work_dir"):
        classifier(epochs=1, random_state=None, work_dir=tmp_path).fit(X, Y)
    assert (tmp_path / "fit.json").read_bytes() == content


def test_going_on_from_a_finished_fit_is_not_resuming_one(tmp_path):
    model = classifier(epochs=1, warm_start=True).fit(X, Y).set_params(work_dir=tmp_path / "fit")
    with pytest.raises(ValueError, match="use one"):
        model.fit(X, Y)


def test_a_fingerprint_is_json_and_knows_words():
    said = fingerprint_of(read_sets(X), {"a": 1}, target=Y, covariates=np.array([["x"]], dtype=object), groups=None)
    assert json.loads(json.dumps(said)) == said
    assert said != fingerprint_of(read_sets(X), {"a": 1}, target=Y, covariates=np.array([["y"]], dtype=object), groups=None)
