"""What Hematocrit and Anemia share: sets of red cells, each with its volume and hemoglobin, one set a patient.

Letters: N patients, M cells of a patient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.tasks.base import Request, compare_counts
from orderless.tasks.sources.flow_rbc import read_flow_rbc
from orderless.tasks.sources.simulated_flow_rbc import Cohort, simulate_patients
from orderless.tasks.transforms import Standardize

UNITS = ("volume (fL)", "hemoglobin (pg)")
_BLOCK_SETS = 1024


class FeatureStatistics:
    """Mean and standard deviation of each feature over cells that come in blocks, merged without loss (Chan et al. 1983)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(2), np.zeros(2)

    def add(self, cells: NDArray[np.float32]) -> None:
        """Takes another block of cells (n, 2)."""
        if not len(cells):
            return
        mean = cells.mean(0, dtype=np.float64)
        squares = ((cells - mean) ** 2).sum(0)
        total = self.count + len(cells)
        gap = mean - self.mean
        self.squares += squares + gap**2 * (self.count * len(cells) / total)
        self.mean = self.mean + gap * (len(cells) / total)
        self.count = total

    def transform(self) -> Standardize:
        """Standardises with these statistics; a feature without spread is only centred."""
        std = np.sqrt(self.squares / max(self.count, 1))
        return Standardize(tuple(self.mean.tolist()), tuple(np.where(std > 0, std, 1).tolist()))


def build_simulated(cohort: Cohort) -> Callable[[StoreWriter, Request], Mapping[str, Any]]:
    """Sets of simulated patients."""

    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        set_size = request.set_size[0]
        statistics = FeatureStatistics()
        for split, _, count in request.counts():
            for patients in simulate_patients(cohort, count, num_cells=set_size, seed=request.seed, split=split):
                cells = patients.cells.reshape(-1, 2)
                if split == "train":
                    statistics.add(cells)
                writer.add_sets(
                    split,
                    cells,
                    np.full(len(patients.ids), set_size),
                    target=patients.target,
                    id=patients.ids,
                    oracle=patients.oracle,
                    phenotype=patients.phenotype,
                )
        return {"transform": statistics.transform().describe()}

    return build


def build_published(
    writer: StoreWriter, request: Request, *, published: tuple[int, int], num_classes: int | None = None
) -> Mapping[str, Any]:
    """Sets of the publisher's patients. The file has no patient numbers: a patient is a row.

    Args:
        writer: Takes the sets.
        request: What to make.
        published: Patients for training and testing in the publisher's file.
        num_classes: Where targets are classes, how many.
    """
    set_size = request.set_size[0]
    read = read_flow_rbc(request.files)
    statistics = FeatureStatistics()
    splits = {"train": (read.train_cells, read.train_target), "test": (read.test_cells, read.test_target)}
    first = 0
    for split, number, _ in request.counts():
        cells, target = splits[split]
        if num_classes is not None and not np.isin(target, range(num_classes)).all():
            strange = target[~np.isin(target, range(num_classes))][0]
            expected = f"labels 0 to {num_classes - 1} in '{split}_labels'"
            raise DataError(request.files, expected=expected, found=f"{strange:g}")
        if cells.shape[1] < set_size:
            fix = f"Ask for {cells.shape[1]} or fewer: --set-size."
            raise DataError(request.files, expected=f"{set_size} cells a patient or more", found=f"{cells.shape[1]}", fix=fix)
        kept = request.rows(number, len(cells))
        for block in iterate_blocks(len(kept), _BLOCK_SETS):
            rows = kept[block.start : block.stop]
            chosen = np.ascontiguousarray(cells[rows, :set_size]).reshape(-1, 2)
            if split == "train":
                statistics.add(chosen)
            writer.add_sets(split, chosen, np.full(len(rows), set_size), target=target[rows], id=rows + first)
        first += len(cells)
    counts = (len(read.train_cells), len(read.test_cells))
    return {"transform": statistics.transform().describe(), **compare_counts(counts, (published,), "patients")}
