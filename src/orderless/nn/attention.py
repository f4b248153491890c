"""Attention blocks of the Set Transformers.

`MAB` and its users `SAB`, `ISAB`, `PMA` are the original ones; those with `PlusPlus` have the clean path of Set Transformer++.
Scores are divided by the square root of the full width D, as in the paper, not by that of a head.

Letters: N sets, T elements in all sets, D features, I inducing points.
"""

import math
import operator
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from orderless import ops
from orderless.nn.hooks import has_hooks
from orderless.nn.norm import NormName, SetNorm, build_norm
from orderless.nn.residual import AggregatedSkip, Order, check_order
from orderless.sets import SetBatch


class MAB(nn.Module):
    r"""Multihead attention block, non-clean: the skip starts at the projected query.

    $$f = \mathrm{norm}(xW_Q + \mathrm{Attn}(x, y, y)), \qquad \mathrm{MAB}(x, y) = \mathrm{norm}(f + \mathrm{relu}(fW + b))$$

    Args:
        query_dim: Number of features of x.
        key_dim: Number of features of y.
        dim: Number of features D of the output.
        num_heads: D is split into this many heads.
        norm: Name of the norms.
        eps: Of the norms.

    Shapes: x (Q, query_dim), y (T, key_dim) -> (Q, D), set by set. Equivariant in x, invariant in y.

    Reference: Lee et al. (2019); Zhang et al. (2022), section "Set Transformer gradient analysis".
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        dim: int,
        *,
        num_heads: int,
        norm: NormName = "none",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attend = MultiheadAttention(query_dim, key_dim, dim, num_heads=num_heads)
        self.fc = nn.Linear(dim, dim)
        self.attention_norm = build_norm(norm, dim, eps=eps)
        self.out_norm = build_norm(norm, dim, eps=eps)

    def forward(self, x: SetBatch, y: SetBatch) -> SetBatch:
        q = x.with_x(self.attend.fc_q(x.x))
        h = self.attention_norm(x.with_x(q.x + self.attend.from_query(q, y, y).x))
        return self.out_norm(h.with_x(h.x + self.fc(h.x).relu()))


class MABPlusPlus(nn.Module):
    r"""Multihead attention block with a clean path: $h = x + \mathrm{Attn}(\cdot)$, then $h + \ldots$

    $$h = x + \mathrm{Attn}(\mathrm{norm}(x), \mathrm{norm}(y), \mathrm{norm}(y)), \quad
      h + \mathrm{relu}(\mathrm{fc}(\mathrm{norm}(h))) \quad\text{(released)}$$

    $$h = x + \mathrm{Attn}(\mathrm{norm}(x), \mathrm{norm}(y), y), \quad
      h + \mathrm{fc}(\mathrm{relu}(\mathrm{norm}(h))) \quad\text{(paper)}$$

    Args:
        dim: Number of features D of x, y and the output.
        num_heads: D is split into this many heads.
        norm: Name of the norms.
        norm_query: Whether x is normalised on its way into the attention. Learned points need not be.
        order: `released` as in the authors' code, `paper` as in the paper's equations.
        aggregate: `mean`, `max` or `sum` puts that summary of the set in place of both skips; None keeps them clean.
        eps: Of the norms.

    Shapes: x (Q, D), y (T, D) -> (Q, D), set by set. Equivariant in x, invariant in y.

    Reference: Zhang et al. (2022), section "Set Transformer++" and appendix "Aggregated residual connections".
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        norm: NormName = "set",
        norm_query: bool = True,
        order: Order = "released",
        aggregate: str | None = None,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_order(order)
        self.order = order
        self.attend = MultiheadAttention(dim, dim, dim, num_heads=num_heads)
        self.fc = nn.Linear(dim, dim)
        self.query_norm = build_norm(norm if norm_query else "none", dim, eps=eps)
        self.key_norm = build_norm(norm, dim, eps=eps)
        self.out_norm = build_norm(norm, dim, eps=eps)
        self.skip = nn.Identity() if aggregate is None else AggregatedSkip(aggregate)

    def forward(self, x: SetBatch, y: SetBatch) -> SetBatch:
        keys = self.key_norm(y)
        values = keys if self.order == "released" else y
        return self.after_attention(x, self.attend(self.query_norm(x), keys, values))

    def after_attention(self, x: SetBatch, attended: SetBatch) -> SetBatch:
        """The rest of the block, given what x has seen."""
        h = x.with_x(self.skip(x).x + attended.x)
        return h.with_x(self.skip(h).x + self.feed_forward(self.out_norm(h).x))

    def is_plain(self) -> bool:
        """Whether it is the block of Set Transformer++ as released: set norms, clean skips."""
        norms = (self.key_norm, self.out_norm)
        return self.order == "released" and isinstance(self.skip, nn.Identity) and all(type(n) is SetNorm for n in norms)

    def feed_forward(self, h: Tensor) -> Tensor:
        """What the block adds to every element, given its normed self."""
        out: Tensor = self.fc(h).relu() if self.order == "released" else self.fc(h.relu())
        return out

    def extra_repr(self) -> str:
        return f"order={self.order!r}"


class _SelfAttention(nn.Module):
    """A set attends to itself through the block `mab`."""

    mab: nn.Module

    def forward(self, x: SetBatch) -> SetBatch:
        return self.mab(x, x)


class SAB(_SelfAttention):
    """Set attention block: the elements of a set attend to each other, at a cost quadratic in its size.

    Args:
        dim: Number of features D.
        num_heads: D is split into this many heads.
        norm: Name of the norms.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> the same. Permutation equivariant.

    Reference: Lee et al. (2019).
    """

    def __init__(self, dim: int, *, num_heads: int, norm: NormName = "none", eps: float = 1e-5) -> None:
        super().__init__()
        self.mab = MAB(dim, dim, dim, num_heads=num_heads, norm=norm, eps=eps)


class SABPlusPlus(_SelfAttention):
    """`SAB` with a clean path: a set attends to itself through `MABPlusPlus`, whose options it takes.

    Shapes: SetBatch with x (T, D) -> the same. Permutation equivariant.
    """

    def __init__(self, dim: int, *, num_heads: int, norm: NormName = "set", order: Order = "released", eps: float = 1e-5) -> None:
        super().__init__()
        self.mab = MABPlusPlus(dim, num_heads=num_heads, norm=norm, order=order, eps=eps)


class _AttentionPooling(nn.Module):
    """Learned `seeds` attend to each set through the block `mab`."""

    seeds: nn.Parameter
    mab: MAB | MABPlusPlus

    def forward(self, x: SetBatch) -> SetBatch:
        return self.mab(SetBatch.repeat(self.seeds, x.num_sets), x)


class PMA(_AttentionPooling):
    """Pooling by multihead attention: learned seeds attend to the elements of each set.

    Args:
        dim: Number of features D.
        num_heads: D is split into this many heads.
        num_seeds: Vectors kept of each set.
        norm: Name of the norms.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> SetBatch of N sets of `num_seeds` elements. Permutation invariant.

    Reference: Lee et al. (2019).
    """

    def __init__(self, dim: int, *, num_heads: int, num_seeds: int = 1, norm: NormName = "none", eps: float = 1e-5) -> None:
        super().__init__()
        self.seeds = learned_points(num_seeds, dim)
        self.mab = MAB(dim, dim, dim, num_heads=num_heads, norm=norm, eps=eps)


class PMAPlusPlus(_AttentionPooling):
    """`PMA` with a clean path: seeds attend through `MABPlusPlus`, whose options it takes.

    Shapes: SetBatch with x (T, D) -> SetBatch of N sets of `num_seeds` elements. Permutation invariant.
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        num_seeds: int = 1,
        norm: NormName = "set",
        order: Order = "released",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.seeds = learned_points(num_seeds, dim)
        self.mab = MABPlusPlus(dim, num_heads=num_heads, norm=norm, norm_query=False, order=order, eps=eps)

    def takes_raw_elements(self) -> bool:
        """Whether elements go into the attention as they are, as keys and as values."""
        assert isinstance(self.mab, MABPlusPlus)
        return isinstance(self.mab.key_norm, nn.Identity)


class _InducedSelfAttention(nn.Module):
    """Learned `points` gather from each set, then its elements read from them."""

    points: nn.Parameter
    gather: MAB | MABPlusPlus
    scatter: MAB | MABPlusPlus

    def forward(self, x: SetBatch) -> SetBatch:
        h = self.gather(SetBatch.repeat(self.points, x.num_sets), x)
        return self.scatter(x, h)


class ISAB(_InducedSelfAttention):
    r"""Induced set attention block: I learned points gather from the elements, the elements read from the points.

    $$\mathrm{ISAB}(x) = \mathrm{MAB}(x, h), \qquad h = \mathrm{MAB}(p, x)$$

    Args:
        in_dim: Number of features of the input.
        dim: Number of features D of the output.
        num_heads: D is split into this many heads.
        num_inducing: Number of points I.
        norm: Name of the norms.
        eps: Of the norms.

    Shapes: SetBatch with x (T, in_dim) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Lee et al. (2019).
    """

    def __init__(
        self,
        in_dim: int,
        dim: int,
        *,
        num_heads: int,
        num_inducing: int,
        norm: NormName = "none",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.points = learned_points(num_inducing, dim)
        self.gather = MAB(dim, in_dim, dim, num_heads=num_heads, norm=norm, eps=eps)
        self.scatter = MAB(in_dim, dim, dim, num_heads=num_heads, norm=norm, eps=eps)


class ISABPlusPlus(_InducedSelfAttention):
    r"""`ISAB` with clean paths: $\mathrm{MAB}^2(x, h)$ with $h = \mathrm{MAB}^1(p, x)$, both `MABPlusPlus`.

    Args:
        dim: Number of features D.
        num_heads: D is split into this many heads.
        num_inducing: Number of points I.
        norm: Name of the norms. The points are learned, so they go into the attention as they are.
        order: As in `MABPlusPlus`.
        aggregate: As in `MABPlusPlus`.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Zhang et al. (2022), section "Set Transformer++".
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        num_inducing: int,
        norm: NormName = "set",
        order: Order = "released",
        aggregate: str | None = None,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.points = learned_points(num_inducing, dim)
        self.gather, self.scatter = (
            MABPlusPlus(
                dim,
                num_heads=num_heads,
                norm=norm,
                norm_query=norm_query,
                order=order,
                aggregate=aggregate,
                eps=eps,
            )
            for norm_query in (False, True)
        )


class MultiheadAttention(nn.Module):
    r"""Attention of the elements of one set over those of another, set by set.

    $$\mathrm{Attn}(x, k, v) = \mathrm{softmax}(xW_Q (kW_K)^\top / \sqrt{D})\, vW_V \quad\text{in each head}$$

    Args:
        query_dim: Number of features of x.
        key_dim: Number of features of the keys and values.
        dim: Number of features D of the output.
        num_heads: D is split into this many heads.

    Shapes: x (Q, query_dim), keys and values (T, key_dim) -> (Q, D), set by set. The values lie in the sets of the keys.
    """

    def __init__(self, query_dim: int, key_dim: int, dim: int, *, num_heads: int) -> None:
        super().__init__()
        num_heads = operator.index(num_heads)  # 2.0 would fail where heads are split
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"num_heads must divide the width: {dim} features cannot be split into {num_heads} heads.")
        self.dim, self.num_heads = dim, num_heads
        self.fc_q = nn.Linear(query_dim, dim)
        self.fc_k = nn.Linear(key_dim, dim)
        self.fc_v = nn.Linear(key_dim, dim)

    def forward(self, x: SetBatch, keys: SetBatch, values: SetBatch) -> SetBatch:
        _check_alike(x, keys, values)
        if self._sees_one_value(x, keys):
            return x.with_x(self._one_value(values, unused=[(self.fc_q, x), (self.fc_k, keys)]))
        return self.from_query(x.with_x(self.fc_q(x.x)), keys, values)

    def from_query(self, q: SetBatch, keys: SetBatch, values: SetBatch) -> SetBatch:
        """The same for a query already projected."""
        _check_alike(q, keys, values)
        if self._sees_one_value(q, keys):
            return q.with_x(self._one_value(values, unused=[(self.fc_k, keys)]))
        k, v = self.fc_k(keys.x), self.fc_v(values.x)
        heads, scale = self.num_heads, 1 / math.sqrt(self.dim)
        if q.set_size is not None:
            queries = q.x.reshape(q.num_sets, q.set_size, self.dim)
            out = ops.dense_query_attention(queries, k, v, keys.offsets, num_heads=heads, scale=scale, set_size=keys.set_size)
            return q.with_x(out.flatten(0, 1))
        if keys.set_size is not None:
            dense = (keys.num_sets, keys.set_size, self.dim)
            out = ops.dense_key_attention(q.x, k.reshape(dense), v.reshape(dense), q.offsets, num_heads=heads, scale=scale)
            return q.with_x(out)
        return q.with_x(ops.packed_attention(q.x, q.offsets, k, v, keys.offsets, num_heads=heads, scale=scale))

    def _sees_one_value(self, x: SetBatch, keys: SetBatch) -> bool:
        """Whether every query has a single key: its weight is 1 whatever its score, so scores need not be computed."""
        return x.set_size == 1 and keys.set_size == 1 and not has_hooks(self)

    def _one_value(self, values: SetBatch, *, unused: Sequence[tuple[nn.Module, SetBatch]]) -> Tensor:
        v: Tensor = self.fc_v(values.x)
        if torch.is_grad_enabled():  # maps without influence have a gradient of zeros, not None: weight decay tells these apart
            v = torch.cat([v, *(fc(batch.x[:0]) for fc, batch in unused)])
        return v

    def extra_repr(self) -> str:
        return f"{self.dim}, num_heads={self.num_heads}"


def _check_alike(x: SetBatch, keys: SetBatch, values: SetBatch) -> None:
    """Raises where sets do not pair up: they would silently be left out, or be attended to by other sets."""
    if x.num_sets != keys.num_sets:
        raise ValueError(
            f"attention works set by set, so it needs as many sets of queries as of keys: got {x.num_sets} and {keys.num_sets}."
        )
    if (keys.num_sets, keys.num_elements) != (values.num_sets, values.num_elements):
        raise ValueError(
            f"every key needs a value: there are {keys.num_elements} keys in {keys.num_sets} sets, and {values.num_elements} "
            f"values in {values.num_sets}."
        )
    if keys.offsets is values.offsets or torch.compiler.is_compiling() or keys.device.type != "cpu":
        return  # a GPU would have to be waited for
    if not torch.equal(keys.offsets, values.offsets):
        n = int((keys.sizes != values.sizes).nonzero()[0])
        raise ValueError(
            f"keys and values must lie in the same sets, but set {n} has {int(keys.sizes[n])} keys and "
            f"{int(values.sizes[n])} values."
        )


def learned_points(count: int, dim: int) -> nn.Parameter:
    """Inducing points or seeds, initialised as in Lee et al. (2019): as one (1, count, dim) tensor."""
    if count < 1:
        raise ValueError(f"at least one learned point is needed, since sets are seen only through them; got {count}.")
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, count, dim)).squeeze(0))
