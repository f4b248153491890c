"""Summaries of sets as scikit-learn transformers: one row of numbers for each set, or for each element of a set.

`MomentSummary`, `CoefficientOfVariation` and `MeanEmbedding` give (N, K) rows, one per set; they do not depend on the order of
elements. `ElementContrast` and `EmbeddingContrast` give (T, K) rows, one per element in the order of elements: how an element
differs from the rest of its set. All take the same kinds of `X`:

- a list of (n_i, *element) arrays or tensors,
- a `SetBatch`,
- a dense array or tensor (N, M, *element),
- anything with `len` and with `.batches(batch_size)` that yields objects with `.sets`, such as `SetDataset`.

They go through `X` batch by batch, so that memory does not grow with it. Elements of any shape are flattened to vectors. What is
learnt (principal components, scales, the width of a kernel) is learnt in `fit`, from training sets only.

Letters: N sets, T elements, M elements of the largest set, D features of an element as given, F features that are worked on,
K columns, C random components, Q quantiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from orderless.sets import SetBatch

Array = NDArray[np.float64]
DEFAULT_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

_NUM_SAMPLED = 20_000  # training elements from which components, scales and kernel widths are learnt
_SAMPLED_NUMBERS = 32_000_000  # but no more numbers than these: 128 MB of float32, which is 2,600 images of 64 x 64 x 3
_BLOCK_NUMBERS = 1_000_000  # numbers worked on at once: 8 MB of float64
_CHUNK_ELEMENTS = 2048  # elements whose random features are made at once: 128 x 2048 float32 stay in a core's cache


class CoefficientError(ValueError):
    """A feature has no coefficient of variation, because its mean is not positive."""


class _Summary(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
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
        self.n_features_in_ = _num_features(next(iter(iterate_sets(X, 1))))

    def _rows(self, X: Any) -> Array:
        blocks = [self._batch_rows(*block) for block in self._blocks(X)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.get_feature_names_out())))

    def _blocks(self, X: Any) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Elements (T, D) and offsets (N + 1,) of each batch, checked."""
        for batch in iterate_sets(X, self.batch_size):
            if _num_features(batch) != self.n_features_in_:
                raise ValueError(
                    f"{type(self).__name__} was fitted to elements of {self.n_features_in_} numbers, "
                    f"got elements of {_num_features(batch)}, of shape {tuple(batch.element_shape)}."
                )
            yield _elements(batch), batch.offsets.cpu().numpy()

    @abstractmethod
    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array: ...


class _SetSummary(_Summary):
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

    @abstractmethod
    def _learn(self, X: Any) -> None: ...


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
        _check_positive(max_features=self.max_features)
        self.coordinates_ = _Coordinates.learn(X, self, standardize=False)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) such as `x0_mean`, or `pc0_mean` where features are principal components."""
        statistics = ["mean", "std", "skewness", "kurtosis", *(f"quantile_{q:g}" for q in self.quantiles)]
        return _names(f"{feature}_{name}" for feature in self.coordinates_.names() for name in statistics)

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.tile(self.empty_row_, (len(offsets) - 1, 1))
        noise = self.coordinates_.noise
        for numbers, values, sizes in _sorted_values(self.coordinates_(x), offsets):  # values (n, F, M)
            statistics = [*_moments(values, sizes, noise), *_quantiles(values, sizes, self.quantiles)]  # each (n, F)
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
        return _names([f"x{self.feature}_cv"])

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.tile(self.empty_row_, (len(offsets) - 1, 1))
        for numbers, values, sizes in _sorted_values(x[:, self.feature, None], offsets):
            mean, std, _, _ = _moments(values, sizes, 0.0)  # (n, 1)
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
        self.coordinates_, self.frequencies_, self.gamma_ = _learn_frequencies(X, self)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(C,): `cos0`, ..., `sin0`, ..."""
        return _names(_wave_names(self.num_components))

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        rows = np.zeros((len(offsets) - 1, self.num_components))
        for start in range(0, len(x), _CHUNK_ELEMENTS):
            waves = _waves(self.coordinates_(x[start : start + _CHUNK_ELEMENTS]), self.frequencies_)  # (C, chunk) float32
            bounds = (offsets - start).clip(0, waves.shape[1])
            some = np.flatnonzero(np.diff(bounds))  # the sets that have elements in this chunk
            rows[some] += np.add.reduceat(waves, bounds[some], axis=1).T  # sums within a chunk in float32, the rest in float64
        sizes = np.diff(offsets)[:, None]
        return np.where(sizes > 0, rows / np.maximum(sizes, 1), self.empty_row_)


class _ElementSummary(_Summary):
    """One row per element. An empty set has no element and gives no row."""

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learns from training sets and gives the rows of their elements: (T, K)."""
        self._start(X)
        self._learn(X)
        return self._rows(X)

    @abstractmethod
    def _learn(self, X: Any) -> None: ...


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
        _check_positive(max_features=self.max_features)
        self.coordinates_ = _Coordinates.learn(X, self, standardize=True)

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
        self.coordinates_, self.frequencies_, self.gamma_ = _learn_frequencies(X, self)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """(K,) such as `cos0_deviation`, `cos0_absolute` and `nearest`."""
        return _contrast_names(_wave_names(self.num_components))

    def _batch_rows(self, x: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
        return _contrast(_waves(self.coordinates_(x), self.frequencies_).T, offsets)


# -------------------------------------------------------------------------------------------------- reading sets


def iterate_sets(X: Any, batch_size: int) -> Iterator[SetBatch]:
    """Goes through sets in their order, in batches.

    Args:
        X: Sets, in any of the forms that the top of this module lists.
        batch_size: Sets in a batch.
    """
    _check_positive(batch_size=batch_size)
    if _is_dataset(X):
        return (labelled.sets for labelled in X.batches(batch_size))
    X = _as_sequence(X)
    return (_join(X[start : start + batch_size]) for start in range(0, len(X), batch_size))


def num_sets(X: Any) -> int:
    """How many sets there are, in any of the forms that `iterate_sets` takes."""
    return len(X if _is_dataset(X) else _as_sequence(X))


def _is_dataset(X: Any) -> bool:
    return hasattr(X, "batches") and hasattr(X, "__len__")


def _as_sequence(X: Any) -> Any:
    """Something with `len` and slices."""
    if isinstance(X, SetBatch | list | tuple):
        return X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return list(X)
    if isinstance(X, np.ndarray | Tensor):
        if X.ndim < 3:
            raise ValueError(
                f"sets in one array must have shape (N, M, D), N sets of M elements of D numbers, got {tuple(X.shape)}. "
                "One set alone is `x[None]`; sets of single numbers are `x[..., None]`."
            )
        return X
    raise TypeError(
        "sets must come as a list of (n_i, D) arrays, a SetBatch, an array (N, M, D) or something with `batches`, "
        f"got {type(X).__name__}."
    )


def _join(sets: Any) -> SetBatch:
    if isinstance(sets, SetBatch):
        return sets
    return SetBatch.from_padded(sets) if isinstance(sets, np.ndarray | Tensor) else SetBatch.from_list(sets)


def _num_features(batch: SetBatch) -> int:
    return int(np.prod(batch.element_shape, dtype=np.int64))


def _elements(batch: SetBatch) -> NDArray[Any]:
    """(T, D) float32 or float64, finite."""
    x = batch.x.detach().cpu()
    if x.is_complex():
        raise ValueError("elements must be real numbers, got complex ones. Pass real and imaginary parts as two features.")
    if x.dtype != torch.float64:
        x = x.to(torch.float32 if x.is_floating_point() else torch.float64)
    elements = x.reshape(len(x), _num_features(batch)).numpy()
    if not np.isfinite(elements).all():
        raise ValueError("elements must be finite, got NaN or infinity. Leave out such elements, or fill in what is missing.")
    return elements


def _sample_elements(X: Any, count: int, random_state: int, batch_size: int) -> NDArray[Any]:
    """About `count` training elements at most, (S, D): as many of each set, or one of each of `count` sets where N is larger.

    Within a set they lie at equal steps from a random start, so none is taken twice. Depends on neither `batch_size` nor the
    form of `X`.
    """
    rng = check_random_state(random_state)
    N = num_sets(X)
    each = max(1, count // N)
    chosen = np.zeros(N, dtype=np.int64)
    chosen[rng.permutation(N)[:count]] = each  # (N,) how many of each set
    start = rng.uniform(size=N)
    parts, before = [], 0
    for batch in iterate_sets(X, batch_size):
        offsets = batch.offsets.cpu().numpy()
        now = slice(before, before + len(batch))
        sizes = np.diff(offsets)
        taken = np.minimum(chosen[now], sizes)
        which = np.repeat(np.arange(len(batch)), taken)  # (s,) the set of each element that is taken
        step = np.arange(len(which)) - np.repeat(taken.cumsum() - taken, taken)  # 0, 1, ... within each set
        place = ((step + start[now][which]) * sizes[which] / taken[which]).astype(np.int64)
        parts.append(_elements(batch)[offsets[which] + np.minimum(place, sizes[which] - 1)])
        before += len(batch)
    sample = np.concatenate(parts)
    if len(sample) == 0:
        raise ValueError(f"fit needs at least one element, got {N} empty sets.")
    return sample


# ------------------------------------------------------------------------------------------ features to work with


@dataclass(frozen=True)
class _Coordinates:
    """Features as they are, standardised, or projected on principal components, as learnt from training elements.

    Attributes:
        center: (D,) subtracted first; None to leave elements as they are.
        components: (D, F) principal components, or None.
        scale: (F,) or a number that is divided by at last.
        noise: (F,) or a number: differences of coordinates up to this are rounding of the projection.
    """

    num_features: int
    center: Array | None = None
    components: Array | None = None
    scale: Array | float = 1.0
    noise: Array | float = 0.0

    @classmethod
    def learn(cls, X: Any, summary: Any, *, standardize: bool) -> _Coordinates:
        D, most = summary.n_features_in_, summary.max_features
        if most >= D and not standardize:
            return cls(D)
        sample = _sample_elements(X, _sample_size(D), summary.random_state, summary.batch_size)
        return cls.from_sample(sample, most, summary.random_state, standardize=standardize)

    @classmethod
    def from_sample(cls, sample: NDArray[Any], max_features: int, random_state: int, *, standardize: bool) -> _Coordinates:
        D = sample.shape[1]
        center = sample.mean(0, dtype=np.float64)
        components, spread = None, _usable(sample.std(0, dtype=np.float64), 1e-12 * abs(center))
        if max_features < D:
            wanted = min(max_features, len(sample))
            _, values, vectors = randomized_svd(sample - center.astype(sample.dtype), wanted, random_state=random_state)
            # elements may vary in fewer directions than asked for: what is left is rounding, and must not be blown up
            kept = np.maximum(1, (values > 1e-5 * values[0]).sum())
            components = np.ascontiguousarray(vectors[:kept].T, dtype=np.float64)  # (D, F)
            spread = _usable(values[:kept].astype(np.float64) / np.sqrt(len(sample)), 0.0)  # (F,)
        F = D if components is None else components.shape[1]
        scale = spread if standardize else np.ones(F)
        return cls(F, center, components, scale, 0.0 if components is None else 1e-9 * spread / scale)

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """(T, D) -> (T, F)."""
        if self.center is None:
            return x
        centred = x - self.center  # float64
        return (centred if self.components is None else centred @ self.components) / self.scale

    def names(self) -> list[str]:
        return [f"{'x' if self.components is None else 'pc'}{i}" for i in range(self.num_features)]


def _sample_size(num_features: int) -> int:
    return max(1, min(_NUM_SAMPLED, _SAMPLED_NUMBERS // max(num_features, 1)))


def _usable(spread: Array, rounding: Array | float) -> Array:
    """A feature that never varies is left as it is."""
    return np.where(spread > rounding, spread, 1.0)


def _learn_frequencies(X: Any, summary: Any) -> tuple[_Coordinates, NDArray[np.float32], float]:
    """Coordinates, frequencies (C / 2, F) and gamma."""
    _check_positive(max_features=summary.max_features, num_components=summary.num_components)
    if summary.num_components % 2:
        raise ValueError(f"num_components must be even, a cosine and a sine for each frequency; got {summary.num_components}.")
    rng = check_random_state(summary.random_state)
    sample = _sample_elements(X, _sample_size(summary.n_features_in_), summary.random_state, summary.batch_size)
    coordinates = _Coordinates.from_sample(sample, summary.max_features, summary.random_state, standardize=True)
    gamma = summary.gamma
    if gamma == "median":
        gamma = _median_gamma(coordinates(sample), rng)
    elif not (isinstance(gamma, int | float) and gamma > 0):
        raise ValueError(f'gamma must be a number above 0 or "median", got {gamma!r}.')
    frequencies = np.sqrt(2 * gamma) * rng.standard_normal((summary.num_components // 2, coordinates.num_features))
    return coordinates, frequencies.astype(np.float32), float(gamma)


def _median_gamma(sample: Array, rng: Any) -> float:
    """1 / (2 m) for the median m of squared distances of random pairs; of unequal pairs where most are equal."""
    left, right = rng.randint(len(sample), size=(2, 10_000))
    squares = ((sample[left] - sample[right]) ** 2).sum(1)
    squares = squares[squares > 0] if np.median(squares) == 0 else squares
    return 1 / (2 * float(np.median(squares))) if len(squares) else 1.0


def _waves(z: Array, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
    """(T, F) -> (C, T) random Fourier features, an element a column: sums over elements are several times faster that way.

    numpy's float32 cosine is the fastest at hand.
    """
    half = len(frequencies)
    waves = np.empty((2 * half, len(z)), dtype=np.float32)
    angles = frequencies @ np.ascontiguousarray(z.T, dtype=np.float32)  # (C / 2, T)
    np.cos(angles, out=waves[:half])
    np.sin(angles, out=waves[half:])
    waves *= np.float32(half**-0.5)
    return waves


def _wave_names(num_components: int) -> list[str]:
    return [f"{wave}{i}" for wave in ("cos", "sin") for i in range(num_components // 2)]


# ---------------------------------------------------------------------------------------- statistics of many sets


def _sorted_values(
    x: NDArray[Any], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]]:
    """Non-empty sets in blocks: their numbers (n,), each feature's values in ascending order (n, F, M), and sizes (n,).

    Sorting comes first for everything: it gives the quantiles, and makes sums not depend on the order of elements, to the bit.
    """
    for numbers, padded, mask in _padded_blocks(x, offsets, _BLOCK_NUMBERS // max(x.shape[1], 1)):
        values = np.ascontiguousarray(padded.transpose(0, 2, 1))  # (n, F, M)
        if not mask.all():
            values.transpose(0, 2, 1)[~mask] = np.inf  # padding goes last
        values.sort(-1)
        yield numbers, values, mask.sum(1)


def _padded_blocks(
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
        if len(numbers) * M == len(x):  # equal sets, all of them: a view will do
            numbers = np.sort(numbers)
            yield numbers, x.reshape(len(numbers), M, x.shape[1]), np.ones((len(numbers), M), dtype=bool)
            continue
        place = np.arange(M)
        mask = place < sizes[numbers, None]
        yield numbers, x[np.where(mask, offsets[numbers, None] + place, 0)], mask


def _moments(values: NDArray[Any], sizes: NDArray[np.int64], noise: Array | float) -> tuple[Array, Array, Array, Array]:
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


def _quantiles(values: NDArray[Any], sizes: NDArray[np.int64], quantiles: Sequence[float]) -> list[Array]:
    """Of sorted values (n, F, M), with linear interpolation: (n, F) each."""
    found = []
    for q in quantiles:
        place = (sizes - 1) * float(q)  # (n,)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        low, high = (np.take_along_axis(values, i[:, None, None], 2)[:, :, 0].astype(np.float64) for i in (below, above))
        found.append(low + (high - low) * (place - below)[:, None])
    return found


def _contrast(z: NDArray[Any], offsets: NDArray[np.int64]) -> Array:
    """(T, F) -> (T, 2 F + 3): see `ElementContrast`."""
    T, F = z.shape
    z = z.astype(np.float64)
    rows = np.zeros((T, 2 * F + 3))
    for numbers, padded, mask in _padded_blocks(z, offsets, _BLOCK_NUMBERS // max(F, 1)):
        block = np.where(mask[:, :, None], padded, 0)  # (n, M, F)
        others = np.maximum(mask.sum(1) - 1, 1)[:, None, None]  # 1 guards an element that is alone
        deviation = block - (block.sum(1, keepdims=True) - block) / others
        deviation[mask.sum(1) == 1] = 0
        columns = [deviation, abs(deviation), np.linalg.norm(deviation, axis=2, keepdims=True)]
        place = (offsets[numbers, None] + np.arange(block.shape[1]))[mask]  # rows of these elements
        rows[place, :-2] = np.concatenate(columns, 2)[mask]
    for numbers, padded, mask in _padded_blocks(z, offsets, _BLOCK_NUMBERS, power=2):
        place = (offsets[numbers, None] + np.arange(mask.shape[1]))[mask]
        rows[place, -2:] = _distances_to_others(torch.from_numpy(padded), torch.from_numpy(mask)).numpy()[mask]
    return rows


def _distances_to_others(block: Tensor, mask: Tensor) -> Tensor:
    """Mean and smallest distance to the other elements of the set: (n, M, F) -> (n, M, 2); 0 for an element that is alone."""
    n, M, _ = block.shape
    sizes = mask.sum(1)[:, None]  # (n, 1)
    step = max(1, _BLOCK_NUMBERS // (n * M))  # a set with thousands of elements is worked on a few rows at a time
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
    return _names([*deviations, "from_mean", "mean_distance", "nearest"])


def _names(names: Any) -> NDArray[np.object_]:
    return np.array(list(names), dtype=object)


def _check_positive(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be 1 or more, got {count}.")
