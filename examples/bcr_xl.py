"""Was a blood sample stimulated? From a folder of FCS files, two of each of 8 patients (Bodenmiller 2012, BCR-XL).

python examples/bcr_xl.py FOLDER   # fcs/*.fcs and labels.csv (file, patient, condition)
python examples/bcr_xl.py          # the same on small simulated files
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import flowio
import numpy as np
import pandas as pd

import orderless as ol
from orderless.evaluate import cross_validate
from orderless.io import join_labels, open_samples


def simulate(folder: Path) -> Path:
    """Six patients: stimulation raises pS6 in a third of the cells."""
    rng = np.random.default_rng(0)
    (folder / "fcs").mkdir()
    rows = []
    for patient in range(6):
        for condition in ("Reference", "BCR-XL"):
            events = rng.lognormal(1 + 0.2 * patient, 1, size=(rng.integers(100, 300), 3))
            events[: len(events) // 3, 2] *= 20 if condition == "BCR-XL" else 1
            name = f"patient{patient}_{condition}.fcs"
            with (folder / "fcs" / name).open("wb") as file:
                flowio.create_fcs(file, events.ravel().tolist(), ["Ch1", "Ch2", "Ch3"], ["CD3", "CD20", "pS6"])
            rows.append({"file": name, "patient": f"patient{patient}", "condition": condition})
    pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)
    return folder


def main(folder: Path, **options: Any) -> None:
    """Reads, and evaluates with both samples of a patient always on one side."""
    samples = open_samples(folder / "fcs", transform="arcsinh", cofactor=5)
    samples = join_labels(samples, folder / "labels.csv", id_column="file")
    print(samples, *samples.notes, sep="\n")
    y, patient = samples.columns["condition"].astype(str), samples.columns["patient"]

    model = ol.SetClassifier(random_state=0, **options)
    found = cross_validate({"deep_sets++": model}, samples, y, objective="classification", groups=patient, num_folds=4)
    print(found.table())
    model.fit(samples, y, groups=patient)
    print(dict(zip(samples.ids, model.predict(samples).tolist(), strict=True)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(simulate(Path(scratch)), epochs=3, ensemble_size=1, width=16)
