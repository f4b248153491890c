"""What is to be reached, as data: each goal is about a case of `bench/cases.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["ms", "GiB", "times a case", "times the authors' speed"]


@dataclass(frozen=True)
class Goal:
    """A bound for ours on a case.

    Attributes:
        title: What is measured.
        case: Its name.
        kind: What the bound is about: the time, the peak memory, the time over that of the case `relative_to`, or how many times
            faster than the authors' computation ours is.
        bound: The most it may be; of the last kind, the least.
        relative_to: A case.
    """

    title: str
    case: str
    kind: Kind
    bound: float
    relative_to: str = ""


GOALS: Final = (
    Goal("Deep Sets++ 50, training step", "deep_sets++-50-training", "ms", 3.0),
    Goal("Deep Sets++ 50, inference", "deep_sets++-50-inference", "ms", 0.9),
    Goal("Set Transformer++ 16, training step", "set_transformer++-16-training", "ms", 5.0),
    Goal("Set Transformer++ 16, inference", "set_transformer++-16-inference", "ms", 1.2),
    Goal("Deep Sets++ 50, peak memory in training", "deep_sets++-50-training", "GiB", 0.8),
    Goal("Set Transformer++ 16, peak memory in training", "set_transformer++-16-training", "GiB", 1.2),
    Goal(
        "Deep Sets++ 50, 64 sets of 55,000 against 64 of 1,000, training step",
        "deep_sets++-50-55000",
        "times a case",
        60.0,
        "deep_sets++-50-training",
    ),
    Goal(
        "Deep Sets++ 50, Zipf sizes against equal ones, training step",
        "deep_sets++-50-zipf",
        "times a case",
        1.15,
        "deep_sets++-50-training",
    ),
    Goal(
        "Set Transformer++ 16, Zipf sizes against equal ones, training step",
        "set_transformer++-16-zipf",
        "times a case",
        1.15,
        "set_transformer++-16-training",
    ),
    Goal("Deep Sets++ 50, 64 sets of 10 with 784 features, training step", "deep_sets++-50-784", "ms", 1.5),
    Goal("Set Transformer++ 16, 64 sets of 10 with 784 features, training step", "set_transformer++-16-784", "ms", 2.5),
    Goal("Set norm alone, forward and backward, float32", "set_norm", "ms", 0.12),
    Goal(
        "Deep Sets++ 50, 16 sets of 1,000 on two CPU cores, training step", "deep_sets++-50-cpu", "times the authors' speed", 1.5
    ),
)
