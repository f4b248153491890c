"""An evaluation as it was written to a file, read back.

Letters: N sets, R repeats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate import Evaluation, Fold, Interval, ModelScores
from orderless.evaluate.evaluation import Failure, MetricScore
from orderless.io.errors import DataError


def read_evaluation(path: Path) -> Evaluation:
    """What `Evaluation.as_json(predictions=True)` wrote. In folds, whoever is not tested is taken to be trained on.

    Raises:
        DataError: If the file is something else.
    """
    try:
        said = json.loads(path.read_text())
        fold_numbers = np.array(said["fold"], dtype=np.int64)  # (R, N)
        classes = None if said["classes"] is None else np.array(said["classes"])
        return Evaluation(
            objective=said["objective"],
            models={model["name"]: _model(model) for model in said["models"]},
            target=np.array(said["target"]) if classes is not None else np.array(said["target"], dtype=np.float64),
            classes=classes,
            groups=None if said["groups"] is None else np.array(said["groups"], dtype=object),
            sizes=np.array(said["sizes"], dtype=np.int64),
            folds=_folds(fold_numbers),
            best_baseline=said["best_baseline"],
            caution=said["caution"],
            notes=tuple(said["notes"]),
            confidence=said["confidence"],
            num_bootstrap=said["num_bootstrap"],
            seed=said["seed"],
        )
    except OSError as error:
        raise DataError(path, expected="an evaluation", found=error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        found = f"something else ({type(error).__name__}: {error})"
        raise DataError(path, expected="an evaluation as `orderless fit` writes it", found=found) from None


def _folds(numbers: NDArray[np.int64]) -> list[Fold]:
    return [
        Fold(np.flatnonzero(row != fold), np.flatnonzero(row == fold), repeat)
        for repeat, row in enumerate(numbers)
        for fold in range(int(row.max()) + 1)
    ]


def _model(said: Mapping[str, Any]) -> ModelScores:
    return ModelScores(
        name=said["name"],
        title=said["title"],
        is_baseline=said["is_baseline"],
        metrics={name: _score(score) for name, score in said["metrics"].items()},
        output=np.array(said["output"], dtype=np.float64),  # None becomes NaN
        has_probabilities=said["has_probabilities"],
        chosen=tuple(said["chosen"]),
        failures=tuple(Failure(**failure) for failure in said["failures"]),
        notes=tuple(said["notes"]),
        seconds=said["seconds"],
    )


def _score(said: Mapping[str, Any]) -> MetricScore:
    parts = {name: _interval(said[name]) for name in ("over_sets", "over_groups", "over_constant", "over_best")}
    over_sets = parts.pop("over_sets")
    if over_sets is None:
        raise ValueError("a metric without an interval")
    return MetricScore(value=_number(said["value"]), over_sets=over_sets, **parts)


def _interval(said: Mapping[str, Any] | None) -> Interval | None:
    return None if said is None else Interval(**{name: _number(said[name]) for name in ("value", "low", "high")})


def _number(value: float | None) -> float:
    return math.nan if value is None else value
