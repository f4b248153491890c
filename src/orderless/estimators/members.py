"""One member of the ensemble after the other: a network, trained on its own split.

Letters: N sets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orderless.estimators import defaults
from orderless.estimators.covariates import CovariateModel, width_of
from orderless.estimators.defaults import Settings
from orderless.estimators.threads import one_thread
from orderless.estimators.training import DrawnSets, TrainingSets, WeighingJudge, make_target
from orderless.io.memory_sets import Sets
from orderless.models import create_model
from orderless.tasks.objectives import ObjectiveName
from orderless.train import Execution, TrainConfig, resolve_device, train_model
from orderless.train.checkpoint import random_states, restore_random_states
from orderless.train.config import DEFAULT_TRAINING
from orderless.train.progress import ProgressBar

Numbers = NDArray[np.int64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """What a member is built of.

    Attributes:
        name: Of `create_model`.
        in_features: Features of an element.
        out_features: Numbers predicted.
        num_covariates: Columns of covariates, 0 for none.
        options: Of `create_model`.
    """

    name: str
    in_features: int
    out_features: int
    num_covariates: int
    options: Mapping[str, Any]

    def pooling(self, pool: str) -> Network:
        """The same but for how elements become one vector."""
        return replace(self, options={**self.options, "pool": pool})

    def build(self) -> nn.Module:
        """A network with random weights."""
        model = create_model(self.name, self.in_features, self.out_features, **self.options)
        return CovariateModel(model, self.num_covariates) if self.num_covariates else model


@dataclass(frozen=True)
class Lesson:
    """What all members learn.

    Attributes:
        sets: (N,) scaled.
        known: (N, K) targets, scaled, or numbers of classes (N, 1).
        weight: (N,) of sets, above 0.
        covariates: (N, ...) float32 as networks get them, or None.
        objective: What is minimised.
    """

    sets: Sets
    known: NDArray[np.float64]
    weight: NDArray[np.float64]
    covariates: NDArray[np.float32] | None
    objective: ObjectiveName

    def choose(self, numbers: Numbers, most: int | None, seed: int, *, anew: bool) -> TrainingSets:
        """Some of the sets for the training loop."""
        beside = None if self.covariates is None else torch.from_numpy(self.covariates[numbers])
        target: Tensor = make_target(self.known[numbers], self.weight[numbers])
        return TrainingSets(DrawnSets(self.sets, numbers, most, seed), target, beside, anew=anew)


def train_member(
    network: Network,
    lesson: Lesson,
    split: tuple[Numbers, Numbers],
    settings: Settings,
    *,
    learning_rate: float,
    weight_decay: float,
    noise: float | None,
    patience: int | None,
    seed: int,
    device: str,
    folder: Path | None,
    start: nn.Module | None,
    title: str | None,
) -> tuple[nn.Module, list[Row]]:
    """A trained network in eval mode on the CPU, and a row for each epoch.

    Args:
        network: What to build.
        lesson: What to learn.
        split: Sets to learn from, and to validate on; without the latter it goes to the last epoch.
        settings: Numbers of this fit.
        learning_rate: The highest.
        weight_decay: Of AdamW.
        noise: On elements at the first step, in their standard deviations; 0 or None is none.
        patience: Epochs without improvement before it stops; None goes to the last epoch and keeps the best.
        seed: Of weights, order and draws.
        device: As `resolve_device` takes it.
        folder: For checkpoints, or None.
        start: A network to go on from.
        title: Shown beside a bar on a terminal; None shows nothing.
    """
    learn, validate = split
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # that of the CPU, where networks are built: a GPU's is left alone
        model = network.build()
    if start is not None:
        shapes = ({name: tensor.shape for name, tensor in m.state_dict().items()} for m in (model, start))
        if next(shapes) != next(shapes):
            raise ValueError("warm_start continues with networks as they are: model, depth, width and the like must not change.")
        model.load_state_dict(start.state_dict())
    chosen = {
        "learning_rate": _plain(learning_rate),
        "weight_decay": _plain(weight_decay),
        "noise": float(noise) if noise else None,
    }
    config = TrainConfig(
        **{**DEFAULT_TRAINING, **chosen},
        epochs=settings.epochs,
        batch_elements=settings.batch_elements,
        evaluate_every=1 if len(validate) else settings.epochs,
        patience=(settings.epochs if patience is None else _plain(patience)) if len(validate) else None,
        seed=seed,
    )
    train_set = lesson.choose(learn, settings.max_elements, seed, anew=True)
    test_set = lesson.choose(validate if len(validate) else learn, settings.max_elements, seed, anew=False)
    records = resolve_device(device).type == "cuda" and lesson.covariates is None  # recordings are of sets alone
    execution = Execution(device=device, cuda_graphs=records, checkpoint_seconds=defaults.CHECKPOINT_SECONDS)
    small = settings.batch_elements * width_of(model) <= defaults.SMALL_BATCH
    with (
        torch.enable_grad(),
        undisturbed(resolve_device(device)),
        one_thread(when=small),
        ProgressBar(title) if title else nullcontext() as bar,
    ):
        done = train_model(
            model, WeighingJudge(lesson.objective), train_set, test_set, config, folder=folder, execution=execution, progress=bar
        )
    rows = [_row(row, validated=bool(len(validate))) for row in done.history.epochs]
    return done.model.cpu().eval(), rows


def _plain(number: Any) -> Any:
    """numpy's numbers as Python's, such as those of a grid that is searched; anything else as it is, for training to judge."""
    return number.item() if isinstance(number, np.number) else number


def _row(row: Mapping[str, Any], *, validated: bool) -> Row:
    """A row of the history under the names of an estimator. Without validation sets the tests were of training sets."""
    kept = {name: row[name] for name in ("epoch", "step", "train_loss", "learning_rate", "seconds")}
    if not validated:
        return kept
    return kept | {f"validation_{name.removeprefix('test_')}": row[name] for name in row if name.startswith("test_")}


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Whatever is drawn inside, the user's random numbers go on as if nothing had happened. Lightning keeps its advice."""
    before = random_states(device)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning_fabric(\.|$)")
            yield
    finally:
        restore_random_states(before, device)


def seeds_of(seed: int, count: int) -> Sequence[int]:
    """Seeds of members that have nothing to do with each other."""
    return [int(number) for number in np.random.SeedSequence(seed).generate_state(count, np.uint32)]
