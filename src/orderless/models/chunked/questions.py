r"""What layers ask of whole sets, answered chunk by chunk.

Everything in a set network is either done to each element alone, or depends on a set as a whole: its mean and variance, what
learned points gather from it, its sum, mean or maximum. The second kind is a `Question`. It knows four things:

- `partial`: what one chunk contributes;
- `merge`: how two contributions become one, in any order;
- `answer`: a small tensor per set, once every chunk has contributed;
- `share`: for gradients, the chunk's part of a sum that has the answer's gradient. With $a = f(x_1, \ldots, x_C)$ for the
  chunks $x_c$, $\partial \sum_c \mathrm{share}(x_c) / \partial x_c = \partial a / \partial x_c$. It needs the answer, and no
  other chunk.

Contributions are merged in float64: they are few, and a count of numbers may exceed what float32 can count.

Letters: N sets, n elements in a chunk, S sets that have elements in it, D features, H heads, C = D / H, I queries a set.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from orderless.models.chunked.source import Chunk
from orderless.ops import statistics_dtype

Parts = tuple[Tensor, ...]


class Answer(NamedTuple):
    """What is known of every set.

    Attributes:
        value: (N, ...) what layers use, and gradients pass through.
        fixed: (N, ...) what goes with it and has no gradient.
    """

    value: Tensor
    fixed: Tensor

    def of(self, chunk: Chunk) -> Answer:
        """The same for the sets of a chunk."""
        return Answer(chunk.of(self.value), chunk.of(self.fixed))


class Question(ABC):
    """Something about whole sets, asked with the elements of one chunk in hand.

    Attributes:
        neutral: The contribution of no elements, for each of the parts.
    """

    neutral: ClassVar[tuple[float, ...]]

    def __init__(self, x: Tensor, chunk: Chunk) -> None:
        self.x, self.chunk = x, chunk

    @property
    def wide(self) -> torch.dtype:
        """Of statistics: float32 at least."""
        return statistics_dtype(self.x.dtype)

    @abstractmethod
    def partial(self) -> Parts:
        """What this chunk contributes: each part (S, ...) in float64."""

    @staticmethod
    @abstractmethod
    def merge(a: Parts, b: Parts) -> Parts:
        """Two contributions as one."""

    @staticmethod
    @abstractmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        """The answer for N sets from all contributions, each part (N, ...), in the dtype of statistics."""

    @abstractmethod
    def share(self, answer: Answer) -> Tensor:
        """(S, ...) differentiable. Its gradient, added up over chunks, is that of the answer's value.

        Args:
            answer: For the sets of this chunk, without gradients.
        """


class Moments(Question):
    r"""Mean and variance of each set, over elements and features or (`per_feature`) over elements alone.

    The mean is kept as two numbers, as `set_norm` subtracts it in two rounds: `centre`, the mean as the dtype can hold it, and
    what is missing. Numbers around 1e4 with a spread of 1e-2 keep their digits. Chunks are merged as Chan et al. (1983) do.

    value: (N, 1 or D, 2), the rest of the mean and the variance. fixed: the same shape, the centre and the count.
    """

    neutral = (0.0, 0.0, 0.0)

    def __init__(self, x: Tensor, chunk: Chunk, *, per_feature: bool = False) -> None:
        super().__init__(x, chunk)
        self.per_feature = per_feature

    def partial(self) -> Parts:
        h = self.x.to(self.wide)
        count = self.chunk.counts * (1 if self.per_feature else h.shape[1])  # (S, 1)
        some = count.clamp(min=1)
        coarse = (self._total(h, torch.float64) / some).to(self.wide)
        h = h - self.chunk.spread(coarse)
        rest = self._total(h, torch.float64) / some  # what rounding left of the mean
        squares = self._total(h.square(), torch.float64) - count * rest.square()
        return count.expand_as(rest), coarse.double() + rest, squares

    @staticmethod
    def merge(a: Parts, b: Parts) -> Parts:
        (count_a, mean_a, squares_a), (count_b, mean_b, squares_b) = a, b
        count, apart = count_a + count_b, mean_b - mean_a
        weight = count_b / count.clamp(min=1)
        return count, mean_a + apart * weight, squares_a + squares_b + apart.square() * count_a * weight

    @staticmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        count, mean, squares = total
        centre = mean.to(wide)
        value = torch.stack([(mean - centre).to(wide), (squares / count.clamp(min=1)).to(wide)], -1)
        return Answer(value, torch.stack([centre, count.to(wide)], -1))

    def share(self, answer: Answer) -> Tensor:
        count = answer.fixed[..., 1].clamp(min=1)
        h = centred(self.x, answer, self.chunk)
        return torch.stack([self._total(h), self._total(h.square())], -1) / count[..., None]

    def _total(self, h: Tensor, dtype: torch.dtype | None = None) -> Tensor:  # (S, 1 or D)
        return self.chunk.total(h if self.per_feature else h.sum(1, keepdim=True), dtype)


def centred(x: Tensor, moments: Answer, chunk: Chunk) -> Tensor:
    """(n, D) elements less the mean of their set, in float32 at least. The centre goes first: that difference is exact."""
    h = x.to(moments.value.dtype) - chunk.spread(moments.fixed[..., 0])
    return h - chunk.spread(moments.value[..., 0])


class Gathering(Question):
    r"""What I queries of each set get from the set's elements by softmax attention.

    $$o = \sum_j w_j v_j, \qquad w_j = \exp(s_j - t) / m, \qquad m = \sum_j \exp(s_j - t)$$

    with scores $s_j$, their maximum $t$ over the whole set, and one softmax per head. Chunks are merged by rescaling their sums
    to the larger of their maxima. With an element, $o$ changes as $\sum_j w_j (v_j - o)$ does where $t$, $m$ and $o$ are held
    fixed: what the element does to $m$ is in the $-o$.

    Args:
        q: (S, I, D) queries of the chunk's sets.
        project: Gives keys and values of the chunk's elements, (n, D) each.
        chunk: The chunk.
        num_heads: D features are split into this many heads.
        scale: Multiplies the scores.

    value: (N, I, D). fixed: (N, H, I, 2), the maximum $t$ and the mass $m$.
    """

    neutral = (-math.inf, 0.0, 0.0)

    def __init__(
        self, q: Tensor, project: Callable[[], tuple[Tensor, Tensor]], chunk: Chunk, *, num_heads: int, scale: float
    ) -> None:
        super().__init__(q, chunk)
        self.project, self.num_heads, self.scale = project, num_heads, scale
        self.q = self._heads(q)  # (S, H, I, C)

    def partial(self) -> Parts:
        k, v = (self._heads(a) for a in self.project())  # (H, n, C)
        top = self.q.new_full(self.q.shape[:3], -math.inf, dtype=torch.float64)
        mass, total = torch.zeros_like(top), torch.zeros_like(self.q, dtype=torch.float64)
        for n, here in self.chunk.pieces:
            scores = self._scores(n, k[:, here])
            highest = scores.amax(-1, keepdim=True)
            weights = (scores - highest).exp()
            top[n], mass[n], total[n] = highest.squeeze(-1), weights.sum(-1), self._weigh(weights, v[:, here])
        return top, mass, total

    @staticmethod
    def merge(a: Parts, b: Parts) -> Parts:
        (top_a, mass_a, total_a), (top_b, mass_b, total_b) = a, b
        top = torch.maximum(top_a, top_b)
        lower = top.masked_fill(top == -math.inf, 0)  # neither has a key: -inf - -inf would be NaN
        scale_a, scale_b = (top_a - lower).exp(), (top_b - lower).exp()
        total = total_a * scale_a[..., None] + total_b * scale_b[..., None]
        return top, mass_a * scale_a + mass_b * scale_b, total

    @staticmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        top, mass, summed = (part.to(wide) for part in total)
        out = summed / mass.masked_fill(mass == 0, 1)[..., None]  # a set without elements gives zeros
        return Answer(out.transpose(1, 2).flatten(2), torch.stack([top, mass], -1))

    def share(self, answer: Answer) -> Tensor:
        k, v = (self._heads(a) for a in self.project())
        shares = [torch.zeros_like(self.q[n]) for n in range(self.chunk.num_sets)]  # (H, I, C) each
        out = self._heads(answer.value)
        for n, here in self.chunk.pieces:
            top, mass = answer.fixed[n].unbind(-1)
            weights = (self._scores(n, k[:, here]) - top[..., None]).exp() / mass[..., None]
            shares[n] = self._weigh(weights, v[:, here]) - weights.sum(-1, keepdim=True) * out[n]
        return torch.stack(shares).transpose(1, 2).flatten(2) if shares else answer.value

    def _heads(self, rows: Tensor) -> Tensor:  # (..., rows, D) -> (..., H, rows, C)
        return rows.to(self.wide).unflatten(-1, (self.num_heads, -1)).transpose(-2, -3)

    def _scores(self, n: int, k: Tensor) -> Tensor:  # (H, I, elements of set n)
        with torch.autocast(self.x.device.type, enabled=False):  # it would take the products out of float32 again
            return self.q[n] @ k.mT * self.scale

    def _weigh(self, weights: Tensor, v: Tensor) -> Tensor:  # (H, I, C)
        with torch.autocast(self.x.device.type, enabled=False):
            return weights @ v


class Sum(Question):
    """The sum over each set. value: (N, D)."""

    neutral = (0.0, 0.0)

    def partial(self) -> Parts:
        return self.chunk.total(self.x, torch.float64), self.chunk.counts

    @staticmethod
    def merge(a: Parts, b: Parts) -> Parts:
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        summed, count = total
        return Answer(summed.to(wide), count.to(wide))

    def share(self, answer: Answer) -> Tensor:
        return self.chunk.total(self.x.to(self.wide))


class Mean(Sum):
    """The mean over each set. value: (N, D); fixed: (N, 1), the number of elements."""

    @staticmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        summed, count = total
        return Answer((summed / count.clamp(min=1)).to(wide), count.to(wide))

    def share(self, answer: Answer) -> Tensor:
        return self.chunk.total(self.x.to(self.wide)) / answer.fixed.clamp(min=1)


class Max(Question):
    """The largest value over each set, feature by feature; ties share the gradient. value, fixed: (N, D), the number of ties."""

    neutral = (-math.inf, 0.0, 0.0)

    def partial(self) -> Parts:
        chunk, x = self.chunk, self.x
        if chunk.num_sets == 1 and chunk.num_elements:
            top = x.amax(0, keepdim=True)
        else:
            start = x.new_full((chunk.num_sets, *x.shape[1:]), -math.inf)
            top = start.scatter_reduce(0, chunk.ids[:, None].expand_as(x), x, "amax")
        ties = chunk.total(x == chunk.spread(top), torch.float64)
        return top.double(), ties, chunk.counts.expand_as(ties)

    @staticmethod
    def merge(a: Parts, b: Parts) -> Parts:
        (top_a, ties_a, count_a), (top_b, ties_b, count_b) = a, b
        top = torch.maximum(top_a, top_b)
        ties = ties_a.where(top_a == top, 0) + ties_b.where(top_b == top, 0)
        return top, ties, count_a + count_b

    @staticmethod
    def answer(total: Parts, wide: torch.dtype) -> Answer:
        top, ties, count = total
        return Answer(top.masked_fill(count == 0, 0).to(wide), ties.to(wide))

    def share(self, answer: Answer) -> Tensor:
        top, ties = (self.chunk.spread(part) for part in answer)
        return self.chunk.total((self.x / ties.clamp(min=1)).where(self.x == top, 0))
