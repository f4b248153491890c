"""Set norm: each set standardised by its own mean and variance, then scaled and shifted per feature."""

import torch
from torch import Tensor

from orderless.ops import backend
from orderless.ops._shapes import Float, Int
from orderless.ops.set_norm.cpu import set_norm_cpu
from orderless.ops.set_norm.reference import set_norm_dense, set_norm_reference

__all__ = ["set_norm"]


def set_norm(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    weight: Float[Tensor, "D"],
    bias: Float[Tensor, "D"],
    *,
    eps: float = 1e-5,
    set_size: int | None = None,
) -> Float[Tensor, "T D"]:
    r"""Standardises each set over all its elements and features, then applies `weight` and `bias` per feature.

    $$\mathrm{SN}(x)_{nid} = \gamma_d\,(x_{nid} - \mu_n)/\sqrt{\sigma_n^2 + \epsilon} + \beta_d$$

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`. Empty sets are passed over.
        weight: Scale of each feature.
        bias: Shift of each feature.
        eps: Added to the variance, inside the square root.
        set_size: The caller's word that every set has this many elements, which allows a dense view.
    """
    if set_size and torch.compiler.is_compiling() and not backend.is_forced():
        # what stands around it becomes part of its passes
        return set_norm_dense(x, offsets, weight, bias, set_size=set_size, eps=eps)
    if set_norm_obstacle(x) is None:
        from orderless.ops.set_norm.triton import set_norm_triton

        backend.note("set_norm", "triton")
        return set_norm_triton(x, offsets, weight, bias, eps=eps)
    backend.note("set_norm", "reference")
    if x.device.type == "cpu":
        return set_norm_cpu(x, offsets, weight, bias, eps=eps, set_size=set_size or None)
    if set_size is None or set_size == 0:
        return set_norm_reference(x, offsets, weight, bias, eps=eps)
    return set_norm_dense(x, offsets, weight, bias, set_size=set_size, eps=eps)


def set_norm_obstacle(x: Tensor) -> str | None:
    """What keeps kernels from elements like `x`, or None where they run."""
    choice = backend.choose(x)
    if choice.name != "triton":
        return choice.reason
    from orderless.ops.set_norm.triton import WIDEST

    return None if x.shape[1] <= WIDEST else f"{x.shape[1]} features are more than {WIDEST}"
