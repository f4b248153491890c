"""How far a run has come: its counters, its sums, its history. Checkpoints keep all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orderless.train.best import Best
from orderless.train.history import History
from orderless.train.watch import Taken


@dataclass
class Tally:
    """Sums over the steps of the current epoch."""

    steps: int = 0
    sets: int = 0
    elements: int = 0
    loss: float = 0.0  # times sets
    gradient_norm: float = 0.0
    step_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of the steps so far: their sum, kept since it is asked for after every step

    def add(self, taken: Taken) -> None:
        """Counts a step."""
        self.steps, self.sets, self.elements = self.steps + 1, self.sets + taken.num_sets, self.elements + taken.num_elements
        self.loss += taken.loss * taken.num_sets
        self.gradient_norm += taken.gradient_norm

    def time(self, seconds: float) -> None:
        """Takes note of how long a step took."""
        self.step_seconds.append(seconds)
        self.seconds += seconds


@dataclass
class RunState:
    """All that changes in a run, but for weights, optimizer and random numbers. Each field is a key of a checkpoint.

    Attributes:
        step: Steps in all.
        epoch: Epochs that are done.
        batches: Batches that are done in the current epoch.
        tally: Sums over the steps of the current epoch.
        seconds: Of training and testing, without what a kill threw away.
        released: The figures of the released protocol, once they are known.
        history: What happened.
        best: What early stopping knows; None where there is no `patience`.
    """

    step: int = 0
    epoch: int = 0
    batches: int = 0
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    released: dict[str, float] | None = None
    history: History = field(default_factory=History)
    best: Best | None = None

    @classmethod
    def of_checkpoint(cls, kept: Mapping[str, Any]) -> RunState:
        """The state whose fields are among what a checkpoint keeps."""
        tally, best = kept["tally"], kept.get("best")  # which older checkpoints do not have
        parts: dict[str, Any] = {
            "tally": Tally(**{"seconds": sum(tally["step_seconds"]), **tally}),  # older ones have the parts of the sum
            "history": History(**kept["history"]),
            "best": None if best is None else Best(**best),
        }
        return cls(**{f.name: kept[f.name] for f in dataclasses.fields(cls) if f.name not in parts}, **parts)
