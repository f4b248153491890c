"""Noise on the elements of training sets, which is gone when training ends.

Letters: T elements.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.statistics import measure_features

_MEASURED_NUMBERS, _FEWEST_ELEMENTS = 2**20, 2**10  # about so many tell how large features are


class Noise:
    """Normal noise, added to every feature of every element in proportion to its spread over the training elements.

    It falls linearly from the first step to the last: tests have none, so training ends with none. What is drawn depends on seed,
    step, batch, process and kind of device, so training that was interrupted sees the same again.

    Args:
        level: Its standard deviation at the first step, in standard deviations of a feature. One that does not vary gets none.
        sets: The training sets. Of those that are drawn anew in every epoch, the first epoch's are measured.
        seed: Of what is drawn.
        num_steps: Of the run.
        device: Of the batches.
        rank: Number of this process, which has batches of its own.
    """

    def __init__(self, level: float, sets: SetDataset, *, seed: int, num_steps: int, device: torch.device, rank: int = 0) -> None:
        self.level, self.seed, self.num_steps, self.rank = level, seed, num_steps, rank
        sets.begin_epoch(0)
        num_elements = max(_MEASURED_NUMBERS // math.prod(sets.element_shape), _FEWEST_ELEMENTS)
        deviation = torch.from_numpy(measure_features(sets, num_elements).deviation)
        self._deviation = deviation.float().reshape(sets.element_shape).to(device)
        self._generator = torch.Generator(device)

    def add(self, batch: LabelledSets, step: int, number: int = 0) -> LabelledSets:
        """The batch with noise on its elements.

        Args:
            batch: On the device.
            step: That it is for, counted from 0.
            number: Of the batch among those of the step.
        """
        sets, target = batch
        # another stream than those of the order and of augmentations, whose keys are shorter
        key = np.random.SeedSequence(self.seed, spawn_key=(step, number, self.rank, 3))
        self._generator.manual_seed(int(key.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        # not empty_like: numbers are drawn in the order of memory, which for elements depends on where they came from
        drawn = torch.empty(sets.x.shape, dtype=sets.x.dtype, device=sets.x.device).normal_(generator=self._generator)
        level = self.level * (1.0 - step / self.num_steps)
        return LabelledSets(sets.with_x(drawn.mul_(level * self._deviation).add_(sets.x)), target)
