"""A task: its data, target, loss and metric, the settings that the paper used, and the figures that it published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from orderless.io.cache import default_cache_dir
from orderless.io.store import open_if_good, open_or_build
from orderless.io.store_writer import StoreWriter
from orderless.models.registry import MODELS
from orderless.sets import SetBatch
from orderless.tasks.augment import ScaleAndShift
from orderless.tasks.folders import default_data_dir, existing_folder
from orderless.tasks.objectives import CLASSIFICATION, HIGHER_IS_BETTER, OBJECTIVES, MetricName, ObjectiveName
from orderless.tasks.published import Published, published_figures
from orderless.tasks.source import AUTO, Request, Source, check_request, prepared_folder, prepared_key
from orderless.tasks.task_data import TaskData
from orderless.version import __version__

Drawing = Literal["histogram", "scatter", "points", "images"]
Progress = Callable[[int], None]


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

        key = prepared_key(self.name, chosen, request)
        store = open_or_build(
            cache / "tasks" / prepared_folder(key),
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
        key = prepared_key(self.name, source, request or self.request(0))
        return open_if_good(cache_dir / "tasks" / prepared_folder(key), key) is not None

    def request(
        self, seed: int, num_train: int | None = None, num_test: int | None = None, set_size: int | None = None
    ) -> Request:
        """The sets of this task in the paper's sizes, unless others are asked for."""
        given = check_request(seed=seed, num_train=num_train, num_test=num_test, set_size=set_size)
        return Request(
            num_train=given.get("num_train", self.num_train),
            num_test=given.get("num_test", self.num_test),
            set_size=(given["set_size"],) * 2 if "set_size" in given else self.set_size,
            seed=given["seed"],
            asked=(given.get("num_train"), given.get("num_test")),
        )


def variant(task: Task, **changes: Any) -> Task:
    """A task that differs from another in some fields."""
    return replace(task, **changes)
