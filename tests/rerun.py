"""A recorder that needs no GPU: a replay does everything again, on the same tensors and with the results in the same places."""

from contextlib import nullcontext

import torch
from torch.utils import _pytree as pytree

from orderless.train.graphs import Recorder


class Rerun:
    """Stands for a CUDA graph."""

    def __init__(self, function, found):
        self.function, self.found, self.replays = function, found, 0

    def replay(self):
        self.replays += 1
        for place, value in zip(pytree.tree_leaves(self.found), pytree.tree_leaves(self.function()), strict=True):
            if isinstance(place, torch.Tensor):
                place.data.copy_(value.data)


class RerunRecorder(Recorder):
    """Records on the CPU; `refuse` is what a recording fails with."""

    def __init__(self, device=None, *, refuse=None):
        self.device, self.refuse, self.tapes = device or torch.device("cpu"), refuse, []

    def _capture(self, function):
        found = function()
        if self.refuse is not None:
            raise self.refuse
        self.tapes.append(Rerun(function, found))
        return self.tapes[-1], found

    def _aside(self):
        return nullcontext()

    def _without_waiting(self):
        return nullcontext()
