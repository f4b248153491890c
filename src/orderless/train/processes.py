"""Several processes that train together: Fabric starts the others with the command that started the first."""

from __future__ import annotations

import os


def is_main_process() -> bool:
    """Whether this is the process that writes and speaks; the others only compute."""
    return all(int(os.environ.get(name, "0")) == 0 for name in ("LOCAL_RANK", "NODE_RANK"))
