"""Labels beside curves: moved apart where they would cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_ROUNDS = 60  # after which neighbours have hardly anything left to push


def move_apart(places: Sequence[float], gap: float) -> list[float]:
    """The same places in the same order, moved as little as need be so that any two are `gap` apart and all are in [0, 1].

    Where there is no room for that, the gap is as large as there is room for.
    """
    order = sorted(range(len(places)), key=lambda n: places[n])
    gap = min(gap, 1 / max(len(places) - 1, 1))
    moved = [places[n] for n in order]
    for _ in range(_ROUNDS):  # neighbours push each other away
        for n, (below, above) in enumerate(pairwise(moved)):
            if (lack := gap - (above - below)) > 1e-6:
                moved[n], moved[n + 1] = below - lack / 2, above + lack / 2
    # what is still too close, or was pushed out at an end, goes to the next free place
    for n in range(len(moved)):
        moved[n] = max(moved[n], n * gap, moved[n - 1] + gap if n else 0.0)
    for n in reversed(range(len(moved))):
        moved[n] = min(moved[n], 1 - (len(moved) - 1 - n) * gap, moved[n + 1] - gap if n + 1 < len(moved) else 1.0)
    return [moved[order.index(n)] for n in range(len(places))]
