"""Sets that hold the same elements: the same sample under two names, which tests a model on what it was trained on.

Letters: N sets, T elements, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.reading import Array, iterate_sets, num_features, sizes_of, take_sets
from orderless.evaluate.splits import group_numbers

_MOST_PAIRS = 1000  # that are looked at element by element


def find_duplicates(X: Any, *, groups: Any = None, batch_size: int = 64) -> list[tuple[int, int]]:
    """Pairs of sets with the same elements, in whatever order, that belong to different groups.

    Every set is read once, for its size and a sum over its elements that does not depend on their order; only sets that agree in
    both are compared number by number. Empty sets are left out: they are the same, but nobody learns from them.

    Args:
        X: Sets, in any form that `take_sets` takes.
        groups: (N,) who each set belongs to. Default: every set stands for itself.
        batch_size: Sets that are read at once.
    """
    sizes = sizes_of(X)
    members = np.arange(len(sizes)) if groups is None else group_numbers(groups, len(sizes))[0]
    sums = [_content_sums(_numbers_of(batch), batch.offsets.cpu().numpy()) for batch in iterate_sets(X, batch_size)]
    marks = np.concatenate(sums) if sums else np.zeros(0, dtype=np.uint64)
    alike: dict[tuple[int, int], list[int]] = {}
    for number, key in enumerate(zip(sizes.tolist(), marks.tolist(), strict=True)):
        if key[0]:
            alike.setdefault(key, []).append(number)
    pairs = []
    for first, *others in alike.values():
        pairs += [(first, second) for second in others if members[first] != members[second]]
    return [pair for pair in pairs[:_MOST_PAIRS] if _same(X, *pair)]


def _numbers_of(batch: Any) -> Array:
    """(T, D) float64, where 0 and -0 are the same."""
    return batch.x.detach().cpu().double().reshape(len(batch.x), num_features(batch)).numpy() + 0.0


def _content_sums(x: Array, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(N,) sums of a hash of each element, modulo 2^64."""
    hashes = np.zeros(len(x), dtype=np.uint64)
    for column in np.ascontiguousarray(x.T).view(np.uint64):  # (T,)
        hashes ^= column
        hashes *= np.uint64(0x9E3779B97F4A7C15)  # mixes the low bits up, the shift brings the high ones down
        hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(32)
    before = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])  # wraps around, and back again
    return before[offsets[1:]] - before[offsets[:-1]]


def _same(X: Any, first: int, second: int) -> bool:
    a, b = (_sorted_rows(take_sets(X, [number])) for number in (first, second))
    return a.shape == b.shape and bool((a == b).all())


def _sorted_rows(one: Any) -> Array:
    x = _numbers_of(next(iter(iterate_sets(one, 1))))
    return x[np.lexsort(x.T)]
