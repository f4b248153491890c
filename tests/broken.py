"""Modules that break a symmetry in the ways that are seen in the wild, and right ones beside them. They take (x, mask)."""

import torch
from torch import nn


class MaskedMean(nn.Module):
    """Right: the mean of the real elements."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x, mask):
        h = torch.where(mask[..., None], self.fc(x), 0)
        return h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class MeanCountsPadding(MaskedMean):
    """Wrong: divides by the padded size."""

    def forward(self, x, mask):
        return torch.where(mask[..., None], self.fc(x), 0).mean(1)


class MultipliesByMask(MaskedMean):
    """Wrong: NaN x 0 is NaN."""

    def forward(self, x, mask):
        return (self.fc(x) * mask[..., None]).sum(1)


class ZeroesKeys(nn.Module):
    """Wrong: padded keys are zeroed, so they keep a weight of exp(0) in the softmax."""

    def __init__(self):
        super().__init__()
        self.fc, self.query = nn.Linear(3, 4), nn.Parameter(torch.randn(4))

    def forward(self, x, mask):
        k = torch.where(mask[..., None], self.fc(x), 0)
        return ((k @ self.query).softmax(1)[..., None] * k).sum(1)


class BatchNormNet(MaskedMean):
    """Right in eval mode only: batch statistics tie the sets of a batch together."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, mask):
        h = torch.zeros(*mask.shape, 4, dtype=x.dtype).index_put((mask,), self.norm(self.fc(x[mask])))
        return h.sum(1)


class FirstElement(MaskedMean):
    """Wrong: depends on the order."""

    def forward(self, x, mask):
        return self.fc(x[:, 0])


class PerElement(MaskedMean):
    """Right: one answer per element, with the padding still in it."""

    def forward(self, x, mask):
        return self.fc(x)


class LogitPerElement(MaskedMean):
    """Right: one number per element, (N, M), which could be taken for M numbers per set."""

    def forward(self, x, mask):
        return self.fc(x)[..., 0]


class ManyNumbers(nn.Module):
    """Right: 17 numbers per set, as many as the largest set of the check has elements."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 17)

    def forward(self, x, mask):
        return torch.where(mask[..., None], self.fc(x), 0).sum(1)


class NoEmptySets(MaskedMean):
    """Wrong at empty sets alone: 0 / 0."""

    def forward(self, x, mask):
        return torch.where(mask[..., None], self.fc(x), 0).sum(1) / mask.sum(1, keepdim=True)


class EmptyGradient(MaskedMean):
    """Finite at empty sets, but the gradient is not: the root has an infinite slope at 0."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x, mask):
        return (torch.where(mask[..., None], self.fc(x).square(), 0).sum(1) * self.gain).sqrt()


class PaddingGradient(MaskedMean):
    """Padding of zeros is kept out of the answer, but not out of the gradient: the root has an infinite slope at 0."""

    def forward(self, x, mask):
        length = x.square().sum(2, keepdim=True).sqrt()
        return self.fc(torch.where(mask[..., None], x * length, 0).sum(1))


class DenseSum(MaskedMean):
    """Right, and takes x alone."""

    def forward(self, x):
        return self.fc(x).sum(1)


class Raises(MaskedMean):
    """Cannot be called at all."""

    def forward(self, x, mask):
        raise RuntimeError("out of cheese")


def batch_norm_in_eval_mode():
    return BatchNormNet().eval()


instance = MaskedMean()
not_callable = 3


def needs_arguments(width):
    return nn.Linear(3, width)


def returns_a_number():
    return 3
