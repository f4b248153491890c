"""What makes two runs the same: a run goes on with the settings, sets, question and network that it began with, or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from orderless.tasks.dataset import SetDataset
from orderless.train.config import TrainConfig


def check_same_config(before: TrainConfig, now: TrainConfig) -> None:
    """That what the result depends on is as it was."""
    differ = [
        f"{f.name} was {getattr(before, f.name)!r} and is {getattr(now, f.name)!r}"
        for f in dataclasses.fields(TrainConfig)
        if getattr(before, f.name) != getattr(now, f.name)
    ]
    if differ:
        raise ValueError(f"a run goes on as it began, but {'; '.join(differ)}. Choose another folder for another run.")


def digests(train_set: SetDataset, test_set: SetDataset) -> dict[str, str]:
    """What tells the sets of one run from those of another without reading their elements: sizes and targets."""
    return {"training sets": _digest(train_set), "test sets": _digest(test_set)}


def _digest(dataset: SetDataset) -> str:
    target = dataset.target.detach().cpu()
    digest = hashlib.blake2b(repr((len(dataset), target.dtype, tuple(target.shape))).encode(), digest_size=16)
    digest.update(dataset.sizes.tobytes())
    digest.update(target.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def check_same_data(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """That the `digests` of the sets are as they were."""
    differ = [which for which, digest in now.items() if before.get(which) != digest]
    if differ:
        raise ValueError(
            f"a run goes on as it began, but the {' and the '.join(differ)} are others: their number, sizes or targets differ. "
            "Choose another folder for another run."
        )


def check_same_question(before: str, now: str) -> None:
    """That the loss and the metrics are of the same class."""
    if before != now:
        raise ValueError(
            f"a run goes on as it began, but its loss and metrics were those of {before} and are those of {now}. Choose another "
            "folder for another run."
        )


def check_same_network(before: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> None:
    """That there are weights of the same names and shapes."""
    shapes = [{name: tensor.shape for name, tensor in tensors.items()} for tensors in (before, now)]
    differ = [name for name in dict.fromkeys([*before, *now]) if shapes[0].get(name) != shapes[1].get(name)]
    if differ:
        raise ValueError(
            f"a run goes on as it began, but the network is another: {differ[0]} is not as it was"
            f"{f', nor are {len(differ) - 1} more of its tensors' if differ[1:] else ''}. Choose another folder for another run."
        )
