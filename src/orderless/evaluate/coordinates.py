"""Features to work with: elements standardised, projected on principal components, or turned into random Fourier features.

Letters: T elements, S sampled elements, D features of an element as given, F features that are worked on, C random components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from orderless.evaluate.reading import Array, check_positive, sample_elements

_NUM_SAMPLED = 20_000  # training elements from which components, scales and kernel widths are learnt
_SAMPLED_NUMBERS = 32_000_000  # but no more numbers than these: 128 MB of float32, which is 2,600 images of 64 x 64 x 3


@dataclass(frozen=True)
class Coordinates:
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
    def learn(cls, X: Any, summary: Any, *, standardize: bool) -> Coordinates:
        D, most = summary.n_features_in_, summary.max_features
        if most >= D and not standardize:
            return cls(D)
        sample = sample_elements(X, _sample_size(D), summary.random_state, summary.batch_size)
        return cls.from_sample(sample, most, summary.random_state, standardize=standardize)

    @classmethod
    def from_sample(cls, sample: NDArray[Any], max_features: int, random_state: int, *, standardize: bool) -> Coordinates:
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


def learn_frequencies(X: Any, summary: Any) -> tuple[Coordinates, NDArray[np.float32], float]:
    """Coordinates, frequencies (C / 2, F) and gamma."""
    check_positive(max_features=summary.max_features, num_components=summary.num_components)
    if summary.num_components % 2:
        raise ValueError(f"num_components must be even, a cosine and a sine for each frequency; got {summary.num_components}.")
    rng = check_random_state(summary.random_state)
    sample = sample_elements(X, _sample_size(summary.n_features_in_), summary.random_state, summary.batch_size)
    coordinates = Coordinates.from_sample(sample, summary.max_features, summary.random_state, standardize=True)
    gamma = summary.gamma
    if gamma == "median":
        gamma = _median_gamma(coordinates(sample), rng)
    elif not (isinstance(gamma, int | float) and gamma > 0):
        raise ValueError(f'gamma must be a number above 0 or "median", got {gamma!r}.')
    frequencies = np.sqrt(2 * gamma) * rng.standard_normal((summary.num_components // 2, coordinates.num_features))
    return coordinates, frequencies.astype(np.float32), float(gamma)


def fourier_features(z: Array, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
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


def wave_names(num_components: int) -> list[str]:
    """What the rows of `fourier_features` are: `cos0`, ..., `sin0`, ..."""
    return [f"{wave}{i}" for wave in ("cos", "sin") for i in range(num_components // 2)]


def _median_gamma(sample: Array, rng: Any) -> float:
    """1 / (2 m) for the median m of squared distances of random pairs; of unequal pairs where most are equal."""
    left, right = rng.randint(len(sample), size=(2, 10_000))
    squares = ((sample[left] - sample[right]) ** 2).sum(1)
    squares = squares[squares > 0] if np.median(squares) == 0 else squares
    return 1 / (2 * float(np.median(squares))) if len(squares) else 1.0


def _sample_size(num_features: int) -> int:
    return max(1, min(_NUM_SAMPLED, _SAMPLED_NUMBERS // max(num_features, 1)))


def _usable(spread: Array, rounding: Array | float) -> Array:
    """A feature that never varies is left as it is."""
    return np.where(spread > rounding, spread, 1.0)
