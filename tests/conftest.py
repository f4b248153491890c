"""What every test shares: one seed, one thread a worker, and the awkward sizes."""

import os

import pytest
import torch
from batches import SIZES

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels are tested without a GPU, where a test asks


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.set_num_threads(1)  # two workers share two cores
    torch.manual_seed(0)


@pytest.fixture(params=SIZES.values(), ids=SIZES.keys())
def sizes(request: pytest.FixtureRequest) -> list[int]:
    return request.param
