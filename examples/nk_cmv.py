"""Does a donor carry CMV? From a long Parquet table of NK cells, 20 donors (Horowitz 2013; the CellCnn example).

python examples/nk_cmv.py FOLDER   # cells.parquet (donor and markers, one row per cell), donors.csv (donor, cmv)
python examples/nk_cmv.py          # the same on small simulated donors
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import orderless as ol
from orderless.estimators import load_bundle, save_bundle
from orderless.evaluate import cross_validate
from orderless.io import join_labels, open_samples


def simulate(folder: Path) -> Path:
    """Twenty donors: in carriers, a fifth of the cells is bright in NKG2C and CD57."""
    rng = np.random.default_rng(0)
    tables = []
    for donor in range(20):
        cells = rng.normal(size=(rng.integers(150, 400), 3))
        cells[: len(cells) // 5, 1:] += 3 * (donor % 2)
        tables.append(pd.DataFrame(cells, columns=["CD3", "NKG2C", "CD57"]).assign(donor=f"D{donor:02}"))
    pd.concat(tables).sample(frac=1, random_state=0).to_parquet(folder / "cells.parquet")
    pd.DataFrame({"donor": [f"D{d:02}" for d in range(20)], "cmv": [d % 2 for d in range(20)]}).to_csv(
        folder / "donors.csv", index=False
    )
    return folder


def main(folder: Path, **options: Any) -> None:
    """Reads, evaluates by donor, fits, saves."""
    samples = join_labels(open_samples(folder / "cells.parquet", set_id="donor"), folder / "donors.csv")
    print(samples, *samples.notes, sep="\n")
    y = samples.columns["cmv"].astype(int)

    model = ol.SetClassifier(random_state=0, **options)
    found = cross_validate({"deep_sets++": model}, samples, y, objective="classification", seed=0)
    print(found.table())

    with tempfile.TemporaryDirectory() as out:
        save_bundle(model.fit(samples, y), Path(out) / "bundle", target_name="cmv", origin=samples.origin)
        print(load_bundle(Path(out) / "bundle").predict_proba(samples)[:3].round(3))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(simulate(Path(scratch)), epochs=3, ensemble_size=1, width=16)
