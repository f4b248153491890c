"""A stack of clean residual blocks with set norms, the encoder of Deep Sets++, and what pools its result."""

from torch import Tensor

from orderless.ops import backend
from orderless.ops._launch import memory_obstacle
from orderless.ops._shapes import Float, Int
from orderless.ops._tiles import SetStatistics
from orderless.ops.clean_blocks.reference import clean_blocks_reference

__all__ = ["clean_blocks", "clean_blocks_obstacle"]


def clean_blocks(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    scale: Float[Tensor, "L 2 D"],
    shift: Float[Tensor, "L 2 D"],
    weight: Float[Tensor, "L 2 D D"],
    *,
    eps: float = 1e-5,
) -> tuple[Float[Tensor, "T D"], SetStatistics | None]:
    r"""Blocks $x + \mathrm{relu}(\mathrm{SN}(\mathrm{relu}(\mathrm{SN}(x))W_1))W_2$, one after another.

    Args:
        x: Elements of all sets, one after another.
        offsets: Set `n` is `x[offsets[n]:offsets[n + 1]]`.
        scale: Of the two norms of each block.
        shift: Of the two norms of each block.
        weight: Of the two products of each block, (out, in).
        eps: Of the norms.

    Returns:
        The elements, and the statistics of the sets where kernels have left them, for `norm_relu_pool`.
    """
    if clean_blocks_obstacle(x) is None:
        from orderless.ops.clean_blocks.triton import clean_blocks_triton

        backend.note("clean_blocks", "triton")
        return clean_blocks_triton(x, offsets, scale, shift, weight, eps=eps)
    backend.note("clean_blocks", "reference")
    return clean_blocks_reference(x, offsets, scale, shift, weight, eps=eps), None


def clean_blocks_obstacle(x: Tensor) -> str | None:
    """What keeps kernels from elements like `x`, or None where they run."""
    choice = backend.choose(x)
    if choice.name != "triton":
        return choice.reason
    from orderless.ops.clean_blocks.triton import WIDEST

    if x.shape[1] > WIDEST:
        return f"{x.shape[1]} features are more than {WIDEST}"
    return memory_obstacle("clean_blocks", x)
