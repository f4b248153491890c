"""A task: its data, target, loss and metric, the settings that the paper used, and the figures that it published."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from orderless.io.errors import DataError
from orderless.io.store import MANIFEST, SetStore, StoreWriter, open_or_build
from orderless.models import SetModel, create_model
from orderless.tasks.dataset import SetDataset
from orderless.tasks.objectives import OBJECTIVES, MetricName, Objective, ObjectiveName
from orderless.tasks.transforms import AsStored, from_description
from orderless.version import __version__

SplitName = Literal["train", "test"]
Kind = Literal["published", "substituted", "simulated", "exact"]
Drawing = Literal["histogram", "scatter", "points", "images"]
Progress = Callable[[int], None]
AUTO = "auto"


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
        version: Raised whenever `build` gives other sets than before: caches of earlier versions are built again.
    """

    name: str
    kind: Kind
    title: str
    element_shape: tuple[int, ...]
    build: Callable[[StoreWriter, Request], Mapping[str, Any]]
    files: Files | None = None
    version: int = 1


@dataclass(frozen=True)
class Published:
    """A figure of the paper: mean and standard deviation over three seeds."""

    table: str
    model: str
    depth: int | None
    norm: str
    residual: str
    metric: MetricName
    mean: float
    std: float | None


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
        model_options: Options of `create_model` that the paper used.
        epochs: Passes over the training sets in the paper.
        batch_size: Sets in a batch in the paper.
        learning_rate: Of Adam in the paper.
        units: Names of the features with their units, where they have some.
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
    batch_size: int = 64
    learning_rate: float = 1e-4
    units: tuple[str, ...] = ()
    featurizer: Callable[[tuple[int, ...]], nn.Module] | None = None

    @property
    def loss(self) -> Objective:
        """The objective itself: `task.loss.loss(output, target)`, `task.loss.per_set(output, target)`."""
        return OBJECTIVES[self.objective]

    @property
    def published(self) -> tuple[Published, ...]:
        """Every figure that the paper gives for this task."""
        return tuple(row for name, row in _published() if name == self.name)

    @property
    def best_published(self) -> Published | None:
        """The best figure of the paper, in the metric that it reports for this task.

        Networks built for point clouds alone were trained by another protocol and are left out.
        """
        rows = [row for row in self.published if row.metric == self.metric and row.table != "point_cloud_peers"]
        pick = max if self.metric == "accuracy" else min
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
        cache = default_cache_dir() if cache_dir is None else Path(cache_dir)
        files_dir = default_data_dir(cache) if data_dir is None else _folder(data_dir)
        request = Request(
            self.num_train if num_train is None else num_train,
            self.num_test if num_test is None else num_test,
            self.set_size if set_size is None else (set_size, set_size),
            seed,
            asked=(num_train, num_test),
        )
        _check_request(request)
        candidates = self.sources if source == AUTO else (self.source(source),)
        for chosen in candidates:
            key = _key(self, chosen, request)
            folder = cache / "tasks" / _folder_name(key)
            found = chosen.files.find(files_dir) if chosen.files else None
            if found or folder.exists() or chosen is candidates[-1]:
                break

        def build(writer: StoreWriter) -> Mapping[str, Any]:
            files = found
            if chosen.files:
                files = found or chosen.files.fetch_all(files_dir, progress=show_progress)
                writer.made_from(chosen.files.files(files))
            said = chosen.build(writer, replace(request, found=files))
            return {"name": f"{self.name}@{chosen.name}", "kind": chosen.kind, "orderless": __version__, **said}

        store = open_or_build(
            folder,
            build,
            key=key,
            element_shape=chosen.element_shape,
            sources=chosen.files.files(found) if chosen.files and found else (),
            rebuild=rebuild,
            progress=progress,
        )
        return TaskData(self, chosen, store)

    def is_prepared(self, source: Source, cache_dir: Path, *, seed: int = 0) -> bool:
        """Whether the task was prepared from this source, in the paper's size."""
        request = Request(self.num_train, self.num_test, self.set_size, seed)
        return (cache_dir / "tasks" / _folder_name(_key(self, source, request)) / MANIFEST).is_file()


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
        """For reports: says openly if the data are not the published ones."""
        label = "" if self.source.kind in ("published", "exact") else f"{self.source.kind}: "
        return f"{self.task.title} ({label}{self.source.title})"

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

    def create_model(self, name: str, **options: Any) -> SetModel:
        """A network of that name for this task, with the paper's options unless others are given."""
        featurizer: Any = options.pop("featurizer", None)
        if featurizer is None and self.task.featurizer is not None:
            featurizer = self.task.featurizer(self.element_shape)
        if featurizer is not None:
            options["featurizer"] = featurizer
        in_features = featurizer.out_features if featurizer is not None else self.element_shape[0]
        if self.task.loss.output == "element":
            options = {"output": "element"} | options
        fitting = {key: value for key, value in self.task.model_options.items() if name.startswith("deep_sets")}
        return create_model(name, in_features, self.out_features, **{**fitting, **options})

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


def default_cache_dir() -> Path:
    """`ORDERLESS_CACHE`, or `orderless` in the user's cache folder."""
    if set_by_user := os.environ.get("ORDERLESS_CACHE"):
        return Path(set_by_user)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orderless"


def variant(task: Task, **changes: Any) -> Task:
    """A task that differs from another in some fields."""
    return replace(task, **changes)


def default_data_dir(cache_dir: Path) -> Path:
    """Where publishers' files are looked for and downloaded to: `ORDERLESS_DATA`, or a folder in the cache."""
    folder = os.environ.get("ORDERLESS_DATA")
    if not folder:
        return cache_dir / "raw"
    if not Path(folder).is_dir():
        fix = "Set the variable ORDERLESS_DATA to a folder that is there, or unset it."
        raise DataError(folder, expected="the folder that ORDERLESS_DATA names", found="no such folder", fix=fix)
    return Path(folder)


def _folder(data_dir: str | Path) -> Path:
    if not Path(data_dir).is_dir():
        fix = "Name a folder that is there with --data-dir."
        raise DataError(data_dir, expected="a folder with the publishers' files", found="no such folder", fix=fix)
    return Path(data_dir)


def _key(task: Task, source: Source, request: Request) -> dict[str, Any]:
    return {
        "task": task.name,
        "source": source.name,
        "version": source.version,
        "num_train": request.num_train,
        "num_test": request.num_test,
        "set_size": list(request.set_size),
        "seed": request.seed,
    }


def _folder_name(key: Mapping[str, Any]) -> str:
    low, high = key["set_size"]
    sizes = f"{low}" if low == high else f"{low}-{high}"
    return f"{key['task']}@{key['source']}-{key['num_train']}+{key['num_test']}x{sizes}-seed{key['seed']}"


def _check_request(request: Request) -> None:
    for name in ("num_train", "num_test"):
        if getattr(request, name) < 1:
            raise ValueError(f"{name} must be 1 or more, got {getattr(request, name)}.")
    if request.set_size[0] < 1:
        raise ValueError(f"set_size must be 1 or more, got {request.set_size[0]}.")
    if request.seed < 0:
        raise ValueError(f"seed must be 0 or more, got {request.seed}.")


def _check_classes(store: SetStore, split: str, sizes: NDArray[np.int64] | None) -> None:
    target = store[split].columns["target"]
    limit = sizes if sizes is not None else len(store.manifest.get("class_names", ()))
    if len(target) and not ((target >= 0) & (target < limit)).all():
        what = "positions within their sets" if sizes is not None else f"classes 0..{limit - 1}"
        raise DataError(store.folder / f"{split}.arrow", expected=what, found=f"targets {target.min()}..{target.max()}")


@cache
def _published() -> Sequence[tuple[str, Published]]:
    text = resources.files("orderless.tasks").joinpath("published.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [
        (
            row["task"],
            Published(
                table=row["table"],
                model=row["model"],
                depth=int(row["depth"]) if row["depth"] else None,
                norm=row["norm"],
                residual=row["residual"],
                metric=row["metric"],  # type: ignore[arg-type]
                mean=float(row["mean"]),
                std=float(row["std"]) if row["std"] else None,
            ),
        )
        for row in rows
    ]
