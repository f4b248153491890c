"""The red blood cells of a few patients: what a network is given to predict hematocrit from."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.experiments.figures.material import Material
from orderless.experiments.figures.page import Drawn, Row, Words, open_page, styled
from orderless.experiments.sources import stand_in
from orderless.look import DENSITY, SOFT, TRAIN, WIDTH
from orderless.tasks.registry import load_task
from orderless.tasks.task_data import TaskData

NUM_CANDIDATES: Final = 200  # patients to choose from
MOST_PATIENTS: Final = 4
MOST_SIDE, MARGINAL, LEFT = 5.0, 0.55, 0.85  # of a panel, of the histograms along its sides, and left of the first panel


def draw_cells(material: Material) -> Drawn:
    """A panel for each patient: every cell's volume and hemoglobin, how dense they lie, and how each is distributed alone.

    Options: `task`, which has sets of two features; `num_patients`, 1 to 4, spread over the target from low to high.
    """
    count = material.options["num_patients"]
    if not isinstance(count, int) or not 1 <= count <= MOST_PATIENTS:
        raise ValueError(f"num_patients must be 1 to {MOST_PATIENTS}, got {count!r}.")
    data = load_task(
        str(material.options["task"]),
        data_dir=material.data_dir,
        cache_dir=material.cache_dir,
        num_train=NUM_CANDIDATES,
        num_test=1,
    )
    if data.task.objective != "regression" or data.train.raw.element_shape != (2,):
        raise ValueError(f"task must have sets of two features and a number to predict, such as hematocrit; got {data.name}.")
    chosen = _spread_over_targets(data, count)
    cells = [data.train.raw[index][0].numpy() for index in chosen]
    limits = [_limits([x[:, d] for x in cells]) for d in (0, 1)]
    with styled():
        width = min(WIDTH, LEFT + count * (MOST_SIDE + MARGINAL + 0.35) + 0.3)
        pitch = (width - LEFT - 0.3) / count
        side = pitch - MARGINAL - 0.35
        page = open_page(_words(material, data, count), side + MARGINAL + 1.15, width)
        for n, (index, x) in enumerate(zip(chosen, cells, strict=True)):
            place = (LEFT + n * pitch, page.bottom + 0.55)
            _draw_patient(page, place, side, x, limits, data, float(data.train.target[index].reshape(-1)[0]), first=n == 0)
    return Drawn(page.figure, [row for index, x in zip(chosen, cells, strict=True) for row in _rows(data, index, x)])


def _spread_over_targets(data: TaskData, count: int) -> list[int]:
    """Patients in the middle of equal parts of the targets, from low to high."""
    order = np.argsort(data.train.target.numpy().reshape(-1), kind="stable")
    return [int(part[len(part) // 2]) for part in np.array_split(order, count)]


def _limits(parts: list[NDArray[np.float32]]) -> tuple[float, float]:
    """All cells but the most extreme few, and a little room."""
    low, high = np.quantile(np.concatenate(parts), [0.001, 0.999])
    room = 0.06 * float(high - low) or 1.0
    return float(low) - room, float(high) + room


def _words(material: Material, data: TaskData, count: int) -> Words:
    about = f"{data.train.sizes[0]:,} cells of {'a' if count == 1 else 'each'} patient. Brighter: more cells in the same place."
    made_up = stand_in(data.name)
    return Words(
        material.plan.recipe.title,
        said=[about] if made_up else [data.title, about],
        warned=[f"Not the published data: {data.title}"] if made_up else [],
        notes=material.plan.recipe.notes,
    )


def _draw_patient(
    page: Any,
    place: tuple[float, float],
    side: float,
    x: NDArray[np.float32],
    limits: list[tuple[float, float]],
    data: TaskData,
    target: float,
    *,
    first: bool,
) -> None:
    left, bottom = place
    axes = page.panel(left, bottom, side, side)
    axes.grid(visible=False)
    inside = np.all([(x[:, d] >= low) & (x[:, d] <= high) for d, (low, high) in enumerate(limits)], axis=0)
    axes.hexbin(*x[inside].T, gridsize=42, extent=(*limits[0], *limits[1]), cmap=DENSITY, mincnt=1, bins="log", linewidths=0.2)
    axes.set(xlim=limits[0], ylim=limits[1])
    names = data.task.units or ("feature 1", "feature 2")
    axes.set_xlabel(names[0])
    if first:
        axes.set_ylabel(names[1])
    for d, box in enumerate(((left, bottom + side + 0.06, side, MARGINAL), (left + side + 0.06, bottom, MARGINAL, side))):
        along = page.panel(*box)
        along.grid(visible=False)
        orientation = "vertical" if d == 0 else "horizontal"
        along.hist(x[inside, d], bins=42, range=limits[d], color=TRAIN, alpha=0.75, orientation=orientation)
        (along.set_xlim if d == 0 else along.set_ylim)(limits[d])
        along.set_axis_off()
        if d == 0:
            along.set_title(f"{data.task.title.lower()} {target:.1f}", fontsize=11, fontweight="bold")
    means = " and ".join(f"{value:.1f}" for value in x.mean(0))
    # cells with much volume and little hemoglobin are rare: there is room
    axes.text(0.98, 0.03, f"means: {means}", transform=axes.transAxes, ha="right", fontsize=8.5, color=SOFT)


def _rows(data: TaskData, index: int, x: NDArray[np.float32]) -> list[Row]:
    target = float(data.train.target[index].reshape(-1)[0])
    names = data.task.units or ("feature 1", "feature 2")
    return [
        {"patient": index, "target": f"{target:.4g}", **{name: f"{value:.5g}" for name, value in zip(names, cell, strict=True)}}
        for cell in x.tolist()
    ]
