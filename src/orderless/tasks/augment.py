"""Changes of the training sets that are drawn anew in every epoch.

Letters: N sets, T elements, D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from orderless.tasks.dataset import SetDataset
from orderless.tasks.order import Numbers


@dataclass(frozen=True)
class ScaleAndShift:
    """Stretches every feature of a set by a factor of its own, then shifts it: of a point cloud, every axis.

    Attributes:
        low: The smallest factor.
        high: The largest.
        shift: The largest shift, in either direction.
    """

    low: float
    high: float
    shift: float

    def draw(self, num_sets: int, num_features: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """(N, D) factors and (N, D) shifts, uniform."""
        factors = rng.uniform(self.low, self.high, (num_sets, num_features))
        shifts = rng.uniform(-self.shift, self.shift, (num_sets, num_features))
        return torch.from_numpy(factors).float(), torch.from_numpy(shifts).float()


class AugmentedSets(SetDataset):
    """The sets of another dataset, changed anew in every epoch.

    What a set becomes depends on seed, epoch and the set's number alone. So neither the order in which sets are asked for nor the
    number of processes matters, and training that was interrupted sees the same again.

    Args:
        sets: The sets.
        augmentation: How they are changed.
        seed: Of what is drawn.
        epoch: In which it begins.
    """

    def __init__(self, sets: SetDataset, augmentation: ScaleAndShift, seed: int, epoch: int = 0) -> None:
        super().__init__(sets.stored, sets.target, sets.transform)
        self.augmentation, self.seed = augmentation, seed
        self.begin_epoch(epoch)

    def __reduce__(self) -> tuple[object, ...]:
        sets = SetDataset(self.stored, self.target, self.transform)
        return (AugmentedSets, (sets, self.augmentation, self.seed, self.epoch))

    def begin_epoch(self, epoch: int) -> None:
        """Draws what this epoch's sets become."""
        self.epoch = epoch
        # another stream than that of the order, which has the key (epoch,)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch, 1)))
        self._factors, self._shifts = self.augmentation.draw(len(self), self.element_shape[0], rng)

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Tensor]:
        """As `SetDataset.blocks`, changed as the whole set is."""
        one = self._numbers([index])
        return (block * self._factors[one] + self._shifts[one] for block in super().blocks(int(one[0]), size))

    def _elements(self, indices: Numbers) -> Tensor:
        chosen = torch.from_numpy(np.repeat(indices, self.sizes[indices]))  # (T,) the set of each element
        return super()._elements(indices) * self._factors[chosen] + self._shifts[chosen]
