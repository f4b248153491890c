"""Statistics of many sets at once: sets of similar sizes side by side, with numpy instead of a loop over sets.

Letters: T elements, F features, n sets of a block, M elements of the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.reading import Array

BLOCK_NUMBERS = 1_000_000  # numbers worked on at once: 8 MB of float64


def sorted_values(
    x: NDArray[Any], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]]:
    """Non-empty sets in blocks: their numbers (n,), each feature's values in ascending order (n, F, M), and sizes (n,).

    Sorting comes first for everything: it gives the quantiles, and makes sums not depend on the order of elements, to the bit.
    """
    for numbers, padded, mask in padded_blocks(x, offsets, BLOCK_NUMBERS // max(x.shape[1], 1)):
        values = np.ascontiguousarray(padded.transpose(0, 2, 1))  # (n, F, M)
        if not mask.all():
            values.transpose(0, 2, 1)[~mask] = np.inf  # padding goes last
        values.sort(-1)
        yield numbers, values, mask.sum(1)


def moments_of(values: NDArray[Any], sizes: NDArray[np.int64], noise: Array | float) -> tuple[Array, Array, Array, Array]:
    """Mean, standard deviation, skewness and excess kurtosis, (n, F) each, of values (n, F, M) of which `sizes` (n,) count."""
    beyond = np.arange(values.shape[2]) >= sizes[:, None, None]  # (n, 1, M)
    padding = np.broadcast_to(beyond, values.shape) if beyond.any() else None
    count = sizes[:, None].astype(np.float64)
    low = values[:, :, 0].astype(np.float64)
    high = np.take_along_axis(values, (sizes - 1)[:, None, None], 2)[:, :, 0].astype(np.float64)
    # around the middle of the range sums have their digits for what differs, not for what all have in common
    middle = low + (high - low) / 2
    z = values - middle[:, :, None]  # float64
    if padding is not None:
        z[padding] = 0
    shift = z.sum(2) / count
    mean = middle + shift
    # in units of the range, powers neither overflow nor vanish
    reach = np.maximum(high - middle - shift, middle + shift - low)
    constant = high - low <= np.maximum(4 * np.finfo(np.float64).eps * np.maximum(abs(low), abs(high)), noise)
    z -= shift[:, :, None]
    z /= np.where(constant, 1, reach)[:, :, None]
    if padding is not None:
        z[padding] = 0
    powers = z * z
    second = powers.sum(2) / count
    z *= powers
    third = z.sum(2) / count
    powers *= powers
    fourth = powers.sum(2) / count
    usable = np.where(constant, 1, second)
    return (
        mean,
        np.where(constant, 0, reach * np.sqrt(second)),
        np.where(constant, 0, third / usable**1.5),
        np.where(constant, 0, fourth / usable**2 - 3),
    )


def quantiles_of(values: NDArray[Any], sizes: NDArray[np.int64], quantiles: Sequence[float]) -> list[Array]:
    """Of sorted values (n, F, M), with linear interpolation: (n, F) each."""
    found = []
    for q in quantiles:
        place = (sizes - 1) * float(q)  # (n,)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        low, high = (np.take_along_axis(values, i[:, None, None], 2)[:, :, 0].astype(np.float64) for i in (below, above))
        found.append(low + (high - low) * (place - below)[:, None])
    return found


def padded_blocks(
    x: NDArray[Any], offsets: NDArray[np.int64], budget: int, *, power: int = 1
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]]:
    """Non-empty sets of similar sizes side by side: numbers (n,), x (n, M, F) and mask (n, M).

    A block has `n M**power <= budget`, or one set, and no set of less than half of M; so little is padded, and a few huge sets
    among many small ones do no harm.
    """
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")[::-1]
    order = order[sizes[order] > 0]
    ascending = sizes[order][::-1]
    while len(order):
        M = int(sizes[order[0]])
        large_enough = len(order) - int(np.searchsorted(ascending[: len(order)], (M + 1) // 2))
        count = min(max(1, budget // M**power), large_enough)
        numbers, order = order[:count], order[count:]
        ascending = ascending[: len(order)]
        if sizes[numbers[-1]] == M and len(numbers) * M == len(x):  # equal sets, all of them: a view will do
            numbers = np.sort(numbers)
            yield numbers, x.reshape(len(numbers), M, x.shape[1]), np.ones((len(numbers), M), dtype=bool)
            continue
        place = np.arange(M)
        mask = place < sizes[numbers, None]
        yield numbers, x[np.where(mask, offsets[numbers, None] + place, 0)], mask
