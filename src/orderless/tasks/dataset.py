"""Sets with their targets: one by one, in batches, and through a `DataLoader`.

Letters: N sets, T elements.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from orderless.io.store import StoredSets, iterate_blocks
from orderless.sets import SetBatch
from orderless.tasks.order import BySets, Numbers
from orderless.tasks.transforms import AsStored, Transform

Indices = slice | Sequence[int] | NDArray[Any] | Tensor


class LabelledSets(NamedTuple):
    """A batch: sets, and a target for each."""

    sets: SetBatch
    target: Tensor


class SetDataset(Dataset[Any]):
    """The sets of one split, in a memory-mapped store.

    `dataset[i]` is one set and its target, `(x (n_i, *element), target)`; `dataset[[0, 5, 7]]` or `dataset[10:20]` is a batch,
    `LabelledSets(sets, target)`. A batch is gathered at once instead of set by set, which is what makes loading fast.

    Args:
        stored: The sets.
        target: (N, ...) what is to be predicted.
        transform: From stored elements to those that a network takes.

    Attributes:
        sizes: (N,) int64, how many elements each set has.
        target: As given.
        columns: (N,) what else is known of each set, such as `id`.
    """

    def __init__(self, stored: StoredSets, target: Tensor, transform: Transform) -> None:
        if len(stored) != len(target):
            raise ValueError(f"every set needs a target: {len(stored)} sets, {len(target)} targets.")
        self.stored, self.target, self.transform = stored, target, transform
        self.sizes: NDArray[np.int64] = stored.sizes
        self.columns: dict[str, NDArray[Any]] = stored.columns

    def __reduce__(self) -> tuple[object, ...]:  # a worker maps the same files
        return (SetDataset, (self.stored, self.target, self.transform))

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Shape of one element, as a network gets it."""
        return self.transform.element_shape(self.stored.element_shape)

    @property
    def raw(self) -> SetDataset:
        """The same sets as they are stored, in their own units."""
        return SetDataset(self.stored, self.target, AsStored())

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, key: int) -> tuple[Tensor, Tensor]: ...
    @overload
    def __getitem__(self, key: Indices) -> LabelledSets: ...
    def __getitem__(self, key: int | Indices) -> tuple[Tensor, Tensor] | LabelledSets:
        if not isinstance(key, slice) and np.ndim(key) == 0:
            one = self._numbers([_number(key)])
            return self._elements(one), self.target[int(one[0])]
        return self._gather(self._numbers(cast("Indices", key)))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (self[i] for i in range(len(self)))

    def begin_epoch(self, epoch: int) -> None:
        """Called by training before each pass. Stored sets are the same in every epoch; others may draw their elements again."""

    def batches(self, batch_size: int = 256) -> Iterator[LabelledSets]:
        """All sets in their order, in batches, for summaries and evaluation."""
        return (self[block.start : block.stop] for block in iterate_blocks(len(self), batch_size))

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Tensor]:
        """The elements of one set as a network gets them, (n, *element) with n up to `size`: for `orderless.models.chunked`."""
        return (self._as_network_gets(block) for block in self.stored.blocks(_number(index), size))

    def loader(
        self,
        batch_size: int = 64,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        order: Sampler[Numbers] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
    ) -> DataLoader[LabelledSets]:
        """Batches for a training loop. The order depends on `seed` and the epoch alone, not on the number of workers.

        Gathering a batch is little more than a copy, so no workers (the default) is usually fastest. Each pass over the loader
        is the next epoch; `loader.sampler.epoch` says which, and may be set to resume, as may `loader.sampler.skip`.

        Args:
            batch_size: Sets in a batch.
            shuffle: Another order each epoch.
            seed: Of the order.
            drop_last: Leave out a last batch that is not full.
            order: Batches of another kind, such as `ByElements`; the four above are then not used.
            num_workers: Processes that gather batches.
            pin_memory: For faster copies to a GPU.
        """
        if order is None:
            order = BySets(len(self), batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
        # the sampler yields whole batches of numbers, so that the dataset is asked once a batch; they need no checks, and what it
        # answers needs no collating
        return DataLoader(
            _Batches(self),
            batch_size=None,
            sampler=order,
            num_workers=num_workers,
            pin_memory=pin_memory,
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # a pass must not take a number from the global one, or a resumed run would differ
        )

    def source_rows(self) -> NDArray[np.integer[Any]]:
        """Which elements of the pool the sets of this split are made of, each once."""
        return np.unique(self.stored.pool_rows(range(len(self))))

    def _gather(self, indices: NDArray[np.int64]) -> LabelledSets:
        return LabelledSets(_batch(self._elements(indices), self.sizes[indices]), self.target[torch.from_numpy(indices)])

    def _elements(self, indices: NDArray[np.int64]) -> Tensor:
        return self._as_network_gets(self.stored.gather(indices))

    def _as_network_gets(self, elements: NDArray[Any]) -> Tensor:
        return torch.from_numpy(self.transform(elements.astype(np.float32, copy=False)))

    def _numbers(self, key: Indices) -> NDArray[np.int64]:
        if isinstance(key, slice):
            return np.arange(*key.indices(len(self)))
        numbers = np.asarray(key)
        if numbers.dtype == bool:
            if numbers.shape != (len(self),):
                raise IndexError(f"a mask of sets must have shape ({len(self)},), got {numbers.shape}.")
            return np.flatnonzero(numbers)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise IndexError(f"sets are chosen by a list of integers, got {numbers.dtype} of shape {numbers.shape}.")
        if numbers.size and not (-len(self) <= numbers.min() and numbers.max() < len(self)):
            raise IndexError(
                f"there are {len(self)} sets, got the number {numbers.max() if numbers.max() >= 0 else numbers.min()}."
            )
        return numbers.astype(np.int64) % max(len(self), 1)


class _Batches(Dataset[LabelledSets]):
    """Whole batches of a dataset, by the numbers that an order gives."""

    def __init__(self, dataset: SetDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, indices: NDArray[np.int64]) -> LabelledSets:
        return self.dataset._gather(indices)


def _as_it_is(batch: Any) -> Any:
    return batch


def collate_sets(pairs: Sequence[tuple[Any, Any]]) -> LabelledSets:
    """Joins single sets and their targets: `collate_fn` for a `DataLoader` over one's own pairs `(x, target)`.

    Args:
        pairs: Tensors or arrays (n_i, *element), and numbers, arrays or tensors that have one shape for all sets.
    """
    target = torch.stack([torch.as_tensor(target) for _, target in pairs])
    return LabelledSets(SetBatch.from_list([x for x, _ in pairs]), target)


def _number(key: Any) -> int:
    if isinstance(key, bool | np.bool_):
        raise IndexError(f"sets are chosen by integers, got {key}.")
    return operator.index(key)


def _batch(x: Tensor, sizes: NDArray[np.int64]) -> SetBatch:
    if len(sizes) and (sizes == sizes[0]).all():
        return SetBatch.from_padded(x.reshape(len(sizes), int(sizes[0]), *x.shape[1:]))
    return SetBatch(x, np.concatenate([[0], np.cumsum(sizes)]))
