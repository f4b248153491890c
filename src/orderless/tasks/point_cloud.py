"""Point Cloud: which of 40 kinds of object a cloud of points shows (ModelNet40).

Letters: N sets, P points in the file, M points of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.tasks.augment import ScaleAndShift
from orderless.tasks.base import Task, variant
from orderless.tasks.source import Request, Source, compare_counts
from orderless.tasks.sources import modelnet40
from orderless.tasks.sources.shapes import SHAPE_NAMES, make_shapes

Standardization = Literal["released", "paper", "sphere"]
_BLOCK_SETS = 1024
_HDF5_POINTS = 2048  # in the published files
_TEXT_POINTS = 2048
_PUBLISHED = ((9_843, 2_468), (9_840, 2_468))  # the paper's copy lacked three objects


def standardize(points: NDArray[np.float32], how: Standardization) -> NDArray[np.float32]:
    """Clouds (n, M, 3) with mean 0 and variance 1.

    Args:
        points: The clouds.
        how: `released`, as the authors' code does: one mean and one standard deviation per object, over its points and axes,
            which keeps its proportions. `paper`, as the text says: along each coordinate axis by itself. `sphere`: one factor
            that makes the farthest point lie at 1. A cloud without extent stays at 0.
    """
    axes = (1, 2) if how == "released" else 1
    exact = points.astype(np.float64)
    centred = exact - exact.mean(axes, keepdims=True)
    if how == "sphere":
        spread = np.linalg.norm(centred, axis=2, keepdims=True).max(1, keepdims=True)
    else:
        spread = centred.std(axes, keepdims=True)
    return (centred / np.where(spread > 0, spread, 1)).astype(np.float32)


def _build_modelnet40(how: Standardization | None) -> Callable[[StoreWriter, Request], Mapping[str, Any]]:
    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        set_size = request.set_size[0]
        # text files have 10,000 points in random order; reading more of them than other files have would only take longer
        is_text = modelnet40.layout_of(request.files) == "text"
        read = modelnet40.read_modelnet40(request.files, num_points=max(set_size, _TEXT_POINTS) if is_text else None)
        splits = {"train": (read.train_points, read.train_labels), "test": (read.test_points, read.test_labels)}
        first = 0
        for split, number, _ in request.counts():
            points, labels = splits[split]
            if points.shape[1] < set_size:
                expected, fix = f"{set_size} points a cloud or more", f"Ask for {points.shape[1]} or fewer: --set-size."
                raise DataError(request.files, expected=expected, found=f"{points.shape[1]}", fix=fix)
            kept = request.rows(number, len(points))
            for block in iterate_blocks(len(kept), _BLOCK_SETS):
                rows = kept[block.start : block.stop]
                if how is None:
                    clouds = _first_points(points[rows], set_size, is_text=is_text)
                else:
                    clouds = standardize(_sample_points(points[rows], set_size, request.rng(number, 1, block.start)), how)
                sizes = np.full(len(rows), set_size)
                writer.add_sets(split, clouds.reshape(-1, 3), sizes, target=labels[rows].astype(np.int64), id=rows + first)
            first += len(points)
        differs = compare_counts((len(read.train_points), len(read.test_points)), _PUBLISHED, "objects")
        num_points = read.train_points.shape[1]
        if not differs and not is_text and num_points != _HDF5_POINTS:
            differs = {"differs": f"{num_points:,} points an object in the files instead of {_HDF5_POINTS:,}"}
        return {"class_names": list(read.class_names), **differs}

    return build


def _build_shapes(how: Standardization) -> Callable[[StoreWriter, Request], Mapping[str, Any]]:
    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        set_size = request.set_size[0]
        for split, number, count in request.counts():
            first = number * request.num_train
            for points, labels in make_shapes(count, num_points=set_size, seed=request.seed, split=split):
                ids = np.arange(first, first + len(points))
                clouds = standardize(points, how).reshape(-1, 3)
                writer.add_sets(split, clouds, np.full(len(points), set_size), target=labels, id=ids)
                first += len(points)
        return {"class_names": list(SHAPE_NAMES)}

    return build


def _sample_points(points: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """For each cloud (n, P, 3) another random choice of its points, without repetition."""
    chosen = rng.permuted(np.broadcast_to(np.arange(points.shape[1]), points.shape[:2]), axis=1)[:, :count]  # (n, M)
    return np.take_along_axis(points, chosen[..., None], axis=1)


def _first_points(points: NDArray[np.float32], count: int, *, is_text: bool) -> NDArray[np.float32]:
    """The first points of each cloud, as they are in the HDF5 files, where clouds lie within 1 of the origin."""
    return standardize(points[:, :count], "sphere") if is_text else points[:, :count]


def _sources(how: Standardization | None) -> tuple[Source, ...]:
    """Clouds standardised in that way; if None, the first points of each as they are in the files."""
    return (
        Source("modelnet40", "published", "ModelNet40", (3,), _build_modelnet40(how), files=modelnet40, finite=True),
        Source("shapes", "simulated", "parametric shapes instead of ModelNet40", (3,), _build_shapes(how or "sphere")),
    )


POINT_CLOUD = Task(
    name="point_cloud",
    title="Point Cloud",
    about="1,000 points on the surface of an object, standardised per object as in the authors' code; predict its class.",
    objective="classification",
    metric="accuracy",
    sources=_sources("released"),
    num_train=9_840,  # all that the paper's files had; those of others have 9,843
    num_test=2_468,
    set_size=(1000, 1000),
    drawing="points",
    model_options={"pool": "max"},
    units=("x", "y", "z"),
)
POINT_CLOUD_PAPER = variant(
    POINT_CLOUD,
    name="point_cloud_paper",
    title="Point Cloud, standardised per axis",
    about="As point_cloud, standardised along each coordinate axis as the paper's text says.",
    sources=_sources("paper"),
)
# By SimpleView's "DGCNN-smooth" protocol (Goyal et al. 2021), which the appendix compares networks for point clouds by.
POINT_CLOUD_SMOOTH = variant(
    POINT_CLOUD,
    name="point_cloud_smooth",
    title="Point Cloud, DGCNN-smooth protocol",
    about="The first 1,024 points of an object as they are in the files, stretched and shifted in training; predict its class.",
    sources=_sources(None),
    set_size=(1024, 1024),
    epochs=160,
    batch_size=32,
    learning_rate=1e-3,
    train_options={"schedule": "plateau", "drop_last": True},
    augmentation=ScaleAndShift(low=2 / 3, high=3 / 2, shift=0.2),
    label_smoothing=0.2,
)

TASKS = (POINT_CLOUD, POINT_CLOUD_PAPER, POINT_CLOUD_SMOOTH)
