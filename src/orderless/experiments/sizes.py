"""How much data and training runs have, beside what the paper's have: figures of smaller runs must say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orderless.experiments.sources import task_of
from orderless.experiments.spec import RunSpec

SIZES: Final[Mapping[str, str]] = {
    "num_train": "training sets",
    "num_test": "test sets",
    "set_size": "elements",
    "epochs": "epochs",
}


@dataclass(frozen=True)
class Size:
    """How many of something a run has, and how many it has in full: the fewest and the most, each."""

    own: tuple[int, int]
    full: tuple[int, int]

    @property
    def differs(self) -> bool:
        """Whether it has another number."""
        return self.own != self.full

    @property
    def is_smaller(self) -> bool:
        """Whether it has fewer."""
        return self.own[1] < self.full[1]


def sizes_of(spec: RunSpec, asked: Mapping[str, int] | None = None, *, own_training: bool = False) -> dict[str, Size]:
    """The sizes of a run, by their names in `SIZES`. A baseline has no epochs.

    Args:
        spec: The run.
        asked: What a recipe asks for. Where it is more than the paper has, it is the full size.
        own_training: The recipe is about other ways to train than the paper's: the epochs that it asks for are all there are.
    """
    papers = _papers_sizes(spec)
    own = papers | {name: (number, number) for name, number in {**spec.data_options, "epochs": spec.train.epochs}.items()}
    wanted = {name: (number, number) for name, number in (asked or {}).items()}
    full = {name: max(usual, wanted.get(name, usual), key=lambda ends: ends[1]) for name, usual in papers.items()}
    if own_training and "epochs" in full and "epochs" in wanted:
        full["epochs"] = wanted["epochs"]
    return {name: Size(own[name], full[name]) for name in SIZES if name in papers}


def say_size(name: str, sizes: Sequence[Size]) -> str:
    """A size of some runs beside the full one: `60 of 10,000 training sets`, or `1,024 instead of 1,000 elements`."""
    beside = "of" if any(size.is_smaller for size in sizes) else "instead of"
    own, full = _range([size.own for size in sizes]), _range([size.full for size in sizes])
    return f"{own} {beside} {full} {SIZES[name]}"


def _papers_sizes(spec: RunSpec) -> dict[str, tuple[int, int]]:
    task = task_of(spec)
    sizes = {"num_train": task.num_train, "num_test": task.num_test}
    if not spec.is_baseline:
        sizes["epochs"] = task.epochs_of(spec.train.batch_size)
    return {name: (number, number) for name, number in sizes.items()} | {"set_size": task.set_size}


def _range(ends: Sequence[tuple[int, int]]) -> str:
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
