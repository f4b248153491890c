"""What a picture reads of a task: only a few hundred sets, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.sets import SetBatch
from orderless.tasks.dataset import SetDataset
from orderless.tasks.task_data import TaskData

SAMPLED_SETS: Final = 200  # of each split, for the distribution of elements
SAMPLED_NUMBERS: Final = 4_000_000  # of each split; large sets are sampled fewer


@dataclass(frozen=True)
class Example:
    """A set to draw: its elements as stored, and what is said below it."""

    x: NDArray[np.float32]
    caption: str
    chosen: int | None = None  # the element that the target points at


def splits_of(data: TaskData) -> dict[str, SetDataset]:
    """Training and test sets, as they are called in the picture."""
    return {"training": data.train, "test": data.test}


def is_ragged(data: TaskData) -> bool:
    """Whether sets differ in size."""
    return any(len(np.unique(split.sizes)) > 1 for split in splits_of(data).values())


def read_examples(data: TaskData, num_sets: int, rng: np.random.Generator) -> list[Example]:
    """Some training sets, spread over the targets."""
    raw = data.train.raw
    kind = data.task.objective
    filled = np.flatnonzero(raw.sizes > 0)
    candidates = filled if filled.size else np.arange(len(raw))  # an empty set is drawn only where there is no other
    target = raw.target.numpy().reshape(len(raw), -1)[candidates, 0] if len(raw) else np.zeros(0)
    examples = []
    for index in candidates[_spread_over(target, num_sets, rng, classes=kind == "classification")].tolist():
        x, wanted = raw[index]
        chosen = None
        if kind == "regression":
            caption = "target " + ", ".join(f"{value:#.3g}".rstrip(".") for value in wanted.flatten().tolist()[:3])
        elif kind == "classification":
            caption = data.class_names[int(wanted)]
        else:
            chosen = int(wanted)
            caption = f"odd one: {chosen + 1} of {len(x)}"
        examples.append(Example(x.numpy(), caption, chosen))
    return examples


def _spread_over(target: NDArray[Any], count: int, rng: np.random.Generator, *, classes: bool) -> NDArray[np.int64]:
    """Positions of `count` sets: equally many of each class as far as there are enough, or one of each quantile of the target."""
    shuffled = rng.permutation(len(target))
    if classes:
        groups = [shuffled[target[shuffled] == name] for name in rng.permutation(np.unique(target))]
        rounds = [group[n] for n in range(count) for group in groups if n < len(group)]
        picked = np.array(rounds[:count], dtype=np.int64)
    else:
        ordered = shuffled[np.argsort(target[shuffled], kind="stable")]
        picked = np.array([rng.choice(part) for part in np.array_split(ordered, count) if len(part)], dtype=np.int64)
    return picked[np.argsort(target[picked], kind="stable")]


def read_sample(split: SetDataset, rng: np.random.Generator) -> SetBatch:
    """Some sets, as they are stored."""
    raw = split.raw
    order = rng.permutation(len(raw))[:SAMPLED_SETS]
    numbers = np.cumsum(raw.sizes[order]) * int(np.prod(raw.element_shape, dtype=np.int64))
    count = max(1, int(np.searchsorted(numbers, SAMPLED_NUMBERS, side="right")))
    return raw[np.sort(order[:count])].sets
