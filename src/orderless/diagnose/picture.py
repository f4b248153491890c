"""Pictures of gradients and activations over depth and time, and of what norms leave of shapes.

Every function gives a matplotlib figure; `render` makes bytes of it for a page, `write_figure` a file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.diagnose.collapse import POINTS_PER_SIDE, compare_shapes, make_shapes, normalize_shapes
from orderless.diagnose.health import when
from orderless.diagnose.layers import Reading, as_floats
from orderless.files import write_bytes
from orderless.io.extras import require
from orderless.look import DPI, GREEN, INK, MARK, PINK, SKY, SOFT, STYLE, TEST, TRAIN, WIDTH, check_picture_path, evenly

Format = Literal["png", "svg", "pdf"]
FORMATS: Final = ("png", "svg", "pdf")
ROW_HEIGHT: Final = 3.6  # inches of a row of panels
MARGIN: Final = 0.75  # inches on the left of a panel
LONGEST_NAME: Final = 22  # letters of a layer in a legend
MOST_LINES: Final = 6  # layers that are drawn over time
MOST_NAMES: Final = 10  # of layers below a panel
SMOOTHED: Final = 60  # steps from which on a loss is drawn smoothed as well
COLORS: Final = (TRAIN, TEST, GREEN, PINK, SKY, INK)

_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LABELS: Final[Mapping[str, str]] = {"gradient": "norm of the gradient", "activation": "root mean square of the activations"}


@dataclass(frozen=True)
class Course:
    """What was seen of a run.

    Attributes:
        names: Of the layers, in forward order.
        moments: What `LayerObserver` said: `epoch`, `step`, `gradient`, `activation`. Where a moment has `names` in another
            order, its readings are put into that of the course.
        steps: Single steps: `step`, `loss`, `gradient_norm`.
    """

    names: Sequence[str]
    moments: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        # a network that leaves out layers at random does not run them in the same order each time
        object.__setattr__(self, "moments", [_in_order(moment, self.names) for moment in self.moments])


def draw_depth(
    readings: Mapping[str, Mapping[str, Sequence[Reading]]],
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    note: str = "",
) -> Any:
    """Gradients on the left and activations on the right, layer by layer.

    Args:
        readings: By label, `gradient` and `activation` of each layer: moments of one network, or several networks.
        names: Of the layers, where all readings are of one network.
        title: Above the picture.
        note: Below the title.
    """
    with _look():
        figure, panels = _open(1, title, readings if len(readings) > 1 else (), note)
        _draw_depth_panels(panels[0], readings, names)
    return figure


def draw_time(runs: Mapping[str, Course], *, title: str = "") -> Any:
    """For each run a row: its loss over steps on the left, the gradients of some of its layers over epochs on the right.

    Args:
        runs: By label.
        title: Above the picture.
    """
    if not runs:
        raise ValueError("draw_time needs at least one run, got none.")
    with _look():
        figure, panels = _open(len(runs), title, (label for course in runs.values() for label in _labels(course).values()))
        for (left, right), (label, course) in zip(panels, runs.items(), strict=True):
            _draw_loss(left, course.steps, label if len(runs) > 1 else "")
            _draw_layers_over_time(right, course)
    return figure


def draw_course(course: Course, *, title: str = "", note: str = "") -> Any:
    """One run: `draw_time` above, and below it `draw_depth` at the first moment and the last.

    Args:
        course: The run.
        title: Above the picture.
        note: Below the title.
    """
    first, last = course.moments[0], course.moments[-1]
    readings = {when(first): first, when(last): last}
    with _look():
        figure, panels = _open(2, title, [*readings, *_labels(course).values()], note)
        _draw_loss(panels[0][0], course.steps, "")
        _draw_layers_over_time(panels[0][1], course)
        _draw_depth_panels(panels[1], readings, course.names)
    return figure


def draw_collapse() -> Any:
    """Shapes in two dimensions, what layer norm makes of them, and what set norm does."""
    shapes = make_shapes()
    after = normalize_shapes(shapes)
    found = compare_shapes()
    columns = {
        "the set": ("none", shapes),
        "after layer norm": ("layer", after["layer"]),
        "after set norm": ("set", after["set"]),
    }
    with _look():
        figure = require("matplotlib.figure", "plot").Figure(figsize=(8.2, 11.2))
        figure.text(0.09, 0.972, "Layer norm cannot tell these shapes apart", fontsize=15, fontweight="bold", va="center")
        said = f"Each has {POINTS_PER_SIDE} points on either side of the line y = x, and two on it. Colours tell the sides."
        figure.text(0.09, 0.948, said, fontsize=10, color=SOFT, va="center")
        grid = figure.add_gridspec(len(shapes), 3, left=0.09, right=0.97, bottom=0.085, top=0.895, wspace=0.12, hspace=0.14)
        for row, name in enumerate(shapes):
            sides = np.sign((shapes[name][:, 0] - shapes[name][:, 1]).numpy())
            for column, (heading, (norm, of)) in enumerate(columns.items()):
                ax = figure.add_subplot(grid[row, column])
                _draw_points(ax, of[name].numpy(), sides, count=norm == "layer")
                if row == 0:
                    ax.set_title(heading, loc="center", fontsize=11.5, fontweight="bold", pad=12)
                if row == len(shapes) - 1:
                    low, high = found[norm]
                    same = high < 1e-9  # rounding
                    way = "0: all the same" if same else f"{low:.2f} to {high:.2f}"
                    ax.set_xlabel(way, fontsize=10, fontweight="bold" if same else "normal", labelpad=8)
                if column == 0:
                    ax.set_ylabel(name, fontsize=11.5, fontweight="bold", labelpad=8)
        note = "Numbers: how far two of the shapes are apart, at least and at most: the mean way of a point to its partner."
        figure.text(0.09, 0.022, note, fontsize=9, color=SOFT, va="center")
    return figure


def render(figure: Any, kind: Format = "png") -> bytes:
    """A figure as the content of a file."""
    content = io.BytesIO()
    # without the time of writing, so that the same figure gives the same bytes
    metadata: dict[Format, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with _look():
        figure.savefig(content, format=kind, dpi=DPI, metadata=metadata[kind])
    return content.getvalue()


def write_figure(figure: Any, path: str | Path) -> Path:
    """Writes a figure to a file, whole or not at all. The name's ending says the format: .png, .svg or .pdf."""
    path = check_picture_path(path, FORMATS)
    write_bytes(path, render(figure, path.suffix.lower().removeprefix(".")))  # type: ignore[arg-type]
    return path


# ------------------------------------------------------------------------------------------------------- panels


def _look() -> Any:
    return require("matplotlib", "plot").rc_context(STYLE)


def _open(rows: int, title: str, labels: Iterable[str], note: str = "") -> tuple[Any, list[list[Any]]]:
    """A figure with two panels a row, and room for these labels of a legend on the right."""
    above = 0.1 + 0.4 * bool(title) + 0.22 * bool(note)
    height = rows * ROW_HEIGHT + above
    figure = require("matplotlib.figure", "plot").Figure(figsize=(WIDTH, height))
    if title:
        figure.text(0.02, 1 - 0.3 / height, title, fontsize=13 * min(1.0, 105 / len(title)), fontweight="bold", va="center")
    if note:
        y = 0.32 + 0.25 * bool(title)
        figure.text(0.02, 1 - y / height, note, fontsize=9.5 * min(1.0, 150 / len(note)), color=SOFT, va="center")
    longest = max((len(label) for label in labels), default=0)
    width = (WIDTH - 2 * MARGIN - (0.62 + 0.077 * longest if longest else 0.2)) / 2
    panels = [
        [
            figure.add_axes((x / WIDTH, (y + 0.85) / height, width / WIDTH, (ROW_HEIGHT - 1.25) / height))
            for x in (MARGIN, 2 * MARGIN + width)
        ]
        for y in (ROW_HEIGHT * (rows - 1 - row) for row in range(rows))
    ]
    for ax in (ax for row in panels for ax in row):
        ax.grid(axis="y", color="#E6E6E6", linewidth=0.7)
        ax.set_axisbelow(True)
    return figure, panels


def _draw_depth_panels(
    panels: Sequence[Any], readings: Mapping[str, Mapping[str, Sequence[Reading]]], names: Sequence[str] | None
) -> None:
    for ax, what in zip(panels, LABELS, strict=True):
        ax.set_title(f"{LABELS[what][0].upper()}{LABELS[what][1:]}")
        lines = {label: _numbers(of[what]) for label, of in readings.items()}
        for n, (label, values) in enumerate(lines.items()):
            style = {"color": COLORS[n % len(COLORS)], "linewidth": 1.6, "marker": "o", "markersize": 3.2}
            _plot(ax, np.arange(1, len(values) + 1), values, label, style)
        most = max((len(values) for values in lines.values()), default=0)
        _scale(ax, list(lines.values()))
        _number_layers(ax, names, most)
    if len(readings) > 1:
        _put_legend(panels[1])


def _put_legend(ax: Any, title: str | None = None) -> None:
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=title, alignment="left")


def _number_layers(ax: Any, names: Sequence[str] | None, count: int) -> None:
    ax.set_xlim(0.5 - 0.02 * count, count + 0.5 + 0.02 * count)
    if names is None:
        _count(ax, "layer, from input to output")
        return
    shown = evenly(count, MOST_NAMES)
    ax.set_xticks([n + 1 for n in shown], [names[n] for n in shown], rotation=28, ha="right", rotation_mode="anchor")
    ax.set_xlabel(f"{len(shown)} of {count} layers named, from input to output" if len(shown) < count else "layer")


def _count(ax: Any, what: str) -> None:
    ax.set_xlabel(what)
    ax.xaxis.set_major_locator(require("matplotlib.ticker", "plot").MaxNLocator(integer=True, nbins=8))


def _draw_loss(ax: Any, steps: Sequence[Mapping[str, Any]], label: str) -> None:
    ax.set_title(f"{label}: training loss" if label else "Training loss")
    x = np.array([row["step"] for row in steps])
    values = _numbers([row["loss"] for row in steps])
    if not np.isfinite(values).any():
        _say(ax, "no step was recorded")
        return
    rough = len(values) >= SMOOTHED
    _plot(ax, x, values, "", {"color": TRAIN, "linewidth": 0.8 if rough else 1.6, "alpha": 0.35 if rough else 1.0})
    if rough:
        ax.plot(x, _smooth(values), color=TRAIN, linewidth=1.8)
    finite = values[np.isfinite(values)]
    if finite.min() > 0 and finite.max() > 20 * finite.min():
        _scale(ax, [values])
    _count(ax, "step")
    if not np.isfinite(values[-1]):
        ax.axvline(x[-1], color=MARK, linewidth=1.2, linestyle="--")
        ax.annotate("not finite", (x[-1], 0.97), xycoords=("data", "axes fraction"), xytext=(-4, 0), textcoords="offset points",
                    ha="right", va="top", color=MARK, fontsize=9)  # fmt: skip


def _draw_layers_over_time(ax: Any, course: Course) -> None:
    ax.set_title("Norm of the gradient of some layers")
    x = np.array([moment["epoch"] for moment in course.moments])
    rows = [_numbers(moment["gradient"]) for moment in course.moments]
    colors = require("matplotlib", "plot").colormaps["cividis"]
    shown = _labels(course)
    lines = []
    for place, (n, label) in enumerate(shown.items()):
        values = np.array([row[n] for row in rows])
        color = colors(0.9 * place / max(len(shown) - 1, 1))  # the lightest would vanish on white
        style = {"color": color, "linewidth": 1.6, "marker": "o", "markersize": 3.2}
        _plot(ax, x, values, label, style)
        lines.append(values)
    _scale(ax, lines)
    _count(ax, "epoch")
    _put_legend(ax, title="layer")


def _draw_points(ax: Any, points: NDArray[np.float64], sides: NDArray[np.float64], *, count: bool) -> None:
    ax.plot([-3, 3], [-3, 3], color="#BBBBBB", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for side, color in ((-1, TRAIN), (1, TEST), (0, INK)):
        of_side = points[sides == side]
        if not count:
            ax.scatter(*of_side.T, s=15, color=color, linewidths=0)
            continue
        x, y = of_side.mean(0)
        ax.scatter(x, y, s=30 + 4 * len(of_side), color=color, linewidths=0)
        ax.annotate(f"{len(of_side)} points", (x, y), xytext=(0, 13), textcoords="offset points", ha="center", color=color,
                    fontsize=9, fontweight="bold")  # fmt: skip
    ax.set_aspect("equal")
    ax.set_xlim(-2.3, 2.3)
    ax.set_ylim(-2.3, 2.3)
    ticks = [-1, 0, 1]
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    ax.tick_params(length=2)
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(True)


# ------------------------------------------------------------------------------------------------------- numbers and scales


def _in_order(moment: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """The moment with its readings in the order of these names; a layer that it does not have was not read."""
    places = {name: n for n, name in enumerate(moment.get("names", names))}
    if list(places) == list(names):
        return moment
    read = {what: [moment[what][places[name]] if name in places else None for name in names] for what in LABELS}
    return {**moment, "names": list(names), **read}


def _labels(course: Course) -> dict[int, str]:
    """The layers that are drawn over time, by number, as a legend has room for them."""
    names = {n: course.names[n] for n in evenly(len(course.names), MOST_LINES)}
    return {n: name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for n, name in names.items()}


def _numbers(values: Sequence[Reading]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in as_floats(values)], dtype=np.float64)


def _plot(ax: Any, x: NDArray[Any], values: NDArray[np.float64], label: str, style: Mapping[str, Any]) -> None:
    """A line through what is finite; what is 0 or not finite is marked at the edge, where a logarithmic scale has no place."""
    drawn = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    ax.plot(x, drawn, label=label or None, **style)
    edges = ax.get_xaxis_transform()
    for mask, height, mark in ((values == 0, 0.015, "v"), (np.isinf(values), 0.985, "^")):
        if mask.any():
            ax.plot(
                x[mask], np.full(mask.sum(), height), mark, color=style["color"], markersize=5, transform=edges, clip_on=False
            )


def _scale(ax: Any, lines: Sequence[NDArray[np.float64]]) -> None:
    """A logarithmic scale over what is drawn, of at least a power of ten."""
    pooled = np.concatenate([line[np.isfinite(line) & (line > 0)] for line in lines]) if lines else np.zeros(0)
    if not pooled.size:
        _say(ax, "every number is 0 or not finite")
        return
    low, high = float(np.log10(pooled.min())), float(np.log10(pooled.max()))
    room = max(0.06 * (high - low), (1.1 - (high - low)) / 2)
    ax.set_yscale("log")
    ax.set_ylim(10 ** (low - room), 10 ** (high + room))
    ticker = require("matplotlib.ticker", "plot")
    narrow = high - low + 2 * room < 2.2
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=8))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(_plain if narrow else _power))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())


def _plain(value: float, _: object) -> str:
    return f"{value:,g}"


def _power(value: float, _: object) -> str:
    """10⁻³, without the formulas of matplotlib, which this look has switched off."""
    return "10" + str(round(math.log10(value))).translate(_SUPERSCRIPTS)


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over a window of a twentieth of all, as far as it is finite."""
    half = max(1, len(values) // 40)
    windows = [values[max(0, n - half) : n + half + 1] for n in range(len(values))]
    return np.array([window[np.isfinite(window)].mean() if np.isfinite(window).any() else np.nan for window in windows])


def _say(ax: Any, text: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=SOFT)
