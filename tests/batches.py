"""Small batches of awkward sizes."""

import torch

from orderless import SetBatch

SIZES = {
    "ragged": [3, 1, 17],
    "equal": [8, 8],
    "one set": [5],
    "empty set": [4, 0, 2],
    "singles": [1, 1],
    "all empty": [0, 0],
    "longer than a tile": [70, 2, 33],
}


def make_batch(sizes: list[int], dim: int = 4, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> SetBatch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(sizes), dim, generator=generator, dtype=torch.float64).to(dtype)
    return SetBatch(x, torch.tensor([0, *sizes]).cumsum(0))
