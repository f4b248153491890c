"""What a cross-validation says of a model, in a sentence or two that promise no more than it shows."""

from __future__ import annotations

import math

import numpy as np

from orderless.evaluate import Evaluation, Interval
from orderless.evaluate.evaluation import SHOWN
from orderless.evaluate.metrics import METRICS
from orderless.words import counted

_RANKS_WELL = 0.75  # ROC AUC, halfway between chance and all
_CALLS_WELL = 0.75  # balanced accuracy, likewise
_FEWEST = 6  # groups or sets: of five, all agree by chance once in sixteen times


def say_verdict(evaluation: Evaluation, model: str) -> str:
    """Whether the model beats a constant, and the best baseline, in the first metric that is shown; and what others say of it.

    Args:
        evaluation: What `cross_validate` found.
        model: Name of the model.
    """
    name = SHOWN[evaluation.objective][0]
    title = METRICS[evaluation.objective][name].title
    score = evaluation.models[model].metrics[name]
    beyond = compare_gain(score.over_constant)
    if beyond == "better" and not _beats_one_class(evaluation, score.interval):
        beyond = "level"
    if beyond is None:
        return f"{model}: its {title} could not be told from these folds."
    tested = np.unique(np.concatenate([fold.test for fold in evaluation.folds]))
    count = len(tested if evaluation.groups is None else set(evaluation.groups[tested].tolist()))
    if count < _FEWEST:
        few = counted(count, "set" if evaluation.groups is None else "group")
        return (
            f"{few} cannot tell whether {model} is better than a constant in {title}: that all of so few agree happens by "
            f"chance in 1 of {2 ** (count - 1)} cases."
        )
    first = {
        "better": f"{model} is better than a constant in {title}",
        "worse": f"{model} is worse than a constant in {title}",
        "level": f"{model} is not shown to be better than a constant in {title}",
    }[beyond]
    said = [f"{first}{_against_best(evaluation, model, name)}"]
    if evaluation.objective == "classification":
        said += [_on_probabilities(evaluation, model) if beyond == "better" else _on_ranks(evaluation, model)]
    return " ".join(filter(None, said))


def _beats_one_class(evaluation: Evaluation, accuracy: Interval) -> bool:
    """Whether it is right more often than one class for all sets would be.

    The constant of a fold is the most frequent class of its training sets. Where the sets that are tested have another one, as
    where single sets or whole sites are left out, it is wrong by construction, and beaten by guessing.
    """
    if evaluation.objective != "classification":
        return True
    tested = np.unique(np.concatenate([fold.test for fold in evaluation.folds]))
    _, counts = np.unique(evaluation.target[tested], return_counts=True)
    return accuracy.low > counts.max() / counts.sum()


def _against_best(evaluation: Evaluation, model: str, name: str) -> str:
    """The rest of the sentence."""
    if sum(scores.is_baseline for scores in evaluation.models.values()) == 1:
        return "."
    if evaluation.best_baseline[name] == "constant":
        return "; no simple model is better than that either."
    best = evaluation.models[evaluation.best_baseline[name]].title.partition(":")[0]
    return {
        "better": f", and is better than the best simple model ({best}).",
        "worse": f", and is worse than the best simple model ({best}). docs/baselines.md fits simple models in Python.",
        "level": f", and cannot be told from the best simple model ({best}) by these sets.",
        None: ".",
    }[compare_gain(evaluation.models[model].metrics[name].over_best)]


def _on_probabilities(evaluation: Evaluation, model: str) -> str:
    """Of a model whose classes are good: whether its probabilities are."""
    score = evaluation.models[model].metrics.get("log_loss")
    gain = compare_gain(None if score is None else score.over_constant)
    if gain not in ("worse", "level"):
        return ""
    how = "is above" if gain == "worse" else "is not shown to be below"
    return f"Its log loss {how} that of a constant: its classes can be used, but its probabilities should not be trusted."


def _on_ranks(evaluation: Evaluation, model: str) -> str:
    """Of a model whose accuracy is no better than a constant's: whether it orders sets well all the same.

    Where nearly all sets are of one class a constant is nearly always right, and accuracy hides classes that are good, too.
    """
    metrics = evaluation.models[model].metrics
    score, balanced = metrics.get("roc_auc"), metrics.get("balanced_accuracy")
    if score is None or compare_gain(score.over_constant) != "better" or score.value < _RANKS_WELL:
        return ""
    if balanced is not None and compare_gain(balanced.over_constant) == "better" and balanced.value >= _CALLS_WELL:
        found = f"and finds every class: its balanced accuracy is {balanced.value:.2f}"
        said = f"It ranks sets well (ROC AUC {score.value:.2f}), {found}."
        return " ".join(filter(None, [said, _on_probabilities(evaluation, model)]))
    assert evaluation.classes is not None
    off = (
        "its threshold is off: set one of your own" if len(evaluation.classes) == 2 else "the most probable class is often wrong"
    )
    return f"It ranks sets well (ROC AUC {score.value:.2f}), but {off}."


def compare_gain(gain: Interval | None) -> str | None:
    """`better`, `worse` or `level`: whether the interval of a gain holds 0. None where there is no gain or no interval of it."""
    if gain is None or any(map(math.isnan, (gain.low, gain.value, gain.high))):
        return None
    return "better" if gain.low > 0 else "worse" if gain.high < 0 else "level"
