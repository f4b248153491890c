"""Does the test split have copies of what is in the training split? Then it leaks, whoever made it.

Letters: N sets, M elements of a set, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024  # sets looked at together: bounds the memory


def find_copy(train: NDArray[np.float32], test: NDArray[np.float32]) -> tuple[int, int] | None:
    """Numbers of a training and a test set with the same elements, in whatever order; None if there are none.

    Args:
        train: (N, M, D).
        test: Likewise; another M or D means other sets.
    """
    if train.shape[1:] != test.shape[1:]:
        return None
    train_prints, test_prints = fingerprints(train), fingerprints(test)  # (N,)
    order = np.argsort(train_prints, kind="stable")
    first = np.searchsorted(train_prints, test_prints, sorter=order)
    for row in np.flatnonzero(np.isin(test_prints, train_prints)):
        for i in order[first[row] :]:
            if train_prints[i] != test_prints[row]:
                break
            if np.array_equal(_sorted(train[i]), _sorted(test[row])):
                return int(i), int(row)
    return None


def are_copies(train: NDArray[Any], test: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) which rows of `test` are among the rows of `train`, to the last bit; rows may have any shape, such as images."""
    known = {hash(row.tobytes()) for row in train}
    return np.array([hash(row.tobytes()) in known for row in test], dtype=bool)


def fingerprints(sets: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A number for each set that does not depend on the order of its elements, and hardly ever agrees for different ones.

    The bits of an element's features are mixed one after the other (the finaliser of splitmix64), then summed over elements.

    Shapes: (N, M, D) -> (N,).
    """
    out = np.empty(len(sets), np.uint64)
    for i in range(0, len(sets), _BLOCK):
        block = np.ascontiguousarray(sets[i : i + _BLOCK]) + np.float32(0)  # -0 becomes 0: equal numbers, equal bits
        bits = block.view(np.uint32)  # (block, M, D)
        mixed = np.zeros(block.shape[:2], np.uint64)
        for feature in range(block.shape[2]):
            mixed = _mix(mixed + bits[..., feature] + np.uint64(0x9E3779B97F4A7C15))
        out[i : i + _BLOCK] = mixed.sum(axis=1, dtype=np.uint64)
    return out


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def _sorted(elements: NDArray[np.float32]) -> NDArray[np.float32]:
    return elements[np.lexsort(elements.T[::-1])]
