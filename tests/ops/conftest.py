"""What tests of kernels share."""

import pytest
from kernels import Memory, poison

from orderless import ops


@pytest.fixture
def kernels(monkeypatch):
    """Asks for kernels. All memory they get is full of NaN, and nothing around it may be written."""
    monkeypatch.setenv(ops.backend.VARIABLE, "triton")
    memory: Memory = poison(monkeypatch)
    yield memory
    memory.assert_nothing_written_around()
