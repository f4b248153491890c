"""Noise on the elements of training sets, which is gone when training ends.

Letters: T elements.
"""

from __future__ import annotations

import numpy as np
import torch

from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.statistics import measure_features

_MEASURED_ELEMENTS = 2**17  # about so many tell how large features are


class Noise:
    """Normal noise, added to every feature of every element in proportion to its spread over the training elements.

    It falls linearly from the first step to the last: tests have none, so training ends with none. What is drawn depends on seed,
    step and the number of the batch alone, so training that was interrupted sees the same again.

    Args:
        level: Its standard deviation at the first step, in spreads of a feature. Features that do not vary get none.
        sets: The training sets.
        seed: Of what is drawn.
        num_steps: Of the run.
        device: Of the batches.
        rank: Number of this process, which has batches of its own.
    """

    def __init__(self, level: float, sets: SetDataset, *, seed: int, num_steps: int, device: torch.device, rank: int = 0) -> None:
        self.level, self.seed, self.num_steps, self.rank = level, seed, num_steps, rank
        spread = torch.from_numpy(measure_features(sets, _MEASURED_ELEMENTS).deviation)
        self._spread = spread.float().reshape(sets.element_shape).to(device)
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
        drawn = torch.randn(sets.x.shape, generator=self._generator, device=sets.x.device)  # (T, *element)
        level = self.level * (1.0 - step / self.num_steps)
        return LabelledSets(sets.with_x(sets.x + level * self._spread * drawn), target)
