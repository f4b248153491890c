"""The best of the tests so far: its weights, and how long ago it was."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from torch import nn


@dataclass
class Best:
    """What early stopping knows. All of it is in every checkpoint, so that a resumed run stops where it would have stopped.

    Attributes:
        loss: Of the best test; infinite before the first.
        epoch: After which that was.
        waited: Tests since then.
        weights: Of the network that was tested, by name.
    """

    loss: float = float("inf")
    epoch: int = 0
    waited: int = 0
    weights: dict[str, Any] = field(default_factory=dict)

    def look(self, epoch: int, loss: float, model: nn.Module) -> None:
        """Takes in a test. Only a lower loss is better: NaN never is."""
        if loss < self.loss:
            self.loss, self.epoch, self.waited = loss, epoch, 0
            self.weights = copy.deepcopy(model.state_dict())  # extra state of a network may be anything
        else:
            self.waited += 1

    def put_back(self, model: nn.Module) -> None:
        """Gives the network the best weights; where no test had a finite loss it keeps its own."""
        if self.weights:
            model.load_state_dict(self.weights)
