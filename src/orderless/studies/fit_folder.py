"""The folder of a fit: what it belongs to, what is done already, and what comes out.

DIR/
  fit.json            settings, data, versions, and how far it is
  evaluation.json     cross-validation: figures with intervals, every out-of-fold prediction
  pictures/           of the evaluation
  bundle/             the model that was fitted to all sets
  work/               while it runs: finished folds and checkpoints
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from orderless.claims import is_claimed
from orderless.files import is_leftover, remove_leftovers, write_json
from orderless.io.errors import DataError, MissingDataError, OptionError
from orderless.io.reading import reading, shown
from orderless.version import __version__, versions

FORMAT, VERSION = "orderless.fit", 1
FIT, EVALUATION, PICTURES, BUNDLE, WORK = "fit.json", "evaluation.json", "pictures", "bundle", "work"
# the digest of the data knows all of these: where one differs, it says nothing new
_IN_THE_DATA = ("target", "task", "group", "covariates", "split", "reading")
# what a fit that is done has written down, and what it is: whoever tells of it relies on that
_NAME = str | None
_WRITTEN: dict[str, dict[str, Any]] = {
    "settings": {
        "data": str, "target": str, "task": str, "group": _NAME, "covariates": list | None, "split": _NAME, "reading": dict,
        "model": str, "options": dict, "max_elements": int | str, "num_folds": int, "num_repeats": int, "evaluate": bool,
        "seed": int,
    },
    "data": {"source": str, "described": list, "num_sets": int, "num_elements": int, "ids": list, "sizes": list},
}  # fmt: skip
_WORDS = {str: "a text", dict: "an object", list: "a list", int: "a whole number", bool: "true or false"}
_AGAIN = "The file was changed or damaged: put it back, or fit again to another folder (--out)."


class FitFolder:
    """A folder that belongs to one fit.

    Args:
        folder: Where it is, or shall be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fit, self.evaluation, self.pictures = folder / FIT, folder / EVALUATION, folder / PICTURES
        self.bundle, self.work = folder / BUNDLE, folder / WORK

    def begin(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Takes the folder for a fit, or continues the same fit. Removes what a killed process left; no other may be using it.

        Args:
            said: `settings`, which must not differ, and whatever else is known.

        Returns:
            What `fit.json` says; its `state` is `finished` where nothing is left to do.

        Raises:
            OptionError: If the folder holds another fit, or something else.
        """
        if self.fit.exists():
            before = read_fit(self.folder)
            self._check_same(before, said)
            self._remove_leftovers()
            if before["state"] == "finished":  # a kill may have come after the last words and before `work` was gone
                self._remove_work()
            return before
        self.check_free()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        begun = {"format": FORMAT, "version": VERSION, "state": "begun", "versions": versions(), **said}
        write_json(self.fit, begun)
        return begun

    def check_free(self) -> None:
        """Fails where the folder holds files of somebody else. Writes nothing."""
        if self.folder.exists() and not self.folder.is_dir():
            raise OptionError(f"{self.folder} is a file: name a folder (--out).")
        if not self.folder.exists() or self.fit.exists():
            return
        if any(path.name != ".lock" and not is_leftover(path) for path in self.folder.iterdir()):
            raise OptionError(f"{self.folder} holds other files: choose a folder that is new or empty (--out).")

    def finish(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Writes down what came out, and removes what was only needed on the way."""
        finished = {**read_fit(self.folder), **said, "state": "finished", "date": date.today().isoformat()}
        write_json(self.fit, finished)
        self._remove_work()
        return finished

    def _remove_leftovers(self) -> None:
        for folder in (self.folder, self.pictures):
            remove_leftovers(folder)

    def _remove_work(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def _check_same(self, before: Mapping[str, Any], said: Mapping[str, Any]) -> None:
        then, now = before["settings"], json.loads(json.dumps(said["settings"]))
        explained = any(then.get(name) != now.get(name) for name in _IN_THE_DATA)
        others_data = then.get("data") != now.get("data") and not explained
        then, now = _flat(then), _flat(now)
        differ = [name for name in {**then, **now} if name != "data" and then.get(name) != now.get(name)]
        words = [f"{name} was {_short(then.get(name))} and is {_short(now.get(name))} now" for name in differ]
        if others_data:
            words.append("the data are not the same")
        if before["state"] != "finished" and before["versions"]["orderless"] != __version__:
            words.append(f"orderless was {before['versions']['orderless']} and is {__version__} now")
        if words:
            raise OptionError(f"{self.folder} holds another fit: {'; '.join(words)}. Choose another folder (--out).")


def is_fit_folder(folder: Path) -> bool:
    """Whether a folder is one of `orderless fit`."""
    try:
        return bool(json.loads((folder / FIT).read_text())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_fit(folder: Path) -> dict[str, Any]:
    """What `fit.json` says."""
    path = folder / FIT
    expected = "a record of `orderless fit`"
    if path.is_dir():
        raise DataError(path, expected=expected, found="a folder")
    if not path.exists():
        raise MissingDataError(path, expected="a folder of `orderless fit`", found="no such file")
    with reading(path, expected):
        content = path.read_bytes()
    try:
        said = json.loads(content)
    except ValueError as error:
        raise DataError(path, expected="JSON", found=f"something else ({error})", fix=_AGAIN) from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise DataError(path, expected=f"format {FORMAT!r}", found="something else", fix="Choose another folder (--out).")
    if said.get("version") != VERSION:
        found = f"version {said.get('version')}"
        raise DataError(path, expected=f"version {VERSION}", found=found, fix="Install the orderless that wrote it.")
    _check_entries(path, said, {"state": str, "settings": dict, "versions": dict, "data": dict})
    _check_entries(path, said["versions"], {"orderless": str}, "versions")
    return said


def read_finished(folder: Path) -> dict[str, Any]:
    """What `fit.json` says of a fit that is done.

    Raises:
        DataError: If it is not done, is no fit, or something that such a fit writes down is not there.
    """
    said = read_fit(folder)
    if said["state"] != "finished":
        state, fix = "was stopped", "Run the same `orderless fit` command again: it continues where it was."
        if is_claimed(folder):
            state, fix = "another process is still working on", "Wait for it."
        raise DataError(folder, expected="a fit that is finished", found=f"one that {state}", fix=fix)
    for part, kinds in _WRITTEN.items():
        _check_entries(folder / FIT, said[part], kinds, part)
    _check_entries(folder / FIT, said, {"problems": list})
    for problem in said["problems"]:
        found = problem if isinstance(problem, dict) else {}
        _check_entries(folder / FIT, found, {"kind": str, "title": str, "text": str}, "problems")
    return said


def check_outputs(folder: Path, said: Mapping[str, Any]) -> None:
    """Fails where a file that a finished fit has written is gone.

    Args:
        folder: Of the fit.
        said: As `read_finished` gives it.

    Raises:
        MissingDataError: It names the file and says what to do.
    """
    for name in [BUNDLE, *([EVALUATION] if said["settings"]["evaluate"] else [])]:
        if not (folder / name).exists():
            fix = f"Put it back, or remove {folder} and run the same `orderless fit` command again."
            raise MissingDataError(folder / name, expected="what the finished fit has written there", found="nothing", fix=fix)


def _check_entries(path: Path, found: Mapping[str, Any], kinds: Mapping[str, Any], within: str = "") -> None:
    where = f" in {within!r}" if within else ""
    for name, kind in kinds.items():
        if name not in found:
            raise DataError(path, expected=f"the entry {name!r}{where}", found="none", fix=_AGAIN)
        if not isinstance(found[name], kind):
            words = f"{_WORDS.get(kind, 'another value')} as the entry {name!r}{where}"
            raise DataError(path, expected=words, found=shown(json.dumps(found[name])), fix=_AGAIN)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, those of the estimator and of reading among them."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat


def _short(value: Any) -> str:
    text = "not given" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
