"""Where the elements come from: memory, an array on disk, or a function that yields them; and how they are cut into chunks.

Sets are laid end to end, as in a `SetBatch`, and cut after every `chunk_elements` elements. So a chunk holds a part of one large
set, or several small sets and parts of their neighbours.

Letters: N sets, T elements in all sets, n elements in a chunk, S sets that have elements in a chunk.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orderless import ops
from orderless.sets import SetBatch

Array = Tensor | NDArray[Any]
Reader = Callable[[], Iterable[Array]]


class SourceChangedError(RuntimeError):
    """The elements were not the same in two passes over them, so no answer would be right."""


@dataclass(frozen=True)
class Blocks:
    """One set that a function yields block by block, the same elements whenever it is called.

    Args:
        read: Called for each pass over the set; gives its elements as tensors or arrays (n, *element), n as it likes.
        num_elements: How many there are in all. Where it is left out they are counted first, which reads them once more.
    """

    read: Reader
    num_elements: int | None = None


OneSet = Array | Blocks | Reader
Sets = SetBatch | OneSet | Sequence[OneSet]


@dataclass(frozen=True)
class Chunk:
    """Elements that are worked on together: `start` to `stop` of all elements, which belong to a few sets in a row.

    Attributes:
        number: Which chunk it is.
        start: Its first element.
        first: The first set that it has elements of.
        sizes: How many elements it has of that set and of those that follow.
        sets: These S parts of sets, as a batch whose elements have no features.
    """

    number: int
    start: int
    first: int
    sizes: tuple[int, ...]
    sets: SetBatch

    @classmethod
    def make(cls, number: int, start: int, first: int, sizes: Sequence[int], device: torch.device) -> Chunk:
        """A chunk whose sets lie on `device`."""
        if len(sizes) == 1 and sizes[0]:
            sets = SetBatch.from_padded(torch.empty(1, sizes[0], 0, device=device))  # layers may take the dense way
        else:
            sets = SetBatch(torch.empty(sum(sizes), 0, device=device), [0, *itertools.accumulate(sizes)])
        return cls(number, start, first, tuple(sizes), sets)

    @property
    def num_elements(self) -> int:
        return self.sets.num_elements

    @property
    def stop(self) -> int:
        return self.start + self.num_elements

    @property
    def num_sets(self) -> int:
        return len(self.sizes)

    @cached_property
    def ids(self) -> Tensor:
        """(n,) the place of each element's set among those of the chunk."""
        return torch.repeat_interleave(self.sets.sizes, output_size=self.num_elements)

    @cached_property
    def counts(self) -> Tensor:
        """(S, 1) float64: how many elements of each set are here."""
        return self.sets.sizes.double()[:, None]

    @cached_property
    def pieces(self) -> list[tuple[int, slice]]:
        """For each set that has elements here: its place among those of the chunk, and where its elements are."""
        ends = itertools.accumulate(self.sizes)
        return [(n, slice(end - size, end)) for n, (size, end) in enumerate(zip(self.sizes, ends, strict=True)) if size]

    def batch(self, x: Tensor) -> SetBatch:
        """(n, *any) elements as a batch of the chunk's parts of sets."""
        return self.sets.with_x(x)

    def of(self, per_set: Tensor) -> Tensor:
        """(N, ...) -> (S, ...), a view."""
        return per_set[self.first : self.first + self.num_sets]

    def spread(self, per_set: Tensor) -> Tensor:
        """(S, ...) -> what every element gets of its set: (n, ...), or (1, ...) where all elements are of one set."""
        return per_set if self.num_sets == 1 else ops.broadcast_sets(per_set, self.sets.offsets, self.num_elements)

    def total(self, rows: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """(n, ...) -> (S, ...), the sum over the elements of each set."""
        if self.num_sets == 1:
            return rows.sum(0, keepdim=True, dtype=dtype)
        return ops.set_sum(rows if dtype is None else rows.to(dtype), self.sets.offsets)


def cut(sizes: Sequence[int], chunk_elements: int, device: torch.device) -> list[Chunk]:
    """The chunks of sets of these sizes. Where there is no element at all, one chunk of none."""
    offsets = [0, *itertools.accumulate(sizes)]
    chunks = []
    for number, start in enumerate(range(0, offsets[-1], chunk_elements)):
        stop = min(start + chunk_elements, offsets[-1])
        first, end = bisect_right(offsets, start) - 1, bisect_left(offsets, stop)
        inside = [min(offsets[n + 1], stop) - max(offsets[n], start) for n in range(first, end)]
        chunks.append(Chunk.make(number, start, first, inside, device))
    return chunks or [Chunk.make(0, 0, 0, [0] * len(sizes), device)]


class Source:
    """Sets that are read chunk by chunk, as often as needed, with a check that they are the same each time.

    Args:
        sets: As `as_blocks` gives them.
        chunk_elements: Elements of a chunk; the last one may have fewer.
        element_shape: Shape of one element; None to take that of the first one.
        device: Where chunks are brought.
        dtype: What their numbers are turned into; None leaves them as they are.

    Attributes:
        sizes: Elements of each set.
        chunks: How they are cut.
    """

    def __init__(
        self,
        sets: Sequence[Blocks],
        *,
        chunk_elements: int,
        element_shape: tuple[int, ...] | None,
        device: torch.device,
        dtype: torch.dtype | None,
    ) -> None:
        self._sets, self._shape, self.device, self._dtype = sets, element_shape, device, dtype
        self.sizes = [count_elements(one) for one in sets]
        self.chunks = cut(self.sizes, chunk_elements, device)
        self._fingerprints: Tensor | None = None  # (chunks,) of the first pass
        self._rest: Array | None = None  # what the last chunk left of a block

    @property
    def num_sets(self) -> int:
        return len(self.sizes)

    @property
    def num_elements(self) -> int:
        return sum(self.sizes)

    def read(self) -> Generator[tuple[Chunk, Tensor], None, None]:
        """One pass: each chunk and its elements (n, *element). Raises where they are not those of an earlier pass."""
        stream = self._blocks()
        fingerprints = []
        for chunk in self.chunks:
            x = self._take(stream, chunk.num_elements)
            fingerprints.append(_fingerprint(x))
            yield chunk, x
            del x  # not two chunks at a time
        for _ in stream:  # to the end, where sizes are compared
            pass
        found = torch.stack(fingerprints)
        if self._fingerprints is None:
            self._fingerprints = found
        if not torch.equal(found, self._fingerprints):
            number = int((found != self._fingerprints).nonzero()[0])
            start = self.chunks[number].start
            raise SourceChangedError(
                f"elements {start:,} to {self.chunks[number].stop - 1:,} were not the same when they were read again. The answer "
                "needs several passes over the same elements: fix the seed and the order of reading, do not change files."
            )

    def all_sets(self) -> SetBatch:
        """The sets as a batch whose elements have no features."""
        return Chunk.make(0, 0, 0, self.sizes, self.device).sets

    def no_elements(self) -> Tensor:
        """(0, *element), as chunks are."""
        if self._shape is not None and self._dtype is not None:
            return torch.empty(0, *self._shape, device=self.device, dtype=self._dtype)
        first = next((block for one in self._sets for block in one.read()), None)
        if first is None:
            raise ValueError(
                "the shape of an element cannot be known from sets that yield no block. Yield a block of shape (0, *element)."
            )
        return self._as_tensor(first[:0], copy=False)

    def _take(self, stream: Iterator[Array], count: int) -> Tensor:
        """The next `count` elements, of as many blocks as it takes. Copies no more than those."""
        pieces: list[Tensor] = []
        while count:
            if self._rest is None or not self._rest.shape[0]:
                self._rest = None  # let go of it before the next block is made
                self._rest = next(stream)
            piece, self._rest = self._rest[:count], self._rest[count:]
            # a function may fill the same memory again for its next block, so a piece that waits for it is a copy
            pieces.append(self._as_tensor(piece, copy=bool(pieces) or piece.shape[0] < count))
            count -= piece.shape[0]
            del piece
        if not pieces:
            return self.no_elements()
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0]

    def _as_tensor(self, piece: Array, *, copy: bool) -> Tensor:
        if isinstance(piece, np.ndarray):
            # torch wants the machine's byte order, and memory that may be written to, which a mapped file is not
            piece, copy = torch.from_numpy(np.array(piece, dtype=piece.dtype.newbyteorder("="), order="C")), False
        return piece.detach().to(self.device, self._dtype, copy=copy)

    def _blocks(self) -> Iterator[Array]:
        """The blocks of all sets; a set that has not the elements that were counted is an error."""
        self._rest = None
        for n, (one, size) in enumerate(zip(self._sets, self.sizes, strict=True)):
            found = 0
            for block in one.read():
                _check_block(block)
                if self._shape is None:
                    self._shape = tuple(block.shape[1:])
                if tuple(block.shape[1:]) != self._shape:
                    raise ValueError(
                        f"every element must have the shape {self._shape}, but those of set {n} from element {found:,} on have "
                        f"{tuple(block.shape[1:])}."
                    )
                found += block.shape[0]
                if found > size:
                    break
                yield block
                del block  # before the next one is made
            if found != size:
                raise SourceChangedError(
                    f"set {n} had {size:,} elements and now has {'more' if found > size else f'{found:,}'}. The answer needs "
                    "several passes over the same elements: pass a function that starts again at every call, do not change files."
                )


def as_blocks(sets: Sets) -> list[Blocks]:
    """Each set as blocks, from all that is taken for sets."""
    if isinstance(sets, SetBatch):
        return [_one_block(x) for x in sets.to_list()]
    if isinstance(sets, list | tuple):
        return [_as_one_set(one) for one in sets]
    return [_as_one_set(sets)]


def count_elements(one: Blocks) -> int:
    """How many elements a set has; where it does not say, they are counted."""
    return one.num_elements if one.num_elements is not None else sum(len(block) for block in one.read())


def _as_one_set(one: object) -> Blocks:
    if isinstance(one, Blocks):
        return one
    if isinstance(one, Tensor | np.ndarray):
        return _one_block(one)
    if callable(one) and not isinstance(one, SetBatch):
        return Blocks(one)
    again = " An iterator can be read only once: pass the function that makes it." if isinstance(one, Iterator) else ""
    raise TypeError(
        f"a set is a tensor or array (n, *element), a function that yields such blocks, or Blocks; got {type(one).__name__}."
        f"{again} Several sets are a SetBatch, or a list of sets."
    )


def _one_block(x: Array) -> Blocks:
    if x.ndim < 2:
        raise ValueError(f"a set must have shape (n, *element), got {tuple(x.shape)}.")
    return Blocks(lambda: [x], x.shape[0])


def _check_block(block: object) -> None:
    if not isinstance(block, Tensor | np.ndarray):
        raise TypeError(f"blocks of elements must be tensors or arrays, got {type(block).__name__}.")
    if block.ndim < 2:
        raise ValueError(f"a block must have shape (n, *element), got {tuple(block.shape)}.")


def _fingerprint(x: Tensor) -> Tensor:
    """One int64 that depends on every bit and its place; integers, so that the order of additions does not matter."""
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = x.contiguous().view(widths[x.element_size()]).flatten().to(torch.int64)
    bits = bits ^ (bits >> 29)  # the highest bit alone, times any odd number, is the same bit: two of them would cancel
    places = 2 * torch.arange(bits.numel(), device=x.device) + 1  # odd, so that no bit is multiplied away
    return (bits * places).sum()
