"""The learning rate as a function of the step: nothing to save, nothing to get out of step."""

from __future__ import annotations

import math

from orderless.train.config import TrainConfig


def learning_rate_at(step: int, num_steps: int, config: TrainConfig) -> float:
    """The rate of step `step`, counted from 0, of `num_steps`.

    Linear warmup reaches the full rate with its last step. After it the rate is constant, or falls along half a cosine to zero at
    the end.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    done = (step - config.warmup_steps) / max(1, num_steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
