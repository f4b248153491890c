"""Set anomaly: which of ten images is the odd one out. One logit per image, a softmax over the images of the set.

With CelebA, nine images share two attributes that the tenth has neither of. With labelled images (CIFAR-10, digits), nine show
one class and the tenth another. No image appears twice in a set. Images are 64 x 64: smaller ones are resized, because the
paper's convolutions cannot take less.

Letters: N sets, n images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from orderless.io.errors import DataError
from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.nn import ConvFeaturizer
from orderless.tasks.base import Task
from orderless.tasks.source import Request, Source
from orderless.tasks.sources import celeba, cifar10
from orderless.tasks.sources.copies import are_copies
from orderless.tasks.sources.digits import read_digits

IMAGE_SIZE = 64
_BLOCK_IMAGES = 1024
_COLOUR, _GREY = (3, IMAGE_SIZE, IMAGE_SIZE), (1, IMAGE_SIZE, IMAGE_SIZE)
_MAX_DIGIT = 16  # scikit-learn's digits are 0 to 16


def resize(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (n, C, H, W) to 64 x 64, bilinear."""
    wanted = (IMAGE_SIZE, IMAGE_SIZE)
    resized = F.interpolate(torch.from_numpy(images).float(), size=wanted, mode="bilinear", align_corners=False)
    return resized.round().clamp(0, 255).to(torch.uint8).numpy()


class Drawn:
    """Sets as they are drawn: rows of images, where the odd one of each set is, and what told it apart."""

    def __init__(self, set_size: int) -> None:
        self._set_size = set_size
        self._rows: list[NDArray[np.int64]] = []
        self._odd_at: list[int] = []
        self._kinds: list[tuple[int, int]] = []

    def add(self, chosen: NDArray[np.int64], kind: tuple[int, int], rng: np.random.Generator) -> None:
        """Takes a set whose last image is the odd one, and hides that among the others."""
        order = rng.permutation(len(chosen))
        self._rows.append(chosen[order])
        self._odd_at.append(int(np.flatnonzero(order == len(chosen) - 1)[0]))
        self._kinds.append(kind)

    @property
    def rows(self) -> NDArray[np.int64]:
        """(N, set_size) rows of images."""
        return np.array(self._rows, dtype=np.int64).reshape(-1, self._set_size)

    @property
    def odd_at(self) -> NDArray[np.int64]:
        """(N,) position of the odd one."""
        return np.array(self._odd_at, dtype=np.int64)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """(N, 2) the common and the odd class, or the two attributes."""
        return np.array(self._kinds, dtype=np.int64).reshape(-1, 2)


def draw_by_class(labels: NDArray[np.integer[Any]], num_sets: int, set_size: int, rng: np.random.Generator) -> Drawn:
    """Sets in which one image shows another class than the rest. No image is twice in a set."""
    _check_set_size(set_size)
    classes = np.unique(labels)
    if not len(labels):
        raise _too_few(f"{set_size - 1} images of one class and one of another", "no images")
    members = {int(c): np.flatnonzero(labels == c) for c in classes}
    common_classes = [c for c, rows in members.items() if len(rows) >= set_size - 1]
    if len(classes) < 2 or not common_classes:
        found = f"at most {max(len(rows) for rows in members.values())} of one class among {len(labels)} images"
        raise _too_few(f"{set_size - 1} images of one class and one of another", found)
    drawn = Drawn(set_size)
    for _ in range(num_sets):
        common = int(rng.choice(common_classes))
        odd = int(rng.choice(classes[classes != common]))
        chosen = np.append(rng.choice(members[common], set_size - 1, replace=False), rng.choice(members[odd]))
        drawn.add(chosen, (common, odd), rng)
    return drawn


def draw_by_attributes(attributes: NDArray[np.bool_], num_sets: int, set_size: int, rng: np.random.Generator) -> Drawn:
    """Sets in which all images but one have two attributes, and that one has neither."""
    _check_set_size(set_size)
    has, lacks = attributes.astype(np.int64), (~attributes).astype(np.int64)
    share, lack = has.T @ has, lacks.T @ lacks  # how many images have both attributes, and how many neither
    usable = np.argwhere(np.triu((share >= set_size - 1) & (lack >= 1), k=1))
    if not len(usable):
        found = f"no such attributes among {len(attributes)} images"
        raise _too_few(f"two attributes that {set_size - 1} images share and another one lacks", found)
    drawn = Drawn(set_size)
    for _ in range(num_sets):
        first, second = usable[rng.integers(len(usable))]
        both_rows = np.flatnonzero(attributes[:, first] & attributes[:, second])
        neither_rows = np.flatnonzero(~attributes[:, first] & ~attributes[:, second])
        chosen = np.append(rng.choice(both_rows, set_size - 1, replace=False), rng.choice(neither_rows))
        drawn.add(chosen, (int(first), int(second)), rng)
    return drawn


def _check_set_size(set_size: int) -> None:
    if set_size < 3:
        raise ValueError(f"set_size must be 3 or more: of {set_size} images none is the odd one. Got {set_size}.")


def _too_few(expected: str, found: str) -> DataError:
    return DataError("set_anomaly", expected=expected, found=found, fix="Ask for smaller sets: --set-size.")


def split_identities(
    identities: NDArray[np.integer[Any]], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the images of one half of the people, and of the other half: nobody is in both."""
    people = rng.permutation(np.unique(identities))
    in_train = np.isin(identities, people[: len(people) // 2])
    return np.flatnonzero(in_train), np.flatnonzero(~in_train)


def _build_celeba(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
    read = celeba.read_celeba(request.files)
    split_rows = split_identities(read.identities, request.rng(2))
    drawn = {}
    for (split, number, count), of_split in zip(request.counts(), split_rows, strict=True):
        sets = draw_by_attributes(read.attributes[of_split], count, request.set_size[0], request.rng(number))
        drawn[split] = (of_split[sets.rows], sets)
    used = np.unique(np.concatenate([rows.ravel() for rows, _ in drawn.values()]))
    for block in iterate_blocks(len(used), _BLOCK_IMAGES):
        of_block = used[block.start : block.stop]
        names = [read.filenames[i] for i in of_block]
        images = celeba.read_celeba_images([read.folder / name for name in names], size=IMAGE_SIZE)
        writer.add_pool(images, file=np.array(names), row=of_block, identity=read.identities[of_block])
    for split, (rows, sets) in drawn.items():
        _add_sets(writer, split, np.searchsorted(used, rows), sets, request.num_train if split == "test" else 0)
    return {"attribute_names": list(read.attribute_names)}


_Labelled = tuple[str, NDArray[np.uint8], NDArray[np.integer[Any]], NDArray[np.int64]]


def _build_labelled(
    writer: StoreWriter,
    request: Request,
    *splits: _Labelled,
) -> None:
    """Sets of labelled images; each split is (file, images (n, C, H, W), labels, rows in the file).

    Test images that are copies of training images are left out.
    """
    (_, train_images, _, _), (file, images, labels, file_rows) = splits
    fresh = ~are_copies(train_images, images)
    splits = (splits[0], (file, images[fresh], labels[fresh], file_rows[fresh]))
    drawn, first = [], 0
    for (split, number, count), (file, images, labels, file_rows) in zip(request.counts(), splits, strict=True):
        sets = draw_by_class(labels, count, request.set_size[0], request.rng(number))
        used = np.unique(sets.rows)
        for block in iterate_blocks(len(used), _BLOCK_IMAGES):
            of_block = used[block.start : block.stop]
            files = np.full(len(of_block), file)
            writer.add_pool(resize(images[of_block]), file=files, row=file_rows[of_block], label=labels[of_block])
        drawn.append((split, first + np.searchsorted(used, sets.rows), sets))
        first += len(used)
    for split, pool_rows, sets in drawn:
        _add_sets(writer, split, pool_rows, sets, request.num_train if split == "test" else 0)


def _build_cifar10(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
    read = cifar10.read_cifar10(request.files)
    _build_labelled(
        writer,
        request,
        ("train", read.train_images, read.train_labels, np.arange(len(read.train_labels))),
        ("test", read.test_images, read.test_labels, np.arange(len(read.test_labels))),
    )
    return {"label_names": list(read.class_names)}


def _build_digits(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
    read = read_digits()
    train, test = (
        (images.astype(np.uint16) * 255 // _MAX_DIGIT).astype(np.uint8)[:, None]
        for images in (read.train_images, read.test_images)
    )
    _build_labelled(
        writer,
        request,
        ("digits", train, read.train_labels, read.train_ids),
        ("digits", test, read.test_labels, read.test_ids),
    )
    return {"label_names": [str(digit) for digit in range(10)]}


def _add_sets(writer: StoreWriter, split: str, pool_rows: NDArray[np.int64], sets: Drawn, first_id: int) -> None:
    count, set_size = pool_rows.shape
    kinds = sets.kinds
    columns = {"target": sets.odd_at, "id": np.arange(count) + first_id, "common": kinds[:, 0], "odd": kinds[:, 1]}
    writer.add_sets(split, pool_rows.ravel(), np.full(count, set_size), **columns)


def _featurizer(element_shape: tuple[int, ...]) -> nn.Module:
    return ConvFeaturizer(element_shape[0])


SET_ANOMALY = Task(
    name="set_anomaly",
    title="Set anomaly",
    about="10 images, nine of which share two attributes (or a class) that the tenth lacks; find the tenth.",
    objective="element_choice",
    metric="accuracy",
    sources=(
        Source("celeba", "published", "CelebA", _COLOUR, _build_celeba, files=celeba),
        Source("cifar10", "substituted", "CIFAR-10 instead of CelebA", _COLOUR, _build_cifar10, files=cifar10),
        Source("digits", "substituted", "scikit-learn's 8 x 8 digits instead of CelebA", _GREY, _build_digits),
    ),
    num_train=18_000,
    num_test=18_000,
    set_size=(10, 10),
    drawing="images",
    batch_size=32,  # the paper says 64; the released script that made its figures used 32
    featurizer=_featurizer,
)

TASKS = (SET_ANOMALY,)
