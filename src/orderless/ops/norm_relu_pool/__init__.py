"""Set norm, ReLU and a sum or mean over each set in one: nothing of the size of the sets is written."""

from torch import Tensor

from orderless.ops import backend
from orderless.ops._shapes import Float, Int
from orderless.ops._tiles import SetStatistics
from orderless.ops.norm_relu_pool.reference import norm_relu_pool_reference

__all__ = ["norm_relu_pool"]


def norm_relu_pool(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    scale: Float[Tensor, "D"],
    shift: Float[Tensor, "D"],
    *,
    mean: bool,
    eps: float = 1e-5,
    statistics: SetStatistics | None = None,
) -> Float[Tensor, "N D"]:
    r"""The sum, or the mean, over the elements of each set of $\mathrm{relu}(\mathrm{SN}(x))$. An empty set gives zeros.

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`.
        scale: Of the norm.
        shift: Of the norm.
        mean: Whether to divide by the number of elements.
        eps: Of the norm.
        statistics: Of the sets, where `clean_blocks` has left them; with them kernels run.
    """
    if statistics is None:
        backend.note("norm_relu_pool", "reference")
        return norm_relu_pool_reference(x, offsets, scale, shift, mean=mean, eps=eps)
    from orderless.ops.norm_relu_pool.triton import norm_relu_pool_triton

    backend.note("norm_relu_pool", "triton")
    return norm_relu_pool_triton(x, offsets, scale, shift, statistics, mean=mean, eps=eps)
