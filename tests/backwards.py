"""Modules whose answers are right and whose gradients are not, as of a custom backward pass or a kernel. They take (x, mask)."""

import torch
from torch import nn


class _Identity(torch.autograd.Function):
    """Gives what it gets, and a gradient that `change` makes of the right one and the mask."""

    @staticmethod
    def forward(ctx, x, mask, change):
        ctx.mask, ctx.change = mask, change
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.change(gradient, ctx.mask), None, None


def masked(x, mask):
    return x.where(mask[..., None], 0)


class _Wrong(nn.Module):
    """Sums a layer over the elements: the answer is right."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x, mask):
        h = _Identity.apply(masked(x, mask), mask, self.change)
        return masked(self.fc(h).tanh(), mask).sum(1)


class LessForLaterElements(_Wrong):
    """Wrong: the gradient depends on the order."""

    @staticmethod
    def change(gradient, mask):
        return gradient / (1 + mask.cumsum(1)[..., None])


class DropsTheLastElement(_Wrong):
    """Wrong: the last element of a set gets no gradient, as where a loop ends too early."""

    @staticmethod
    def change(gradient, mask):
        return gradient.where(mask.flip(1).cumsum(1).flip(1)[..., None] > 1, 0)


class LeaksIntoTheNextSet(_Wrong):
    """Wrong: a set gets some of the gradient of the one before it."""

    @staticmethod
    def change(gradient, mask):
        return gradient + 0.1 * gradient.sum(1, keepdim=True).roll(1, 0)


class PerElementLess(LessForLaterElements):
    """Wrong: as `LessForLaterElements`, with one answer per element."""

    def forward(self, x, mask):
        return self.fc(_Identity.apply(masked(x, mask), mask, self.change)).tanh()


class StraightThroughTheBatch(_Wrong):
    """Wrong: a straight-through estimator whose stand-in subtracts the mean of the batch."""

    def forward(self, x, mask):
        h = masked(self.fc(x), mask)
        soft = (h - h.sum((0, 1)) / mask.sum()).tanh()
        return masked(soft + (h.sign() - soft).detach(), mask).sum(1)


class GivesToPadding(_Wrong):
    """Wrong: padding gets a gradient."""

    def forward(self, x, mask):
        stray = (x.nan_to_num(0, 0, 0) / 100).tanh().sum(1)
        return masked(self.fc(x), mask).sum(1) + (stray - stray.detach()).sum(1, keepdim=True)


class TakesFromPadding(_Wrong):
    """Wrong: divides the gradient by the padded size."""

    @staticmethod
    def change(gradient, mask):
        return gradient * (mask.sum(1) / mask.shape[1])[:, None, None]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.T, x[:1].flatten(0, 1).T @ gradient[:1].flatten(0, 1)


class WeightsOfTheFirstSet(_Wrong):
    """Wrong: the first set alone gives the weights a gradient."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x, mask):
        return masked(_Linear.apply(masked(x, mask), self.weight).tanh(), mask).sum(1)


class MaxToTheFirst(nn.Module):
    """The largest of each feature, whose gradient goes to the first of those that tie."""

    def forward(self, x, mask):
        largest = x.masked_fill(~mask[..., None], -torch.inf).max(1).values
        return largest.where(mask.any(1, keepdim=True), 0)
