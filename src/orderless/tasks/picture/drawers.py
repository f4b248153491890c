"""How single sets are drawn: as histograms, heat maps, dots, points in space or images.

Letters: T elements, D features, B bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.look import DENSITY, TRAIN
from orderless.tasks.picture.binning import edges_of, finite, smoothed
from orderless.tasks.picture.images import as_images, draw_images
from orderless.tasks.picture.reading import Example
from orderless.tasks.task_data import TaskData

DRAWN_ELEMENTS: Final = 2000  # of one set


@dataclass(frozen=True)
class Drawer:
    """How the sets of a task are drawn.

    Attributes:
        draw: Draws the examples into a grid of axes.
        summarize: From elements (T, *element) to the numbers whose distribution is shown: (label, numbers) pairs.
        projection: Of the axes of one set.
        bare: Whether those have neither numbers nor names, and so need no room for them.
    """

    draw: Callable[[Sequence[Any], Sequence[Example]], None]
    summarize: Callable[[NDArray[np.float32]], list[tuple[str, NDArray[np.float32]]]]
    projection: str | None = None
    bare: bool = False


def drawer_for(data: TaskData) -> Drawer:
    """The one that the task asks for.

    Raises:
        ValueError: If elements cannot be drawn like that.
    """
    kind = data.task.drawing
    shape = data.train.raw.element_shape
    units = data.task.units
    if kind == "images":
        as_images(np.zeros((0, *shape), np.float32))  # refuses what is no image
        return Drawer(draw_images, lambda x: [("mean brightness of an image", x.mean(tuple(range(1, x.ndim))))], bare=True)
    if len(shape) != 1 or (kind == "points" and shape != (3,)):
        wanted = "(3,)" if kind == "points" else "(D,)"
        raise ValueError(f"{data.name} is drawn as {kind}, so its elements must have shape {wanted}, got {shape}.")
    if kind == "points":
        return Drawer(_draw_points, lambda x: _by_feature(x, units or ("x", "y", "z")), "3d", bare=True)
    if kind == "scatter" and shape[0] > 1:
        names = _feature_names(units, shape[0])
        return Drawer(lambda axes, sets: _draw_scatter(axes, sets, names), lambda x: _by_feature(x, names)[:2])
    if shape[0] == 1:
        name = units[0] if units else "element"
        return Drawer(lambda axes, sets: _draw_histograms(axes, sets, name), lambda x: [(name, x[:, 0])])
    return Drawer(_draw_heat_maps, lambda x: [(f"value of any of the {shape[0]} features", x.reshape(-1))])


def _feature_names(units: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(units) if len(units) == count else tuple(f"feature {d + 1}" for d in range(count))


def _by_feature(x: NDArray[np.float32], names: Sequence[str]) -> list[tuple[str, NDArray[np.float32]]]:
    return [(name, x[:, d]) for d, name in enumerate(names)]


def _draw_histograms(axes: Sequence[Any], examples: Sequence[Example], label: str) -> None:
    edges = edges_of([example.x for example in examples], 48)
    for ax, example in zip(axes, examples, strict=True):
        ax.hist(finite(example.x), bins=edges, color=TRAIN)
        ax.set_xlim(edges[0], edges[-1])
        _label(ax, label, "number of elements")
        hide_scale(ax)


def _draw_heat_maps(axes: Sequence[Any], examples: Sequence[Example]) -> None:
    """Every feature is a column, whose colour says how many elements have that value."""
    edges = edges_of([example.x for example in examples], 64)
    for ax, example in zip(axes, examples, strict=True):
        counts = np.stack([np.histogram(finite(column), bins=edges)[0] for column in example.x.T], 1)  # (B, D)
        extent = (0.5, counts.shape[1] + 0.5, edges[0], edges[-1])
        # roots: a narrow feature would leave the wide ones dark
        ax.imshow(np.sqrt(counts), origin="lower", aspect="auto", cmap="Blues", extent=extent, interpolation="nearest")
        _label(ax, "feature", "value of the elements")


def _draw_scatter(axes: Sequence[Any], examples: Sequence[Example], names: Sequence[str]) -> None:
    x_edges, y_edges = (edges_of([example.x[:, d] for example in examples], 40) for d in (0, 1))
    for ax, example in zip(axes, examples, strict=True):
        x, y = _thin(example.x[np.isfinite(example.x[:, :2]).all(1)])[:, :2].T
        counts, _, _ = np.histogram2d(x, y, bins=(x_edges, y_edges))
        smooth = smoothed(smoothed(counts).T).T
        column = np.clip(np.searchsorted(x_edges, x) - 1, 0, len(x_edges) - 2)
        row = np.clip(np.searchsorted(y_edges, y) - 1, 0, len(y_edges) - 2)
        density = smooth[column, row]
        order = np.argsort(density, kind="stable")  # the dense ones on top
        ax.scatter(x[order], y[order], c=density[order], cmap=DENSITY, s=5, linewidths=0, rasterized=True)
        for set_limits, edges in ((ax.set_xlim, x_edges), (ax.set_ylim, y_edges)):
            margin = 0.04 * (edges[-1] - edges[0])
            set_limits(edges[0] - margin, edges[-1] + margin)
        _label(ax, names[0], names[1])


def _draw_points(axes: Sequence[Any], examples: Sequence[Example]) -> None:
    for ax, example in zip(axes, examples, strict=True):
        points = _thin(example.x[np.isfinite(example.x).all(1)])
        ax.set_axis_off()
        ax.set_proj_type("persp")
        ax.view_init(elev=22, azim=-60)
        if len(points):
            low, high = points.min(0), points.max(0)
            middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-6)
            for name, at in zip("xyz", middle.tolist(), strict=True):
                getattr(ax, f"set_{name}lim")(at - half, at + half)
            # dark in front, light behind; the lightest colours are left out, they would vanish on white
            near = points @ np.array([0.46, -0.80, 0.37], dtype=np.float32)
            limits = {"vmin": float(near.min()) - 0.5 * half, "vmax": float(near.max())}
            ax.scatter(*points.T, c=near, cmap=f"{DENSITY}_r", s=4, linewidths=0, depthshade=False, **limits)
        ax.set_box_aspect((1, 1, 1), zoom=1.3)


def _thin(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """At most so many elements of a set that they can be seen."""
    return x[:: ceil(len(x) / DRAWN_ELEMENTS)] if len(x) else x


def _label(ax: Any, x: str, y: str) -> None:
    """Names the axes at the edge of the grid only; inside it they are the same."""
    place = ax.get_subplotspec()
    ax.set_xlabel(x)
    if place.is_first_col():
        ax.set_ylabel(y)
    else:
        ax.tick_params(labelleft=False)


def hide_scale(ax: Any) -> None:
    """No numbers at the height of bars whose shape is what matters."""
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
