"""Normalisations of sets. All are permutation equivariant: SetBatch -> SetBatch.

| name       | statistics over                                   | in eval mode       |
|------------|---------------------------------------------------|--------------------|
| `layer`    | the features of one element                       | the same           |
| `set`      | all elements and features of one set              | the same           |
| `instance` | all elements of one set, feature by feature       | the same           |
| `feature`  | all elements of the batch, each weighing the same | running statistics |
| `batch`    | all sets of the batch, each weighing the same     | running statistics |

Letters: N sets, T elements in all sets, D features.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self, get_args

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from orderless import ops
from orderless.ops import statistics_dtype
from orderless.sets import SetBatch

NormName = Literal["none", "layer", "feature", "set", "batch", "instance"]


def build_norm(name: NormName, dim: int, *, eps: float = 1e-5) -> nn.Module:
    """The norm of that name for D = `dim` features."""
    if name == "none":
        return nn.Identity()
    if name not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(get_args(NormName))}; got {name!r}.")
    return NORMS[name](dim, eps=eps)


class _Norm(nn.Module):
    """A scale and a shift per feature, which every norm here has."""

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        if not eps >= 0:
            raise ValueError(f"eps must be 0 or more, got {eps!r}.")
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps:g}"

    def _check_width(self, batch: SetBatch) -> None:
        """Raises where shapes would silently be broadcast, or where whole numbers would cut fractions off."""
        if not batch.dtype.is_floating_point:
            raise TypeError(f"{type(self).__name__} takes floating-point numbers, got {batch.dtype}. Convert with `.float()`.")
        if batch.element_shape != (self.dim,):
            raise ValueError(
                f"{type(self).__name__}({self.dim}) takes elements of shape ({self.dim},), got {tuple(batch.element_shape)}."
            )


class SetNorm(_Norm):
    r"""Standardises each set by its own mean and variance, then scales and shifts each feature.

    $$\mathrm{SN}(x)_{nid} = \gamma_d\,(x_{nid} - \mu_n)/\sqrt{\sigma_n^2 + \epsilon} + \beta_d$$

    with $\mu_n, \sigma_n^2$ over all elements *and* features of set $n$.

    Args:
        dim: Number of features D.
        eps: Added to the variance, inside the square root. A set of equal numbers comes out as the bias.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Zhang, Tozzo, Higgins, Ranganath (2022), section "Set norm".
    """

    def forward(self, batch: SetBatch) -> SetBatch:
        self._check_width(batch)
        y = ops.set_norm(batch.x, batch.offsets, self.weight, self.bias, eps=self.eps, set_size=batch.set_size)
        return batch.with_x(y)


class LayerNorm(_Norm):
    r"""Standardises each element over its own features; elements that differ only in scale come out the same.

    $$\mathrm{LN}(x)_{id} = \gamma_d\,(x_{id} - \mu_i)/\sqrt{\sigma_i^2 + \epsilon} + \beta_d$$

    Args:
        dim: Number of features D.
        eps: Added to the variance, inside the square root.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Ba, Kiros, Hinton (2016); what it loses on sets: Zhang et al. (2022), section "Layer norm can hurt performance".
    """

    def forward(self, batch: SetBatch) -> SetBatch:
        self._check_width(batch)
        # torch's kernel keeps the mean in float32, too coarse at an offset of 1e4: it gets elements already centred, and since
        # the norm does not see what is subtracted, no gradient has to go through that
        h = batch.x.to(statistics_dtype(batch.dtype))
        h = h - h.mean(1, keepdim=True).detach()
        weight, bias = self.weight.to(h.dtype), self.bias.to(h.dtype)
        return batch.with_x(F.layer_norm(h, (self.dim,), weight, bias, self.eps).to(batch.dtype))


class InstanceNorm(_Norm):
    r"""Standardises each feature of each set over the set's elements.

    $$\mathrm{IN}(x)_{nid} = \gamma_d\,(x_{nid} - \mu_{nd})/\sqrt{\sigma_{nd}^2 + \epsilon} + \beta_d$$

    It removes every set's per-feature mean and variance, so a set of one element comes out as the bias.

    Args:
        dim: Number of features D.
        eps: Added to the variance, inside the square root.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Ulyanov, Vedaldi, Lempitsky (2016).
    """

    def forward(self, batch: SetBatch) -> SetBatch:
        self._check_width(batch)
        h = batch.x.to(statistics_dtype(batch.dtype))
        h = h - self._mean(h, batch).detach()  # the norm does not see what is subtracted: no gradient goes through it
        h = h - self._mean(h, batch)  # what rounding left of the mean
        var = self._mean(h.square(), batch)
        return batch.with_x((h * torch.rsqrt(var + self.eps) * self.weight + self.bias).to(batch.dtype))

    @staticmethod
    def _mean(h: Tensor, batch: SetBatch) -> Tensor:
        """(T, D) -> (T, D), every element gets its set's mean."""
        mean = ops.set_mean(h, batch.offsets, set_size=batch.set_size)
        return ops.broadcast_sets(mean, batch.offsets, h.shape[0], set_size=batch.set_size)


class _BatchStatisticsNorm(_Norm, ABC):
    """Shared by the norms that standardise over the batch in training and by running statistics in eval mode.

    A subclass says how much each element weighs. The variance is the total one, between sets as well as within them.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, dim: int, *, eps: float = 1e-5, momentum: float = 0.1, sync: bool = False) -> None:
        super().__init__(dim, eps=eps)
        if not isinstance(momentum, float | int) or not 0 <= momentum <= 1:  # None, torch's mean over all batches, is not built
            raise ValueError(f"momentum must be a number from 0 to 1, got {momentum!r}.")
        self.momentum, self.sync = momentum, sync
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64))

    def forward(self, batch: SetBatch) -> SetBatch:
        self._check_width(batch)
        h = batch.x.to(statistics_dtype(batch.dtype))
        if self.training:
            weights = self._element_weights(batch).to(h.dtype)[:, None]  # (T, 1)
            # long sums of numbers far from 0: a compiler may add them up one by one, which float32 has not the digits for
            widest = ops.widest_dtype(h.device)
            total = self._over_processes(weights.sum(dtype=widest).to(h.dtype))
            share = weights / total.where(total > 0, 1)  # (T, 1), adding up to 1; an empty batch has nothing to share
            # a number near the mean is taken off first, so that what follows keeps its digits at an offset of 1e4 and a spread
            # of 1e-2. The norm does not see which number it was: no gradient goes through it
            near = self._over_processes((share * h).detach().sum(0, dtype=widest).to(h.dtype))
            h = h - near
            rest = self._over_processes((share * h).sum(0))  # what rounding left of the mean
            # around `near` and not around the mean: both sums take one pass, and so do their gradients
            var = (self._over_processes((share * h.square()).sum(0)) - rest.square()).clamp(min=0)
            h = h - rest
            self._track((near + rest).detach(), var.detach(), self._over_processes(share.square().sum()), total)
        else:
            h, var = h - self.running_mean, self.running_var.to(h.dtype)
        y = h * torch.rsqrt(var + self.eps) * self.weight + self.bias
        return batch.with_x(y.to(batch.dtype))

    @abstractmethod
    def _element_weights(self, batch: SetBatch) -> Tensor:
        """(T,) how much each element counts, up to a common factor."""

    def _over_processes(self, value: Tensor) -> Tensor:
        """Sums over the processes of a distributed run where `sync` asks for it, and passes gradients back to all."""
        if not (self.sync and dist.is_available() and dist.is_initialized()):
            return value
        from torch.distributed.nn.functional import all_reduce

        summed: Tensor = all_reduce(value)
        return summed

    def _track(self, mean: Tensor, var: Tensor, concentration: Tensor, total: Tensor) -> None:
        """Updates the running statistics. 1 - sum of squared shares is T / (T - 1)'s inverse: the unbiased variance."""
        seen = (total > 0) & (concentration < 1)  # a batch of empty sets tells nothing, and one element nothing of the spread
        unbiased = var / (1 - concentration).clamp(min=torch.finfo(var.dtype).tiny).where(concentration < 1, 1)
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.copy_(torch.where(seen, torch.lerp(running.to(value.dtype), value, self.momentum), running))
        self.num_batches_tracked += seen

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Called by `to`, `half` and the like: running statistics keep their digits, and numbers beyond the range of float16."""
        before = self.running_mean, self.running_var
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.running_mean.dtype in (torch.float16, torch.bfloat16):
            self.running_mean, self.running_var = (numbers.to(self.running_mean.device) for numbers in before)
        return self

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum:g}" + (", sync=True" if self.sync else "")


class FeatureNorm(_BatchStatisticsNorm):
    r"""Standardises each feature over all elements of the batch, every element weighing the same.

    $$\mathrm{FN}(x)_{nid} = \gamma_d\,(x_{nid} - \mu_d)/\sqrt{\sigma_d^2 + \epsilon} + \beta_d$$

    In training a set's output depends on its batch mates; in eval mode running statistics take their place.

    Args:
        dim: Number of features D.
        eps: Added to the variance, inside the square root.
        momentum: Weight of the newest batch in the running statistics.
        sync: Take the statistics over all processes of a distributed run. It may be set later: `layer.sync = True`.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: batch norm as PointNet (Qi et al. 2017) applies it; Zhang et al. (2022), section "Results".
    """

    def _element_weights(self, batch: SetBatch) -> Tensor:
        return batch.x.new_ones(batch.num_elements)


class BatchNorm(_BatchStatisticsNorm):
    r"""Standardises each feature over all sets of the batch, every set weighing the same whatever its size.

    An element of a set with $m_n$ elements weighs $1/m_n$; empty sets do not count. With equal sizes it is `FeatureNorm`.

    Args:
        dim: Number of features D.
        eps: Added to the variance, inside the square root.
        momentum: Weight of the newest batch in the running statistics.
        sync: Take the statistics over all processes of a distributed run. It may be set later: `layer.sync = True`.

    Shapes: SetBatch with x (T, D) -> SetBatch with x (T, D). Permutation equivariant.

    Reference: Ioffe, Szegedy (2015), with sets as the samples.
    """

    def _element_weights(self, batch: SetBatch) -> Tensor:
        weight = 1 / batch.sizes.clamp(min=1).to(statistics_dtype(batch.dtype))
        return ops.broadcast_sets(weight, batch.offsets, batch.num_elements, set_size=batch.set_size)


NORMS: dict[str, type[_Norm]] = {
    "layer": LayerNorm,
    "feature": FeatureNorm,
    "set": SetNorm,
    "batch": BatchNorm,
    "instance": InstanceNorm,
}
