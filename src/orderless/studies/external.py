"""How good a bundle is on another cohort, whose outcomes are known by now.

Letters: N sets, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.estimators import SetClassifier
from orderless.estimators.bundle import Estimator
from orderless.evaluate import Evaluation, score_predictions
from orderless.io import Samples
from orderless.io.errors import OptionError
from orderless.io.per_set import text_of
from orderless.io.samples import listed, visible
from orderless.io.tables import is_number
from orderless.studies.predicting import Predictions
from orderless.studies.study import Study, describe_left_out, describe_target, make_study, notes_on_names
from orderless.studies.verdict import say_verdict


@dataclass(frozen=True)
class ExternalScore:
    """What predictions of files are worth.

    Attributes:
        evaluation: The model beside the best constant, with intervals.
        described: What was scored by what, in lines.
        verdict: What it says of the model, in a sentence or two.
    """

    evaluation: Evaluation
    described: tuple[str, ...]
    verdict: str


def score_files(
    model: Estimator, samples: Samples, predictions: Predictions, target: str, *, group: str | None = None, seconds: float = 0.0
) -> ExternalScore:
    """Compares predictions with outcomes.

    Args:
        model: What predicted, as `load_bundle` gives it.
        samples: The sets, with the outcome among what is known of them. Sets without one are left out, and named.
        predictions: Of `predict_files`, for these samples.
        target: The column of outcomes.
        group: The column of groups, `none`, or None: found by its name where values repeat.
        seconds: How long the predictions took.

    Raises:
        OptionError: If a column is not there, or the model has several targets.
        ValueError: If the outcomes are no numbers, or classes that the model does not know.
    """
    is_classifier = isinstance(model, SetClassifier)
    outputs = [name for name in predictions.columns if name.startswith("probability_" if is_classifier else "prediction")]
    if not is_classifier and len(outputs) > 1:
        raise OptionError(f"--target compares one outcome, and the model predicts {len(outputs)}: {listed(outputs)}.")
    study = make_study(samples, target, task="classification" if is_classifier else "regression", group=group)
    place = {set_id: number for number, set_id in enumerate(predictions.columns["id"])}
    rows = [place[set_id] for set_id in study.samples.ids]
    name = str(model.get_params()["model"])
    found = score_predictions(
        name,
        np.array([predictions.columns[output] for output in outputs], dtype=np.float64).T[rows],
        study.samples,
        _as_classes(study.y, model.classes_, target) if is_classifier else study.y,
        objective=study.objective,
        classes=model.classes_ if is_classifier else None,
        groups=study.groups,
        seconds=seconds,
    )
    described = [describe_target(replace(study, reason="as the model was fitted")), _describe_groups(study)]
    if model.schema_.targets and target not in model.schema_.targets:
        fitted_to = listed(model.schema_.targets)
        described.append(f"Note: the model was fitted to {fitted_to}, and is compared with {visible(target)}.")
    described += [f"Left out: {line}" for line in describe_left_out(study)]
    described += [f"Note: {note}" for note in notes_on_names(study)]
    described.append(
        "Note: a bundle does not hold the sets that it was fitted to. If some of them, or of their patients, are among these, "
        "the figures are better than they would be on new ones."
    )
    return ExternalScore(found, tuple(described), say_verdict(found, name))


def _describe_groups(study: Study) -> str:
    if study.groups is None:
        return "Groups: none, every set stands for itself"
    why = f" ({study.group_reason}; --group none turns it off)" if study.group_reason else ""
    return f"Groups: {study.group}, {len(set(study.groups.tolist()))} of them{why}. Intervals are over groups"


def _as_classes(column: NDArray[Any], classes: NDArray[Any], target: str) -> NDArray[Any]:
    """(N,) each value as the model's class of that name: 1 and 1.0, True and true, and 01 and 1 where only one is a class."""
    known = classes.tolist()
    named = {value: _class_of(value, known) for value in dict.fromkeys(column.tolist())}
    if other := [repr(text_of(value)) for value, found in named.items() if found is None]:
        classes_said = listed([repr(text_of(value)) for value in known], 20)
        raise ValueError(
            f"the target {visible(target)} holds {listed(other, 5)}, which the model does not know: its classes are "
            f"{classes_said}. Write them alike, or leave these cells empty."
        )
    return np.array([named[value] for value in column.tolist()], dtype=classes.dtype)


def _class_of(value: Any, known: Sequence[Any]) -> Any:
    """The one class that is written like it; None where there is none, or there are several."""
    text = text_of(value)
    for alike in (
        [c for c in known if text_of(c) == text],
        [c for c in known if text_of(c).casefold() == text.casefold()],
        [c for c in known if is_number(text) and is_number(text_of(c)) and float(text_of(c)) == float(text)],
    ):
        if len(alike) == 1:
            return alike[0]
    return None
