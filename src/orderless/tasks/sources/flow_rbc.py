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
from orderless.tasks.sources.copies import find_copy

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
ANEMIA = PatientFile(RemoteFile("flow_rbc/Anemia.h5", None, "the paper's authors, who never published it"))


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
    if (copy := find_copy(arrays["train_data"], arrays["test_data"])) is not None:
        found = f"the cells of train_data[{copy[0]}] again in test_data[{copy[1]}]"
        raise DataError(path, expected="different patients for training and testing", found=found)
    return FlowRbc(
        arrays["train_data"], arrays["train_labels"].reshape(-1), arrays["test_data"], arrays["test_labels"].reshape(-1)
    )
