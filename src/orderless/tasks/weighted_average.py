"""Weighted average: the released layer-norm analysis, with normal and with categorical elements. Exact by construction.

Letters: N sets, M elements of a set, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.tasks.base import Task, variant
from orderless.tasks.source import Request, Source
from orderless.tasks.transforms import OneHot

DIM = 100
MEAN_RANGE = 10.0
NORMAL_WEIGHTS = 0.001 * np.arange(DIM)  # the released weights: targets of both kinds stay of order one to a hundred
CATEGORICAL_WEIGHTS = 1.0 * np.arange(DIM)
_BLOCK_NUMBERS = 6_400_000  # random numbers made at once


def _build_normal(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
    set_size = request.set_size[0]
    block_sets = max(1, _BLOCK_NUMBERS // (set_size * DIM))
    for split, number, count in request.counts():
        for block in iterate_blocks(count, block_sets):
            rng = request.rng(number, block.start // block_sets)
            means = rng.uniform(-MEAN_RANGE, MEAN_RANGE, (block_sets, 1, DIM))[: len(block)]
            x = (means + rng.standard_normal((len(block), set_size, DIM), dtype=np.float32)).astype(np.float32)  # (n, M, D)
            target = (x.mean(1, dtype=np.float64) @ NORMAL_WEIGHTS).astype(np.float32)
            ids = np.arange(block.start, block.stop) + number * request.num_train
            writer.add_sets(split, x.reshape(-1, DIM), np.full(len(block), set_size), target=target, id=ids)
    return {}


def _build_categorical(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
    set_size = request.set_size[0]
    block_sets = max(1, _BLOCK_NUMBERS // (set_size * DIM))
    for split, number, count in request.counts():
        for block in iterate_blocks(count, block_sets):
            rng = request.rng(number, block.start // block_sets)
            proportions = rng.dirichlet(np.ones(DIM), block_sets)[: len(block)]  # (n, D)
            draws = rng.random((len(block), set_size, 1))
            x = (draws > proportions.cumsum(1)[:, None, :-1]).sum(2).astype(np.uint8)  # (n, M) categories
            target = CATEGORICAL_WEIGHTS[x].mean(1).astype(np.float32)
            ids = np.arange(block.start, block.stop) + number * request.num_train
            writer.add_sets(split, x.reshape(-1, 1), np.full(len(block), set_size), target=target, id=ids)
    return {"transform": OneHot(DIM).describe()}


WEIGHTED_AVERAGE_NORMAL = Task(
    name="weighted_average_normal",
    title="Weighted average, normal elements",
    about="1,000 points of 100 normal features; predict the weighted sum of the features' means.",
    objective="regression",
    metric="mse",
    sources=(Source("exact", "exact", "drawn from normal distributions in 100 dimensions", (DIM,), _build_normal),),
    num_train=10_000,
    num_test=1_000,
    set_size=(1000, 1000),
    drawing="histogram",
    model_options={"pool": "sum"},
    epochs=30,
)
WEIGHTED_AVERAGE_CATEGORICAL = variant(
    WEIGHTED_AVERAGE_NORMAL,
    name="weighted_average_categorical",
    title="Weighted average, categorical elements",
    about="1,000 elements, each one of 100 categories as a one-hot vector; predict the weighted sum of their frequencies.",
    sources=(Source("exact", "exact", "drawn from categorical distributions", (1,), _build_categorical),),
)

TASKS = (WEIGHTED_AVERAGE_NORMAL, WEIGHTED_AVERAGE_CATEGORICAL)
