"""What is measured: cases are data, the most important first.

The cases of the groups `table` and `cpu` are those of the goals in `orderless.experiments.bench.goals`, which knows them by their
names; the other groups vary one thing at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

Direction = Literal["training", "inference", "forward+backward"]
Group = Literal["table", "size", "depth", "width", "cpu"]

OURS = "orderless"
_ZIPF = 0.9
VARIANTS = ("orderless-float32", "orderless-tf32", "orderless-eager", "reference")


@dataclass(frozen=True)
class BenchCase:
    """One network or op on one batch, in one direction.

    Attributes:
        name: As rows and goals call it.
        group: What it is part of.
        network: The name of a model, or `set_norm` for that op alone.
        direction: A whole `training` step (forward, backward, Adam), `inference`, or `forward+backward` of an op.
        sizes: Elements of each set. Equal sizes come as a dense batch, others packed.
        contenders: Which of `contenders.CONTENDERS` run on it, in that order.
        in_features: Features of an element; those of the op's input.
        depth: Of the network.
        width: Of the network.
        dtype: Overrides the contenders' own.
    """

    name: str
    group: Group
    network: str
    direction: Direction
    sizes: tuple[int, ...]
    contenders: tuple[str, ...] = (OURS, "released")
    in_features: int = 2
    depth: int | None = None
    width: int = 128
    dtype: Literal["float32"] | None = None

    @property
    def is_dense(self) -> bool:
        return len(set(self.sizes)) == 1

    def describe(self) -> dict[str, Any]:
        """Its fields as a row has them."""
        return {
            "case": self.name,
            "group": self.group,
            "network": self.network,
            "direction": self.direction,
            "num_sets": len(self.sizes),
            "num_elements": sum(self.sizes),
            "largest_set": max(self.sizes),
            "in_features": self.in_features,
            "depth": self.depth,
            "width": self.width,
        }


def equal_sizes(num_sets: int, set_size: int) -> tuple[int, ...]:
    """The same size for every set."""
    return (set_size,) * num_sets


def zipf_sizes(num_sets: int, total: int) -> tuple[int, ...]:
    """Sizes that fall as 1, 1/2, 1/3, ... to the power of `_ZIPF`, and add up to `total`."""
    weights = torch.arange(1, num_sets + 1, dtype=torch.float64) ** -_ZIPF
    sizes = (weights / weights.sum() * total).long().clamp(min=1)
    sizes[0] += total - sizes.sum()
    return tuple(sizes.tolist())


SETS, ELEMENTS = 64, 1000  # the paper's batch
TOTAL = SETS * ELEMENTS
USUAL = equal_sizes(SETS, ELEMENTS)
DEPTHS: dict[str, int] = {"deep_sets++": 50, "set_transformer++": 16}
SWEPT_DEPTHS: dict[str, tuple[int, ...]] = {"deep_sets++": (2, 10, 25, 50, 100), "set_transformer++": (2, 4, 8, 16, 32)}
SWEPT_WIDTHS = (32, 64, 128, 256)
SWEPT_SIZES = (10, 100, 1000, 10_000, 100_000, 1_000_000)


def table_cases() -> list[BenchCase]:
    """The two deep networks on the paper's batch, and on what the paper's batch leaves out."""
    directions: tuple[Direction, ...] = ("training", "inference")
    usual = [
        BenchCase(
            f"{network}-{depth}-{direction}",
            "table",
            network,
            direction,
            USUAL,
            (OURS, "released", "compiled", *VARIANTS),
            depth=depth,
        )
        for direction in directions
        for network, depth in DEPTHS.items()
    ]
    norm = BenchCase(
        "set_norm",
        "table",
        "set_norm",
        "forward+backward",
        USUAL,
        (OURS, "released", "pyg", "orderless-eager", "reference"),
        in_features=128,
        dtype="float32",
    )
    zipf = zipf_sizes(SETS, TOTAL)
    ragged = [
        BenchCase(f"{network}-{depth}-zipf", "table", network, "training", zipf, depth=depth) for network, depth in DEPTHS.items()
    ]
    images = [
        BenchCase(f"{network}-{depth}-784", "table", network, "training", equal_sizes(SETS, 10), depth=depth, in_features=784)
        for network, depth in DEPTHS.items()
    ]
    whole = BenchCase("deep_sets++-50-55000", "table", "deep_sets++", "training", equal_sizes(SETS, 55_000), depth=50)
    return [*usual, norm, *ragged, *images, whole]


def size_cases() -> list[BenchCase]:
    """Growth with the size of a set: as many sets as make the paper's 64,000 elements, or one that is larger."""
    return [
        BenchCase(
            f"{network}-{depth}-size-{size}",
            "size",
            network,
            "training",
            equal_sizes(max(1, TOTAL // size), size),
            # PyTorch's layer norm has one block of threads for each set: one large set leaves nearly all of a GPU idle
            (OURS, "released") if size <= 10_000 else (OURS,),
            depth=depth,
        )
        for size in SWEPT_SIZES
        for network, depth in DEPTHS.items()
    ]


def depth_cases() -> list[BenchCase]:
    """Growth with depth."""
    return [
        BenchCase(f"{network}-depth-{depth}", "depth", network, "training", USUAL, depth=depth)
        for network, depths in SWEPT_DEPTHS.items()
        for depth in depths
    ]


def width_cases() -> list[BenchCase]:
    """Growth with width."""
    return [
        BenchCase(f"{network}-{depth}-width-{width}", "width", network, "training", USUAL, depth=depth, width=width)
        for width in SWEPT_WIDTHS
        for network, depth in DEPTHS.items()
    ]


def cpu_cases() -> list[BenchCase]:
    """What two cores can do in a minute or two."""
    contenders = (OURS, "released", "plain")
    return [
        BenchCase("deep_sets++-50-cpu", "cpu", "deep_sets++", "training", equal_sizes(16, 1000), contenders, depth=50),
        BenchCase("set_transformer++-16-cpu", "cpu", "set_transformer++", "training", equal_sizes(4, 1000), contenders, depth=16),
        BenchCase("set_norm-cpu", "cpu", "set_norm", "forward+backward", equal_sizes(16, 1000), contenders, in_features=128),
    ]


GPU_CASES = [*table_cases(), *size_cases(), *depth_cases(), *width_cases()]
CPU_CASES = cpu_cases()
