"""Testing: the right way, and the way of the authors' released code for comparison.

`whole` is the right way: eval mode, no gradients, every test set once. `released` differs in ways that may have shaped the
published tables: the network stays in training mode, so that norms over the batch use the statistics of the *test* batch; sets
come in random batches, and a last one that is not full is left out; and the figure is that of the last step divisible by 20, not
of the last step. In training, too, it leaves out the last batch of an epoch, and seeds change only the weights, not the order.

Letters: N test sets.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from orderless.io.extras import require
from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.objectives import MetricName
from orderless.tasks.order import BatchOrder, BySets, Share

_RELEASED_EVERY = 20  # steps between two tests of the released code
_RELEASED_ORDER_SEED = 0

Answer = Tensor | SetBatch  # a row per set, or a row per element


class Judge(Protocol):
    """What training asks of a task."""

    def loss(self, output: Answer, target: Tensor) -> Tensor:
        """The mean over sets of what is minimised."""

    def per_set(self, output: Answer, target: Tensor) -> dict[MetricName, Tensor]:
        """Every metric, (N,) each."""


Scores = dict[MetricName, Tensor]


@dataclass(frozen=True)
class Place:
    """Where a network computes, and with how many processes it shares the work.

    Attributes:
        device: Of the network.
        autocast: The precision in which it computes, as a context to call it in.
        rank: Number of this process.
        world_size: Processes that test together.
    """

    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    rank: int = 0
    world_size: int = 1

    def ask(self, model: Callable[[SetBatch], Answer], sets: SetBatch) -> Answer:
        """The network's answer, in float32 at least: losses and metrics of low precision would be wrong in the third digit."""
        with self.autocast():
            return in_full(model(sets))

    def bring(self, batch: LabelledSets) -> LabelledSets:
        """The batch on this device; from page-locked memory the copy does not wait."""
        return LabelledSets(batch.sets.to(self.device, non_blocking=True), batch.target.to(self.device, non_blocking=True))


def evaluate_whole(
    model: nn.Module,
    judge: Judge,
    dataset: SetDataset,
    order: BatchOrder,
    place: Place,
    *,
    asked: Callable[[SetBatch], Answer] | None = None,
) -> Scores:
    """(N,) float64 of every metric, set by set in the dataset's order: eval mode, no gradients, every set once.

    `asked` is the network in another form that gives the same answers, such as recordings of it.
    """
    with _mode(model, training=False):
        return _scores(model if asked is None else asked, judge, dataset, order, place)


def evaluate_released(model: nn.Module, judge: Judge, dataset: SetDataset, batch_size: int, place: Place) -> Scores:
    """Every metric of the sets that the released code would have looked at. Leaves no trace in the network."""
    check_released(dataset, batch_size)
    order = BySets(len(dataset), batch_size, shuffle=True, seed=_RELEASED_ORDER_SEED, drop_last=True)
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with _mode(model, training=True), torch.random.fork_rng([place.device] if place.device.type == "cuda" else []):
        scores = _scores(model, judge, dataset, order, place)
    for name, buffer in model.named_buffers():  # running statistics must not learn from test sets
        buffer.copy_(kept[name])
    return scores


def check_released(dataset: SetDataset, batch_size: int) -> None:
    """That the released protocol has something to test on."""
    if len(dataset) < batch_size:
        raise ValueError(
            f"the released protocol leaves out a batch that is not full, so it needs {batch_size} test sets or more; "
            f"there are {len(dataset)}."
        )


def last_released_step(num_steps: int) -> int:
    """The last step at which the released code would have tested; the last of all in a run shorter than that."""
    return num_steps // _RELEASED_EVERY * _RELEASED_EVERY or num_steps


def means(scores: Mapping[MetricName, Tensor]) -> dict[str, float]:
    """The figures that are reported: means over test sets."""
    return {name: values.mean().item() for name, values in scores.items()}


@torch.no_grad()
def _scores(model: Callable[[SetBatch], Answer], judge: Judge, dataset: SetDataset, order: BatchOrder, place: Place) -> Scores:
    share = Share(order, place.rank, place.world_size)
    numbers, found = list[Tensor](), defaultdict[MetricName, list[Tensor]](list)
    mine = [share.of(batch) for batch in order.plan(order.epoch)]
    for chosen, batch in zip(mine, dataset.loader(order=share, pin_memory=place.device.type == "cuda"), strict=True):
        sets, target = place.bring(batch)
        numbers.append(torch.from_numpy(chosen))
        answer = place.ask(model, sets)
        _warn_of_broadcasting(answer, target)
        for name, values in judge.per_set(answer, target).items():
            if values.shape != (len(chosen),):
                raise ValueError(
                    f"per_set must give one number for each set: expected {name!r} of {len(chosen)} sets to have shape "
                    f"{(len(chosen),)}, got {tuple(values.shape)}. For an answer per element, take the mean over each set."
                )
            found[name].append(values)
    # in order; a small batch went to every process
    _, first = np.unique(_joined(numbers, place).numpy(), return_index=True)
    return {name: _joined(values, place)[torch.from_numpy(first)] for name, values in found.items()}


def _warn_of_broadcasting(answer: Answer, target: Tensor) -> None:
    """A loss may well reshape one of them; one that subtracts them would compare every set with every other."""
    if not isinstance(answer, Tensor) or not target.is_floating_point() or target.ndim == answer.ndim:
        return
    if target.numel() == answer.numel() > 1:
        warnings.warn(
            f"the network answers {_of_n_sets(answer)} and targets are {_of_n_sets(target)}: a loss that subtracts them "
            "compares every set with every other. Give both the same shape.",
            stacklevel=2,
        )


def _of_n_sets(tensor: Tensor) -> str:
    return f"({', '.join(['N', *map(str, tensor.shape[1:])])}{',' * (tensor.ndim == 1)})"


def _joined(values: list[Tensor], place: Place) -> Tensor:
    """What all processes found, however many sets each had: float64 on the CPU."""
    if place.world_size == 1:
        return torch.cat(values).double().cpu()
    collector = require("torchmetrics", "train").CatMetric(nan_strategy="disable").to(place.device).set_dtype(torch.float64)
    for some in values:
        collector.update(some)
    joined: Tensor = collector.compute().cpu()
    return joined


@contextmanager
def _mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """The network in training or eval mode, and every part of it as it was afterwards."""
    before = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


def in_full(output: Answer) -> Answer:
    """A network's answer in float32 at least."""
    return over_rows(output, _in_full)


def over_rows(output: Answer, function: Callable[[Tensor], Tensor]) -> Answer:
    """The function of an answer's rows, which are those of sets or those of elements."""
    return output.with_x(function(output.x)) if isinstance(output, SetBatch) else function(output)


def _in_full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32)) if x.is_floating_point() else x
