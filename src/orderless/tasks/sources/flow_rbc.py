"""Flow-RBC, red blood cells of patients: Zhang et al. 2022. Volume and hemoglobin of each cell, hematocrit of each patient.

The same layout holds the authors' anemia data, which were never published: who has `Anemia.h5` can read it all the same.

Letters: N patients, M cells of a patient.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orderless.io.download import RemoteFile, fetch
from orderless.io.errors import DataError
from orderless.io.hdf5 import Array, read_hdf5

PAGE = "https://cims.nyu.edu/~lhz209/flowrbc"
FOLDERS = (".", "flow_rbc", "flowrbc", "Flow-RBC", "FlowRBC", "anemia")
_ARRAYS = {
    f"{split}_{what}": array
    for split in ("train", "test")
    for what, array in (
        ("data", Array(shapes=((None, None, 2),), kinds="f", dtype="float32")),
        ("labels", Array(shapes=((None,), (None, 1)), kinds="fiu", dtype="float32")),
    )
}
_BLOCK = 1024  # patients looked at together: bounds the memory that the checks take


@dataclass(frozen=True)
class FlowRbc:
    """The patients. Cells are (N, M, 2) float32, targets (N,) float32."""

    train_cells: NDArray[np.float32]
    train_target: NDArray[np.float32]
    test_cells: NDArray[np.float32]
    test_target: NDArray[np.float32]


@dataclass(frozen=True)
class PatientFile:
    """Where a file of patients is looked for, and where it comes from."""

    remote: RemoteFile

    def find(self, data_dir: str | Path) -> Path | None:
        """The file: in the data folder itself or in one of the usual folders in it."""
        name = Path(self.remote.path).name
        candidates = (Path(data_dir) / folder / spelling for folder in FOLDERS for spelling in (name, name.lower()))
        return next((path for path in candidates if path.is_file()), None)

    def fetch_all(self, data_dir: str | Path, *, progress: bool = True) -> Path:
        """The file if it is there; otherwise an error that says where to ask for it and where to put it."""
        return self.find(data_dir) or fetch(self.remote, data_dir, progress=progress)

    def files(self, found: str | Path) -> list[Path]:
        """The file that `read_flow_rbc` reads."""
        return [Path(found)]


HEMATOCRIT = PatientFile(RemoteFile("flow_rbc/hematocrit.h5", None, PAGE))
ANEMIA = PatientFile(RemoteFile("flow_rbc/Anemia.h5", None, PAGE))
find, fetch_all, files = HEMATOCRIT.find, HEMATOCRIT.fetch_all, HEMATOCRIT.files


def read_flow_rbc(path: str | Path) -> FlowRbc:
    """Reads the patients and checks that no patient is for training and testing.

    Raises:
        DataError: If the file is missing, damaged or of another layout, if a number is not finite, and if the cells of a test
            patient are those of a training patient, in whatever order.
        ImportError: If h5py is not installed.
    """
    path = Path(path)
    arrays = read_hdf5(path, _ARRAYS, aligned=[("train_data", "train_labels"), ("test_data", "test_labels")])
    for name, numbers in arrays.items():
        bad = sum(int((~np.isfinite(numbers[i : i + _BLOCK])).sum()) for i in range(0, len(numbers), _BLOCK))
        if bad:
            raise DataError(path, expected=f"finite numbers in {name!r}", found=f"{bad} of {numbers.size} that are not")
    _check_leak(path, arrays["train_data"], arrays["test_data"])
    return FlowRbc(
        arrays["train_data"], arrays["train_labels"].reshape(-1), arrays["test_data"], arrays["test_labels"].reshape(-1)
    )


def _check_leak(path: Path, train: NDArray[np.float32], test: NDArray[np.float32]) -> None:
    if train.shape[1:] != test.shape[1:]:
        return  # patients with different numbers of cells are different
    train_prints, test_prints = fingerprints(train), fingerprints(test)  # (N,)
    order = np.argsort(train_prints, kind="stable")
    first = np.searchsorted(train_prints, test_prints, sorter=order)
    for row in np.flatnonzero(np.isin(test_prints, train_prints)):
        for i in order[first[row] :]:
            if train_prints[i] != test_prints[row]:
                break
            if np.array_equal(_sorted(train[i]), _sorted(test[row])):
                expected = "different patients for training and testing"
                raise DataError(path, expected=expected, found=f"the cells of train_data[{i}] again in test_data[{row}]")


def fingerprints(cells: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A number for each patient that does not depend on the order of the cells, and hardly ever agrees for different ones.

    Each cell's 64 bits are mixed (the finaliser of splitmix64), then summed.

    Shapes: (N, M, 2) -> (N,).
    """
    out = np.empty(len(cells), np.uint64)
    for i in range(0, len(cells), _BLOCK):
        block = np.ascontiguousarray(cells[i : i + _BLOCK]) + np.float32(0)  # -0 becomes 0: equal numbers, equal bits
        bits = block.view(np.uint64)[..., 0]  # (block, M)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        out[i : i + _BLOCK] = (bits ^ (bits >> np.uint64(31))).sum(axis=1, dtype=np.uint64)
    return out


def _sorted(patient: NDArray[np.float32]) -> NDArray[np.float32]:
    return patient[np.lexsort((patient[:, 1], patient[:, 0]))]
