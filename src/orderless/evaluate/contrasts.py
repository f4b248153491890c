"""Contrasts as scikit-learn transformers: one row of numbers for each element, how it differs from the rest of its set.

`ElementContrast` and `EmbeddingContrast` give (T, K) rows, one per element in the order of elements. They take the same sets as
the summaries, and learn in `fit` only, from training sets.

Letters: N sets, T elements, M elements of the largest set, D features of an element as given, F features that are worked on,
K columns, C random components, n sets of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orderless.evaluate.coordinates import Coordinates, fourier_features, learn_frequencies, wave_names
from orderless.evaluate.moments import BLOCK_NUMBERS, padded_blocks
from orderless.evaluate.reading import Array, check_positive
from orderless.evaluate.summaries import Summary, column_names


class _ElementSummary(Summary):
    """One row per element. An empty set has no element and gives no row."""

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learns from training sets and gives the rows of their elements: (T, K)."""
        self._start(X)
        self._learn(X)
        return self._rows(X)


class ElementContrast(_ElementSummary):
    r"""How each element differs from the other elements of its set.

    For each feature the deviation from the mean of the others, with its sign and without; then the distance to that mean, the
    mean distance to the others and the distance to the nearest other:

    $$d_i = x_i - \frac1{n-1}\sum_{j\neq i} x_j,\qquad (d_i,\ |d_i|,\ \|d_i\|,\ \frac1{n-1}\sum_{j\neq i}\|x_i - x_j\|,\
      \min_{j\neq i}\|x_i - x_j\|)$$

    An element that is alone has no others, and gets zeros. Elements are standardised, and projected on principal components
    where they have many features, as in `MeanEmbedding`. The work is quadratic in the size of a set.

    Args:
        max_features: Most features that are used as they are, and the number of principal components where there are more.
        random_state: Of the sample of elements that components and scales are learnt from.
        batch_size: Sets that are read at once.

    Shapes: N sets -> (T, 2 F + 3). Permutation equivariant.
    """

    def __init__(self, max_features: int = 32, *, random_state: int = 0, batch_size: int = 64) -> None:
        self.max_features = max_features
        self.random_state = random_state
        self.batch_size = batch_size

    def _learn(self, X: Any) -> None:
        check_positive(max_features=self.max_features)
        self.coordinates_ = Coordinates.learn(X, self, standardize=True)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) such as `x0_deviation`, `x0_absolute` and `nearest`."""
        return _contrast_names(self.coordinates_.names())

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        return _contrast(self.coordinates_(x), offsets)


class EmbeddingContrast(_ElementSummary):
    r"""How each element differs from the others of its set in the space of random Fourier features.

    The same columns as `ElementContrast`, of $\phi(x_i)$ as in `MeanEmbedding` instead of $x_i$. Distances there are those of
    the kernel, which grow no further once elements are far apart.

    Args:
        num_components: Random components C, even.
        gamma: As in `MeanEmbedding`.
        max_features: Most features that are used as they are, and the number of principal components where there are more.
        random_state: Of frequencies and samples.
        batch_size: Sets that are read at once.

    Shapes: N sets -> (T, 2 C + 3). Permutation equivariant.
    """

    def __init__(
        self,
        num_components: int = 64,
        *,
        gamma: float | Literal["median"] = "median",
        max_features: int = 32,
        random_state: int = 0,
        batch_size: int = 64,
    ) -> None:
        self.num_components = num_components
        self.gamma = gamma
        self.max_features = max_features
        self.random_state = random_state
        self.batch_size = batch_size

    def _learn(self, X: Any) -> None:
        self.coordinates_, self.frequencies_, self.gamma_ = learn_frequencies(X, self)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) such as `cos0_deviation`, `cos0_absolute` and `nearest`."""
        return _contrast_names(wave_names(self.num_components))

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        return _contrast(fourier_features(self.coordinates_(x), self.frequencies_).T, offsets)


def _contrast(z: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
    """(T, F) -> (T, 2 F + 3): see `ElementContrast`."""
    T, F = z.shape
    z = z.astype(np.float64)
    rows = np.zeros((T, 2 * F + 3))
    for numbers, padded, mask in padded_blocks(z, offsets, BLOCK_NUMBERS // max(F, 1)):
        block = np.where(mask[:, :, None], padded, 0)  # (n, M, F)
        others = np.maximum(mask.sum(1) - 1, 1)[:, None, None]  # 1 guards an element that is alone
        deviation = block - (block.sum(1, keepdims=True) - block) / others
        deviation[mask.sum(1) == 1] = 0
        columns = [deviation, abs(deviation), np.linalg.norm(deviation, axis=2, keepdims=True)]
        place = (offsets[numbers, None] + np.arange(block.shape[1]))[mask]  # rows of these elements
        rows[place, :-2] = np.concatenate(columns, 2)[mask]
    for numbers, padded, mask in padded_blocks(z, offsets, BLOCK_NUMBERS, power=2):
        place = (offsets[numbers, None] + np.arange(mask.shape[1]))[mask]
        rows[place, -2:] = _distances_to_others(torch.from_numpy(padded), torch.from_numpy(mask)).numpy()[mask]
    return rows


def _distances_to_others(block: Tensor, mask: Tensor) -> Tensor:
    """Mean and smallest distance to the other elements of the set: (n, M, F) -> (n, M, 2); 0 for an element that is alone."""
    n, M, _ = block.shape
    sizes = mask.sum(1)[:, None]  # (n, 1)
    step = max(1, BLOCK_NUMBERS // (n * M))  # a set with thousands of elements is worked on a few rows at a time
    found = block.new_zeros(n, M, 2)
    for start in range(0, M, step):
        rows = slice(start, start + step)
        # computed from differences: through inner products, near neighbours would be lost to rounding
        distance = torch.cdist(block[:, rows], block, compute_mode="donot_use_mm_for_euclid_dist")  # (n, rows, M)
        itself = torch.arange(M)[rows, None] == torch.arange(M)
        found[:, rows, 0] = distance.masked_fill(~mask[:, None], 0).sum(2) / (sizes - 1).clamp(min=1)
        found[:, rows, 1] = distance.masked_fill(~mask[:, None] | itself, torch.inf).amin(2)
    return found.masked_fill((sizes == 1)[:, :, None], 0)


def _contrast_names(features: Sequence[str]) -> NDArray[np.object_]:
    deviations = [f"{feature}_{kind}" for kind in ("deviation", "absolute") for feature in features]
    return column_names([*deviations, "from_mean", "mean_distance", "nearest"])
