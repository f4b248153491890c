"""Sets in which every number occurs once, and what a batch must hold: for the tests of `SetBatch`."""

import itertools

import pytest
import torch
from hypothesis import settings

from orderless import SetBatch

SIZES = {
    "ragged": [3, 1, 6],
    "equal": [4, 4],
    "one set": [5],
    "empty set in the middle": [4, 0, 2],
    "empty sets at both ends": [0, 3, 0],
    "only empty sets": [0, 0],
}
ELEMENTS = {"numbers": (), "vectors": (2,), "images": (3, 4, 4)}

all_sizes = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
all_elements = pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS.keys())
nested = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
few_examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def make_sets(sizes, element=(2,), dtype=torch.float32):
    """Sets in which every number occurs once, so that a lost or swapped element shows."""
    shapes = [(n, *element) for n in sizes]
    ends = list(itertools.accumulate(torch.Size(s).numel() for s in shapes))
    return [torch.arange(end - torch.Size(s).numel(), end).reshape(s).to(dtype) for s, end in zip(shapes, ends, strict=True)]


def make_batch(sizes, element=(2,), dtype=torch.float32):
    return SetBatch.from_list(make_sets(sizes, element, dtype))


def assert_holds(batch, sets, *, set_size=None):
    """`batch` is well formed and holds exactly `sets`, in order."""
    assert isinstance(batch, SetBatch)
    assert batch.offsets.dtype == torch.int64
    assert batch.offsets.device == batch.x.device
    assert batch.offsets.tolist() == [0, *itertools.accumulate(len(s) for s in sets)]
    assert batch.x.shape[0] == batch.offsets[-1]
    assert batch.set_size == set_size
    for n, s in enumerate(sets):
        torch.testing.assert_close(batch.x[batch.offsets[n] : batch.offsets[n + 1]], s, rtol=0, atol=0, equal_nan=True)
