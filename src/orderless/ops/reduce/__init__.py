"""Sum, mean and maximum of each set. An empty set gives zeros."""

import math

import torch
from torch import Tensor

from orderless.ops._segments import statistics_dtype
from orderless.ops._shapes import Float, Int
from orderless.ops._tracing import is_transformed
from orderless.ops.reduce.reference import set_max_reference, set_mean_reference, set_sum_reference
from orderless.ops.reduce.traced import set_max_traced

__all__ = ["set_max", "set_mean", "set_sum"]


def set_sum(
    x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"], *, set_size: int | None = None
) -> Float[Tensor, "N *element"]:
    """Sum of the elements of each set.

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`.
        set_size: The caller's word that every set has this many elements, which allows a dense view.
    """
    _check_floating(x)
    if set_size is None:
        return set_sum_reference(x, offsets)
    return _by_set(x, offsets, set_size).sum(1, dtype=statistics_dtype(x.dtype)).to(x.dtype)


def set_mean(
    x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"], *, set_size: int | None = None
) -> Float[Tensor, "N *element"]:
    """Mean of the elements of each set. Arguments as in `set_sum`."""
    _check_floating(x)
    if set_size is None or set_size == 0:
        return set_mean_reference(x, offsets)
    if torch.compiler.is_exporting():  # the program may get sets of no element, of which torch's own mean is 0 / 0
        total = _by_set(x, offsets, set_size).sum(1, dtype=statistics_dtype(x.dtype))
        return (total / offsets.diff().clamp(min=1).view(-1, *[1] * (x.ndim - 1))).to(x.dtype)
    return _by_set(x, offsets, set_size).mean(1, dtype=statistics_dtype(x.dtype)).to(x.dtype)


def set_max(
    x: Float[Tensor, "T *element"], offsets: Int[Tensor, "N_plus_1"], *, set_size: int | None = None
) -> Float[Tensor, "N *element"]:
    """Largest value of each set, feature by feature; ties share the gradient. Arguments as in `set_sum`."""
    _check_floating(x)
    compiled_with_backward = torch.compiler.is_compiling() and not torch.compiler.is_exporting() and torch.is_grad_enabled()
    if compiled_with_backward and not is_transformed():
        return set_max_traced(x, offsets, set_size)
    if set_size is None or set_size == 0:
        return set_max_reference(x, offsets)
    by_set = _by_set(x, offsets, set_size)
    if torch.compiler.is_exporting():  # the program may get sets of no element, of which torch has no maximum
        lowest = by_set.new_full((by_set.shape[0], 1, *by_set.shape[2:]), -math.inf)
        largest = torch.cat([by_set, lowest], dim=1).amax(1)
        return largest.masked_fill((offsets.diff() == 0).view(-1, *[1] * (x.ndim - 1)), 0)
    return by_set.amax(1)


def _check_floating(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(f"sums, means and maxima need floating-point numbers, got {x.dtype}. Convert with `.float()`.")


def _by_set(x: Tensor, offsets: Tensor, set_size: int) -> Tensor:
    return x.reshape(offsets.shape[0] - 1, set_size, *x.shape[1:])
