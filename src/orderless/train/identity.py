"""What makes two runs the same: settings, sets, question and network must be as they were for a run to be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from orderless.tasks.dataset import SetDataset
from orderless.train.config import TrainConfig

_AS_IT_BEGAN = "a run must be resumed as it began"
_ELSEWHERE = "Choose another folder for another run."


@dataclass(frozen=True)
class Identity:
    """Which run it is. Each field is a key of a checkpoint.

    Attributes:
        config: What its result depends on.
        data: The `digests` of its sets.
        judge: The `name_of` its question.
    """

    config: TrainConfig
    data: Mapping[str, str]
    judge: str

    def check(self, kept: Mapping[str, Any]) -> None:
        """That a checkpoint is of this run. Older ones do not say of which sets and which question they are."""
        check_same_config(TrainConfig(**kept["config"]), self.config)
        check_same_data(kept.get("data", self.data), self.data)
        check_same_question(kept.get("judge", self.judge), self.judge)


def check_same_config(before: TrainConfig, now: TrainConfig) -> None:
    """That what the result depends on is as it was."""
    differ = [
        f"{f.name} was {getattr(before, f.name)!r} and is {getattr(now, f.name)!r}"
        for f in dataclasses.fields(TrainConfig)
        if getattr(before, f.name) != getattr(now, f.name)
    ]
    if differ:
        raise ValueError(f"{_AS_IT_BEGAN}, but {'; '.join(differ)}. {_ELSEWHERE}")


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
            f"{_AS_IT_BEGAN}, but the {' and the '.join(differ)} are not the same: their number, sizes or targets differ. "
            f"{_ELSEWHERE}"
        )


def name_of(judge: object) -> str:
    """What tells a question from others: its class, and its name if it has one."""
    name = getattr(judge, "name", None)
    return type(judge).__qualname__ + (f" {name}" if isinstance(name, str) else "")


def check_same_question(before: str, now: str) -> None:
    """That the loss and the metrics are of the same `name_of`."""
    if before != now:
        raise ValueError(f"{_AS_IT_BEGAN}, but its loss and metrics were those of {before} and are those of {now}. {_ELSEWHERE}")


def _differ(before: Any, now: Any) -> bool:
    """Whether weights have another shape. Extra state has none, nor have weights of layers that have not been called yet."""
    if not isinstance(before, Tensor) or not isinstance(now, Tensor) or is_lazy(before) or is_lazy(now):
        return False
    return before.shape != now.shape


def check_same_network(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """That there are weights of the same names and shapes."""
    differ = sorted(before.keys() ^ now.keys()) or [name for name in before if _differ(before[name], now[name])]
    if differ:
        raise ValueError(
            f"{_AS_IT_BEGAN}, but the network is another: {differ[0]} is not as it was"
            f"{f', nor are {len(differ) - 1} more of its tensors' if differ[1:] else ''}. {_ELSEWHERE}"
        )
