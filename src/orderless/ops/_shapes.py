"""Shape annotations for `ops`: `Float[Tensor, "T D"]` says what a comment would, and the tests check it.

Under pytest jaxtyping verifies every call; elsewhere jaxtyping need not be installed and the annotations are inert.
Letters: N sets, T elements in all sets, D features, I points of a small dense set.
"""

from __future__ import annotations

try:
    from jaxtyping import Float, Int
except ImportError:  # development tool only
    from typing import Annotated as Float
    from typing import Annotated as Int

__all__ = ["Float", "Int"]
