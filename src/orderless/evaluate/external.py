"""Predictions of a model that was fitted elsewhere, beside the best constant: how well it does on another cohort.

Letters: N sets, C classes, K targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.contenders import Contender, summarize
from orderless.evaluate.evaluation import Evaluation
from orderless.evaluate.material import Material
from orderless.evaluate.reading import num_sets
from orderless.evaluate.splits import Fold, Goal, check_target, group_numbers

BEST_CONSTANT = "The best constant for these sets"


def score_predictions(
    name: str,
    output: Any,
    X: Any,
    y: Any,
    *,
    objective: Goal,
    classes: Any = None,
    groups: Any = None,
    seconds: float = 0.0,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """What predictions of sets are worth that the model was not fitted to, with intervals.

    Nothing is fitted, so there are no simple models to compare with, which would need the sets that the model was fitted to. The
    constant knows how often each class is found among these very sets, or their mean: it is better than any that was chosen
    before.

    Args:
        name: Of the model.
        output: (N, C) probabilities, or (N,) or (N, K) numbers.
        X: The sets, as for `cross_validate`.
        y: (N,) classes, or (N,) or (N, K) numbers.
        objective: `classification` or `regression`.
        classes: (C,) the classes that the columns of `output` are of; not every one need be among the sets.
        groups: (N,) who each set belongs to, such as the patient. Default: every set stands for itself.
        seconds: How long the predictions took.
        num_bootstrap: Bootstrap samples of the intervals.
        confidence: Of the intervals.
        seed: Of the bootstrap.
    """
    target, count = check_target(y, objective), num_sets(X)
    predicted = np.asarray(output, dtype=np.float64)
    predicted = predicted.reshape(len(predicted), -1)
    known = None if classes is None else np.asarray(classes)
    if objective == "classification":
        if known is None or predicted.shape[1] != len(known):
            raise ValueError(f"classes must name the {predicted.shape[1]} columns of output, got {classes!r}.")
        known = np.sort(known)
        predicted = predicted[:, np.argsort(np.asarray(classes))]
        if len(other := np.setdiff1d(target, known)):
            raise ValueError(f"y has classes that the model does not know: {', '.join(map(str, other.tolist()))}.")
    if len(target) != count or len(predicted) != count:
        raise ValueError(f"y and output must have a row for each of {count} sets, got {len(target)} and {len(predicted)}.")
    if not np.isfinite(predicted).all():
        raise ValueError("output must be finite: leave out sets that have no prediction.")
    if groups is not None:
        group_numbers(groups, count)
        groups = np.asarray(groups)
    whole = Material(X, target, objective, known, groups, None, None)
    model = Contender(name, name, False, output=predicted[None], seconds=seconds)
    constant = Contender("constant", BEST_CONSTANT, True, output=_best_constant(whole, predicted)[None])
    return summarize(
        [model, constant],
        whole,
        [Fold(np.array([], dtype=np.int64), np.arange(count))],
        [],
        num_bootstrap,
        confidence,
        seed,
    )


def _best_constant(whole: Material, output: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, C or K) the shares of the classes, or the mean."""
    if whole.classes is None:
        return np.broadcast_to(whole.y.mean(0), output.shape)
    shares = np.bincount(whole.encoded_target, minlength=len(whole.classes)) / len(whole.y)
    return np.broadcast_to(shares, output.shape)
