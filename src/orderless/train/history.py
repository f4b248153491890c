"""What happened in a run, as rows: kept in every checkpoint, written beside it for people and programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from orderless.files import write_text

Row = dict[str, Any]


@dataclass(frozen=True)
class Moment:
    """A point of a run at which observers look: before the first step, and after each epoch."""

    model: nn.Module
    step: int
    epoch: int


Observer = Callable[[Moment], Mapping[str, Any] | None]  # None: nothing to say at this moment


@dataclass
class History:
    """Rows of a run.

    Attributes:
        epochs: One for the start (epoch 0) and one for each epoch: `epoch`, `step`, `train_loss`, `learning_rate`,
            `gradient_norm` (mean over its steps), `seconds`, `sets_per_second`, `elements_per_second`, and `test_<metric>` where
            it was tested. What an epoch does not have is None.
        steps: Every few steps: `step`, `loss`, `gradient_norm`, `learning_rate`.
        observed: What each observer said, by its name: `step`, `epoch` and its own fields.
    """

    epochs: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    observed: dict[str, list[Row]] = field(default_factory=dict)

    def observe(self, observers: Mapping[str, Observer], moment: Moment) -> None:
        """Asks every observer, and keeps what it says."""
        for name, observer in observers.items():
            if (said := observer(moment)) is not None:
                row = {field: _plain(value, name, field) for field, value in said.items()}
                self.observed.setdefault(name, []).append({"step": moment.step, "epoch": moment.epoch, **row})

    def write(self, folder: Path) -> None:
        """`history.json` with everything, `epochs.csv` and `steps.csv` for spreadsheets."""
        for name, text in self._files().items():
            write_text(folder / name, text)

    def mend(self, folder: Path) -> None:
        """Writes those of its files that are missing, or not as it would write them."""
        for name, text in self._files().items():
            if not _holds(folder / name, text):
                write_text(folder / name, text)

    def _files(self) -> dict[str, str]:
        return {"history.json": json.dumps(asdict(self)), "epochs.csv": _csv(self.epochs), "steps.csv": _csv(self.steps)}

    @classmethod
    def read(cls, folder: Path) -> History:
        """The history of the run in this folder."""
        return cls(**json.loads((folder / "history.json").read_text()))


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def _plain(value: Any, observer: str, field: str) -> Any:
    """A value as JSON and checkpoints hold it: numbers of numpy and torch as Python's, arrays and tensors as lists."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(part, observer, field) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, observer, field) for part in value]
    raise TypeError(
        f"the observer {observer!r} returned {type(value).__name__} for {field!r}: expected numbers, texts, or lists of them."
    )


def _csv(rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
