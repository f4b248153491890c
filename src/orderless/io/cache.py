"""Where prepared data are kept."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache_dir() -> Path:
    """`ORDERLESS_CACHE`, or `orderless` in the user's cache folder."""
    if set_by_user := os.environ.get("ORDERLESS_CACHE"):
        return Path(set_by_user).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orderless"
