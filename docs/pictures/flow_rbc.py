"""Draws flow_rbc_patient.png: the red cells of six simulated patients, one for each of six phenotypes.

Run it from anywhere, with the extra `plot` installed: `python docs/pictures/flow_rbc.py`.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from PIL import Image

from orderless.tasks.sources.simulated_flow_rbc import PHENOTYPES, Patients, simulate_patients

SHOWN = {
    "normal": "Normal",
    "microcytic": "Microcytic",
    "macrocytic": "Macrocytic",
    "iron_deficient": "Iron deficient",
    "transfused": "Transfused",
    "reticulocyte_rich": "Reticulocyte rich",
}
NUM_CANDIDATES = 512  # patients to choose from
NUM_CELLS = 8000  # more than the 1,000 of the data set, so that small populations can be seen
VOLUMES, CONTENTS = (35, 186), (9, 52)  # fL, pg: the axes
CONCENTRATIONS = (28, 34, 40)  # g/dL: the dashed lines
NUM_BINS = 120  # a side, to count the cells around each cell
KERNEL = np.hanning(13)[1:-1] / np.hanning(13).sum()  # the counts are smoothed over this many bins
INK, FAINT = "#222222", "#8a8a8a"


def main() -> None:
    """Draws the picture beside this file."""
    mpl.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK, "axes.labelcolor": INK})
    figure, axes = plt.subplots(
        2, 3, figsize=(8.6, 5.8), sharex=True, sharey=True, layout=ConstrainedLayoutEngine(wspace=0.04, hspace=0.05)
    )
    chosen = choose_patients()
    for axis, (name, title) in zip(axes.flat, SHOWN.items(), strict=True):
        draw_patient(axis, chosen[name])
        axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
    figure.supxlabel("volume of the cell (fL)", fontsize=10)
    figure.supylabel("hemoglobin in the cell (pg)", fontsize=10)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=140)
    few_colours = Image.open(drawn).convert("RGB").quantize(96)  # a third of the size, and no difference to the eye
    few_colours.save(Path(__file__).with_name("flow_rbc_patient.png"), optimize=True)


def choose_patients() -> dict[str, Patients]:
    """For each phenotype the patient who shows it best."""
    best: dict[str, tuple[float, Patients]] = {}
    for block in simulate_patients("hematocrit", NUM_CANDIDATES, num_cells=NUM_CELLS, block=64):
        for i, kind in enumerate(block.phenotype):
            patient, name = block[i : i + 1], PHENOTYPES[kind]
            score = how_clear(name, patient.cells[0])
            if name not in best or score > best[name][0]:
                best[name] = score, patient
    return {name: patient for name, (_, patient) in best.items()}


def how_clear(name: str, cells: NDArray[np.float32]) -> float:
    """Greater for patients in whom the phenotype is easier to see: typical ones, or those with large populations of their own."""
    volume, concentration = cells[:, 0], 100 * cells[:, 1] / cells[:, 0]
    if name == "iron_deficient":
        return float((concentration < 28).mean())
    if name == "transfused":
        return float(volume.std() / volume.mean() - 0.02 * concentration.std())
    if name == "reticulocyte_rich":
        return float(((concentration < 31) & (volume > 105)).mean())
    usual_volume = {"microcytic": 78, "macrocytic": 101}.get(name, 90)
    return float(-abs(volume.mean() - usual_volume) - 3 * abs(concentration.std() - 2.2))


def draw_patient(axis: Axes, patient: Patients) -> None:
    """A point for each cell, bright where there are many, over lines of equal concentration."""
    volume, content = patient.cells[0].T
    counts, x, y = np.histogram2d(volume, content, bins=NUM_BINS, range=[VOLUMES, CONTENTS])
    density = smooth(smooth(counts).T).T[np.digitize(volume, x[1:-1]), np.digitize(content, y[1:-1])]
    order = np.argsort(density)  # dense regions on top
    axis.scatter(
        volume[order], content[order], c=density[order], norm=mpl.colors.PowerNorm(0.5), cmap="viridis", s=2.2, linewidths=0
    )
    for concentration in CONCENTRATIONS:
        ends = np.array([0, CONTENTS[1] * 100 / concentration])
        axis.plot(ends, ends * concentration / 100, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axis.text(
            ends[1], CONTENTS[1] + 0.4, f"{concentration}", color=FAINT, fontsize=7.5, ha="center", va="bottom", clip_on=False
        )
    rdw = 100 * volume.std() / volume.mean()
    axis.text(
        0.98,
        0.04,
        f"mean volume {volume.mean():.0f} fL\nRDW {rdw:.1f} %\nhematocrit {patient.target[0]:.0f} %",
        transform=axis.transAxes,
        ha="right",
        va="bottom",
        fontsize=8,
        linespacing=1.35,
    )
    axis.set(xlim=VOLUMES, ylim=CONTENTS)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(color=FAINT, labelcolor=INK)


def smooth(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row smoothed by the kernel."""
    return np.array([np.convolve(row, KERNEL, mode="same") for row in rows])


if __name__ == "__main__":
    main()
