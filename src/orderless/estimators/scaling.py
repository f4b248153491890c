"""Scaling: elements by the mean and spread of the training elements, targets by those of the training targets.

Letters: N sets, T elements, D features, K targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.defaults import CLIP, SCALING_ELEMENTS
from orderless.estimators.sets_input import GivenSets
from orderless.estimators.tails import Sample

Array = NDArray[Any]

# The spread of what never changed in training: divided by it, everything is zero. No gradient ever reached the weights for it, so
# another value must not come through to them later. A number, since JSON knows no infinity.
NEVER_CHANGES = float(np.finfo(np.float32).max)


class ElementScaler:
    """Subtracts the mean of the training elements and divides by their standard deviation, feature by feature, then clips.

    All elements of all sets count alike; with weights, those of a set by its weight. They are read once, a few at a time. A
    feature that never changes becomes zero, also where it does change later. Where a feature has heavy tails, such as a raw
    intensity, median and quartiles stand for mean and deviation, and asinh is taken, which is about linear around 0 and a
    logarithm far out.

    Where features are `coordinates`, one number divides them all, so that distances keep their proportions, and takes training
    elements to between -1 and 1, about their middle.

    Args:
        clip: The largest distance from the mean, in standard deviations: one wild element shall not decide a prediction. None
            leaves them as they are.
        coordinates: Elements are points in space.

    Attributes:
        mean_: (D,) float64; the median where tails are heavy, the middle of coordinates.
        scale_: (D,) float64: standard deviations, the spread of quartiles where tails are heavy, `NEVER_CHANGES` where a feature
            is constant; half the longest side of the box around all coordinates.
        bent_: (D,) bool: asinh is taken.
    """

    def __init__(self, clip: float | None = CLIP, *, coordinates: bool = False) -> None:
        self.clip, self.coordinates = clip, coordinates
        self.mean_: NDArray[np.float64] = np.zeros(0)
        self.scale_: NDArray[np.float64] = np.zeros(0)
        self.bent_: NDArray[np.bool_] = np.zeros(0, bool)

    def fit(self, sets: GivenSets, weight: NDArray[np.float64] | None = None) -> Self:
        """Learns mean and spread from sets, with weights (N,) above 0 where some count for more.

        Raises:
            ValueError: If an element is NaN, infinite or beyond float32; it names set and feature.
        """
        even = weight is None or bool((weight == weight[0]).all())  # weights of 2 are no weights
        total, mean = 0.0, np.zeros(sets.num_features)
        squares = np.zeros(sets.num_features)  # sums of squared distances from the mean so far
        sample = Sample(int(sets.sizes.sum()))
        low, high = np.full_like(mean, np.inf), np.full_like(mean, -np.inf)
        for numbers, x in _stretches(sets):
            if self.coordinates:
                low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
            each = 1.0 if even or weight is None else float(weight[numbers[0]])
            if even or weight is None or len(numbers) == 1:
                w: Any = each
                share = len(x) * each
                middle = x.mean(0)
                spread = np.square(x - middle).sum(0) * each
            else:
                w = np.repeat(weight[numbers], sets.sizes[numbers])[:, None]
                share = float(w.sum())
                middle = (x * w).sum(0) / share
                spread = (np.square(x - middle) * w).sum(0)
            sample.add(x, 1.0 if even else np.ravel(w))
            # Chan et al.: two parts joined, without the cancellation of a mean square less a squared mean
            joined = total + share
            squares += spread + np.square(middle - mean) * (total * share / joined)
            mean += (middle - mean) * (share / joined)
            total = joined
        if self.coordinates:
            half = (high - low).max() / 2 if total else 0.0
            self.bent_ = np.zeros(sets.num_features, bool)
            self.mean_ = (low + high) / 2 if total else mean
            self.scale_ = np.full_like(mean, half or NEVER_CHANGES)
            return self
        deviation = np.sqrt(squares / total) if total else np.zeros_like(mean)
        # what rounding leaves of a constant is no spread
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-30)
        tails = sample.tails(np.where(constant, 0.0, deviation))
        self.bent_ = tails.heavy
        self.mean_ = np.where(tails.heavy, tails.median, mean)
        self.scale_ = np.where(tails.heavy, tails.spread, np.where(constant, NEVER_CHANGES, deviation))
        return self

    def transform(self, x: Array) -> NDArray[np.float32]:
        """(T, D) elements as a network gets them, float32."""
        if x.dtype == np.float32:  # one pass less over what may be large; float64 keeps its digits until the mean is gone
            scaled = x - self.mean_.astype(np.float32)
            scaled /= self.scale_.astype(np.float32)
        else:
            scaled = ((x - self.mean_) / self.scale_).astype(np.float32)
        if self.bent_.any():
            scaled[:, self.bent_] = np.arcsinh(scaled[:, self.bent_])
        return scaled if self.clip is None else np.clip(scaled, -self.clip, self.clip, out=scaled)

    def describe(self) -> dict[str, Any]:
        """As JSON: `from_description` gives it back, to the last bit."""
        return {"mean": self.mean_.tolist(), "scale": self.scale_.tolist(), "bent": self.bent_.tolist(), "clip": self.clip}

    @classmethod
    def from_description(cls, said: Mapping[str, Any]) -> Self:
        """The scaler that `describe` described."""
        scaler = cls(said["clip"])
        scaler.mean_, scaler.scale_ = np.asarray(said["mean"], float), np.asarray(said["scale"], float)
        scaler.bent_ = np.asarray(said["bent"], bool)
        return scaler


def check_elements(sets: GivenSets) -> None:
    """Fails where an element is NaN, infinite or beyond float32, as `ElementScaler.fit` does."""
    for _ in _stretches(sets):
        pass


def _stretches(sets: GivenSets) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """(numbers of sets, their elements in float64), a stretch at a time: several small sets, or a part of a large one."""
    together: list[int] = []
    room = SCALING_ELEMENTS
    for i, size in enumerate(sets.sizes.tolist()):
        if together and size > room:
            yield _checked(sets, together)
            together, room = [], SCALING_ELEMENTS
        if size > SCALING_ELEMENTS:
            start = 0
            for block in sets.stored.blocks(i, SCALING_ELEMENTS):
                x = np.asarray(block, dtype=np.float64)
                sets.check_finite(x, [i], start)
                start += len(x)
                yield np.array([i]), x
        elif size:
            together.append(i)
            room -= size
    if together:
        yield _checked(sets, together)


def _checked(sets: GivenSets, numbers: list[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    x = np.asarray(sets.stored.gather(numbers), dtype=np.float64)
    sets.check_finite(x, numbers)
    return np.array(numbers), x


def mean_and_spread(values: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(K,) mean and standard deviation of values (N, K) of sets with weights (N,), of whatever size the values are.

    Where all values are one but for the last digit, that is the mean, exactly, and the deviation is 0.
    """
    constant = np.ptp(values, axis=0) <= 4 * np.finfo(np.float64).eps * np.abs(values).max(0)
    mean = np.where(constant, values[0], np.average(values, axis=0, weights=weight))
    away = values - mean
    # squares of 1e-200 are 0 unless they are taken in another unit; a power of two changes no digit
    unit = np.ldexp(1.0, np.frexp(np.abs(away).max(0))[1])
    deviation = unit * np.sqrt(np.average(np.square(away / unit), axis=0, weights=weight))
    return mean, np.where(constant, 0.0, deviation)
