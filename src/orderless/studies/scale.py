"""Whether the features of new files are on the scale of those that a model was trained on.

Letters: T elements, D features.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.scaling import ElementScaler
from orderless.io.memory_sets import Sets
from orderless.io.samples import listed

_LOOKED_AT = 2**16  # elements, evenly spread over all sets
_FEWEST = 30  # elements that say something of a spread
_FAR = 3.0  # spreads of training between the means: cohorts differ by less, raw intensities and their arcsinh by more
_WIDE, _NARROW = 5.0, 0.1  # times the spread of training
_MOVED = 0.5  # that a narrow feature has moved as well: one that is rarely other than zero may be all zeros in a few sets


def say_other_scale(scaler: ElementScaler, sets: Sets, order: Sequence[int], names: Sequence[str]) -> str | None:
    """A sentence that names the features whose numbers are of another size than in training; None where there are none.

    Args:
        scaler: What the training elements were like.
        sets: The new ones.
        order: (D,) the column of the new elements for each feature of training.
        names: (D,) of the features.
    """
    x = _some_elements(sets)[:, list(order)]
    if len(x) < _FEWEST or not np.isfinite(x).all():  # what is not finite is refused by the model, with its place
        return None
    unclipped = copy.copy(scaler)
    unclipped.clip = None
    scaled = unclipped.transform(x).astype(np.float64)  # about mean 0 and spread 1 in training
    mean, spread = scaled.mean(0), scaled.std(0)
    far = np.abs(mean) > _FAR
    narrow = (spread < _NARROW) & (np.abs(mean) > _MOVED)
    wrong = np.flatnonzero(far | (spread > _WIDE) | narrow)
    if not len(wrong):
        return None
    said = [f"{names[i]} (mean {mean[i]:+.1f}, spread {spread[i]:.2g})" for i in wrong.tolist()]
    return (
        f"features with other numbers than in training, where they had mean 0 and spread 1 on this scale: {listed(said)}. Were "
        "these files transformed as those of training were, and are the units the same? If not, predictions mean nothing."
    )


def _some_elements(sets: Sets) -> NDArray[np.float64]:
    """(T, columns) at most `_LOOKED_AT` elements, from every set its share, evenly spread over it."""
    share = min(1.0, _LOOKED_AT / max(int(sets.sizes.sum()), 1))
    rows = [np.linspace(0, size - 1, max(1, round(share * size)), dtype=np.int64) for size in sets.sizes.tolist() if size]
    full = np.flatnonzero(sets.sizes)
    parts = [sets.take(int(number), chosen) for number, chosen in zip(full, rows, strict=True)]
    return np.concatenate(parts).astype(np.float64) if parts else np.empty((0, *sets.element_shape))
