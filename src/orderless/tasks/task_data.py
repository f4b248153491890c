"""A prepared task: its sets, what reports call them, and networks that fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.store import SetStore
from orderless.models import SetModel, create_model
from orderless.nn import Standardizer
from orderless.tasks.augment import AugmentedSets
from orderless.tasks.dataset import SetDataset
from orderless.tasks.objectives import OBJECTIVES
from orderless.tasks.source import Source
from orderless.tasks.statistics import measure_features
from orderless.tasks.transforms import AsStored, from_description

if TYPE_CHECKING:
    from orderless.tasks.base import Task

_STANDARDIZING_ELEMENTS = 2**22  # about so many stand for all


class TaskData:
    """A prepared task: its training and test sets.

    Attributes:
        task: What it is.
        source: What it was made from.
        store: The memory-mapped folder.
        train: Sets to train on.
        test: Sets to test on, which share no patient, identity or source image with those.
    """

    def __init__(self, task: Task, source: Source, store: SetStore) -> None:
        self.task, self.source, self.store = task, source, store
        self.train, self.test = self._dataset("train"), self._dataset("test")

    @property
    def name(self) -> str:
        """Task and source, as in `hematocrit@simulated`: the name under which figures are reported."""
        return f"{self.task.name}@{self.source.name}"

    @property
    def title(self) -> str:
        """For reports: says openly if the data are not the published ones, or not all of them."""
        label = "" if self.source.kind in ("published", "exact") else f"{self.source.kind}: "
        differs = self.store.manifest.get("differs")
        return f"{self.task.title} ({label}{self.source.title}{f', but {differs}' if differs else ''})"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, where targets are classes."""
        return tuple(self.store.manifest.get("class_names", ()))

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Shape of one element, as a network gets it."""
        return self.train.element_shape

    @property
    def out_features(self) -> int:
        """How many numbers a network shall give: one per target, per class, or one logit per element."""
        return len(self.class_names) if self.task.objective == "classification" else 1

    def training_sets(self, seed: int) -> SetDataset:
        """What a network is trained on: `train`, changed in every epoch where the task says so. The seed decides how."""
        return AugmentedSets(self.train, self.task.augmentation, seed) if self.task.augmentation else self.train

    def create_model(self, name: str, *, standardize: bool = False, **options: Any) -> SetModel:
        """A network of that name for this task, with the paper's options unless others are given.

        Args:
            name: One of `list_models()`.
            standardize: Let it standardise elements by mean and spread of the training elements, feature by feature.
            **options: Of `create_model`.
        """
        featurizer: Any = options.pop("featurizer", None)
        if not isinstance(standardize, bool):
            raise ValueError(f"standardize must be true or false, got {standardize!r}.")
        if standardize:
            if reason := self.task.why_not_standardize(name):
                raise ValueError(reason)
            if featurizer is not None:
                raise ValueError("elements are standardised or go through a featurizer of your own: leave out one of the two.")
            featurizer = self._standardizer()
        if featurizer is None and self.task.featurizer is not None:
            featurizer = self.task.featurizer(self.element_shape)
        if featurizer is not None:
            options["featurizer"] = featurizer
        in_features = featurizer.out_features if featurizer is not None else self.element_shape[0]
        if OBJECTIVES[self.task.objective].output == "element":
            options = {"output": "element"} | options
        return create_model(name, in_features, self.out_features, **{**self.task.options_of(name), **options})

    def _standardizer(self) -> Standardizer:
        """By mean and spread of some millions of elements as they are stored, of training sets evenly spread over all."""
        try:
            statistics = measure_features(self.train, _STANDARDIZING_ELEMENTS)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return Standardizer(torch.from_numpy(statistics.mean), torch.from_numpy(statistics.spread))

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self.task.name, self.source.name, self.store))

    def __repr__(self) -> str:
        return f"TaskData({self.title}: {len(self.train)} training and {len(self.test)} test sets)"

    def _dataset(self, split: str) -> SetDataset:
        stored = self.store[split]
        target = torch.from_numpy(np.array(stored.columns["target"]))
        said = self.store.manifest.get("transform")
        if self.task.objective == "regression":
            target = target.float().reshape(len(stored), -1)  # (N, 1), the shape that a network answers in
        else:
            target = target.long()
            _check_classes(self.store, split, stored.sizes if self.task.objective == "element_choice" else None)
        return SetDataset(stored, target, from_description(said) if said else AsStored())


def _reopen(task: str, source: str, store: SetStore) -> TaskData:
    from orderless.tasks.registry import get_task  # a task is code, so it travels by its name

    return TaskData(get_task(task), get_task(task).source(source), store)


def _check_classes(store: SetStore, split: str, sizes: NDArray[np.int64] | None) -> None:
    target = store[split].columns["target"]
    limit = sizes if sizes is not None else len(store.manifest.get("class_names", ()))
    if len(target) and not ((target >= 0) & (target < limit)).all():
        what = "positions within their sets" if sizes is not None else f"classes 0..{limit - 1}"
        raise DataError(store.folder / f"{split}.arrow", expected=what, found=f"targets {target.min()}..{target.max()}")
