"""What all pictures have in common: colours, style, size, which of many things are shown, where labels and files can go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

DPI: Final = 130
WIDTH: Final = 12.0  # inches of a sheet

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart
TRAIN, TEST, MARK, INK, SOFT = "#0072B2", "#E69F00", "#D55E00", "#222222", "#666666"
GREEN, PINK, SKY = "#009E73", "#CC79A7", "#56B4E9"  # of the same palette, for further curves
DENSITY: Final = "cividis"

_ROUNDS = 60  # of labels that push each other away: after these, they have hardly anything left to push

STYLE: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#999999",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "text.color": INK,
    "text.parse_math": False,  # a title may hold a dollar sign
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "orderless",  # the same picture is the same file
    "pdf.fonttype": 42,  # text stays text
}


def evenly(count: int, most: int) -> list[int]:
    """At most so many numbers from 0 to count - 1, evenly spread, the first and the last included."""
    return sorted({round(n) for n in np.linspace(0, count - 1, min(count, most)).tolist()})


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


def check_picture_path(path: str | Path, formats: Sequence[str]) -> Path:
    """The path, if a picture in one of these formats can be written there."""
    given = Path(path)
    if given.suffix.lower().removeprefix(".") not in formats:
        raise ValueError(f"a picture's name ends in {', '.join(f'.{kind}' for kind in formats)}; got {str(path)!r}.")
    if given.is_dir():
        raise ValueError(f"a picture is a file, but {given} is a folder.")
    if not given.parent.is_dir():
        raise ValueError(f"{given} cannot be written: there is no folder {given.parent}. Make it first.")
    return given
