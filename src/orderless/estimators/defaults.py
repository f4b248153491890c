"""What estimators do where nobody says otherwise: every such number, in one place.

Letters: N sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.models.registry import MODELS
from orderless.train.config import DEFAULT_TRAINING

Auto = Literal["auto"]

# networks: options of `create_model` where an estimator's are None
NETWORKS: dict[str, dict[str, Any]] = {
    "deep_sets": {"depth": 4, "width": 64},
    "deep_sets++": {"depth": 4, "width": 64},
    "set_transformer": {"depth": 2, "width": 64},
    "set_transformer++": {"depth": 2, "width": 64},
}

# members take turns in how they pool: a mean sees what all elements share, a maximum sees a single one of a rare kind
POOLS: dict[str, tuple[str, ...]] = {"deep_sets": ("mean", "max"), "deep_sets++": ("mean", "max")}

# members
ENSEMBLE_SIZE = 6
VALIDATION_FRACTION = 0.2
MIN_SETS_TO_VALIDATE = 20  # with fewer, a validation set of four or less would stop training by chance

# steps
LEARNING_RATE: float = DEFAULT_TRAINING["learning_rate"]
WEIGHT_DECAY: float = DEFAULT_TRAINING["weight_decay"]
NOISE: float = DEFAULT_TRAINING["noise"]
PATIENCE = 15  # epochs
STEPS = 800  # that training aims at: small data go through more epochs
EPOCHS = (30, 60)  # fewest and most

# elements
BATCH_SETS = (16, 64)  # sets of ordinary size that a batch has room for, fewest and most
BATCHES = 16  # batches that an epoch has, where that makes neither too small nor too large ones
FEW_BATCHES = 5  # that it has at least, where there are few sets, unless batches would be of fewer than
FEW_SETS = 4
BATCH_ELEMENTS = 2**15  # a batch has no more, unless one set alone does
EPOCH_ELEMENTS = 2**18  # an epoch draws about so many elements at most; sets give fewer of theirs then
MIN_DRAWN, MOST_DRAWN = 64, 2**11  # but no set is asked for fewer than this, nor for more
CLIP = 10.0  # standard deviations from the mean that an element may be
HEAVY_TAIL = 2.5  # of a feature whose standard deviation is more than so many times what its quartiles say, asinh is taken
TAIL_ELEMENTS = 2**14  # that quartiles are taken from, evenly spread over all

# work
SCALING_ELEMENTS = 2**17  # elements read at a time
PREDICT_ELEMENTS = 2**14  # elements in a batch of predictions: what a CPU has in its cache
LARGE_SET = 2**16  # a set of more elements is predicted in chunks
CHECKPOINT_SECONDS = 30.0
SMALL_BATCH = 2**19  # numbers in a layer, up to which one thread trains
SMALL_PREDICTION = 2**28  # numbers in a layer of all networks for all sets, up to which one thread predicts: some seconds


@dataclass(frozen=True)
class Settings:
    """The numbers that a fit runs with, after everything automatic is decided.

    Attributes:
        epochs: At most.
        batch_elements: Elements in a batch.
        max_elements: Elements that an epoch draws of a set; None takes all.
    """

    epochs: int
    batch_elements: int
    max_elements: int | None


def decide(
    sizes: NDArray[np.int64],
    *,
    epochs: int | Auto,
    batch_elements: int | Auto,
    max_elements: int | Auto | None,
    draws: bool,
) -> Settings:
    """Settings that fit training sets of these sizes, (N,).

    Args:
        sizes: Of the training sets.
        epochs: As given to the estimator.
        batch_elements: As given to the estimator.
        max_elements: As given to the estimator.
        draws: Whether a network may be trained on parts of sets; a sum over a part is not what it is over the whole.
    """
    drawn = most_elements(sizes) if max_elements == "auto" else max_elements
    if not draws and max_elements == "auto":
        drawn = None
    capped = sizes if drawn is None else np.minimum(sizes, drawn)
    largest = max(int(capped.max(initial=1)), 1)
    if batch_elements == "auto":
        fewest, most = BATCH_SETS
        fewest = int(np.clip(len(sizes) // FEW_BATCHES, FEW_SETS, fewest))
        num_sets = float(np.clip(len(sizes) / BATCHES, fewest, most))
        batch_elements = min(int(np.ceil(num_sets * max(capped.mean(), 1.0))), BATCH_ELEMENTS)
    room = max(int(batch_elements), largest)
    steps_each = max(int(np.ceil(capped.sum() / room)), 1)  # about
    if epochs == "auto":
        epochs = int(np.clip(np.ceil(STEPS / steps_each), *EPOCHS))
    return Settings(int(epochs), room, drawn)


def pools_of(model: str, pool: str | None, *, drawn: bool) -> tuple[str, ...]:
    """How the members of an ensemble pool, one after the other, and again from the first.

    Args:
        model: A network of `create_model`.
        pool: As given to the estimator.
        drawn: Sets give only some of their elements to an epoch. A maximum over a part is not what it is over the whole, so
            that it is then taken only where it is asked for.
    """
    if pool is not None:
        return (pool,)
    turns = POOLS.get(model, (MODELS[model].pool[0],))
    return tuple(name for name in turns if name != "max" or not drawn) or turns


def is_drawn(sizes: NDArray[np.int64], max_elements: int | None) -> bool:
    """Whether some set gives only some of its elements."""
    return max_elements is not None and bool((sizes > max_elements).any())


def most_elements(sizes: NDArray[np.int64]) -> int | None:
    """How many elements each set gives to an epoch, so that it has about `EPOCH_ELEMENTS`; None where all sets give all."""
    largest = int(sizes.max(initial=0))
    if sizes.sum() <= EPOCH_ELEMENTS and largest <= MOST_DRAWN:
        return None
    low, high = MIN_DRAWN, min(largest, MOST_DRAWN)
    while low < high:  # the largest cap that keeps to the budget
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(sizes, middle).sum() <= EPOCH_ELEMENTS else (low, middle - 1)
    return low
