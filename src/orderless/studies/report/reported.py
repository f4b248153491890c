"""A fit as a page tells of it: what its folder holds, and how models are called and coloured on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orderless.estimators.bundle import Estimator, load_bundle
from orderless.evaluate import Evaluation
from orderless.evaluate.evaluation import SHOWN
from orderless.evaluate.metrics import METRICS, Metric
from orderless.pages.html import Html, element
from orderless.pages.parts import mark
from orderless.studies.fit_folder import BUNDLE, EVALUATION, check_outputs, read_finished
from orderless.studies.stored import read_evaluation


@dataclass(frozen=True)
class ReportedFit:
    """All that is known of a fit.

    Attributes:
        folder: Where it is.
        said: `fit.json`.
        model: The estimator of its bundle.
        evaluation: Its cross-validation; None where there was none.
    """

    folder: Path
    said: Mapping[str, Any]
    model: Estimator
    evaluation: Evaluation | None

    @property
    def name(self) -> str:
        """Of the network."""
        return str(self.said["settings"]["model"])

    @property
    def target(self) -> str:
        """What is predicted."""
        return str(self.said["settings"]["target"])

    @property
    def unit(self) -> str:
        """What is new when the model is used: another set, or another of whatever groups are."""
        name = str(self.said["settings"]["group"] or "set")
        # pid is a word of its own
        return re.sub(r"(?:[_. -](?i:id|no|nr|number|code)|(?<=[a-z])(?:ID|Id|No|Nr|Number|Code))$", "", name) or "group"

    def known(self) -> Evaluation:
        """The evaluation, where one is known to be there."""
        assert self.evaluation is not None
        return self.evaluation

    def metrics(self) -> dict[str, Metric]:
        """Those that are shown, by name; the first is the one that models are compared by."""
        objective = self.known().objective
        return {name: METRICS[objective][name] for name in SHOWN[objective]}

    def compared(self) -> list[str]:
        """The model, and the best baseline by the first metric."""
        best = self.known().best_baseline[next(iter(self.metrics()))]
        return [self.name, *([best] if best != "constant" else [])]

    def title_of(self, name: str) -> str:
        """A model for people."""
        return self.known().models[name].title.partition(":")[0]


def read_reported(folder: Path) -> ReportedFit:
    """Reads the folder of a fit that is done.

    Raises:
        DataError: If it is not done, or a file is not what was written.
    """
    said = read_finished(folder)
    check_outputs(folder, said)
    evaluation = read_evaluation(folder / EVALUATION) if said["settings"]["evaluate"] else None
    return ReportedFit(folder, said, load_bundle(folder / BUNDLE), evaluation)


def legend(fit: ReportedFit, names: Sequence[str]) -> Html:
    """Which mark and colour is which model."""
    entries = [element("li", mark(letter_of(number), number), fit.title_of(name)) for number, name in enumerate(names)]
    return element("ul", entries, class_="legend")


def letter_of(number: int) -> str:
    """The mark of a model: A, B, ..."""
    return "ABCDEFGH"[number % 8]
