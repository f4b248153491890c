"""The folder of a fit (`fit_folder.py`)."""

import json
import signal
import subprocess
import sys

import pytest

from orderless.io import DataError
from orderless.studies.fit_folder import FitFolder, check_outputs, is_fit_folder, read_finished, read_fit

SAID = {"settings": {"target": "cmv", "folds": 5, "data": "abc"}, "data": {}}


def test_the_same_fit_goes_on_and_another_is_refused_with_what_differs(tmp_path):
    folder = FitFolder(tmp_path / "out")
    assert folder.begin(SAID)["state"] == "begun"
    assert folder.begin(SAID)["state"] == "begun"
    with pytest.raises(ValueError, match=r"holds another fit: folds was 5 and is 3 now; the data are not the same\. Choose"):
        folder.begin({**SAID, "settings": {**SAID["settings"], "folds": 3, "data": "xyz"}})
    folder.work.mkdir()
    assert folder.finish({"problems": []})["state"] == "finished"
    assert not folder.work.exists()
    assert folder.begin(SAID)["problems"] == []


def test_every_setting_that_differs_is_named_and_the_data_only_where_nothing_else_explains_them(tmp_path):
    settings = {"target": "cmv", "reading": {"kind": "CSV", "options": {"missing": "error"}}, "options": {"depth": 2}, "seed": 0}
    FitFolder(tmp_path).begin({"settings": {**settings, "data": "abc", "num_folds": 5}, "data": {}})
    other = {**settings, "target": "age", "options": {"depth": 3, "epochs": 1}, "seed": 1, "data": "xyz", "num_folds": 2}
    with pytest.raises(ValueError, match="holds another fit") as error:
        FitFolder(tmp_path).begin({"settings": other, "data": {}})
    assert str(error.value).partition("fit: ")[2] == (
        "target was cmv and is age now; depth was 2 and is 3 now; seed was 0 and is 1 now; num_folds was 5 and is 2 now; "
        "epochs was not given and is 1 now. Choose another folder (--out)."
    )


def test_an_unfinished_fit_of_another_version_is_refused(tmp_path):
    folder = FitFolder(tmp_path)
    said = folder.begin(SAID)
    (tmp_path / "fit.json").write_text(json.dumps({**said, "versions": {"orderless": "0.0.1"}}))
    with pytest.raises(ValueError, match=r"orderless was 0\.0\.1"):
        folder.begin(SAID)


def test_a_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match="holds other files"):
        FitFolder(tmp_path).begin(SAID)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


DIES = """
import os, signal, sys
from pathlib import Path
from orderless import files
from orderless.studies import fit_folder

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

folder, said = fit_folder.FitFolder(Path(sys.argv[1])), {"settings": {}, "data": {}}
"""
KILLS = {
    "in the first write": ("files.os.fsync = die; folder.begin(said)", "begun"),
    "in the last write": ("folder.begin(said); folder.work.mkdir(); files.os.fsync = die; folder.finish({})", "begun"),
    "before work is gone": (
        "folder.begin(said); folder.work.mkdir(); fit_folder.shutil.rmtree = die; folder.finish({})",
        "finished",
    ),
}


@pytest.mark.parametrize(("last_words", "state"), KILLS.values(), ids=KILLS.keys())
def test_a_fit_that_was_killed_goes_on_in_its_folder_and_leaves_nothing_behind(tmp_path, last_words, state):
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", DIES + last_words, out], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = sorted(path.name for path in out.iterdir())
    assert before != ["fit.json"], "the kill came too late or too early to be of interest"
    folder = FitFolder(out)
    folder.check_free()
    assert sorted(path.name for path in out.iterdir()) == before, "a check writes nothing"
    assert folder.begin({"settings": {}, "data": {}})["state"] == state
    if state == "begun":
        folder.finish({})
    assert [path.name for path in out.iterdir()] == ["fit.json"]


def test_the_same_call_on_a_finished_fit_removes_what_was_needed_on_the_way(tmp_path):
    folder = FitFolder(tmp_path)
    folder.begin(SAID)
    folder.finish({})
    (tmp_path / ".bundle.0a1b2c3d").mkdir()
    folder.pictures.mkdir()
    (folder.pictures / ".roc.svg.0a1b2c3d").touch()
    folder.work.mkdir()
    assert folder.begin(SAID)["state"] == "finished"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["fit.json", "pictures"]


WHOLE = {"format": "orderless.fit", "version": 1, "state": "finished", "versions": {"orderless": "0"}, **SAID}
DONE = {
    **WHOLE,
    "settings": {
        "data": "abc", "target": "cmv", "task": "classification", "group": None, "covariates": None, "split": None, "reading": {},
        "model": "deep_sets++", "options": {}, "max_elements": "auto", "num_folds": 2, "num_repeats": 1, "evaluate": True,
        "seed": 0,
    },
    "data": {"source": "cells.csv", "described": [], "num_sets": 2, "num_elements": 9, "ids": ["a", "b"], "sizes": [4, 5]},
    "problems": [],
}  # fmt: skip
BROKEN = {
    "no file": (None, "expected a folder of `orderless fit`"),
    "no JSON": ("{", "expected JSON"),
    "something else": ("[]", "expected format"),
    "newer": ('{"format": "orderless.fit", "version": 2}', "expected version 1, found version 2"),
    "lacks an entry": ('{"format": "orderless.fit", "version": 1}', "expected the entry 'state'"),
    "a list for settings": (
        json.dumps({**WHOLE, "settings": []}),
        r"an object as the entry 'settings', found '\[\]'\. The file",
    ),
    "no versions": (json.dumps({**WHOLE, "versions": {}}), "expected the entry 'orderless' in 'versions', found none"),
    "no text": (b"\xff\xfe{", "expected JSON"),
}
UNFIT = {
    "nothing about data": ({"data": {}}, "expected the entry 'source' in 'data', found none. The file was changed or damaged"),
    "a word for a number": (
        {"data": {**DONE["data"], "num_sets": "12"}},
        "a whole number as the entry 'num_sets' in 'data'",
    ),
    "no settings": ({"settings": {}}, "expected the entry 'data' in 'settings', found none"),
    "no problems": ({"problems": None}, "expected a list as the entry 'problems'"),
    "a problem without words": ({"problems": [{"kind": "bad"}]}, "expected the entry 'title' in 'problems'"),
}


@pytest.mark.parametrize(("content", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_is_an_error_that_says_what_is_wrong(tmp_path, content, says):
    if content is not None:
        (tmp_path / "fit.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=says):
        read_fit(tmp_path)


@pytest.mark.parametrize(("changed", "says"), UNFIT.values(), ids=UNFIT.keys())
def test_a_finished_fit_that_lacks_what_others_rely_on_is_an_error_that_says_what(tmp_path, changed, says):
    (tmp_path / "fit.json").write_text(json.dumps(DONE))
    assert read_finished(tmp_path) == DONE
    (tmp_path / "fit.json").write_text(json.dumps({**DONE, **changed}))
    with pytest.raises(DataError, match=says):
        read_finished(tmp_path)


def test_a_record_that_may_not_be_read_is_an_error_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "fit.json").write_text(json.dumps(DONE))

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)  # root may read whatever its rights are
    with pytest.raises(DataError, match=r"expected a record of `orderless fit`, found .*Permission denied.* its rights"):
        read_fit(tmp_path)


@pytest.mark.parametrize("name", ["bundle", "evaluation.json"])
def test_what_a_finished_fit_has_written_and_is_gone_is_named(tmp_path, name):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "evaluation.json").touch()
    check_outputs(tmp_path, DONE)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=rf"{name}: expected what the finished fit has written there, found nothing. Put it back"):
        check_outputs(tmp_path, DONE)


def test_a_training_run_is_no_fit(tmp_path):
    assert not is_fit_folder(tmp_path)
    (tmp_path / "fit.json").write_text('{"seed": 0}')
    assert not is_fit_folder(tmp_path)
