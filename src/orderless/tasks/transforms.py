"""What is done to stored elements before a network sees them. Each is plain data, so that a manifest can say it.

Letters: T elements, D features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Transform(ABC):
    """Turns stored elements (T, *stored), as float32, into the elements that a network takes, float32.

    In numpy, in one thread: a loader that takes all cores would only be in the way of the network. May change what it is given.
    """

    @abstractmethod
    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]: ...

    @abstractmethod
    def element_shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of an element afterwards."""

    def describe(self) -> dict[str, Any]:
        """As JSON: `from_description` gives it back."""
        return {"name": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class AsStored(Transform):
    """Numbers as they are."""

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x

    def element_shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        return stored


@dataclass(frozen=True)
class Standardize(Transform):
    """Subtracts the mean and divides by the standard deviation that the *training* elements have, feature by feature."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        for feature, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):  # far faster than rows of two numbers
            column = x[:, feature]
            column -= np.float32(mean)
            column /= np.float32(std)
        return x

    def element_shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        return stored


@dataclass(frozen=True)
class OneHot(Transform):
    """A category, stored as one number, becomes a vector with a one at its place."""

    num_categories: int

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        vectors = np.zeros((len(x), self.num_categories), np.float32)
        vectors[np.arange(len(x)), x[:, 0].astype(np.int64)] = 1
        return vectors

    def element_shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        return (self.num_categories,)


_KINDS: dict[str, type[Transform]] = {kind.__name__: kind for kind in (AsStored, Standardize, OneHot)}


def from_description(said: Mapping[str, Any]) -> Transform:
    """The transform that `Transform.describe` described."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in said.items() if key != "name"}
    return _KINDS[said["name"]](**values)
