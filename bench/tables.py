"""Opens a long table whose rows lie in any order, reads every element once, learns from it and predicts: seconds and memory.

    python bench/tables.py --rows 10000000
    python bench/tables.py --rows 100000000 --folder /somewhere/with/10/GB

The table is written first, in row groups of a million, with the set of each row drawn at random. The first feature of a set lies
around a number of its own, which is what a `SetRegressor` learns from 1,000 elements a set and epoch, and predicts from all.
Each step runs in a process of its own, so its peak is its own. Ends with an error if the sums of all sets are not those that were
written, if predictions explain less than nine tenths of the target, or if a peak is above `--most-gib`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measured import describe_machine
from numpy.typing import NDArray

ROWS_AT_A_TIME = 1_000_000
STEPS = ("open", "again", "read", "fit", "predict")


def main() -> None:
    """One table, one row of results for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=4, help="features; the set id is one more")
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--suffix", default=".parquet", choices=[".parquet", ".csv"])
    parser.add_argument("--folder", type=Path, default=None, help="for the table and the store; default: a temporary one")
    parser.add_argument("--most-gib", type=float, default=2.0, help="fail above this peak")
    parser.add_argument("--out", type=Path, default=None, help="append the rows to this JSONL file")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(measure(options.step, options.folder, options.suffix)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sums = write_table(Path(folder), options)
        for step in STEPS:
            row = in_a_process(step, folder, options.suffix)
            found = np.array(row.pop("sums"))
            row |= {"op": "tables", "step": step, "rows": options.rows, "columns": options.columns, "sets": options.sets}
            print(f"{step:8}{row['seconds']:10.2f} s {row['peak_gib']:8.2f} GiB")
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps({**row, "suffix": options.suffix, **describe_machine("cpu")}) + "\n")
            # sums of numbers rounded to float32, each by at most 2^-24 of itself
            if step == "read" and not np.allclose(found, sums, rtol=0, atol=1e-6 * options.rows / options.sets):
                sys.exit("the sums of sets are not those that were written.")
            if step == "predict" and not row["explained"] > 0.9:
                sys.exit(f"predictions explain {row['explained']:.2f} of the target's variance, fewer than 0.9.")
            if row["peak_gib"] > options.most_gib:
                sys.exit(f"a peak of {row['peak_gib']:.2f} GiB, more than {options.most_gib}.")


def write_table(folder: Path, options: argparse.Namespace) -> NDArray[np.float64]:
    """Writes the table, and gives the sum of each feature in each set, (sets, columns)."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    sums = np.zeros((options.sets, options.columns))
    writer: Any = None
    path = folder / f"table{options.suffix}"
    for start in range(0, options.rows, ROWS_AT_A_TIME):
        count = min(ROWS_AT_A_TIME, options.rows - start)
        sets = rng.integers(0, options.sets, count)
        features = rng.normal(size=(options.columns, count)).astype(np.float32)
        features[0] += centres(options.sets)[sets]
        sums += np.stack([np.bincount(sets, weights=column, minlength=options.sets) for column in features], axis=1)
        table = pa.table({"sample": sets} | {f"x{i}": column for i, column in enumerate(features)})
        if writer is None:
            make = pyarrow.parquet.ParquetWriter if options.suffix == ".parquet" else pyarrow.csv.CSVWriter
            writer = make(path, table.schema)
        writer.write_table(table)
    writer.close()
    return sums


def centres(num_sets: int) -> NDArray[np.float32]:
    """(num_sets,) what the first feature of each set lies around."""
    return np.random.default_rng(1).normal(size=num_sets).astype(np.float32)


def in_a_process(step: str, folder: str, suffix: str) -> dict[str, Any]:
    """Measures a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", folder, "--suffix", suffix]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def measure(step: str, folder: Path, suffix: str) -> dict[str, Any]:
    """Opens the table for the first time, or again, and does the step with it."""
    from orderless.estimators import SetRegressor, load_bundle, save_bundle
    from orderless.io import open_samples

    start = time.perf_counter()
    samples = open_samples(folder / f"table{suffix}", set_id="sample", cache_dir=folder / "cache")
    target = centres(1 + max(map(int, samples.ids)))[[int(name) for name in samples.ids]]
    sums: list[Any] = []
    explained = None
    if step == "read":
        sums = [samples[i].sum(0, dtype=np.float64).tolist() for i in range(len(samples))]
    if step == "fit":
        save_bundle(SetRegressor(max_elements=1000, ensemble_size=1, random_state=0).fit(samples, target), folder / "bundle")
    if step == "predict":
        explained = float(load_bundle(folder / "bundle").score(samples, target))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_gib": peak_gib(), "sums": sums, "explained": explained}


def peak_gib() -> float:
    """Most memory that this process has held. getrusage on Linux counts the parent process, too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main()
