"""The page about a fit (`page.py`, `reported.py`, `performance.py`, `answers.py`, `training.py`, `data.py`, `use.py`).

It stands in a frame that pages of runs have, too (`frame.py`), and is opened in a browser.
"""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from browser import Browser
from studies.small import QUICK, write_cells, write_labels

from orderless.evaluate import Interval, cross_validate, folds_by_hand
from orderless.io import DataError, join_labels, open_samples
from orderless.studies import FitSettings, fit_study, make_study
from orderless.studies.report import write_fit_report
from orderless.studies.report.page import _figure
from orderless.studies.report.performance import _remarks
from orderless.studies.report.reported import ReportedFit, read_reported
from orderless.studies.report.training import _say
from orderless.studies.study import describe_study

ATTACK = "<script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """A fit of classes, one of numbers, and one without an evaluation."""
    folder = tmp_path_factory.mktemp("fits")
    cells = write_cells(folder)
    samples = join_labels(open_samples(cells, set_id="sample", cache_dir=folder / "cache"), write_labels(folder))
    samples = replace(samples, notes=(*samples.notes, ATTACK))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orderless.studies.fitting.draw_evaluation", lambda *_: None)  # pictures are not on the page
        for name, target, evaluate in (("classes", "ill", True), ("numbers", "score", True), ("bare", "ill", False)):
            study = make_study(samples, target, covariates=["age"] if name == "numbers" else ())
            settings = FitSettings(
                options={**QUICK, "ensemble_size": 1 if name == "bare" else 2}, num_folds=2, evaluate=evaluate, device="cpu"
            )
            lines = describe_study(study, "cells.csv")
            told = {"source": "cells.csv", "labels": "tables/labels.csv", "command": f"orderless fit cells.csv --out {name}"}
            fit_study(study, settings, folder / name, **told, lines=lines)
    return folder


def page_of(fits, name, tmp_path, **options):
    return write_fit_report(fits / name, tmp_path / f"{name}.html", **options).read_text()


def plain(page):
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page.partition("<body>")[2]))


def test_a_page_says_how_good_a_fit_is_and_how_to_use_it(fits, tmp_path):
    page = page_of(fits, "classes", tmp_path)
    text = plain(page)
    scores = json.loads((fits / "classes" / "evaluation.json").read_text())["models"][0]["metrics"]["accuracy"]
    assert f"For a patient that it has not seen, expect deep_sets++ to predict ill with accuracy {scores['value']:.3g}" in text
    assert "Only 6 groups" in text
    heads = re.findall("<h3>(.*?)</h3>", page)
    assert heads == [
        "Beside simple models", "What the answers are like", "Small and large sets", "Sets that were predicted worst",
        "Problems of the data", "The data", "Training", "Predict", "Settings",
    ]  # fmt: skip
    figures = re.findall("<figcaption><b>(.*?)</b>", page)
    assert figures == [
        "Accuracy", "ROC AUC", "Log loss", "ROC.", "Calibration.", "Error against set size.", "Sizes of sets.", "Training loss.",
    ]  # fmt: skip
    assert f"orderless predict {fits / 'classes' / 'bundle'} NEW_DATA" in text
    assert "It expects 2 features by name: CD3, CD4." in text


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("patient_id", "patient"),
        ("PatientID", "Patient"),
        ("Donor Nr", "Donor"),
        ("pid", "pid"),
        ("grid", "grid"),
        ("id", "id"),
        (None, "set"),
    ],
)
def test_what_is_new_is_called_as_the_groups_are_without_their_number(group, unit):
    assert ReportedFit(None, {"settings": {"group": group}}, None, None).unit == unit


def test_a_group_has_its_article_and_no_plural_of_our_making(fits, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(fits / "classes", other)
    said = json.loads((other / "fit.json").read_text())
    said["settings"]["group"] = "animal_no"
    (other / "fit.json").write_text(json.dumps(said))
    text = plain(page_of(tmp_path, "other", tmp_path))
    assert "For an animal that it has not seen" in text
    assert "95 % intervals over groups (" in text


def test_a_page_says_how_the_fit_was_made_and_when(fits, tmp_path):
    text = plain(page_of(fits, "classes", tmp_path))
    made = json.loads((fits / "classes" / "fit.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["date"])
    assert f"date {made['date']}" in text
    assert "labels tables/labels.csv" in text
    assert "To fit it again, to another folder (--out): orderless fit cells.csv --out classes" in text
    for name in ("command", "date"):  # a fit of an earlier version has none
        del made[name]
    del made["data"]["labels"]
    shutil.copytree(fits / "classes", tmp_path / "old")
    (tmp_path / "old" / "fit.json").write_text(json.dumps(made))
    assert "To fit it again" not in plain(page_of(tmp_path, "old", tmp_path))


def test_one_network_is_not_spoken_of_as_several(fits, tmp_path):
    assert "One network was trained for 1 epoch. There were too few sets" in plain(page_of(fits, "bare", tmp_path))
    assert "2 networks, whose predictions are averaged, were trained for 1 epoch." in plain(page_of(fits, "classes", tmp_path))
    assert _say([[{"epoch": 7}]], "validation_loss") == (
        "One network was trained for 7 epochs. It held back some sets to know when to stop."
    )


@pytest.mark.parametrize(("value", "says"), [(1.0, "1: no error"), (0.0, "0: no right answer")])
def test_an_interval_without_width_is_no_certainty(fits, value, says):
    fit = read_reported(fits / "classes")
    assert _figure(fit, Interval(value, value, value), is_share=True) == (
        f"{says} among 12 sets of 6 patients; up to 39 % would still be possible"
    )
    assert _figure(fit, Interval(0.8, 1.0, 0.9), is_share=True) == "0.9 [0.8, 1]"
    assert _figure(fit, Interval(1.0, 1.0, 1.0), is_share=False) == "1 [1, 1]", "an RMSE of 1 is no share"


def test_a_page_about_numbers_has_parity_in_place_of_calibration(fits, tmp_path):
    page = page_of(fits, "numbers", tmp_path, title="Scores & more")
    assert "<h1>Scores &amp; more</h1>" in page
    figures = re.findall("<figcaption><b>(.*?)</b>", page)
    assert figures[:5] == ["RMSE", "MAE", "R²", "Parity.", "Residuals."]
    assert "Covariates alone, linear" in page
    assert "Beside them, for each set: age." in plain(page)
    drawn = re.search(r'aria-label="Parity\..*?"', page)[0]
    assert "12 points" in drawn


def test_the_worst_sets_are_those_with_the_least_probability_of_the_truth(fits, tmp_path):
    page = page_of(fits, "classes", tmp_path)
    said = json.loads((fits / "classes" / "evaluation.json").read_text())
    truth = np.array(said["models"][0]["output"])[0][np.arange(12), said["target"]]
    ids = json.loads((fits / "classes" / "fit.json").read_text())["data"]["ids"]
    table = page.partition("Sets predicted worst")[2]
    assert re.findall(r'<th scope="row">(s\d+)</th>', table)[:3] == [ids[n] for n in np.argsort(truth, kind="stable")[:3]]


def test_figures_that_look_other_than_they_are_are_remarked_upon(fits):
    """Single sets left out: the constant is wrong by construction, and nothing can be ranked."""
    sets = [np.random.default_rng(i).normal(size=(5, 2)) for i in range(10)]
    alone = cross_validate({}, sets, np.arange(10) % 2, objective="classification", folds=folds_by_hand(range(10)))
    said = plain(f"<body>{_remarks(replace(read_reported(fits / 'classes'), evaluation=alone))}")
    assert "only because training and test parts differ" in said
    assert "no fold here has sets of two classes" in said


def test_a_fit_without_an_evaluation_says_so(fits, tmp_path):
    text = plain(page_of(fits, "bare", tmp_path))
    assert "deep_sets++ was fitted without an evaluation: nobody knows how good it is." in text


def test_a_page_loads_nothing(fits, tmp_path):
    page = page_of(fits, "classes", tmp_path)
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "default-src &#x27;none&#x27;" in page


def test_a_damaged_bundle_makes_no_page(fits, tmp_path):
    shutil.copytree(fits / "bare", tmp_path / "bare")
    with (tmp_path / "bare" / "bundle" / "member-0.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DataError, match="member-0"):
        write_fit_report(tmp_path / "bare", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_nothing_is_wrong_with_a_page_in_a_browser(fits, tmp_path):
    with Browser() as browser:
        for name, width, scheme in (("classes", 1280, "light"), ("numbers", 400, "dark")):
            opened = browser.open(write_fit_report(fits / name, tmp_path / "page.html"), width=width, scheme=scheme)
            assert opened.problems() == []
            assert opened.evaluate("window.hacked") is None, "what files say is text"
            assert ATTACK in opened.evaluate("document.body.innerText")
            opened.close()


@pytest.mark.parametrize("width", [1200, 1000])
def test_no_column_of_a_table_is_out_of_sight(fits, tmp_path, width):
    hidden = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    with Browser() as browser:
        for name in ("classes", "numbers"):
            opened = browser.open(write_fit_report(fits / name, tmp_path / "page.html"), width=width)
            assert opened.evaluate(hidden) == []
            opened.close()
