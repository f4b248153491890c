"""Changes of the training sets, drawn again in every epoch.

Letters: N sets, T elements, D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets, SetDataset
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
    """The sets of another dataset, changed differently in every epoch.

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


LEAST_ELEMENTS = 64  # sets of no more are not thinned: each of their elements may matter


class SubsampledSets(SetDataset):
    """The sets of another dataset, of which each gives other elements in every epoch, and another number of them.

    An epoch draws a share for every set, evenly between `least` and 1, and each element is kept with that probability; one, drawn
    as well, is kept in any case. What is drawn depends on seed, epoch, the set's number and the element's alone, as in
    `AugmentedSets`.

    Args:
        sets: The sets.
        least: The smallest share.
        seed: Of what is drawn.
        epoch: In which it begins.
        epochs: Over which the smallest share rises to 1, so that the last one takes whole sets; None leaves it as it is.
    """

    def __init__(self, sets: SetDataset, least: float, seed: int, epoch: int = 0, epochs: int | None = None) -> None:
        super().__init__(sets.stored, sets.target, sets.transform)
        self.sets, self.least, self.seed, self.epochs = sets, least, seed, epochs
        self._whole = sets.sizes
        self.begin_epoch(epoch)

    def __reduce__(self) -> tuple[object, ...]:
        return (SubsampledSets, (self.sets, self.least, self.seed, self.epoch, self.epochs))

    @property
    def gives_parts(self) -> bool:
        """Whether any set is so large that it does not give all of its elements."""
        return bool((self._whole > LEAST_ELEMENTS).any())

    def begin_epoch(self, epoch: int) -> None:
        """Draws this epoch's shares. `sizes` are those to be expected."""
        self.sets.begin_epoch(epoch)
        self.epoch = epoch
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch, 2)))
        risen = 0.0 if self.epochs is None else min(epoch / max(self.epochs - 1, 1), 1.0)
        least = self.least + risen * (1.0 - self.least)
        self._shares = np.where(self._whole <= LEAST_ELEMENTS, 1.0, rng.uniform(least, 1.0, len(self._whole)))
        self._salts = rng.integers(0, 2**63, len(self._whole), dtype=np.uint64)
        self.sizes = np.ceil(self._shares * self._whole).astype(np.int64)

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Tensor]:
        """As `SetDataset.blocks`, of the elements that are kept."""
        number, start = int(self._numbers([index])[0]), 0
        for block in self.sets.blocks(number, size):
            chosen = np.full(len(block), number)
            yield block[torch.from_numpy(self._are_kept(chosen, start + np.arange(len(block))))]
            start += len(block)

    def _gather(self, indices: Numbers) -> LabelledSets:
        sets, target = self.sets._gather(indices)
        whole = self._whole[indices]
        if (whole <= LEAST_ELEMENTS).all():
            return LabelledSets(sets, target)
        if (whole == whole[0]).all():  # a matrix of sets and places, which is faster
            mask = self._are_kept(indices[:, None], np.arange(whole[0])[None])
            kept, counts = np.flatnonzero(mask), mask.sum(1)
        else:
            owner = np.repeat(np.arange(len(indices)), whole)  # (T,) which of the batch's sets each element is of
            mask = self._are_kept(indices[owner], np.arange(len(owner)) - (np.cumsum(whole) - whole)[owner])
            kept = np.flatnonzero(mask)
            counts = np.bincount(owner[kept], minlength=len(indices))
        return LabelledSets(SetBatch(sets.x[torch.from_numpy(kept)], np.concatenate([[0], np.cumsum(counts)])), target)

    def _elements(self, indices: Numbers) -> Tensor:
        return self._gather(indices).sets.x

    def _are_kept(self, numbers: Numbers, places: Numbers) -> NDArray[np.bool_]:
        """Whether elements at these places in the sets of these numbers are kept this time; arrays are broadcast."""
        kept = _uniform(self._salts[numbers], places) < self._shares[numbers]
        always = self._salts[numbers] % self._whole[numbers].astype(np.uint64)  # an element of each set, lest one become empty
        return kept | (places.astype(np.uint64) == always)


def _uniform(salts: NDArray[np.uint64], places: Numbers) -> NDArray[np.float64]:
    """Numbers in [0, 1) that look random and depend on salt and place alone: the generator SplitMix64, asked by place."""
    z = salts + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
