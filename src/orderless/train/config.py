"""How a network is trained: what the answer depends on (`TrainConfig`), and where and how it is computed (`Execution`)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from orderless.words import did_you_mean

OptimizerName = Literal["adam", "adamw"]
ScheduleName = Literal["constant", "cosine", "plateau"]
Precision = Literal["32-true", "tf32", "bf16-mixed"]
Protocol = Literal["whole", "released"]
LoggerName = Literal["tensorboard", "wandb", "mlflow"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(OptimizerName),
    "schedule": get_args(ScheduleName),
    "precision": get_args(Precision),
    "protocol": get_args(Protocol),
}
_WHOLE_NUMBERS = ("epochs", "batch_size", "batch_elements", "warmup_steps", "accumulate", "evaluate_every", "patience", "seed")
_NUMBERS = ("learning_rate", "weight_decay", "warmup_share", "clip_norm", "ema_decay", "ema_share", "subsample", "noise")
MOST_EPOCHS = 1_000_000  # a slip adds a digit or twenty: counting the steps of so many would never end
MOST_NOISE = 100.0  # spreads of a feature: beyond, elements are nothing but noise, and sums of them overflow


# How estimators train, and runs with `training=default`, which standardise elements, too. The paper has Adam at a constant 1e-4.
DEFAULT_TRAINING: Final[Mapping[str, Any]] = {
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 1e-2,
    "schedule": "cosine",
    "warmup_share": 0.1,
    "clip_norm": 1.0,
    "ema_share": 0.05,
    "noise": 0.4,
}


@dataclass(frozen=True)
class TrainConfig:
    """Everything that the trained weights depend on, apart from the network, the data and the hardware.

    Attributes:
        epochs: Passes over the training sets.
        batch_size: Sets in a batch.
        drop_last: Leave out the last batch of an epoch if it is not full. Every epoch leaves out others.
        batch_elements: Batches by number of elements instead: at most so many in a batch. `batch_size` is then not used.
        optimizer: `adam`, or `adamw` with decoupled weight decay.
        learning_rate: The highest that is reached.
        weight_decay: Of the optimizer.
        schedule: `constant` (the paper), `cosine` down to nearly zero at the last step, or `plateau`, which halves the rate when
            the training loss has not fallen for more than 10 epochs: see `schedule.py`.
        warmup_steps: Steps over which the rate rises linearly to `learning_rate`.
        warmup_share: The same as a share of all steps of the run, whose number need then not be known.
        clip_norm: Gradients with a larger norm are scaled down to it.
        accumulate: Batches that make one step. The gradient is that of the mean over all their sets.
        ema_decay: Keep an exponential moving average of the weights with this decay, and evaluate and save that. Norms over
            the batch keep the running statistics of the network itself.
        ema_share: The same by how far the average looks back, as a share of all steps: over n steps the decay is 1 - 1 / n.
        subsample: In every epoch a set gives some of its elements: each with the same probability, which is drawn for the set
            evenly between a least one and 1. The least one rises from this to 1 over the epochs: tests take whole sets, so
            training ends on them. Sets of up to 64 elements give all.
        noise: Normal noise that is added to elements in training, in spreads of each feature over the training elements. It
            falls linearly from this at the first step to none after the last; with `patience` the best test may be one before.
        precision: `32-true`, `tf32` (float32 with TF32 matrix products), or `bf16-mixed`.
        protocol: `whole` tests in eval mode on every test set after the last step. `released` trains and tests as the authors'
            code does: see `evaluating.py`.
        evaluate_every: Epochs from one test to the next. The last epoch is always tested.
        patience: Stop after so many tests in a row that did not better the loss, the first metric, and keep the weights of the
            best test. The sets tested on then decide, so they have to be validation sets, not those that are reported on.
        seed: Of weights, order and what else is drawn; with the `released` protocol the order is always the same.
    """

    epochs: int = 50
    batch_size: int = 64
    drop_last: bool = False
    batch_elements: int | None = None
    optimizer: OptimizerName = "adam"
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    schedule: ScheduleName = "constant"
    warmup_steps: int = 0
    warmup_share: float = 0.0
    clip_norm: float | None = None
    accumulate: int = 1
    ema_decay: float | None = None
    ema_share: float | None = None
    subsample: float | None = None
    noise: float | None = None
    precision: Precision = "32-true"
    protocol: Protocol = "whole"
    evaluate_every: int = 1
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _take_whole_numbers(self, _WHOLE_NUMBERS)
        for name in _NUMBERS:  # 1 and 1.0 are one run
            value = getattr(self, name)
            if type(value) is not bool and isinstance(value, numbers.Real):
                value = float(value)
                object.__setattr__(self, name, value)
            if value is not None and (not isinstance(value, float) or math.isinf(value)):
                raise ValueError(f"{name} must be a number, got {value!r}.")
        for name, choices in _CHOICES.items():
            if (given := getattr(self, name)) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {given!r}.{did_you_mean(given, choices)}")
        for name in ("epochs", "batch_size", "accumulate", "evaluate_every"):
            _check_whole(name, getattr(self, name), least=1)
        if self.epochs > MOST_EPOCHS:
            raise ValueError(f"epochs must be at most {MOST_EPOCHS:,}, got {self.epochs}.")
        for name in ("warmup_steps", "seed"):
            _check_whole(name, getattr(self, name), least=0)
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, got {self.seed}.")
        if self.patience is not None:
            _check_whole("patience", self.patience, least=1)
            if self.protocol == "released":
                raise ValueError("the released protocol trains to its last step: leave patience alone.")
        if self.batch_elements is not None:
            _check_whole("batch_elements", self.batch_elements, least=1)
            if self.protocol == "released":
                raise ValueError("the released protocol has batches of batch_size sets: leave batch_elements alone.")
        if not isinstance(self.drop_last, bool):
            raise ValueError(f"drop_last must be true or false, got {self.drop_last!r}.")
        if self.drop_last and self.protocol == "released":
            raise ValueError("the released protocol always leaves out a batch that is not full: leave drop_last alone.")
        if self.drop_last and self.batch_elements is not None:
            raise ValueError("batches of at most batch_elements elements are never full: leave drop_last alone.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}.")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay must be 0 or more, got {self.weight_decay}.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be above 0, got {self.clip_norm}.")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay must lie between 0 and 1, such as 0.999; got {self.ema_decay}.")
        if not 0 <= self.warmup_share < 1:
            raise ValueError(f"warmup_share must be 0 or more and below 1, such as 0.1; got {self.warmup_share}.")
        for name in ("ema_share", "subsample"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1; got {value}.")
        if self.noise is not None and not 0 < self.noise <= MOST_NOISE:
            raise ValueError(f"noise must be above 0 and at most {MOST_NOISE:g}, such as 0.3, or None; got {self.noise}.")
        if self.warmup_steps and self.warmup_share:
            raise ValueError("warmup is a number of steps or a share of all: set warmup_steps or warmup_share.")
        if self.ema_decay is not None and self.ema_share is not None:
            raise ValueError(
                "the moving average has a decay or looks back over a share of all steps: set ema_decay or ema_share."
            )

    def for_steps(self, num_steps: int) -> TrainConfig:
        """The same with numbers of steps instead of shares, for a run of so many."""
        config = self
        if self.warmup_share:
            config = replace(config, warmup_steps=int(self.warmup_share * num_steps), warmup_share=0.0)
        if self.ema_share is not None:
            looks_back = self.ema_share * num_steps
            config = replace(config, ema_decay=1 - 1 / looks_back if looks_back > 2 else None, ema_share=None)
        return config

    def changed(self) -> dict[str, Any]:
        """The fields that differ from the defaults: what identifies a run, and stays the same when new fields come."""
        used = [f for f in fields(self) if f.name != "batch_size" or self.batch_elements is None]
        return {f.name: getattr(self, f.name) for f in used if getattr(self, f.name) != f.default}


@dataclass(frozen=True)
class Execution:
    """Where and how a run is computed. None of it changes the answer beyond rounding, with two exceptions: norms over the batch
    (`feature`, `batch`) on several devices, where each process takes the statistics of its share; and `noise`, which is drawn
    differently on other devices and with other numbers of processes.

    Attributes:
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, or `cuda:1`.
        num_devices: Processes that share each batch.
        compile: Trace the network with `torch.compile`; where steps are recorded by `cuda_graphs`, layer by layer.
        cuda_graphs: On a GPU, record whole steps and tests, once for each shape or size of batch, and replay them. What cannot be
            recorded is computed in the usual way, and a line in the log says why.
        num_workers: Processes that gather batches.
        checkpoint_seconds: Time from one checkpoint to the next; 0 writes one after every step.
        loggers: Trackers beside the CSV files that are always written.
    """

    device: str = "auto"
    num_devices: int = 1
    compile: bool = False
    cuda_graphs: bool = False
    num_workers: int = 0
    checkpoint_seconds: float = 30.0
    loggers: tuple[LoggerName, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", str(self.device))  # a torch.device will do
        _take_whole_numbers(self, ("num_devices", "num_workers"))
        _check_whole("num_devices", self.num_devices, least=1)
        _check_whole("num_workers", self.num_workers, least=0)
        if not self.checkpoint_seconds >= 0:
            raise ValueError(f"checkpoint_seconds must be 0 or more, got {self.checkpoint_seconds}.")
        for name in self.loggers:
            if name not in get_args(LoggerName):
                raise ValueError(f"loggers must be of {', '.join(get_args(LoggerName))}; got {name!r}.")


def _take_whole_numbers(config: Any, names: Iterable[str]) -> None:
    """Numpy's are written as Python's."""
    for name in names:
        value = getattr(config, name)
        if type(value) is not bool and isinstance(value, numbers.Integral):
            object.__setattr__(config, name, int(value))


def _check_whole(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
