"""Batches of a few sizes: what is recorded for one batch of ragged sets serves all that fit the same bucket.

Letters: N sets, T elements in all sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from orderless.sets import SetBatch

# logarithms of how many sizes there are from one power of two to the next
_ELEMENT_BITS = 3  # less than an eighth is padding
_SET_BITS = 1  # a set of padding is hardly any work, and every size of both makes a recording


@dataclass(frozen=True)
class Bucket:
    """A size that batches are padded to, with sets that nobody asked about.

    Sets do not see each other, so these change no other set's answer, and theirs is cut off before anybody looks at it: neither
    losses nor gradients know of them. A network with statistics over the batch is another matter; it must not be padded.

    The padding is the batch's own elements once more, at least one in each set. So a network meets nothing in it that it could
    not meet elsewhere: no zero whose logarithm is taken, no empty set. In a batch without any element it is zeros.

    Attributes:
        num_elements: Of all sets, those of padding included.
        num_sets: Likewise; at least one is padding.
    """

    num_elements: int
    num_sets: int

    @classmethod
    def around(cls, sets: SetBatch) -> Bucket:
        """The smallest bucket that these sets fit into."""
        num_sets = round_up(sets.num_sets, _SET_BITS) + 1
        return cls(round_up(sets.num_elements + num_sets - sets.num_sets), num_sets)

    def buffer(self, sets: SetBatch) -> SetBatch:
        """A padded batch that stays where it is, holding these sets until it is filled with others."""
        x = sets.x.new_zeros(self.num_elements, *sets.element_shape)
        buffer = SetBatch(x, torch.tensor([0] * self.num_sets + [self.num_elements], device=sets.device))
        self.fill(buffer, sets)
        return buffer

    def fill(self, buffer: SetBatch, sets: SetBatch) -> None:
        """Lays these sets into the buffer, and padding behind them. Nothing waits for the device."""
        x, filled = buffer.x, sets.num_elements
        x[:filled].copy_(sets.x, non_blocking=True)
        if not filled:
            x.zero_()
        while 0 < filled < self.num_elements:
            more = min(filled, self.num_elements - filled)
            x[filled : filled + more].copy_(x[:more])
            filled += more
        first, num_padding = sets.num_elements, self.num_sets - sets.num_sets
        buffer.offsets[: sets.num_sets + 1].copy_(sets.offsets, non_blocking=True)
        # one element in each set of padding, and all that are left in the last
        buffer.offsets[sets.num_sets + 1 : -1].copy_(torch.arange(first + 1, first + num_padding, device=sets.device))

    def cut(self, output: Tensor | SetBatch, sets: SetBatch) -> Tensor | SetBatch:
        """What a network answered for these sets, without its answer for the padding.

        Raises:
            ValueError: If it has neither a row per set, as a tensor, nor a row per element, as a SetBatch.
        """
        if isinstance(output, SetBatch) and output.num_elements == self.num_elements:
            return sets.with_x(output.x[: sets.num_elements])
        if isinstance(output, Tensor) and output.ndim and output.shape[0] == self.num_sets:
            return output[: sets.num_sets]
        shape = tuple(output.x.shape if isinstance(output, SetBatch) else output.shape)
        raise ValueError(
            f"padding can be cut off a tensor with one row per set, or a SetBatch with one row per element; for "
            f"{self.num_sets} sets of {self.num_elements} elements the network returned {type(output).__name__} {shape}."
        )


def round_up(number: int, bits: int = _ELEMENT_BITS) -> int:
    """The next of 1, 2, ..., 16, 18, 20, ..., 32, 36, 40, ...: eight sizes an octave, or another power of two of them."""
    step = 1 << max((number - 1).bit_length() - bits - 1, 0)
    return -(-number // step) * step
