"""The learning rate as a function of the step and of the losses so far: nothing to save, nothing to get out of step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orderless.train.config import TrainConfig

PLATEAU_FACTOR, PLATEAU_PATIENCE, PLATEAU_FLOOR = 0.5, 10, 1e-5
_PLATEAU_THRESHOLD = 1e-4  # a loss has fallen if it is lower than the lowest by this part of it


def learning_rate_at(step: int, num_steps: int, config: TrainConfig, losses: Sequence[float] = ()) -> float:
    """The rate of step `step`, counted from 0, of `num_steps`.

    Linear warmup reaches the full rate with its last step. After it the rate is constant, or falls along half a cosine to zero at
    the end, or is halved on every plateau of the training loss.

    Args:
        step: Number of the step.
        num_steps: Of the whole run.
        config: Schedule, full rate and warmup.
        losses: The mean training loss of every epoch that is done. Only `plateau` looks at them.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    if config.schedule == "plateau":
        return rate_after(losses, config.learning_rate)
    done = (step - config.warmup_steps) / max(1, num_steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def rate_after(losses: Sequence[float], rate: float) -> float:
    """The rate that began at `rate`, after epochs with these losses: halved, down to 1e-5, when 10 epochs brought nothing new.

    As PyTorch's `ReduceLROnPlateau` with its defaults, `factor=0.5` and `min_lr=1e-5`: the eleventh epoch without a lower loss
    lowers the rate, and the count starts again.
    """
    lowest, waited = math.inf, 0
    for loss in losses:
        if loss < lowest * (1 - _PLATEAU_THRESHOLD):
            lowest, waited = loss, 0
        else:
            waited += 1
        if waited > PLATEAU_PATIENCE:
            rate, waited = min(rate, max(rate * PLATEAU_FACTOR, PLATEAU_FLOOR)), 0
    return rate
