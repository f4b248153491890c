"""Fitting a study: cross-validation beside baselines, the model on all sets, the bundle. A stopped fit can be continued."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from orderless.estimators import SetClassifier, SetRegressor
from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.evaluate import Evaluation, cross_validate, draw_evaluation
from orderless.files import write_json
from orderless.io.errors import OptionError
from orderless.studies.fit_folder import FitFolder, check_outputs, read_finished
from orderless.studies.kept import KeptFit
from orderless.studies.problems import find_problems
from orderless.studies.stored import read_evaluation
from orderless.studies.study import Study, describe_left_out
from orderless.version import versions
from orderless.words import did_you_mean

Progress = Callable[[str, int, int], None]

# what estimators take but a fit on files decides by itself
_NOT_YOURS = {
    "model": "--model",
    "max_elements": "--max-elements",
    "random_state": "--seed",
    "device": "--device",
    "set_id": "--set-id",
    "work_dir": "--out",
}
_OF_NO_USE = ("warm_start", "verbose")


@dataclass(frozen=True)
class FitSettings:
    """How to fit and evaluate.

    Attributes:
        model: A network of `create_model`.
        options: Further parameters of `SetClassifier` or `SetRegressor`.
        max_elements: Elements that an epoch draws of a set; `auto` where sets are large.
        num_folds: Of the cross-validation.
        num_repeats: Of the cross-validation.
        evaluate: Whether to cross-validate at all.
        seed: Of everything that is drawn.
        device: Where to compute.
    """

    model: str = "deep_sets++"
    options: Mapping[str, Any] = field(default_factory=dict)
    max_elements: int | str = "auto"
    num_folds: int = 5
    num_repeats: int = 1
    evaluate: bool = True
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:  # before any file is read
        _check_names(self.options, SetClassifier, SetRegressor)


def make_estimator(study: Study, settings: FitSettings) -> SetClassifier | SetRegressor:
    """The estimator for a study, tried out on a few numbers: a slip in the options should not show up after an hour.

    Raises:
        OptionError: If an option is unknown or a value will not do.
    """
    kind = SetClassifier if study.objective == "classification" else SetRegressor
    _check_names(settings.options, kind)
    # `none` is the name of a norm; of other options it says that there is nothing
    options = {name: None if value == "none" and name != "norm" else value for name, value in settings.options.items()}
    estimator = kind(settings.model).set_params(
        **options, max_elements=settings.max_elements, random_state=settings.seed, device=settings.device
    )
    try:
        _rehearse(estimator, study)
    except ValueError as error:  # the numbers are well, so it is the options
        raise OptionError(str(error)) from error
    return estimator


def _check_names(options: Iterable[str], *kinds: type[SetClassifier | SetRegressor]) -> None:
    """Raises OptionError where an option is one of no such estimator, or is given in another way."""
    taken = {name for kind in kinds for name in kind().get_params()}
    allowed = sorted(taken.difference(_NOT_YOURS, _OF_NO_USE))
    for name in options:
        if name in _NOT_YOURS:
            raise OptionError(f"--set {name}=...: give {_NOT_YOURS[name]} instead.")
        if name not in allowed:
            meant = did_you_mean(name, allowed)
            raise OptionError(f"--set {name}=...: there is no such option.{meant} Options: {', '.join(allowed)}.")


def evaluate_study(
    study: Study,
    settings: FitSettings,
    *,
    keep: Path | None = None,
    baselines_only: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Cross-validates the model beside the baselines.

    Args:
        study: What to learn from.
        settings: How.
        keep: A folder for fitted folds, which are found there again.
        baselines_only: Leave the model out.
        progress: Called with a title, a number and a count as each fit begins.
    """
    models = {}
    if not baselines_only:
        models[settings.model] = KeptFit(make_estimator(study, settings), keep, study.covariates)
    found = cross_validate(
        models,
        study.samples,
        study.y,
        objective=study.objective,
        groups=study.groups,
        covariates=None if study.covariates is None else study.covariates.encoded,
        num_folds=settings.num_folds,
        num_repeats=settings.num_repeats,
        folds=study.folds,
        seed=settings.seed,
        progress=progress,
    )
    for name in models:
        failures = found.models[name].failures
        if len(failures) == len(found.folds):
            raise ValueError(f"{name} could not be fitted in any fold: {failures[0].reason}")
    return found


def fit_study(
    study: Study,
    settings: FitSettings,
    out: str | Path,
    *,
    source: str = "",
    labels: str = "",
    command: str = "",
    lines: list[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Cross-validates, fits the model to all sets of the study, and writes the bundle.

    The same call continues a fit that was stopped: finished folds are kept, and training resumes from its checkpoints.

    Args:
        study: What to learn from.
        settings: How.
        out: Folder for everything that comes out. New, empty, or of the same fit.
        source: Where the sets came from, for people.
        labels: Where their labels came from, if from elsewhere.
        command: What to type for the same fit.
        lines: How the study was described, to be kept.
        progress: Called with a title, a number and a count as each fit begins.

    Returns:
        What `fit.json` says in the end.

    Raises:
        DataError: If the fit is finished and a file that it has written is gone or not what was written.
    """
    folder = FitFolder(Path(out))
    estimator = make_estimator(study, settings)
    told = {"source": source, "labels": labels, "described": lines or []}
    said = folder.begin({**_describe(study, settings, told), "command": command})
    if said["state"] == "finished":
        return _check_finished(folder)
    evaluation = _evaluate_once(study, settings, folder, progress)
    if progress is not None:
        progress(f"{settings.model} to all sets", 1, 1)
    fitted = clone(estimator).set_params(work_dir=folder.work / "final")
    fitted.fit(
        study.samples,
        study.y,
        groups=study.groups,
        covariates=None if study.covariates is None else study.covariates.values,
    )
    save_bundle(
        fitted,
        folder.bundle,
        units=study.samples.units,
        target_name=study.target,
        covariate_names=None if study.covariates is None else study.covariates.names,
        origin=study.samples.origin,
        summary={
            "num_sets": len(study.samples),
            "num_elements": int(study.samples.sizes.sum()),
            "group": study.group,
            "evaluation": None if evaluation is None else _figures(evaluation, settings.model),
        },
    )
    load_bundle(folder.bundle)  # what cannot be loaded is no result
    problems = find_problems(study)
    return folder.finish({"problems": [asdict(problem) for problem in problems]})


def _check_finished(folder: FitFolder) -> dict[str, Any]:
    """What `fit.json` says, where all that was written is still there. Pictures are drawn again: that takes a moment."""
    said = read_finished(folder.folder)
    check_outputs(folder.folder, said)
    load_bundle(folder.bundle)
    if said["settings"]["evaluate"] and not folder.pictures.exists():
        draw_evaluation(read_evaluation(folder.evaluation), folder.pictures)
    return said


def _evaluate_once(study: Study, settings: FitSettings, folder: FitFolder, progress: Progress | None) -> Evaluation | None:
    if not settings.evaluate:
        return None
    if folder.evaluation.exists():
        return read_evaluation(folder.evaluation)
    found = evaluate_study(study, settings, keep=folder.work / "folds", progress=progress)
    draw_evaluation(found, folder.pictures)
    write_json(folder.evaluation, {**found.as_json(predictions=True), "ids": list(study.samples.ids)})
    return found


def _figures(evaluation: Evaluation, model: str) -> dict[str, Any]:
    """What the bundle remembers of the evaluation: metrics of the model with their intervals, and the caution."""
    scores = evaluation.models[model].metrics
    figures = {name: [score.value, score.interval.low, score.interval.high] for name, score in scores.items()}
    clean = {name: [float(v) if np.isfinite(v) else None for v in values] for name, values in figures.items()}
    return {"metrics": clean, "folds": len(evaluation.folds), "caution": evaluation.caution}


def _describe(study: Study, settings: FitSettings, told: Mapping[str, Any]) -> dict[str, Any]:
    asked = asdict(settings)
    del asked["device"]  # where, not what
    said = {
        "settings": {
            "data": study.fingerprint(),
            "target": study.target,
            "task": study.objective,
            "group": study.group,
            "covariates": None if study.covariates is None else list(study.covariates.names),
            "split": study.split,
            "reading": _without_fill(study.samples.origin),
            **asked,
        },
        "versions": versions(),
        "data": {
            **told,
            "num_sets": len(study.samples),
            "num_elements": int(study.samples.sizes.sum()),
            "features": list(study.samples.features),
            "ids": list(study.samples.ids),
            "sizes": study.samples.sizes.tolist(),
            "notes": list(study.samples.notes),
            "left_out": describe_left_out(study),
        },
    }
    content: dict[str, Any] = json.loads(json.dumps(said))
    return content


def _without_fill(origin: Mapping[str, Any]) -> dict[str, Any]:
    """How files were read, as the user said it: what was learned from them belongs to the data."""
    options = {name: value for name, value in origin.get("options", {}).items() if name != "fill"}
    return {**origin, **({"options": options} if "options" in origin else {})}


def _rehearse(estimator: SetClassifier | SetRegressor, study: Study) -> None:
    """Fits a copy to a few small sets for one epoch."""
    small = clone(estimator)
    for name in ("epochs", "ensemble_size"):
        value = getattr(small, name)
        if value == "auto" or (isinstance(value, int) and value > 1):
            small.set_params(**{name: 1})
    classes = np.unique(study.y) if study.objective == "classification" else np.arange(4.0)
    y = np.concatenate([classes, classes])
    rng = np.random.default_rng(0)
    small.fit([rng.normal(size=(2, len(study.samples.features))).astype(np.float32) for _ in y], y)
