"""Layers and residual blocks of the Deep Sets family. All are permutation equivariant: SetBatch -> SetBatch.

With $f$ an equivariant branch, a block is clean ($x + f(x)$), non-clean ($g(x + f(x))$) or aggregated
($\\mathrm{pool}(x) + f(x)$). A linear layer has a bias only where no norm is used, as in the released code.

Letters: N sets, T elements in all sets, D features.
"""

from typing import Literal

from torch import nn

from orderless import ops
from orderless.nn.elementwise import ElementReLU
from orderless.nn.norm import NormName, build_norm
from orderless.nn.pool import POOLS
from orderless.sets import SetBatch

ResidualName = Literal["none", "clean", "non_clean", "freq_add", "mean", "max", "sum"]
Order = Literal["released", "paper"]
AGGREGATES = ("mean", "max", "sum")
relu = ElementReLU()


class PlainLayer(nn.Module):
    r"""A layer without a residual: $\mathrm{relu}(\mathrm{norm}(xW + b))$.

    Args:
        in_dim: Number of features of the input.
        out_dim: Number of features of the output.
        norm: Name of the norm.
        eps: Of the norm.

    Shapes: SetBatch with x (T, in_dim) -> SetBatch with x (T, out_dim).

    Reference: Zaheer et al. (2017); Zhang et al. (2022), section "Deep Sets gradient analysis".
    """

    def __init__(self, in_dim: int, out_dim: int, *, norm: NormName = "none", eps: float = 1e-5) -> None:
        super().__init__()
        self.fc = nn.Linear(in_dim, out_dim, bias=norm == "none")
        self.norm = build_norm(norm, out_dim, eps=eps)

    def forward(self, batch: SetBatch) -> SetBatch:
        return relu(self.norm(batch.with_x(self.fc(batch.x))))


class FreqAddBlock(nn.Module):
    r"""One layer with an addition before its ReLU: $\mathrm{relu}(x + \mathrm{norm}(xW + b))$.

    Args:
        dim: Number of features D.
        norm: Name of the norm.
        eps: Of the norm.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D).

    Reference: Zhang et al. (2022), appendix "Understanding ResNet vs. He Pipeline".
    """

    def __init__(self, dim: int, *, norm: NormName = "set", eps: float = 1e-5) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim, bias=norm == "none")
        self.norm = build_norm(norm, dim, eps=eps)

    def forward(self, batch: SetBatch) -> SetBatch:
        h = self.norm(batch.with_x(self.fc(batch.x)))
        return relu(batch.with_x(batch.x + h.x))


class NonCleanBlock(nn.Module):
    r"""Two layers with a ReLU after the addition: $\mathrm{relu}(x + \mathrm{norm}(\mathrm{relu}(\mathrm{norm}(xW_1))W_2))$.

    Args:
        dim: Number of features D.
        norm: Name of the norms.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D).

    Reference: Zhang et al. (2022), figure "Clean path variants", panel c.
    """

    def __init__(self, dim: int, *, norm: NormName = "set", eps: float = 1e-5) -> None:
        super().__init__()
        self.branch = WeightFirstBranch(dim, norm=norm, eps=eps)

    def forward(self, batch: SetBatch) -> SetBatch:
        return relu(batch.with_x(batch.x + self.branch(batch).x))


class CleanBlock(nn.Module):
    r"""Two layers added to an untouched input: $x + f(x)$.

    $$f(x) = \mathrm{relu}(\mathrm{norm}(\mathrm{relu}(\mathrm{norm}(x))W_1))W_2 \quad\text{(released)}$$

    $$f(x) = \mathrm{norm}(\mathrm{relu}(\mathrm{norm}(xW_1))W_2) \quad\text{(paper)}$$

    Args:
        dim: Number of features D.
        norm: Name of the norms.
        order: `released` as in the authors' code, `paper` as in the paper's displayed equation.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D).

    Reference: Zhang et al. (2022), sections "Clean-path equivariant residual connections" and "Deep Sets++".
    """

    def __init__(self, dim: int, *, norm: NormName = "set", order: Order = "released", eps: float = 1e-5) -> None:
        super().__init__()
        self.branch = _branch_of(order)(dim, norm=norm, eps=eps)

    def forward(self, batch: SetBatch) -> SetBatch:
        return batch.with_x(batch.x + self.branch(batch).x)


class AggregatedBlock(nn.Module):
    r"""Two layers added to a summary of the whole set: $\mathrm{pool}(x) + f(x)$, with $f$ as in `CleanBlock`.

    Args:
        dim: Number of features D.
        aggregate: `mean`, `max` or `sum`.
        norm: Name of the norms.
        order: As in `CleanBlock`.
        eps: Of the norms.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D).

    Reference: Zhang et al. (2022), appendix "Aggregated residual connections".
    """

    def __init__(
        self,
        dim: int,
        aggregate: str,
        *,
        norm: NormName = "set",
        order: Order = "released",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.skip = AggregatedSkip(aggregate)
        self.branch = _branch_of(order)(dim, norm=norm, eps=eps)

    def forward(self, batch: SetBatch) -> SetBatch:
        return batch.with_x(self.skip(batch).x + self.branch(batch).x)


class AggregatedSkip(nn.Module):
    """Gives every element the mean, maximum or sum of its set. Shapes: SetBatch with x (T, D) -> the same."""

    def __init__(self, aggregate: str) -> None:
        super().__init__()
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate must be one of {', '.join(AGGREGATES)}; got {aggregate!r}.")
        self.pool = POOLS[aggregate]()

    def forward(self, batch: SetBatch) -> SetBatch:
        pooled = ops.broadcast_sets(self.pool(batch), batch.offsets, batch.num_elements, set_size=batch.set_size)
        return batch.with_x(pooled)


class _Branch(nn.Module):
    """Two linear layers with two norms; subclasses say in which order."""

    def __init__(self, dim: int, *, norm: NormName, eps: float) -> None:
        super().__init__()
        self.norm1 = build_norm(norm, dim, eps=eps)
        self.fc1 = nn.Linear(dim, dim, bias=norm == "none")
        self.norm2 = build_norm(norm, dim, eps=eps)
        self.fc2 = nn.Linear(dim, dim, bias=norm == "none")


class NormFirstBranch(_Branch):
    """norm, ReLU, weight, norm, ReLU, weight: the order of the released code."""

    def forward(self, batch: SetBatch) -> SetBatch:
        h = relu(self.norm1(batch))
        h = relu(self.norm2(h.with_x(self.fc1(h.x))))
        return h.with_x(self.fc2(h.x))


class WeightFirstBranch(_Branch):
    """weight, norm, ReLU, weight, norm: the order of the paper's equation."""

    def forward(self, batch: SetBatch) -> SetBatch:
        h = relu(self.norm1(batch.with_x(self.fc1(batch.x))))
        return self.norm2(h.with_x(self.fc2(h.x)))


BRANCHES: dict[str, type[_Branch]] = {"released": NormFirstBranch, "paper": WeightFirstBranch}


def check_order(order: str) -> None:
    """Raises if there is no such order."""
    if order not in BRANCHES:
        raise ValueError(f"order must be one of {', '.join(BRANCHES)}; got {order!r}.")


def _branch_of(order: str) -> type[_Branch]:
    check_order(order)
    return BRANCHES[order]
