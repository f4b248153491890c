"""Set norm on a CPU: the definition's steps in as few passes over memory as plain PyTorch allows, above all backward.

Letters: N sets, T elements in all sets, D features.
"""

from typing import Any

import torch
from torch import Tensor

from orderless.ops._segments import cut_into_blocks, set_ids, statistics_dtype, sum_blocks
from orderless.ops._tracing import is_transformed
from orderless.ops.set_norm.reference import set_norm_dense, set_norm_reference


def set_norm_cpu(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, *, eps: float, set_size: int | None) -> Tensor:
    """`set_norm_reference`; `set_size` is the size of all sets, or None where they differ."""
    wide = statistics_dtype(x.dtype)
    inputs = (x.to(wide), weight.to(wide), bias.to(wide))
    if _are_watched(*inputs):
        return _plain(*inputs, offsets, eps, set_size).to(x.dtype)
    y, _ = _ShortWayBack.apply(*inputs, offsets, eps, set_size)  # type: ignore[no-untyped-call]
    return y.to(x.dtype)


def _plain(x: Tensor, weight: Tensor, bias: Tensor, offsets: Tensor, eps: float, set_size: int | None) -> Tensor:
    if set_size is None:
        return set_norm_reference(x, offsets, weight, bias, eps=eps)
    return set_norm_dense(x, offsets, weight, bias, set_size=set_size, eps=eps)


def _are_watched(*tensors: Tensor) -> bool:
    """Whether a compiler, an exporter, `torch.func` or forward derivatives are at work: they need operations that torch knows."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or is_transformed()
        or any(torch._C._functorch.is_legacy_batchedtensor(t) for t in tensors)
    )


class _ShortWayBack(torch.autograd.Function):
    """Set norm with its gradient written out. Autograd would take twice the passes and keep twice the numbers.

    The centred elements are an output, too, so that second derivatives find their way from them to x: set norm does not see
    what is subtracted from a set.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, offsets: Tensor, eps: float, set_size: int | None
    ) -> tuple[Tensor, Tensor]:
        sets = _Sets(offsets, x.shape[0], set_size)
        count = sets.count(x.shape[1])
        centred = torch.empty_like(x)
        torch.sub(sets.view(x), sets.spread(sets.add_up(x.sum(1)) / count, x.dtype), out=sets.view(centred))
        sets.view(centred).sub_(sets.spread(sets.add_up(centred.sum(1)) / count, x.dtype))  # see the reference
        squares = torch.linalg.vector_norm(centred, dim=1).square()  # (T,), without a tensor of squares
        rstd = torch.rsqrt(sets.add_up(squares) / count + eps)  # (N,) float64
        y = torch.empty_like(x)
        torch.addcmul(bias, *sets.factors(centred, rstd, weight), out=sets.view(y))
        ctx.sets, ctx.rstd, ctx.count = sets, rstd, count
        ctx.constants = (offsets, eps, set_size)
        ctx.save_for_backward(centred, weight, bias)
        ctx.set_materialize_grads(False)
        return y, centred

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dcentred: Tensor | None) -> tuple[Tensor | None, ...]:
        if dy is None:
            return dcentred, None, None, None, None, None
        centred, weight, bias = ctx.saved_tensors
        by_autograd = torch.is_grad_enabled() or _are_watched(dy)
        dx, dweight, dbias = (_gradients_by_autograd if by_autograd else _gradients)(ctx, dy, centred, weight, bias)
        return dx if dcentred is None or dx is None else dx + dcentred, dweight, dbias, None, None, None


def _gradients(ctx: Any, dy: Tensor, centred: Tensor, weight: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See the README: the mean gradient of a set, and its part along the standardised numbers, are subtracted."""
    sets, rstd, count = ctx.sets, ctx.rstd, ctx.count
    total = sets.add_up(dy)  # (N, D)
    dx = dy * centred  # for now: fresh memory costs a CPU more than a pass
    along = sets.add_up(dx) * rstd[:, None]  # (N, D), of dy times the standardised numbers
    mean = (total * weight).sum(1) / count
    slope = (along * weight).sum(1) / count
    rows = sets.view(dx)
    offset, factor = sets.spread(-rstd * mean, dy.dtype), sets.spread(-rstd.square() * slope, dy.dtype)
    torch.addcmul(offset, sets.view(centred), factor, out=rows)
    rows.addcmul_(*sets.factors(dy, rstd, weight))
    return dx, along.sum(0).to(weight.dtype), total.sum(0).to(weight.dtype)


def _gradients_by_autograd(ctx: Any, dy: Tensor, centred: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor | None, ...]:
    """The same where gradients are to be differentiated again, or come in a batch."""
    more = torch.is_grad_enabled()
    given = zip((centred, weight, bias), ctx.needs_input_grad[:3], strict=True)
    inputs = [t if more and t.requires_grad else t.detach().requires_grad_(needed) for t, needed in given]
    with torch.enable_grad():
        y = _plain(inputs[0], inputs[1], inputs[2], *ctx.constants)
    wanted = [t for t in inputs if t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, dy, create_graph=more))
    return tuple(next(found) if t.requires_grad else None for t in inputs)


class _Sets:
    """Where sets lie among the rows: sums over sets, and numbers of sets given back to rows."""

    def __init__(self, offsets: Tensor, num_rows: int, set_size: int | None) -> None:
        self.num_sets, self.set_size = offsets.shape[0] - 1, set_size
        self.sizes = offsets.diff()
        if set_size is None:
            self.ids, self.blocks = set_ids(offsets, num_rows), cut_into_blocks(offsets, num_rows)

    def count(self, width: int) -> Tensor:
        """(N,) numbers in each set, float64; 1 guards empty sets."""
        return (self.sizes * width).clamp(min=1).to(torch.float64)

    def add_up(self, rows: Tensor) -> Tensor:
        """The sums over each set: (T, ...) -> (N, ...) float64."""
        if self.set_size is not None:
            return rows.unflatten(0, (self.num_sets, self.set_size)).sum(1).to(torch.float64)
        return sum_blocks(rows, self.blocks, self.num_sets)

    def view(self, rows: Tensor) -> Tensor:
        """Rows in the shape that `spread` fits: (N, set_size, D) or (T, D)."""
        return rows if self.set_size is None else rows.unflatten(0, (self.num_sets, self.set_size))

    def spread(self, per_set: Tensor, dtype: torch.dtype) -> Tensor:
        """A number of each set beside the rows of `view`: (N,) -> (N, 1, 1) or (T, 1)."""
        per_set = per_set.to(dtype)[:, None]
        return per_set[:, None] if self.set_size is not None else per_set.index_select(0, self.ids)

    def factors(self, rows: Tensor, per_set: Tensor, per_feature: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors whose product is rows * per_set * per_feature, one of them small."""
        if self.set_size is None:
            return rows * per_feature, self.spread(per_set, rows.dtype)
        return self.view(rows), (per_set[:, None] * per_feature).to(rows.dtype)[:, None]
