"""The version, where every room may read it."""

import platform

import numpy as np
import torch

__version__ = "0.1.0.dev0"


def versions() -> dict[str, str]:
    """What a run, a fit or a bundle is made with."""
    return {"orderless": __version__, "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
