"""Set norm on a CPU: the definition's steps in as few passes over memory as plain PyTorch allows, above all on the way back.

Letters: N sets, T elements in all sets, D features, B blocks of rows.
"""

from typing import Any

import torch
from torch import Tensor

from orderless.ops._segments import set_ids, statistics_dtype, sum_rows

_ROWS_ADDED_IN_FLOAT32 = 256  # one after another, in a ragged set; sums of so many rows are added up in float64


def set_norm_cpu(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor, *, eps: float, set_size: int | None) -> Tensor:
    """`set_norm_reference`; `set_size` is the size of all sets, or None where they differ."""
    wide = statistics_dtype(x.dtype)
    h, scale, shift = x.to(wide), weight.to(wide), bias.to(wide)
    sets = _Sets(offsets, x.shape[0], set_size)
    wants_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (h, scale, shift))
    if wants_gradient and not _is_transformed():
        y, _ = _ShortWayBack.apply(h, scale, shift, sets, eps)  # type: ignore[no-untyped-call]
    else:
        y = _standardise(_centre(h, sets), scale, shift, sets, eps)
    return y.to(x.dtype)


class _Sets:
    """Where sets lie among the rows: sums over sets, and numbers of sets given back to rows."""

    def __init__(self, offsets: Tensor, num_rows: int, set_size: int | None) -> None:
        self.num_sets, self.set_size = offsets.shape[0] - 1, set_size
        self.sizes = offsets.diff()
        if set_size is None:
            self.ids = set_ids(offsets, num_rows)
            blocks = (self.sizes + _ROWS_ADDED_IN_FLOAT32 - 1) // _ROWS_ADDED_IN_FLOAT32  # (N,) of each set
            within = torch.arange(num_rows) - offsets[:-1].index_select(0, self.ids)  # (T,)
            first = blocks.cumsum(0) - blocks
            self.block_of_row = first.index_select(0, self.ids) + within // _ROWS_ADDED_IN_FLOAT32
            self.set_of_block = torch.repeat_interleave(blocks)

    def count(self, width: int) -> Tensor:
        """(N,) numbers in each set, float64; 1 guards empty sets."""
        return (self.sizes * width).clamp(min=1).to(torch.float64)

    def add_up(self, rows: Tensor) -> Tensor:
        """The sums over each set: (T, ...) -> (N, ...) float64."""
        if self.set_size is not None:
            return rows.unflatten(0, (self.num_sets, self.set_size)).sum(1).to(torch.float64)
        if rows.ndim == 1:
            return sum_rows(rows.to(torch.float64), self.ids, self.num_sets)
        in_blocks = sum_rows(rows, self.block_of_row, self.set_of_block.shape[0])
        return sum_rows(in_blocks.to(torch.float64), self.set_of_block, self.num_sets)

    def view(self, rows: Tensor) -> Tensor:
        """Rows in the shape that `spread` fits: (N, set_size, D) or (T, D)."""
        return rows if self.set_size is None else rows.unflatten(0, (self.num_sets, self.set_size))

    def spread(self, per_set: Tensor, dtype: torch.dtype) -> Tensor:
        """Numbers of sets beside the rows of `view`: (N, k) -> (N, 1, k) or (T, k)."""
        return per_set.to(dtype)[:, None] if self.set_size is not None else per_set.to(dtype).index_select(0, self.ids)

    def factors(self, rows: Tensor, per_set: Tensor, per_feature: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors whose product is rows * per_set * per_feature, one of them small."""
        if self.set_size is None:
            return rows * per_feature, self.spread(per_set[:, None], rows.dtype)
        return self.view(rows), self.spread(per_set[:, None] * per_feature, rows.dtype)


class _ShortWayBack(torch.autograd.Function):
    """`_standardise`, whose gradient is written out. Autograd would take twice the passes and keep twice the numbers.

    The centred elements are an output, too, so that second derivatives find their way from them to x.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, scale: Tensor, shift: Tensor, sets: _Sets, eps: float) -> tuple[Tensor, Tensor]:
        centred = _centre(h, sets)
        sets.view(centred).sub_(_mean(centred, sets))
        squares = torch.linalg.vector_norm(centred, dim=1).square()  # (T,), without a tensor of squares
        rstd = _reciprocal_deviation(squares, sets, h.shape[1], eps)
        ctx.sets, ctx.eps, ctx.rstd = sets, eps, rstd
        ctx.save_for_backward(centred, scale, shift)
        ctx.set_materialize_grads(False)
        return torch.addcmul(shift, *sets.factors(centred, rstd, scale)).reshape(h.shape), centred

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dcentred: Tensor | None) -> tuple[Tensor | None, ...]:
        if dy is None:
            return dcentred, None, None, None, None
        centred, scale, shift = ctx.saved_tensors
        gradients = _gradients_for_more if torch.is_grad_enabled() else _gradients
        dx, dscale, dshift = gradients(ctx, dy, centred, scale, shift)
        return dx if dcentred is None else dx + dcentred, dscale, dshift, None, None


def _gradients(ctx: Any, dy: Tensor, centred: Tensor, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See the README: the mean gradient of a set, and what goes along with its standardised numbers, are taken away."""
    sets, rstd = ctx.sets, ctx.rstd
    count = sets.count(centred.shape[1])
    total = sets.add_up(dy)  # (N, D)
    spare = dy * centred  # fresh memory costs a CPU more than a pass: it is written to again
    along = sets.add_up(spare) * rstd[:, None]  # (N, D), of dy times the standardised numbers
    mean = (total * scale).sum(1) / count
    slope = (along * scale).sum(1) / count
    dx = torch.addcmul(
        sets.spread((-rstd * mean)[:, None], dy.dtype),
        sets.view(centred),
        sets.spread((-rstd.square() * slope)[:, None], dy.dtype),
        out=sets.view(spare),
    )
    dx.addcmul_(*sets.factors(dy, rstd, scale))
    return spare, along.sum(0).to(scale.dtype), total.sum(0).to(scale.dtype)


def _gradients_for_more(ctx: Any, dy: Tensor, centred: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
    """The same by autograd, which can go on from there."""
    y = _standardise(centred, scale, shift, ctx.sets, ctx.eps)
    return torch.autograd.grad(y, (centred, scale, shift), dy, create_graph=True)


def _standardise(h: Tensor, scale: Tensor, shift: Tensor, sets: _Sets, eps: float) -> Tensor:
    """Set norm of elements whose mean is near 0 already."""
    centred = _centre(h, sets)
    rstd = _reciprocal_deviation(centred.square().sum(1), sets, h.shape[1], eps)
    return torch.addcmul(shift, *sets.factors(centred, rstd, scale)).reshape(h.shape)


def _centre(h: Tensor, sets: _Sets) -> Tensor:
    return (sets.view(h) - _mean(h, sets)).reshape(h.shape)


def _mean(h: Tensor, sets: _Sets) -> Tensor:
    """The mean of each set, spread."""
    mean = sets.add_up(h.sum(1)) / sets.count(h.shape[1])
    return sets.spread(mean[:, None], h.dtype)


def _reciprocal_deviation(squares: Tensor, sets: _Sets, width: int, eps: float) -> Tensor:
    """(N,) float64, of the sum of squares of each centred row, (T,)."""
    return torch.rsqrt(sets.add_up(squares) / sets.count(width) + eps)


def _is_transformed() -> bool:
    """Whether a compiler, an exporter or `torch.func` looks on, which know plain operations best."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
