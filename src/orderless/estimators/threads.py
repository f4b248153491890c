"""How many threads PyTorch takes on a CPU.

Work on small tensors gains little from a second thread, and where other processes want the same cores, threads that wait for each
other cost ten times the work itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread(*, when: bool = True) -> Iterator[None]:
    """PyTorch computes in one thread inside, and afterwards in as many as before.

    Args:
        when: False leaves threads alone.
    """
    before = torch.get_num_threads()
    if when:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if when:
            torch.set_num_threads(before)
