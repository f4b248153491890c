"""What a run is set up with before its first step: plumbing, optimizer, order of batches, recordings."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from orderless.io.extras import require
from orderless.tasks.augment import SubsampledSets
from orderless.tasks.dataset import SetDataset
from orderless.tasks.order import BatchOrder, ByElements, BySets
from orderless.train.compiling import Layered, compiled_layers
from orderless.train.config import Execution, TrainConfig
from orderless.train.evaluating import Place
from orderless.train.graphs import CannotRecord, Recorder, make_recorder, say_usual_way
from orderless.train.noise import Noise
from orderless.train.one_device import OneDevice, is_enough


def make_fabric(execution: Execution, config: TrainConfig, device: torch.device, loggers: list[Any]) -> Any:
    """What moves, spreads and scales: Lightning Fabric, or its stand-in where one device in full precision is all."""
    if is_enough(execution, config):
        return OneDevice(device)
    several = execution.num_devices > 1
    library = require("lightning_fabric", "train")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it advises on the precision that was asked for
    fabric = library.Fabric(
        accelerator=device.type,
        strategy="ddp" if several else "auto",
        devices=execution.num_devices if several or device.type == "cpu" else [device.index],
        precision="bf16-mixed" if config.precision == "bf16-mixed" else "32-true",
        loggers=loggers,
    )
    if several:
        fabric.launch()
    return fabric


@contextmanager
def process_settings(config: TrainConfig, layered: Sequence[Layered]) -> Iterator[None]:
    """The process's settings that a run needs, and what they were afterwards."""
    tf32 = config.precision == "tf32"
    before, before_cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        with warnings.catch_warnings(), compiled_layers(layered):
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores .* not enabled")  # which was decided by `precision`
            yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = before_cudnn


def order_of_training(dataset: SetDataset, config: TrainConfig) -> BatchOrder:
    """Which sets are in which batch while learning: by whole sets, so that a batch never has more elements than was asked for."""
    if config.batch_elements is not None:
        return ByElements(dataset.sizes, config.batch_elements, shuffle=True, seed=config.seed)
    released = config.protocol == "released"
    seed = 0 if released else config.seed
    return BySets(len(dataset), config.batch_size, shuffle=True, seed=seed, drop_last=released or config.drop_last)


def order_of_tests(dataset: SetDataset, config: TrainConfig) -> BatchOrder:
    """Which sets are in which batch of a test."""
    if config.batch_elements is not None:
        return ByElements(dataset.sizes, max(config.batch_elements, int(dataset.sizes.max(initial=0))))
    return BySets(len(dataset), config.batch_size)


def check_num_steps(num_steps: int, num_sets: int, config: TrainConfig, config_in_steps: TrainConfig) -> None:
    """That there is a step to take, and no longer a warm-up than there are steps."""
    if not num_steps:
        raise ValueError(
            f"a batch that is not full is left out ({'drop_last' if config.drop_last else 'the released protocol'}), and "
            f"{num_sets} training sets do not fill one of {config.batch_size}."
        )
    if config_in_steps.warmup_steps > num_steps:
        raise ValueError(f"warmup_steps={config.warmup_steps} is more than the run has: {num_steps} steps.")


def make_noise(config: TrainConfig, train_set: SetDataset, num_steps: int, place: Place) -> Noise | None:
    """What is added to training elements; None where nothing is."""
    if config.noise is None:
        return None
    return Noise(config.noise, train_set, seed=config.seed, num_steps=num_steps, device=place.device, rank=place.rank)


def make_optimizer(parameters: Sequence[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of these weights."""
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[config.optimizer](parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


def make_average(model: nn.Module, config: TrainConfig) -> AveragedModel | None:
    """The moving average of the weights, if there is one."""
    return None if config.ema_decay is None else AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema_decay))


def recorder_for(execution: Execution, device: torch.device) -> Recorder | None:
    """What records steps and tests, if that was asked for and can be done here."""
    if not execution.cuda_graphs:
        return None
    try:
        return make_recorder(device)
    except CannotRecord as reason:
        say_usual_way("training steps and tests", str(reason))
        return None


def can_record_steps(config: TrainConfig, place: Place) -> bool:
    """Whether a step is what is recorded: one batch on one device. Where it is not, that is said."""
    if config.accumulate == 1 and place.world_size == 1:
        return True
    say_usual_way("training steps", "a step is recorded where it is one batch (accumulate=1) on one device.")
    return False


def is_ragged(train_set: SetDataset) -> bool:
    """Whether sets of a batch may differ in size."""
    parts = isinstance(train_set, SubsampledSets) and train_set.gives_parts  # whose sizes are known when drawn
    return parts or len(set(train_set.sizes.tolist())) > 1
