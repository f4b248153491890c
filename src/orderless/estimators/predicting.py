"""What fitted networks answer: all elements of every set, in batches by elements, huge sets in chunks.

Letters: N sets.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orderless.estimators import defaults
from orderless.estimators.covariates import CovariateModel, SetsWithCovariates, width_of
from orderless.estimators.scaling import ElementScaler
from orderless.estimators.sets_input import GivenSets
from orderless.estimators.threads import one_thread
from orderless.models import chunked
from orderless.models.registry import MODELS
from orderless.sets import SetBatch

Numbers = NDArray[np.int64]


def answers(
    models: Sequence[nn.Module],
    sets: GivenSets,
    scaler: ElementScaler,
    covariates: NDArray[np.float32] | None,
    device: torch.device,
) -> NDArray[np.float64]:
    """(members, N, out) what each network answers for each set.

    A set's answer does not depend on the others, whatever batch it is in. Elements are read once for all networks, but for sets
    of more than `LARGE_SET`, which go through each network in passes.

    Raises:
        ValueError: If an element is NaN, infinite or beyond float32.
    """
    numbers = int(sets.sizes.sum()) * sum(width_of(model) for model in models)
    with torch.no_grad(), one_thread(when=numbers <= defaults.SMALL_PREDICTION):
        return _answers(models, sets, scaler, covariates, device)


def _answers(
    models: Sequence[nn.Module],
    sets: GivenSets,
    scaler: ElementScaler,
    covariates: NDArray[np.float32] | None,
    device: torch.device,
) -> NDArray[np.float64]:
    # networks stay where they are: an estimator that predicts on a GPU can be pickled for a machine without one
    on_device = [model if device.type == "cpu" else copy.deepcopy(model).to(device) for model in models]
    largest = np.inf if any(map(_takes_whole_sets, models)) else defaults.LARGE_SET  # that comes in one piece
    large = np.flatnonzero(sets.sizes > largest)
    found: list[list[Tensor]] = [[] for _ in models]
    order: list[Numbers] = []
    for numbers in _batches(sets.sizes, largest):
        x = sets.stored.gather(numbers)
        sets.check_finite(x, numbers)
        offsets = np.concatenate([[0], np.cumsum(sets.sizes[numbers])])
        batch = SetBatch(torch.from_numpy(scaler.transform(x)), offsets).to(device)
        for model, its in zip(on_device, found, strict=True):
            its.append(_ask(model, batch, _rows(covariates, numbers, device)).cpu())
        order.append(numbers)
    for number in large:
        for model, its in zip(on_device, found, strict=True):
            its.append(_ask_in_chunks(model, sets, int(number), scaler, _rows(covariates, large[large == number], device)).cpu())
        order.append(np.array([number]))
    back = np.argsort(np.concatenate(order), kind="stable")
    return np.stack([torch.cat(its).double().numpy()[back] for its in found])


def _takes_whole_sets(model: Any) -> bool:
    trunk = model.trunk if isinstance(model, CovariateModel) else model
    return MODELS[trunk.config.name].measures_distances


def _batches(sizes: Numbers, largest: float) -> Iterator[Numbers]:
    """Sets that are not large, in their order: as many as have `PREDICT_ELEMENTS` elements, or one that has more."""
    together: list[int] = []
    count = 0
    for number in np.flatnonzero(sizes <= largest).tolist():
        if together and count + sizes[number] > defaults.PREDICT_ELEMENTS:
            yield np.array(together)
            together, count = [], 0
        together.append(number)
        count += int(sizes[number])
    if together:
        yield np.array(together)


def _rows(covariates: NDArray[np.float32] | None, numbers: Numbers, device: torch.device) -> Tensor | None:
    return None if covariates is None else torch.from_numpy(covariates[numbers]).to(device)


def _ask(model: nn.Module, batch: SetBatch, covariates: Tensor | None) -> Tensor:
    return model(batch if covariates is None else SetsWithCovariates(batch, covariates))


def _ask_in_chunks(model: Any, sets: GivenSets, number: int, scaler: ElementScaler, covariates: Tensor | None) -> Tensor:
    """One set that is too large for a batch: exact, with memory that does not grow with it."""

    def read() -> Iterator[NDArray[np.float32]]:
        start = 0
        for block in sets.stored.blocks(number, defaults.LARGE_SET):
            sets.check_finite(block, [number], start)
            start += len(block)
            yield scaler.transform(block)

    blocks = chunked.Blocks(read, int(sets.sizes[number]))
    if isinstance(model, CovariateModel):
        assert covariates is not None
        pooled = chunked.predict(model.trunk, blocks)
        assert isinstance(pooled, Tensor)
        return model.answer(pooled, covariates)
    answer = chunked.predict(model, blocks)
    assert isinstance(answer, Tensor)
    return answer
