"""MNIST Var: predict the variance of the digits that ten images show; and its variants.

Images are drawn with repetition, uniformly, as in the authors' code, and keep their pixels from 0 to 255. Sets are rows of a
common pool of images, so that 500,000 places need no more room than 70,000 images.

Letters: N sets, T places in all sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.store_writer import StoreWriter
from orderless.tasks.base import Task, variant
from orderless.tasks.source import Request, Source
from orderless.tasks.sources import mnist
from orderless.tasks.sources.copies import are_copies
from orderless.tasks.sources.digits import read_digits

Statistic = Literal["variance", "mean", "median", "count"]
_PER_DIGIT = 1000  # test images of each digit in the released split
_PER_SMALL_DIGIT = 35  # of some 180: the same share


@dataclass(frozen=True)
class Images:
    """Images of one split: pixels (n, D), digits (n,), their rows in the file of that name, and whether it is the publisher's."""

    pixels: NDArray[np.uint8]
    digits: NDArray[np.uint8]
    rows: NDArray[np.int64]
    file: str
    original: bool = True


def summarize(digits: NDArray[np.integer[Any]], sizes: NDArray[np.integer[Any]], statistic: Statistic) -> NDArray[np.float32]:
    """A statistic of the digits (T,) of each set: (N,). `count` is the number of different digits."""
    sets = np.split(digits.astype(np.float64), np.cumsum(sizes)[:-1])
    measure: dict[Statistic, Callable[[NDArray[np.float64]], Any]] = {
        "variance": np.var,
        "mean": np.mean,
        "median": np.median,
        "count": lambda of_set: len(np.unique(of_set)),
    }
    return np.array([measure[statistic](of_set) for of_set in sets], dtype=np.float32)


def released_split(digits: NDArray[np.integer[Any]], per_digit: int = _PER_DIGIT) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows for training and for testing as the authors' code splits MNIST's training images.

    Its images are files called after their row, sorted by name (so 10.png comes before 2.png); the last 1,000 of each digit
    (`per_digit`) are for testing.
    """
    train, test = [], []
    for digit in range(10):
        names = sorted((f"{row}.png", row) for row in np.flatnonzero(digits == digit).tolist())
        if len(names) <= per_digit:
            have = f"there are {len(names)} of {digit}"
            raise ValueError(f"the released split takes {per_digit} test images of each digit; {have}.")
        train += [row for _, row in names[:-per_digit]]
        test += [row for _, row in names[-per_digit:]]
    return np.array(train), np.array(test)


def _read_mnist(request: Request) -> tuple[Images, Images]:
    read = mnist.read_mnist(request.files)
    original = read.is_original()
    return (
        Images(_flat(read.train_images), read.train_labels, np.arange(len(read.train_labels)), "train", original),
        Images(_flat(read.test_images), read.test_labels, np.arange(len(read.test_labels)), "t10k", original),
    )


def _read_mnist_released(request: Request) -> tuple[Images, Images]:
    everything, _ = _read_mnist(request)
    return _split_as_released(everything, _PER_DIGIT)


def _read_digits(request: Request) -> tuple[Images, Images]:
    read = read_digits()
    return (
        Images(_flat(read.train_images), read.train_labels, read.train_ids, "digits"),
        Images(_flat(read.test_images), read.test_labels, read.test_ids, "digits"),
    )


def _read_digits_released(request: Request) -> tuple[Images, Images]:
    train, test = _read_digits(request)
    order = np.argsort(np.concatenate([train.rows, test.rows]))
    pixels, digits = (np.concatenate([getattr(train, name), getattr(test, name)])[order] for name in ("pixels", "digits"))
    return _split_as_released(Images(pixels, digits, np.arange(len(order)), "digits"), _PER_SMALL_DIGIT)


def _without_copies(test: Images, train: Images, request: Request) -> Images:
    fresh = ~are_copies(train.pixels, test.pixels)
    if not fresh.any():
        where = request.found or "digits"
        raise DataError(where, expected="test images that are no training images", found=f"copies in all {len(fresh)} of them")
    return replace(test, pixels=test.pixels[fresh], digits=test.digits[fresh], rows=test.rows[fresh])


def _split_as_released(images: Images, per_digit: int) -> tuple[Images, Images]:
    train, test = (
        replace(images, pixels=images.pixels[rows], digits=images.digits[rows], rows=rows)
        for rows in released_split(images.digits, per_digit)
    )
    return train, test


def _flat(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.reshape(len(images), -1)


Read = Callable[[Request], tuple[Images, Images]]


def _build(read: Read, statistic: Statistic) -> Callable[[StoreWriter, Request], Mapping[str, Any]]:
    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        first = 0
        starts = []
        train, test = read(request)
        both = (train, _without_copies(test, train, request))
        for images in both:
            files = np.full(len(images.rows), images.file)
            writer.add_pool(images.pixels, file=files, row=images.rows, digit=images.digits)
            starts.append(first)
            first += len(images.rows)
        low, high = request.set_size
        for (split, number, count), images, start in zip(request.counts(), both, starts, strict=True):
            rng = request.rng(number)
            sizes = rng.integers(low, high + 1, count)
            drawn = rng.integers(0, len(images.rows), int(sizes.sum()))  # (T,)
            target = summarize(images.digits[drawn], sizes, statistic)
            ids = np.arange(count) + number * request.num_train
            writer.add_sets(split, drawn + start, sizes, target=target, id=ids)
        return {} if all(images.original for images in both) else {"differs": "not the publisher's images"}

    return build


def _sources(
    statistic: Statistic = "variance", *, read: Read = _read_mnist, read_stand_in: Read = _read_digits
) -> tuple[Source, ...]:
    digits = "scikit-learn's 8 x 8 digits instead of MNIST"
    return (
        Source("mnist", "published", "MNIST", (784,), _build(read, statistic), files=mnist),
        Source("digits", "substituted", digits, (64,), _build(read_stand_in, statistic)),
    )


MNIST_VAR = Task(
    name="mnist_var",
    title="MNIST Var",
    about="10 images of digits; predict the variance of the digits. Test sets are made of the file's test images.",
    objective="regression",
    metric="mse",
    sources=_sources(),
    num_train=50_000,
    num_test=1_000,
    set_size=(10, 10),
    drawing="images",
    model_options={"pool": "sum"},
)
MNIST_VAR_RELEASED = variant(
    MNIST_VAR,
    name="mnist_var_released",
    title="MNIST Var, the released split",
    about="As mnist_var, all images from one file; the last of each digit (1,000 in MNIST), by file name, are for testing.",
    sources=_sources(read=_read_mnist_released, read_stand_in=_read_digits_released),
)
MNIST_VAR_6_10 = variant(
    MNIST_VAR,
    name="mnist_var_6_10",
    title="MNIST Var, 6 to 10 images",
    about="As mnist_var, with 6 to 10 images in a set.",
    set_size=(6, 10),
)
MNIST_MEAN = variant(
    MNIST_VAR,
    name="mnist_mean",
    title="MNIST Mean",
    about="10 images of digits; predict the mean of the digits.",
    sources=_sources("mean"),
)
MNIST_MEDIAN = variant(
    MNIST_VAR,
    name="mnist_median",
    title="MNIST Median",
    about="10 images of digits; predict the median of the digits.",
    sources=_sources("median"),
)
MNIST_COUNT = variant(
    MNIST_VAR,
    name="mnist_count",
    title="MNIST Count",
    about="10 images of digits; predict how many different digits there are.",
    sources=_sources("count"),
)

TASKS = (MNIST_VAR, MNIST_VAR_RELEASED, MNIST_VAR_6_10, MNIST_MEAN, MNIST_MEDIAN, MNIST_COUNT)
