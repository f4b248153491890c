"""What is measured: cases are data."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class BenchCase:
    """One op or model on one batch.

    Attributes:
        op: `set_norm`, `dense_query_attention`, `dense_key_attention`, or the name of a model.
        shape: What the sizes look like, in a word.
        sizes: Elements of each set.
        dim: Features of an element (inside the network, for an op).
        depth: Of a model.
        dense: Whether the batch is given as equal sizes, which allows a dense view.
    """

    op: str
    shape: str
    sizes: tuple[int, ...]
    dim: int = 128
    depth: int | None = None
    dense: bool = False


def zipf_sizes(num_sets: int, total: int) -> tuple[int, ...]:
    """Sizes that fall as 1, 1/2, 1/3, ... and add up to `total`."""
    weights = 1 / torch.arange(1, num_sets + 1, dtype=torch.float64)
    sizes = (weights / weights.sum() * total).long().clamp(min=1)
    sizes[0] += total - sizes.sum()
    return tuple(sizes.tolist())


def cases(num_sets: int, set_size: int) -> list[BenchCase]:
    """Equal sizes, dense and packed, and ragged sizes with the same total, for every op and the two deep models."""
    equal = (set_size,) * num_sets
    ragged = zipf_sizes(num_sets, num_sets * set_size)
    batches = [("dense", equal, True), ("packed", equal, False), ("zipf", ragged, False)]
    models = [("deep_sets++", 2, 50), ("set_transformer++", 2, 16)]
    ops = [("set_norm", 128, None), ("dense_query_attention", 128, None), ("dense_key_attention", 128, None)]
    return [BenchCase(op, shape, sizes, dim, depth, dense) for op, dim, depth in ops + models for shape, sizes, dense in batches]
