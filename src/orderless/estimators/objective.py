"""Whether a target is a class or a number, told from its values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

_MOST_CLASSES = 20
_FEWEST_EACH = 2  # sets per class on average, below which whole numbers look like a measurement


def guess_objective(y: Any) -> tuple[Literal["classification", "regression"], str]:
    """Whether to classify or to predict a number, and why, in words to show before training.

    Words and truth values are classes. Two whole numbers are classes. Up to twenty whole numbers without gaps, each seen at
    least twice on average, are classes. Anything else is a number to predict, and so are several columns.

    Args:
        y: (N,) or (N, K) targets without missing values.
    """
    target = np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.size == 0:
        raise ValueError("the target has no values, so nothing can be said of it.")
    if target.ndim != 1:
        return "regression", f"{target.shape[1]} numbers per set"
    if target.dtype.kind == "O" and not any(isinstance(value, str | bool | np.bool_) for value in target):
        target = target.astype(np.float64) if _are_numbers(target) else target
    if target.dtype.kind not in "iuf":
        distinct = {str(value) for value in target}
        return "classification", f"{len(distinct)} different words" if target.dtype.kind != "b" else "true or false"
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        raise ValueError("the target has missing values: leave out such sets first.")
    distinct_numbers = np.unique(target)
    count = len(distinct_numbers)
    if not (distinct_numbers == np.round(distinct_numbers)).all():
        return "regression", "numbers that are not whole"
    if count <= 2:
        return "classification", f"{count} different value{'s' if count > 1 else ''}"
    if count > _MOST_CLASSES:
        return "regression", f"{count} different whole numbers"
    if len(target) < _FEWEST_EACH * count:
        return "regression", f"{count} different whole numbers among {len(target)} sets"
    if distinct_numbers[-1] - distinct_numbers[0] != count - 1:
        return "regression", f"{count} whole numbers with gaps between them"
    return "classification", f"{count} whole numbers, {distinct_numbers[0]:g} to {distinct_numbers[-1]:g}"


def _are_numbers(values: Any) -> bool:
    return all(isinstance(value, int | float | np.number) for value in values)
