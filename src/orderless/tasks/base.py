"""A task: its data, target, loss and metric, the settings that the paper used, and the figures that it published."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orderless.io.cache import default_cache_dir as default_cache_dir
from orderless.io.errors import DataError, WrongPathError
from orderless.io.store import SetStore, open_if_good, open_or_build
from orderless.io.store_writer import StoreWriter
from orderless.models import SetModel, create_model
from orderless.models.registry import MODELS
from orderless.nn import Standardizer
from orderless.sets import SetBatch
from orderless.tasks.augment import AugmentedSets, ScaleAndShift
from orderless.tasks.dataset import SetDataset
from orderless.tasks.objectives import CLASSIFICATION, HIGHER_IS_BETTER, OBJECTIVES, MetricName, ObjectiveName
from orderless.tasks.published import Published, published_figures
from orderless.tasks.statistics import measure_features
from orderless.tasks.transforms import AsStored, from_description
from orderless.version import __version__

SplitName = Literal["train", "test"]
Kind = Literal["published", "substituted", "simulated", "exact"]
Drawing = Literal["histogram", "scatter", "points", "images"]
Progress = Callable[[int], None]
AUTO = "auto"
MOST = 1_000_000_000  # sets, or elements of one: with more digits it is a slip, and numpy speaks of dimensions
_STANDARDIZING_ELEMENTS = 2**22  # about so many stand for all


class Files(Protocol):
    """A module that knows where a published dataset is and what its files are: one of `tasks.sources`."""

    def find(self, data_dir: Path) -> Path | None:
        """The files, if they are there."""

    def fetch_all(self, data_dir: Path, *, progress: bool = True) -> Path:
        """Downloads them, or says how to get them."""

    def files(self, found: Path) -> list[Path]:
        """The files that are read."""


@dataclass(frozen=True)
class Request:
    """What to make: how many sets of which size from which files. All of it is part of a prepared task's identity."""

    num_train: int
    num_test: int
    set_size: tuple[int, int]
    seed: int
    asked: tuple[int | None, int | None] = (None, None)  # sets for training and testing that a user insisted on
    found: Path | None = None  # the publisher's files, where there are some

    @property
    def files(self) -> Path:
        """The publisher's files, which a source that needs some has been given."""
        assert self.found is not None
        return self.found

    def counts(self) -> tuple[tuple[SplitName, int, int], ...]:
        """(split, its number, its sets): the number keeps the random streams of the splits apart."""
        return (("train", 0, self.num_train), ("test", 1, self.num_test))

    def rows(self, number: int, available: int) -> NDArray[np.int64]:
        """Which rows of a publisher's split to take: all, or as many as a user asked for, chosen at random."""
        asked = self.asked[number]
        if asked is None:
            return np.arange(available)
        if asked > available:
            split = self.counts()[number][0]
            raise DataError(self.files, expected=f"{asked} {split} sets", found=f"{available}", fix="Ask for fewer.")
        return np.sort(self.rng(number, 0).permutation(available)[:asked])

    def rng(self, *key: int) -> np.random.Generator:
        """Random numbers of their own for each key, whatever else is drawn."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


@dataclass(frozen=True)
class Source:
    """Where a task's data come from, and how sets are made of them.

    Attributes:
        name: As in `point_cloud@modelnet40`.
        kind: `published` data; `substituted` (other real data in its place), `simulated`, or `exact` (the task is a formula).
        title: For people.
        element_shape: Shape of a stored element.
        build: Fills a store and says what the manifest shall say, such as `class_names` and `transform`.
        files: The module of `tasks.sources` that finds the files; None where nothing is needed.
        finite: Whether the files have their own sets, so that all of them are taken unless a number is asked for.
        version: Raised whenever `build` gives other sets than before: caches of earlier versions are built again.
    """

    name: str
    kind: Kind
    title: str
    element_shape: tuple[int, ...]
    build: Callable[[StoreWriter, Request], Mapping[str, Any]]
    files: Files | None = None
    finite: bool = False
    version: int = 1


@dataclass(frozen=True)
class Task:
    """One of the paper's tasks, or a variant of one.

    Attributes:
        name: `orderless data prepare NAME`.
        title: For people.
        about: One sentence: what a set is, and what is predicted of it.
        objective: What is trained: see `objectives`.
        metric: The figure that the paper reports for it.
        sources: In order of preference; the last needs neither files nor a network.
        num_train: Sets for training, as in the paper. A published file with a few more or less gives all that it has.
        num_test: Sets for testing.
        set_size: Fewest and most elements of a set.
        drawing: How a set is drawn.
        model_options: Options of `create_model` that the paper used for Deep Sets and Deep Sets++.
        epochs: Passes over the training sets in the paper.
        epochs_per_set: Where the paper had as many steps with every size of batches: its epochs for each set of a batch.
        batch_size: Sets in a batch in the paper.
        learning_rate: Of Adam in the paper.
        train_options: Other options of `TrainConfig` that the paper used.
        augmentation: How training sets are changed in every epoch.
        label_smoothing: In the loss of a classification, how much of the truth all classes but the true one share. Metrics know
            nothing of it.
        units: Names of the features with their units, where they have some.
        featurizer: From the shape of an element to the module that makes a vector of it, where it is not one.
    """

    name: str
    title: str
    about: str
    objective: ObjectiveName
    metric: MetricName
    sources: tuple[Source, ...]
    num_train: int
    num_test: int
    set_size: tuple[int, int]
    drawing: Drawing
    model_options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 50
    epochs_per_set: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-4
    train_options: Mapping[str, Any] = field(default_factory=dict)
    augmentation: ScaleAndShift | None = None
    label_smoothing: float = 0.0
    units: tuple[str, ...] = ()
    featurizer: Callable[[tuple[int, ...]], nn.Module] | None = None

    def loss(self, output: Tensor | SetBatch, target: Tensor) -> Tensor:
        """What is minimised: a scalar, the mean over the sets of a batch."""
        if self.label_smoothing:
            return CLASSIFICATION.smoothed_loss(output, target, self.label_smoothing)
        return OBJECTIVES[self.objective].loss(output, target)

    def per_set(self, output: Tensor | SetBatch, target: Tensor) -> dict[MetricName, Tensor]:
        """Every metric, (N,) each. Their mean over all sets of a split is the figure that is reported."""
        return OBJECTIVES[self.objective].per_set(output, target)

    @property
    def published(self) -> tuple[Published, ...]:
        """Every figure that the paper gives for this task."""
        return tuple(row for name, row in published_figures() if name == self.name)

    def options_of(self, model: str) -> Mapping[str, Any]:
        """What the paper gave this network here, for `create_model`: its pooling is for Deep Sets, others have their own."""
        return self.model_options if model in MODELS and MODELS[model].family == "deep_sets" else {}

    def epochs_of(self, batch_size: int) -> int:
        """The paper's epochs with batches of so many sets."""
        return self.epochs if self.epochs_per_set is None else self.epochs_per_set * batch_size

    @property
    def best_published(self) -> Published | None:
        """The best figure of the paper, in the metric that it reports for this task."""
        rows = [row for row in self.published if row.metric == self.metric]
        pick = max if self.metric in HIGHER_IS_BETTER else min
        return pick(rows, key=lambda row: row.mean) if rows else None

    def source(self, name: str) -> Source:
        """The source of that name."""
        for source in self.sources:
            if source.name == name:
                return source
        raise ValueError(f"{self.name} comes from {', '.join(s.name for s in self.sources)}, or {AUTO}; got {name!r}.")

    def load(
        self,
        *,
        source: str = AUTO,
        data_dir: str | Path | None = None,
        cache_dir: str | Path | None = None,
        seed: int = 0,
        num_train: int | None = None,
        num_test: int | None = None,
        set_size: int | None = None,
        rebuild: bool = False,
        show_progress: bool = False,
        progress: Progress | None = None,
    ) -> TaskData:
        """Prepares the task where that was not done before, and opens it.

        Args:
            source: Name of a source. `auto` takes the first whose files are at hand, and so the embedded one where there are
                none; it never downloads. A named source is downloaded where its publisher allows that.
            data_dir: Folder with the publishers' files. Default: the variable `ORDERLESS_DATA`, or a folder in the cache.
            cache_dir: Folder for prepared tasks. Default: the variable `ORDERLESS_CACHE`, or `~/.cache/orderless`.
            seed: Of everything that is drawn at random.
            num_train: Sets for training instead of the paper's number.
            num_test: Sets for testing instead of the paper's number.
            set_size: Elements of every set instead of the paper's number.
            rebuild: Prepare again even if a good preparation is there.
            show_progress: Draw a bar while downloading.
            progress: Called with the number of sets or images that were just written.
        """
        cache = default_cache_dir() if cache_dir is None else Path(cache_dir).expanduser()
        files_dir = default_data_dir(cache) if data_dir is None else existing_folder(data_dir)
        request = self.request(seed, num_train, num_test, set_size)
        chosen = self.source_at_hand(files_dir, cache, request) if source == AUTO else self.source(source)
        found = chosen.files.find(files_dir) if chosen.files else None

        def build(writer: StoreWriter) -> Mapping[str, Any]:
            files = found
            if chosen.files:
                files = found or chosen.files.fetch_all(files_dir, progress=show_progress)
                writer.made_from(chosen.files.files(files))
            said = chosen.build(writer, replace(request, found=files))
            return {"name": f"{self.name}@{chosen.name}", "kind": chosen.kind, "orderless": __version__, **said}

        key = _key(self, chosen, request)
        store = open_or_build(
            cache / "tasks" / _folder_name(key),
            build,
            key=key,
            element_shape=chosen.element_shape,
            sources=chosen.files.files(found) if chosen.files and found else (),
            rebuild=rebuild,
            progress=progress,
        )
        return TaskData(self, chosen, store)

    def why_not_standardize(self, model: str) -> str | None:
        """Why a network of that name cannot standardise the elements of this task; None where it can."""
        if self.featurizer is not None:
            return f"elements of {self.name} go through a featurizer: leave standardize alone."
        if model in MODELS and MODELS[model].measures_distances:
            return f"{model} takes coordinates as they are, since it measures distances: leave standardize alone."
        return None

    def source_at_hand(self, data_dir: Path, cache_dir: Path, request: Request | None = None) -> Source:
        """What `auto` means here: the first source whose files are there, that was prepared before, or that needs no files."""
        for source in self.sources:
            if source.files is None or source.files.find(data_dir) is not None or self.is_prepared(source, cache_dir, request):
                return source
        raise AssertionError(f"{self.name} has no source that needs no files")

    def is_prepared(self, source: Source, cache_dir: Path, request: Request | None = None) -> bool:
        """Whether the task was prepared from this source: by default in the paper's size, with seed 0."""
        key = _key(self, source, request or self.request(0))
        return open_if_good(cache_dir / "tasks" / _folder_name(key), key) is not None

    def request(
        self, seed: int, num_train: int | None = None, num_test: int | None = None, set_size: int | None = None
    ) -> Request:
        """The sets of this task in the paper's sizes, unless others are asked for."""
        values = {"seed": seed, "num_train": num_train, "num_test": num_test, "set_size": set_size}
        given = {name: _whole(name, value) for name, value in values.items() if value is not None}
        for name, value in given.items():
            least = 0 if name == "seed" else 1
            if value < least:
                raise ValueError(f"{name} must be {least} or more, got {value}.")
            if name != "seed" and value > MOST:
                raise ValueError(f"{name} must be at most {MOST:,}, got {value}.")
        return Request(
            num_train=given.get("num_train", self.num_train),
            num_test=given.get("num_test", self.num_test),
            set_size=(given["set_size"],) * 2 if "set_size" in given else self.set_size,
            seed=given["seed"],
            asked=(given.get("num_train"), given.get("num_test")),
        )


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


def default_data_dir(cache_dir: Path) -> Path:
    """Where publishers' files are looked for and downloaded to: `ORDERLESS_DATA`, or a folder in the cache."""
    folder = os.environ.get("ORDERLESS_DATA")
    return existing_folder(folder, "the variable ORDERLESS_DATA") if folder else cache_dir / "raw"


def existing_folder(folder: str | Path, named_by: str = "--data-dir") -> Path:
    """The folder, which must be there."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        fix = f"Name a folder that is there with {named_by}."
        raise WrongPathError(folder, expected="a folder with publishers' files", found="no such folder", fix=fix)
    return path


def compare_counts(found: tuple[int, int], published: tuple[tuple[int, int], ...], what: str) -> dict[str, str]:
    """For a manifest: says if a file has not as many training and test sets as the publisher's."""
    if found in published:
        return {}
    train, test = published[0]
    return {"differs": f"{found[0]:,} + {found[1]:,} {what} instead of {train:,} + {test:,}"}


def variant(task: Task, **changes: Any) -> Task:
    """A task that differs from another in some fields."""
    return replace(task, **changes)


def _reopen(task: str, source: str, store: SetStore) -> TaskData:
    from orderless.tasks.registry import get_task  # a task is code, so it travels by its name

    return TaskData(get_task(task), get_task(task).source(source), store)


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}.") from None


def _key(task: Task, source: Source, request: Request) -> dict[str, Any]:
    num_train, num_test = (
        "all" if source.finite and asked is None else count
        for asked, count in zip(request.asked, (request.num_train, request.num_test), strict=True)
    )
    return {
        "task": task.name,
        "source": source.name,
        "version": source.version,
        "num_train": num_train,
        "num_test": num_test,
        "set_size": list(request.set_size),
        "seed": request.seed,
    }


def _folder_name(key: Mapping[str, Any]) -> str:
    low, high = key["set_size"]
    sizes = f"{low}" if low == high else f"{low}-{high}"
    counts = f"{key['num_train']}+{key['num_test']}"
    # not the version: what an older version made is in the way, and is prepared again
    return f"{key['task']}@{key['source']}-{counts}x{sizes}-seed{key['seed']}"


def _check_classes(store: SetStore, split: str, sizes: NDArray[np.int64] | None) -> None:
    target = store[split].columns["target"]
    limit = sizes if sizes is not None else len(store.manifest.get("class_names", ()))
    if len(target) and not ((target >= 0) & (target < limit)).all():
        what = "positions within their sets" if sizes is not None else f"classes 0..{limit - 1}"
        raise DataError(store.folder / f"{split}.arrow", expected=what, found=f"targets {target.min()}..{target.max()}")
