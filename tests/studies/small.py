"""A small study on disk: twelve samples of six patients, a table of cells and a table of labels."""

import csv

import numpy as np

QUICK = {"epochs": 1, "ensemble_size": 1, "depth": 2, "width": 8}
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]


def write_csv(path, header, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_cells(folder, *, name="cells.csv", sets=12, header=("sample", "CD3", "CD4"), size=None, seed=0):
    """A long table; rows of sets lie in turns."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(sets):
        for x, y in rng.normal(number % 4 < 2, 1 + number % 3, size=(size or 4 + number, 2)).round(4).tolist():
            rows.append([f"s{number}", x, y])
    rng.shuffle(rows)
    return write_csv(folder / name, header, rows)


def write_labels(folder, *, name="labels.csv", **columns):
    """A row for each of twelve samples, of six patients with two each."""
    known = {
        "sample": [f"s{n}" for n in range(12)],
        "patient": [f"p{n // 2}" for n in range(12)],
        "ill": [int(n % 4 < 2) for n in range(12)],
        "score": [round(0.5 + (n % 3) + n / 10, 2) for n in range(12)],
        "age": [30 + 2 * n for n in range(12)],
        "site": ["north", "south"] * 6,
        "part": ["train"] * 8 + ["test"] * 4,
        **columns,
    }
    return write_csv(folder / name, list(known), zip(*known.values(), strict=True))
