"""Pictures: `drawing.py` writes every picture that fits, `drawing_parts.py` chooses what is on it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from evaluate.grouped_sets import MeanClassifier, draw_patients, evaluate_numbers, evaluate_patients

from orderless.evaluate import cross_validate, draw_evaluation, folds_by_hand
from orderless.evaluate.drawing import _draw_parity
from orderless.evaluate.drawing_parts import choose_models, drawn_models, note_on, number_text, style_of


@pytest.fixture(scope="module")
def classes():
    return evaluate_patients(num_repeats=2)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (evaluate_patients, ["scores", "roc", "precision_recall", "calibration", "confusion", "set_size"]),
        (lambda: evaluate_numbers(), ["scores", "parity", "residuals", "set_size"]),
    ],
    ids=["classes", "numbers"],
)
def test_every_picture_is_written_twice_and_says_what_it_rests_on(make, names, tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.evaluate.drawing.DPI", 30)  # quick; nobody looks at these
    found = make()
    paths = draw_evaluation(found, tmp_path / "pictures")
    if found.objective == "regression":  # the same evaluation is the same file
        again = draw_evaluation(found, tmp_path / "again")
        for name, path in paths.items():
            assert path.with_suffix(".svg").read_bytes() == again[name].with_suffix(".svg").read_bytes()
    assert list(paths) == names
    for path in paths.values():
        assert path.read_bytes().startswith(b"\x89PNG")
        svg = path.with_suffix(".svg").read_text()  # it has what is written on it as comments
        assert "24 sets of 12 groups, never divided" in svg
        ElementTree.fromstring(svg)
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    )


def test_models_come_with_the_best_baseline_and_baselines_alone_with_each_other(classes):
    assert choose_models(classes, None) == ["mean", classes.best_baseline["log_loss"]]
    sets, y, _ = draw_patients()
    alone = cross_validate({}, sets, y, objective="classification", num_folds=2, num_bootstrap=5)
    assert choose_models(alone, None) == ["moments", "moments_tuned", "moments_boosted", "mean_embedding"]
    assert choose_models(classes, ["constant"]) == ["constant"]
    with pytest.raises(ValueError, match="got 'deep'"):
        choose_models(classes, ["deep"])
    with pytest.raises(ValueError, match="one to 4 models"):
        choose_models(classes, [])
    assert drawn_models(classes)[-1] == "mean"  # on top of the baselines
    assert style_of(classes, "mean")["linewidth"] > style_of(classes, "moments")["linewidth"]


def test_of_many_targets_the_first_few_are_drawn(monkeypatch):
    monkeypatch.setattr("orderless.evaluate.drawing.MOST_TARGETS", 2)
    found = evaluate_numbers(3)
    figure = _draw_parity(found, ["mean", "moments"])
    assert len(figure.axes) == 4
    assert any("The first 2 of 3 targets." in text.get_text() for text in figure.texts)


def test_a_model_without_any_prediction_is_left_out_of_curves(tmp_path):
    sets, y, patient = draw_patients()
    lost = {"lost": MeanClassifier(fail_without=99)}
    found = cross_validate(lost, sets, y, objective="classification", groups=patient, num_folds=2, num_bootstrap=5)
    assert "lost" not in drawn_models(found)
    assert list(draw_evaluation(found, tmp_path, models=["lost"])) == ["scores"]


def test_the_note_tells_splits_apart(classes):
    assert note_on(classes).startswith("3 folds, 2 repeats. 24 sets of 12 groups")
    column = np.where(np.arange(24) < 12, "train", "test")
    found = evaluate_patients(groups=None, folds=folds_by_hand(column))
    assert note_on(found).startswith("One split into train and test. 12 sets, each")
    assert "12 sets, one of each group" in note_on(evaluate_patients(groups=np.arange(24), folds=folds_by_hand(column)))


def test_numbers_are_short():
    assert [number_text(value) for value in (0.12345, 1234.5, float("nan"))] == ["0.123", "1,234.5", "n/a"]
    assert [number_text(value) for value in (0.0, 0.00123, 1.234e-6)] == ["0.000", "0.00123", "1.23e-06"]


def test_curves_are_of_the_models_that_are_asked_for_or_of_all(classes, tmp_path, monkeypatch):
    monkeypatch.setattr("orderless.evaluate.drawing.DPI", 30)
    titles = {name: classes.models[name].title.partition(":")[0] for name in drawn_models(classes)}
    assert len(titles) > 1
    for models in (None, ["moments"]):
        svg = draw_evaluation(classes, tmp_path / f"{models}", models=models)["roc"].with_suffix(".svg").read_text()
        assert {name for name, title in titles.items() if title in svg} == set(models or titles)
