"""Normal Var: predict the variance of numbers drawn from a normal distribution. Exact by construction, so nothing is missing.

Letters: N sets, M elements of a set, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.tasks.base import Task, variant
from orderless.tasks.source import Request, Source

MEAN_RANGE, FAR_MEAN_RANGE, VARIANCE_RANGE = 10.0, 30.0, 10.0
_BLOCK_NUMBERS = 8_000_000  # random numbers made at once: 32 MB


def _build(dim: int, *, test_mean_range: float = MEAN_RANGE, squared_mean_std: bool = False) -> Any:
    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        set_size = request.set_size[0]
        block_sets = max(1, _BLOCK_NUMBERS // (set_size * dim))
        for split, number, count in request.counts():
            mean_range = test_mean_range if split == "test" else MEAN_RANGE
            for block in iterate_blocks(count, block_sets):
                rng = request.rng(number, block.start // block_sets)
                # a full block is drawn even where fewer sets are wanted: set i is the same however many there are
                means = rng.uniform(-mean_range, mean_range, (block_sets, 1, dim))[: len(block)]
                variances = rng.uniform(0, VARIANCE_RANGE, (block_sets, 1, dim))[: len(block)]
                x = rng.standard_normal((len(block), set_size, dim), dtype=np.float32)
                x = (means + np.sqrt(variances) * x).astype(np.float32)  # (n, M, D)
                ids = np.arange(block.start, block.stop) + number * request.num_train
                sizes = np.full(len(block), set_size)
                target = _target(x, squared_mean_std=squared_mean_std)
                writer.add_sets(split, x.reshape(-1, dim), sizes, target=target, id=ids)
        return {}

    return build


def _target(x: NDArray[np.float32], *, squared_mean_std: bool) -> NDArray[np.float32]:
    """The empirical variance of each set (n, M, D), averaged over features."""
    variance = x.var(1, dtype=np.float64)  # (n, D)
    return (np.sqrt(variance).mean(1) ** 2 if squared_mean_std else variance.mean(1)).astype(np.float32)


def _source(dim: int, **options: Any) -> Source:
    title = f"drawn from {'a normal distribution' if dim == 1 else f'normal distributions in {dim} dimensions'}"
    return Source("exact", "exact", title, (dim,), _build(dim, **options))


NORMAL_VAR = Task(
    name="normal_var",
    title="Normal Var",
    about="1,000 numbers from a normal distribution with mean in [-10, 10] and variance in [0, 10]; predict their variance.",
    objective="regression",
    metric="mse",
    sources=(_source(1),),
    num_train=10_000,
    num_test=1_000,
    set_size=(1000, 1000),
    drawing="histogram",
    model_options={"pool": "sum"},
)

# The released feature-norm analysis: 100 features, 25-layer Deep Sets, 15 epochs for each set of a batch, so 960 for batches of
# 64. Its test sets were the first of its training sets; ours are their own. Its target was the squared mean standard deviation.
NORMAL_VAR_100 = variant(
    NORMAL_VAR,
    name="normal_var_100",
    title="Normal Var in 100 dimensions",
    about="1,000 points of 100 independent normal features; predict the mean of the features' variances.",
    sources=(_source(100),),
    epochs=960,
    epochs_per_set=15,
)
NORMAL_VAR_OOD = variant(
    NORMAL_VAR_100,
    name="normal_var_ood",
    title="Normal Var out of distribution",
    about="As normal_var_100, with means in [-30, 30] in the test sets and in [-10, 10] in the training sets.",
    sources=(_source(100, test_mean_range=FAR_MEAN_RANGE),),
)
NORMAL_VAR_OOD_RELEASED = variant(
    NORMAL_VAR_OOD,
    name="normal_var_ood_released",
    title="Normal Var out of distribution, the released target",
    about="As normal_var_ood, with the target of the authors' code: the square of the mean standard deviation.",
    sources=(_source(100, test_mean_range=FAR_MEAN_RANGE, squared_mean_std=True),),
)

TASKS = (NORMAL_VAR, NORMAL_VAR_100, NORMAL_VAR_OOD, NORMAL_VAR_OOD_RELEASED)
