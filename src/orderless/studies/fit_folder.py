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
import platform
import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orderless.files import is_leftover, remove_leftovers, write_json
from orderless.io.errors import DataError, MissingDataError
from orderless.version import __version__

FORMAT, VERSION = "orderless.fit", 1
FIT, EVALUATION, PICTURES, BUNDLE, WORK = "fit.json", "evaluation.json", "pictures", "bundle", "work"
# the digest of the data knows all of these: where one differs, it says nothing new
_IN_THE_DATA = ("target", "task", "group", "covariates", "split", "reading")


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
        """Takes the folder for a fit, or goes on with the same fit. Removes what a killed process left; nobody else may be at it.

        Args:
            said: `settings`, which must not differ, and whatever else is known.

        Returns:
            What `fit.json` says; its `state` is `finished` where nothing is left to do.

        Raises:
            ValueError: If the folder holds another fit, or something else.
        """
        if self.fit.exists():
            before = read_fit(self.folder)
            self._check_same(before, said)
            remove_leftovers(self.folder)
            if before["state"] == "finished":  # a kill may have come after the last words and before `work` was gone
                self._remove_work()
            return before
        self.check_free()
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        begun = {"format": FORMAT, "version": VERSION, "state": "begun", "versions": versions(), **said}
        write_json(self.fit, begun)
        return begun

    def check_free(self) -> None:
        """Fails where the folder holds files of somebody else. Writes nothing."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder} is a file: name a folder (--out).")
        if not self.folder.exists() or self.fit.exists():
            return
        if any(path.name != ".lock" and not is_leftover(path) for path in self.folder.iterdir()):
            raise ValueError(f"{self.folder} holds other files: choose a folder that is new or empty (--out).")

    def finish(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Writes down what came out, and removes what was only needed on the way."""
        finished = {**read_fit(self.folder), **said, "state": "finished", "date": date.today().isoformat()}
        write_json(self.fit, finished)
        self._remove_work()
        return finished

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
            raise ValueError(f"{self.folder} holds another fit: {'; '.join(words)}. Choose another folder (--out).")


def is_fit_folder(folder: Path) -> bool:
    """Whether a folder is one of `orderless fit`."""
    try:
        return bool(json.loads((folder / FIT).read_text())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_fit(folder: Path) -> dict[str, Any]:
    """What `fit.json` says."""
    path = folder / FIT
    if not path.is_file():
        raise MissingDataError(path, expected="a folder of `orderless fit`", found="no such file")
    try:
        said = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(path, expected="JSON", found=f"something else ({error})") from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise DataError(path, expected=f"format {FORMAT!r}", found="something else", fix="Choose another folder (--out).")
    if said.get("version") != VERSION:
        found = f"version {said.get('version')}"
        raise DataError(path, expected=f"version {VERSION}", found=found, fix="Install the orderless that wrote it.")
    missing = {"state", "settings", "versions", "data"} - said.keys()
    if missing:
        raise DataError(path, expected=f"the entry {sorted(missing)[0]!r}", found="none", fix="Fit again, to another folder.")
    return said


def read_finished(folder: Path) -> dict[str, Any]:
    """What `fit.json` says of a fit that is done.

    Raises:
        DataError: If it is not done, or is no fit.
    """
    said = read_fit(folder)
    if said["state"] != "finished":
        fix = "Run the same `orderless fit` command again: it goes on where it was."
        raise DataError(folder, expected="a fit that is finished", found="one that was stopped", fix=fix)
    return said


def versions() -> dict[str, str]:
    """What a fit was made with."""
    return {"orderless": __version__, "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, those of the estimator and of reading among them."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat


def _short(value: Any) -> str:
    text = "not given" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
