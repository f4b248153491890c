"""Summaries of sets as scikit-learn transformers: one row of numbers for each set.

`MomentSummary`, `CoefficientOfVariation` and `MeanEmbedding` give (N, K) rows, one per set; they do not depend on the order of
elements. They take sets in every form that `iterate_sets` takes, and go through them batch by batch, so that memory does not grow
with them. Elements of any shape are flattened to vectors. What is learnt (principal components, scales, the width of a kernel) is
learnt in `fit`, from training sets only.

Letters: N sets, T elements, M elements of the largest set, D features of an element as given, F features that are worked on,
K columns, C random components, Q quantiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from orderless.evaluate.coordinates import Coordinates, fourier_features, learn_frequencies, wave_names
from orderless.evaluate.moments import moments_of, quantiles_of, sorted_values
from orderless.evaluate.reading import Array, check_positive, elements_of, iterate_sets, num_features, num_sets

DEFAULT_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

_CHUNK_ELEMENTS = 2048  # elements whose random features are made at once: 128 x 2048 float32 stay in a core's cache


class CoefficientError(ValueError):
    """A feature has no coefficient of variation, because its mean is not positive."""


class Summary(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What all summaries share: `fit` and `transform` batch by batch. Subclasses say what is learnt and what a row is."""

    batch_size: int
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns from training sets; `y` is not looked at."""
        self.fit_transform(X, y)
        return self

    @abstractmethod
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learns from training sets and gives their rows."""

    def transform(self, X: Any) -> Array:
        """Rows of sets, float64."""
        check_is_fitted(self)
        return self._rows(X)

    @abstractmethod
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) what the columns are."""

    def _start(self, X: Any) -> None:
        """Takes note of the features; fails early where there is nothing to learn from."""
        if num_sets(X) == 0:
            raise ValueError(f"{type(self).__name__}.fit needs at least one set, got none.")
        self.n_features_in_ = num_features(next(iter(iterate_sets(X, 1))))

    def _rows(self, X: Any) -> Array:
        blocks = [self._batch_rows(*block) for block in self._blocks(X)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.get_feature_names_out())))

    def _blocks(self, X: Any) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Elements (T, D) and offsets (N + 1,) of each batch, checked."""
        for batch in iterate_sets(X, self.batch_size):
            if num_features(batch) != self.n_features_in_:
                raise ValueError(
                    f"{type(self).__name__} was fitted to elements of {self.n_features_in_} numbers, "
                    f"got elements of {num_features(batch)}, of shape {tuple(batch.element_shape)}."
                )
            yield elements_of(batch), batch.offsets.cpu().numpy()

    @abstractmethod
    def _learn(self, X: Any) -> None: ...

    @abstractmethod
    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array: ...


class _SetSummary(Summary):
    """One row per set. An empty set gets the average row of the non-empty training sets."""

    empty_row_: Array

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learns from training sets and gives their rows, in one go: (N, K)."""
        self._start(X)
        self._learn(X)
        self.empty_row_ = np.zeros(len(self.get_feature_names_out()))
        parts, sizes = [], []
        for x, offsets in self._blocks(X):
            parts.append(self._batch_rows(x, offsets))
            sizes.append(np.diff(offsets))
        rows, empty = np.concatenate(parts), np.concatenate(sizes) == 0
        if empty.all():
            raise ValueError(f"{type(self).__name__}.fit needs at least one element, got {len(empty)} empty sets.")
        self.empty_row_ = rows[~empty].mean(0)
        rows[empty] = self.empty_row_
        return rows


class MomentSummary(_SetSummary):
    r"""Mean, standard deviation, skewness, kurtosis and quantiles of each feature: the paper's hand-crafted statistics.

    $$\mu = \frac1n\sum_i x_i,\quad \sigma^2 = \frac1n\sum_i (x_i-\mu)^2,\quad
      \text{skewness} = \frac1n\sum_i z_i^3,\quad \text{kurtosis} = \frac1n\sum_i z_i^4 - 3,\quad z_i = (x_i-\mu)/\sigma$$

    and quantiles with linear interpolation, as `np.quantile`. All in float64 around the mean of the set itself, so that a large
    offset costs no digits. Where a feature is constant within a set, standard deviation, skewness and kurtosis are 0. An empty
    set gets the average row of the training sets: a linear model then predicts for it what it predicts on average.

    Where elements have more than `max_features` numbers, they are first projected on that many principal components, learnt from
    a sample of at most 20,000 training elements: nine statistics of each of 784 pixels would be 7,056 columns. There are fewer
    components where elements vary in fewer directions. The names of the columns tell: `x0_mean` is of a feature, `pc0_mean` of a
    component.

    Args:
        quantiles: Between 0 and 1.
        max_features: Most features that are summarised as they are, and the number of components where there are more.
        random_state: Of the sample of elements.
        batch_size: Sets that are read at once.

    Shapes: N sets -> (N, F (4 + Q)), the columns of a feature side by side. Permutation invariant.

    Reference: Zhang, Tozzo, Higgins, Ranganath (2022), appendix "Flow-RBC".
    """

    def __init__(
        self,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        max_features: int = 100,
        *,
        random_state: int = 0,
        batch_size: int = 64,
    ) -> None:
        self.quantiles = quantiles
        self.max_features = max_features
        self.random_state = random_state
        self.batch_size = batch_size

    def _learn(self, X: Any) -> None:
        if not all(0 <= q <= 1 for q in self.quantiles):
            raise ValueError(f"quantiles must lie between 0 and 1, got {tuple(self.quantiles)}.")
        check_positive(max_features=self.max_features)
        self.coordinates_ = Coordinates.learn(X, self, standardize=False)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) such as `x0_mean`, or `pc0_mean` where features are principal components."""
        statistics = ["mean", "std", "skewness", "kurtosis", *(f"quantile_{q:g}" for q in self.quantiles)]
        return column_names(f"{feature}_{name}" for feature in self.coordinates_.names() for name in statistics)

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.tile(self.empty_row_, (len(offsets) - 1, 1))
        noise = self.coordinates_.noise
        for numbers, values, sizes in sorted_values(self.coordinates_(x), offsets):  # values (n, F, M)
            statistics = [*moments_of(values, sizes, noise), *quantiles_of(values, sizes, self.quantiles)]  # each (n, F)
            rows[numbers] = np.stack(statistics, 2).reshape(len(numbers), -1)
        return rows


class CoefficientOfVariation(_SetSummary):
    r"""The coefficient of variation of one feature in percent, $100\,\sigma/\mu$, with the population's standard deviation.

    Of the volume of red blood cells this is the red cell distribution width, RDW. It needs a feature with a true zero, in its
    own units: of standardised features it means nothing, and `fit` refuses them. An empty set gets the average of the training
    sets.

    Args:
        feature: Which number of an element.
        batch_size: Sets that are read at once.

    Shapes: N sets -> (N, 1). Permutation invariant.

    Reference: Zhang, Tozzo, Higgins, Ranganath (2022), appendix "Flow-RBC".
    """

    def __init__(self, feature: int = 0, *, batch_size: int = 64) -> None:
        self.feature = feature
        self.batch_size = batch_size

    def _learn(self, X: Any) -> None:
        if not 0 <= self.feature < self.n_features_in_:
            raise ValueError(f"feature must lie in 0..{self.n_features_in_ - 1}, got {self.feature}.")
        count, total, squares, lowest = 0, 0.0, 0.0, np.inf
        for x, _ in self._blocks(X):
            values = x[:, self.feature].astype(np.float64)
            count += len(values)
            total += values.sum()
            squares += (values**2).sum()
            lowest = min(lowest, values.min(initial=np.inf))
        if count == 0:
            return
        mean = total / count
        # what cannot be negative has a zero; else the mean must lie well away from it
        if mean <= 0 or (lowest < 0 and mean < np.sqrt(max(squares / count - mean**2, 0))):
            raise CoefficientError(
                f"the coefficient of variation needs a feature that is clearly positive, such as a volume in fL, but feature "
                f"{self.feature} has mean {mean:.3g} and lowest value {lowest:.3g} over the training elements. "
                "If it was standardised, pass it in its own units."
            )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(1,): `x0_cv` for the first feature."""
        return column_names([f"x{self.feature}_cv"])

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.tile(self.empty_row_, (len(offsets) - 1, 1))
        for numbers, values, sizes in sorted_values(x[:, self.feature, None], offsets):
            mean, std, _, _ = moments_of(values, sizes, 0.0)  # (n, 1)
            if mean.min() <= 0:
                raise CoefficientError(
                    f"the coefficient of variation needs a positive mean in every set, but that of feature {self.feature} "
                    f"goes down to {mean.min():.3g}. If the feature was standardised, pass it in its own units."
                )
            rows[numbers] = 100 * std / mean
        return rows


class MeanEmbedding(_SetSummary):
    r"""Random Fourier features of the elements, averaged over the set: an approximate kernel mean embedding.

    $$\phi(x) = \sqrt{2/C}\,(\cos\omega_1^\top x, \dots, \cos\omega_{C/2}^\top x, \sin\omega_1^\top x, \dots,
      \sin\omega_{C/2}^\top x),\quad \omega \sim \mathcal N(0, 2\gamma I)$$

    so that $\phi(x)^\top\phi(x') \approx \exp(-\gamma\|x - x'\|^2)$, and the row of a set is the mean of $\phi$ over it: its
    empirical characteristic function at random frequencies. A linear model on top is what a one-layer Deep Sets with random
    weights would be. Elements are standardised feature by feature; where they have more than `max_features` numbers, they are
    first projected on that many principal components. Both are learnt from a sample of at most 20,000 training elements. An
    empty set gets the average row of the training sets.

    Args:
        num_components: Columns C, even.
        gamma: Of the kernel, for standardised elements; `median` takes 1 / (2 median squared distance) of training elements.
        max_features: Most features that are used as they are, and the number of principal components where there are more.
        random_state: Of frequencies and samples.
        batch_size: Sets that are read at once.

    Shapes: N sets -> (N, C). Permutation invariant.

    Reference: Rahimi, Recht (2007), "Random features for large-scale kernel machines"; Muandet, Fukumizu, Sriperumbudur,
    Schölkopf (2017), "Kernel mean embedding of distributions".
    """

    def __init__(
        self,
        num_components: int = 256,
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
        """(C,): `cos0`, ..., `sin0`, ..."""
        return column_names(wave_names(self.num_components))

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.zeros((len(offsets) - 1, self.num_components))
        for start in range(0, len(x), _CHUNK_ELEMENTS):
            z = self.coordinates_(x[start : start + _CHUNK_ELEMENTS])
            waves = fourier_features(z, self.frequencies_)  # (C, chunk) float32
            bounds = (offsets - start).clip(0, waves.shape[1])
            some = np.flatnonzero(np.diff(bounds))  # the sets that have elements in this chunk
            rows[some] += np.add.reduceat(waves, bounds[some], axis=1).T  # sums within a chunk in float32, the rest in float64
        sizes = np.diff(offsets)[:, None]
        return np.where(sizes > 0, rows / np.maximum(sizes, 1), self.empty_row_)


def column_names(names: Any) -> NDArray[np.object_]:
    """Names as scikit-learn wants them: an array of objects."""
    return np.array(list(names), dtype=object)
