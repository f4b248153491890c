"""What a cross-validation says of a model, in a sentence or two that promise no more than it shows."""

from __future__ import annotations

import math

from orderless.evaluate import Evaluation, Interval
from orderless.evaluate.evaluation import SHOWN
from orderless.evaluate.metrics import METRICS


def say_verdict(evaluation: Evaluation, model: str) -> str:
    """Whether the model beats a constant, and the best baseline, in the first metric that is shown.

    Args:
        evaluation: What `cross_validate` found.
        model: Name of the model.
    """
    name = SHOWN[evaluation.objective][0]
    title = METRICS[evaluation.objective][name].title
    score = evaluation.models[model].metrics[name]
    best = evaluation.models[evaluation.best_baseline[name]].title.partition(":")[0]
    beyond = compare_gain(score.over_constant)
    if beyond is None:
        return f"{model}: its {title} could not be told from these folds."
    against = compare_gain(score.over_best)
    first = {
        "better": f"{model} is better than a constant in {title}",
        "worse": f"{model} is worse than a constant in {title}",
        "level": f"{model} is not shown to be better than a constant in {title}",
    }[beyond]
    if evaluation.best_baseline[name] == "constant":
        return f"{first}; no simple model is better than that either."
    second = {
        "better": f"and better than the best simple model ({best}).",
        "worse": f"and worse than the best simple model ({best}): use that, or give the network more data.",
        "level": f"and cannot be told from the best simple model ({best}) by these sets.",
        None: "",
    }[against]
    return f"{first}{', ' if beyond != 'level' or against != 'level' else ' '}{second}".strip()


def compare_gain(gain: Interval | None) -> str | None:
    """`better`, `worse` or `level`: whether the interval of a gain holds 0. None where there is no gain to speak of."""
    if gain is None or math.isnan(gain.value):
        return None
    low, high = (gain.value if math.isnan(end) else end for end in (gain.low, gain.high))
    return "better" if low > 0 else "worse" if high < 0 else "level"
