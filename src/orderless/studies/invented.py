"""Invented samples as files, to see what `orderless fit` takes and gives."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from orderless.files import write_text

CELLS, LABELS = "cells.csv", "labels.csv"
_FEATURES = ("CD3", "CD16", "CD57")
_PATIENTS, _VISITS = 20, 2


def write_invented(folder: Path, *, seed: int = 0) -> tuple[Path, Path]:
    """Writes a long table of cells and a table of labels: forty samples, two of each of twenty patients.

    In the ill, a part of the cells is bright in two markers at once, and the more so the higher their titer.

    Args:
        folder: Where to. It must exist.
        seed: Of everything that is drawn.

    Returns:
        Both files.
    """
    rng = np.random.default_rng(seed)
    cells, labels = [], []
    for patient in range(_PATIENTS):
        ill, age, site = patient % 2 == 1, int(rng.integers(25, 75)), ("north", "south")[int(rng.integers(2))]
        titer = round(float(rng.uniform(2, 4) if ill else rng.uniform(0, 1)), 2)
        for visit in range(_VISITS):
            name = f"sample{_VISITS * patient + visit + 1}"
            x = rng.normal(scale=(1.0, 1.2, 0.9), size=(int(rng.integers(30, 120)), len(_FEATURES)))
            x[: len(x) // 6, 1:] += titer
            cells += [[name, *row] for row in rng.permutation(x).round(3).tolist()]
            labels.append([name, f"patient{patient + 1}", age, site, titer, "yes" if ill else "no"])
    paths = folder / CELLS, folder / LABELS
    write_text(paths[0], _as_csv([["sample", *_FEATURES], *cells]))
    write_text(paths[1], _as_csv([["sample", "patient", "age", "site", "titer", "ill"], *labels]))
    return paths


def _as_csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
