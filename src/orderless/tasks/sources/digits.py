"""scikit-learn's bundled digits: 1,797 images of 8 x 8, always at hand, in place of MNIST and of photographs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TEST_SHARE = 0.2
_SPLIT_SEED = 0  # the same images are test images whatever the seed of a task, as with a published split


@dataclass(frozen=True)
class Digits:
    """Images (n, 8, 8) with values 0 to 16, and the digits that they show; no image is in both splits."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    train_ids: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    test_ids: NDArray[np.int64]


def read_digits() -> Digits:
    """The images, a fifth of each digit's for testing. No two of them are equal."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)
    rng = np.random.default_rng(_SPLIT_SEED)
    is_test = np.zeros(len(images), bool)
    for digit in range(10):
        of_digit = np.flatnonzero(labels == digit)
        is_test[rng.permutation(of_digit)[: round(TEST_SHARE * len(of_digit))]] = True
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    return Digits(images[train], labels[train], train, images[test], labels[test], test)
