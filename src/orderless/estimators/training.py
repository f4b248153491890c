"""What the training loop is given: scaled sets that may draw their elements anew each epoch, and a judge that weighs sets.

Letters: N sets, T elements, D features, K targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orderless.estimators.covariates import SetsWithCovariates
from orderless.estimators.scaling import ElementScaler
from orderless.estimators.sets_input import PackedSets
from orderless.io.memory_sets import ChosenSets, Indices, Sets
from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.objectives import OBJECTIVES, MetricName, ObjectiveName
from orderless.tasks.transforms import AsStored

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class ScaledSets:
    """Sets as a network gets them, scaled as they are read. Speaks as the sets that it is made of."""

    def __init__(self, stored: Sets, scaler: ElementScaler) -> None:
        self._stored, self._scaler = stored, scaler
        self.sizes, self.element_shape, self.columns = stored.sizes, stored.element_shape, stored.columns

    def __len__(self) -> int:
        return len(self.sizes)

    def gather(self, indices: Indices) -> Array:
        """A copy of the elements of these sets, laid end to end."""
        return self._scaler.transform(self._stored.gather(indices))

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Array]:
        """The elements of one set in their order, `size` at a time."""
        return (self._scaler.transform(block) for block in self._stored.blocks(index, size))

    def take(self, index: int, rows: Indices) -> Array:
        """A copy of some elements of one set."""
        return self._scaler.transform(self._stored.take(index, rows))


def scaled(stored: Sets, scaler: ElementScaler) -> Sets:
    """Scaled sets: what is in memory is scaled once, what is on disk whenever it is read."""
    if isinstance(stored, ChosenSets) and isinstance(stored.whole, PackedSets):
        stored = PackedSets(stored.gather(np.arange(len(stored))), stored.sizes)
    if isinstance(stored, PackedSets):
        return PackedSets(scaler.transform(stored.x), stored.sizes)
    return ScaledSets(stored, scaler)


class DrawnSets:
    """Some of other sets, of which each gives at most `most` elements, drawn at random.

    What is drawn depends on seed, epoch and the set's number alone, so training that was interrupted sees the same again.

    Args:
        stored: All sets.
        numbers: Which of them.
        most: Elements of a set; None takes all.
        seed: Of what is drawn.
    """

    def __init__(self, stored: Sets, numbers: Numbers, most: int | None, seed: int) -> None:
        self._stored, self.numbers, self.most, self.seed = stored, numbers, most, seed
        self.epoch = 0
        whole = stored.sizes[numbers]
        self._drawn = np.zeros(len(numbers), bool) if most is None else whole > most
        self.sizes = whole if most is None else np.minimum(whole, most)
        self.element_shape: tuple[int, ...] = stored.element_shape
        self.columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def gather(self, indices: Indices) -> Array:
        """A copy of the elements of these sets, laid end to end."""
        chosen = np.asarray(indices, dtype=np.int64)
        if not self._drawn[chosen].any():
            return self._stored.gather(self.numbers[chosen])
        return np.concatenate([self._one(i) for i in chosen.tolist()])

    def blocks(self, index: int, size: int = 2**18) -> Iterator[Array]:
        """The elements of one set, `size` at a time."""
        elements = self._one(index)
        return (elements[start : start + size] for start in range(0, len(elements), size))

    def take(self, index: int, rows: Indices) -> Array:
        """A copy of some elements of one set."""
        return self._one(index)[np.asarray(rows)]

    def _one(self, index: int) -> Array:
        number = int(self.numbers[index])
        if not self._drawn[index]:
            return self._stored.gather([number])
        rng = np.random.default_rng([self.seed, self.epoch, number])
        size = int(self._stored.sizes[number])
        rows = rng.choice(size, size=cast("int", self.most), replace=False, shuffle=False)
        return self._stored.take(number, np.sort(rows))  # in order: a disk is read forwards


class TrainingSets(SetDataset):
    """Sets of an estimator for the training loop, with their covariates where there are some.

    Args:
        drawn: The sets.
        target: (N, K + 1) targets and, in the last column, weights.
        covariates: (N, ...) of the same sets, or None.
        anew: Draw other elements each epoch; validation keeps to those of the first.
    """

    def __init__(self, drawn: DrawnSets, target: Tensor, covariates: Tensor | None, *, anew: bool) -> None:
        super().__init__(cast("Any", drawn), target, AsStored())
        self._sets, self.covariates, self.anew = drawn, covariates, anew

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (self._sets, self.target, self.covariates, self.anew))

    def begin_epoch(self, epoch: int) -> None:
        """Other elements are drawn, where sets give only some of theirs."""
        if self.anew:
            self._sets.epoch = epoch

    def _gather(self, indices: Numbers) -> LabelledSets:
        sets, target = super()._gather(indices)
        if self.covariates is None:
            return LabelledSets(sets, target)
        beside = SetsWithCovariates(sets, self.covariates[torch.from_numpy(indices)])
        return LabelledSets(cast("SetBatch", beside), target)  # which travels as a SetBatch does


def _again(drawn: DrawnSets, target: Tensor, covariates: Tensor | None, anew: bool) -> TrainingSets:
    return TrainingSets(drawn, target, covariates, anew=anew)


class WeighingJudge:
    """The loss and the metrics of an objective, each set's multiplied by its weight: the last column of the target.

    Args:
        objective: `regression` with targets (N, K), or `classification` with targets (N, 1), numbers of classes.
    """

    def __init__(self, objective: ObjectiveName) -> None:
        self.objective = objective

    def loss(self, output: Tensor | SetBatch, target: Tensor) -> Tensor:
        """What is minimised."""
        return self.per_set(output, target)[OBJECTIVES[self.objective].metrics[0]].mean()

    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        """Every metric, (N,) each, times the weight."""
        known, weight = target[:, :-1], target[:, -1]
        if self.objective == "classification":
            known = known[:, 0].long()
        return {name: values * weight for name, values in OBJECTIVES[self.objective].per_set(output, known).items()}


def make_target(known: NDArray[np.float64], weight: NDArray[np.float64]) -> Tensor:
    """(N, K + 1) float32: targets (N, K), and weights with a mean of 1."""
    return torch.from_numpy(np.column_stack([known, weight / weight.mean()]).astype(np.float32))
