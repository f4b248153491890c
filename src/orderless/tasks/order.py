"""Which sets make which batch: for every epoch a plan that depends on seed and epoch alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

Numbers = NDArray[np.int64]


class BatchOrder(Sampler[Numbers], ABC):
    """Batches of set numbers. Since an epoch's plan is a function of its number, work can stop anywhere and be resumed there.

    Attributes:
        num_sets: Sets to go through.
        shuffle: Another order each epoch.
        seed: Of the order.
        epoch: The next epoch; every pass adds one.
        skip: Batches of the next pass that were used before; set it to resume within an epoch. A pass sets it back to 0.
    """

    def __init__(self, num_sets: int, *, shuffle: bool, seed: int) -> None:
        self.num_sets, self.shuffle, self.seed = num_sets, shuffle, seed
        self.epoch = self.skip = 0

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Numbers]:
        """The batches of an epoch."""

    def __len__(self) -> int:
        return len(self.plan(self.epoch)) - self.skip

    def __iter__(self) -> Iterator[Numbers]:
        # a generator, which begins at its first batch: a loader with workers makes a second iterator and drops the first
        batches = self.plan(self.epoch)[self.skip :]
        self.epoch, self.skip = self.epoch + 1, 0
        yield from batches

    def sets_in_order(self, epoch: int) -> Numbers:
        """All sets, in the order of that epoch."""
        if not self.shuffle:
            return np.arange(self.num_sets)
        keyed = np.random.SeedSequence(self.seed, spawn_key=(epoch,))
        return np.random.default_rng(keyed).permutation(self.num_sets)


class BySets(BatchOrder):
    """Batches of equally many sets.

    Args:
        num_sets: Sets to go through.
        batch_size: Sets in a batch.
        shuffle: Another order each epoch.
        seed: Of the order.
        drop_last: Leave out a last batch that is not full.
    """

    def __init__(self, num_sets: int, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, got {batch_size}.")
        super().__init__(num_sets, shuffle=shuffle, seed=seed)
        self.batch_size, self.drop_last = batch_size, drop_last

    def plan(self, epoch: int) -> Sequence[Numbers]:
        order, size = self.sets_in_order(epoch), self.batch_size
        last = self.num_sets - self.num_sets % size if self.drop_last else self.num_sets
        return [order[start : min(start + size, last)] for start in range(0, last, size)]


class ByElements(BatchOrder):
    """Batches of as many sets, in their order, as have together at most `batch_elements` elements.

    Cost and memory of packed sets grow with their elements, not with their number, so these batches cost about the same however
    much sizes differ.

    Args:
        sizes: (N,) elements of each set.
        batch_elements: Elements that no batch exceeds.
        shuffle: Another order each epoch.
        seed: Of the order.
    """

    def __init__(self, sizes: Numbers, batch_elements: int, *, shuffle: bool = False, seed: int = 0) -> None:
        if len(sizes) and sizes.max() > batch_elements:
            largest = int(sizes.argmax())
            raise ValueError(
                f"batch_elements must be at least the size of the largest set: set {largest} has {int(sizes.max()):,} elements, "
                f"got {batch_elements:,}."
            )
        super().__init__(len(sizes), shuffle=shuffle, seed=seed)
        self.sizes, self.batch_elements = sizes, batch_elements

    def plan(self, epoch: int) -> Sequence[Numbers]:
        order = self.sets_in_order(epoch)
        ends = np.cumsum(self.sizes[order])  # elements up to each set, itself included
        batches, start, used = [], 0, 0
        while start < len(order):
            stop = int(np.searchsorted(ends, used + self.batch_elements, side="right"))
            batches.append(order[start:stop])
            start, used = stop, int(ends[stop - 1])
        return batches


class Share(Sampler[Numbers]):
    """One process's share of every batch. A batch of fewer sets than there are processes goes to all of them whole.

    Args:
        order: The batches.
        rank: Number of this process.
        world_size: Processes.
    """

    def __init__(self, order: BatchOrder, rank: int, world_size: int) -> None:
        self.order, self.rank, self.world_size = order, rank, world_size

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Numbers]:
        return (self.of(batch) for batch in self.order)

    def of(self, batch: Numbers) -> Numbers:
        """This process's share of that batch."""
        return batch[self.rank :: self.world_size] if len(batch) >= self.world_size else batch
