"""The maximum of each set inside a compiled program that has a backward pass.

A compiler may recompute the elements in the backward pass, with more digits than those that the maximum was taken of. Then no
element equals the maximum, and nothing gets its gradient. The inputs of an op of its own are in memory, rounded, and used as they
are.

Letters: N sets, T elements in all sets, M elements of each set where all have as many.
"""

from typing import Any

import torch
from torch import Tensor

from orderless.ops._segments import set_ids
from orderless.ops.reduce.reference import set_max_reference


@torch.library.custom_op("orderless::set_max", mutates_args=())
def set_max_traced(x: Tensor, offsets: Tensor, set_size: int | None) -> Tensor:
    """(T, *element) -> (N, *element), as `set_max_reference`, or by a dense view where there is a `set_size`."""
    if set_size:
        return x.reshape(-1, set_size, *x.shape[1:]).amax(1)
    return set_max_reference(x, offsets)


@torch.library.custom_op("orderless::set_max_backward", mutates_args=())
def _set_max_backward(gradient: Tensor, x: Tensor, largest: Tensor, offsets: Tensor, set_size: int | None) -> Tensor:
    """(T, *element): elements that equal the maximum share its gradient evenly."""
    if set_size:
        equal = x.reshape(-1, set_size, *x.shape[1:]) == largest[:, None]  # (N, M, *element)
        return (equal * (gradient / equal.sum(1))[:, None]).reshape(x.shape).to(x.dtype)
    ids = set_ids(offsets, x.shape[0])
    equal = x == largest[ids]
    count = torch.zeros_like(largest, dtype=torch.float32).index_add_(0, ids, equal.float())
    return (equal * (gradient / count.clamp(min=1))[ids]).to(x.dtype)


@set_max_traced.register_fake
def _(x: Tensor, offsets: Tensor, set_size: int | None) -> Tensor:
    return x.new_empty(offsets.shape[0] - 1, *x.shape[1:])


@_set_max_backward.register_fake
def _(gradient: Tensor, x: Tensor, largest: Tensor, offsets: Tensor, set_size: int | None) -> Tensor:
    return x.new_empty(x.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, int | None], output: Tensor) -> None:
    x, offsets, ctx.set_size = inputs
    ctx.save_for_backward(x, output, offsets)


def _back(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    return _set_max_backward(gradient, *ctx.saved_tensors, ctx.set_size), None, None


set_max_traced.register_autograd(_back, setup_context=_keep)
