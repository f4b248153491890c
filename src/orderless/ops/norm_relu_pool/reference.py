"""Set norm, ReLU and a pooling in one: the definition.

Letters: N sets, T elements in all sets, D features.
"""

from torch import Tensor

from orderless.ops._shapes import Float, Int
from orderless.ops.reduce.reference import set_mean_reference, set_sum_reference
from orderless.ops.set_norm.reference import set_norm_reference


def norm_relu_pool_reference(
    x: Float[Tensor, "T D"],
    offsets: Int[Tensor, "N_plus_1"],
    scale: Float[Tensor, "D"],
    shift: Float[Tensor, "D"],
    *,
    mean: bool,
    eps: float = 1e-5,
) -> Float[Tensor, "N D"]:
    """The sum or the mean over each set of relu(norm(x))."""
    pool = set_mean_reference if mean else set_sum_reference
    return pool(set_norm_reference(x, offsets, scale, shift, eps=eps).relu(), offsets)
