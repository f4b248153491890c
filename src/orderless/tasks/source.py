"""From what and how sets of a task are made: publishers' files, sources, requests, and what tells prepared tasks apart."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.store_writer import StoreWriter

SplitName = Literal["train", "test"]
Kind = Literal["published", "substituted", "simulated", "exact"]
AUTO = "auto"
MOST = 1_000_000_000  # sets, or elements of one: with more digits it is a slip, and numpy speaks of dimensions


class Files(Protocol):
    """A module that knows where a published dataset is and what its files are: one of `tasks.sources`."""

    def find(self, data_dir: Path) -> Path | None:
        """The files, if they are there."""

    def fetch_all(self, data_dir: Path, *, progress: bool = True) -> Path:
        """Downloads them, or says how to get them."""

    def files(self, found: Path) -> list[Path]:
        """The files that are read."""


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


def check_request(**values: Any) -> dict[str, int]:
    """The values of a request that are given, as whole numbers that make sense."""
    given = {name: _whole(name, value) for name, value in values.items() if value is not None}
    for name, value in given.items():
        least = 0 if name == "seed" else 1
        if value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}.")
        if name != "seed" and value > MOST:
            raise ValueError(f"{name} must be at most {MOST:,}, got {value}.")
    return given


def prepared_key(task: str, source: Source, request: Request) -> dict[str, Any]:
    """What tells a prepared task from others, as its manifest has it."""
    num_train, num_test = (
        "all" if source.finite and asked is None else count
        for asked, count in zip(request.asked, (request.num_train, request.num_test), strict=True)
    )
    return {
        "task": task,
        "source": source.name,
        "version": source.version,
        "num_train": num_train,
        "num_test": num_test,
        "set_size": list(request.set_size),
        "seed": request.seed,
    }


def prepared_folder(key: Mapping[str, Any]) -> str:
    """The name of the folder of a prepared task."""
    low, high = key["set_size"]
    sizes = f"{low}" if low == high else f"{low}-{high}"
    counts = f"{key['num_train']}+{key['num_test']}"
    # not the version: what an older version made is in the way, and is prepared again
    return f"{key['task']}@{key['source']}-{counts}x{sizes}-seed{key['seed']}"


def compare_counts(found: tuple[int, int], published: tuple[tuple[int, int], ...], what: str) -> dict[str, str]:
    """For a manifest: says if a file has not as many training and test sets as the publisher's."""
    if found in published:
        return {}
    train, test = published[0]
    return {"differs": f"{found[0]:,} + {found[1]:,} {what} instead of {train:,} + {test:,}"}


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}.") from None
