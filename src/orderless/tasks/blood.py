"""What Hematocrit and Anemia share: sets of red cells, each with its volume and hemoglobin, one set a patient.

Letters: N patients, M cells of a patient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orderless.io.errors import DataError
from orderless.io.store import iterate_blocks
from orderless.io.store_writer import StoreWriter
from orderless.tasks.source import Request, compare_counts
from orderless.tasks.sources.flow_rbc import read_flow_rbc
from orderless.tasks.sources.simulated_flow_rbc import Cohort, simulate_patients
from orderless.tasks.statistics import FeatureStatistics
from orderless.tasks.transforms import Standardize

UNITS = ("volume (fL)", "hemoglobin (pg)")
_BLOCK_SETS = 1024


def build_simulated(cohort: Cohort) -> Callable[[StoreWriter, Request], Mapping[str, Any]]:
    """Sets of simulated patients."""

    def build(writer: StoreWriter, request: Request) -> Mapping[str, Any]:
        set_size = request.set_size[0]
        statistics = FeatureStatistics(len(UNITS))
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
        return {"transform": _transform(statistics).describe()}

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
    statistics = FeatureStatistics(len(UNITS))
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
    return {"transform": _transform(statistics).describe(), **compare_counts(counts, (published,), "patients")}


def _transform(statistics: FeatureStatistics) -> Standardize:
    return Standardize(tuple(statistics.mean.tolist()), tuple(statistics.spread.tolist()))
