"""What every test shares: one seed, one thread a worker, kernels as they are written, and the awkward sizes."""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers share two cores, and so do the processes that tests begin

import pytest
import torch
from quicker import check_shapes_where_there_are_any, prepare_the_language_once_a_launch


class _KernelsAsWritten:
    """Finds modules of kernels before jaxtyping does, which would wrap every function in them: Triton wants their source."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> ModuleSpec | None:
        _, _, last = name.rpartition(".")
        has_kernels = name.startswith("orderless.ops.") and (last in ("_slots", "triton") or last.endswith("_kernels"))
        return PathFinder.find_spec(name, path, target) if has_kernels else None


sys.meta_path.insert(0, _KernelsAsWritten)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels are tested without a GPU, where a test asks
    if PathFinder.find_spec("triton"):
        prepare_the_language_once_a_launch()
check_shapes_where_there_are_any()

from batches import SIZES  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts pages and examples, which take longest, first: at the end one worker would wait for the other's."""
    items.sort(key=lambda item: item.path.parent.name != "tests")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(params=SIZES.values(), ids=SIZES.keys())
def sizes(request: pytest.FixtureRequest) -> list[int]:
    return request.param
