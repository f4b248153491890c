"""The folder of a fit (`fit_folder.py`)."""

import json

import pytest

from orderless.io import DataError
from orderless.studies.fit_folder import FitFolder, is_fit_folder, read_fit

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


BROKEN = {
    "no file": (None, "expected a folder of `orderless fit`"),
    "no JSON": ("{", "expected JSON"),
    "something else": ("[]", "expected format"),
    "newer": ('{"format": "orderless.fit", "version": 2}', "expected version 1, found version 2"),
    "lacks an entry": ('{"format": "orderless.fit", "version": 1}', "expected the entry 'data'"),
}


@pytest.mark.parametrize(("content", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_is_an_error_that_says_what_is_wrong(tmp_path, content, says):
    if content is not None:
        (tmp_path / "fit.json").write_text(content)
    with pytest.raises(DataError, match=says):
        read_fit(tmp_path)


def test_a_training_run_is_no_fit(tmp_path):
    assert not is_fit_folder(tmp_path)
    (tmp_path / "fit.json").write_text('{"seed": 0}')
    assert not is_fit_folder(tmp_path)
