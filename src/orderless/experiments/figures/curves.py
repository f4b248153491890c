"""Curves over training: result lines of one cell to a mean with a band, drawn, labelled, and marked where a run diverged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from orderless.experiments.figures.page import Row
from orderless.io.extras import require
from orderless.look import GREEN, MARK, PINK, SKY, TEST, TRAIN, move_apart
from orderless.numbers import need_logarithms, tick

FEW_POINTS: Final = 3  # a curve of so few is drawn with dots: a line alone would hardly be seen
LABEL_GAP: Final = 0.17  # inches between labels at the ends of curves
RISE: Final = 0.1  # of the training: in it a share rises from chance, over a range in which what follows could not be seen

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """Numbers of one run: points that are finite, and whether the run ended in NaN or infinity."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    diverged: bool = False


@dataclass(frozen=True)
class Curve:
    """Runs that differ in nothing but the seed, or one of them.

    Attributes:
        label: What they are.
        x: Where they are drawn.
        mean: Of the runs.
        low: Their lowest.
        high: Their highest.
        count: How many runs there are at each point.
        diverged: Whether it ends because the run diverged.
    """

    label: str
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    count: NDArray[np.int64]
    diverged: bool = False

    def rows(self, panel: str, unit: str) -> list[Row]:
        """The curve as rows of a table."""
        columns = zip(self.x, self.mean, self.low, self.high, self.count, strict=True)
        return [
            {
                "panel": panel,
                "curve": self.label,
                "unit": unit,
                "x": f"{x:g}",
                "mean": f"{mean:.6g}",
                "low": f"{low:.6g}",
                "high": f"{high:.6g}",
                "runs": count,
            }
            for x, mean, low, high, count in columns
        ]


def read_curves(label: str, lines: Sequence[Line], table: str, x: str, y: str) -> list[Curve]:
    """Column `y` over column `x` of the `epochs` or `steps` of these runs: their mean, or each run where one of them diverged.

    A mean that loses a run on the way would jump, and say nothing of any run. What is not a finite number is left out.
    """
    series = {}
    for line in lines:
        pairs = [(row[x], row.get(y)) for row in line[table]]
        one = make_series(pairs, diverged=line["status"] == "diverged")
        if one.x.size:
            series[line["spec"]["train"]["seed"]] = one
    if len(series) > 1 and any(one.diverged for one in series.values()):
        return [curve for seed, one in series.items() for curve in join(f"{label}, seed {seed}", [one])]
    return join(label, list(series.values()))


def join(label: str, series: Sequence[Series]) -> list[Curve]:
    """One curve of several runs; none if there is no point.

    Runs need not have been recorded at the same points: each is interpolated between its own.
    """
    kept = [one for one in series if one.x.size]
    if not kept:
        return []
    x = np.unique(np.concatenate([one.x for one in kept]))
    y = np.stack([np.interp(x, one.x, one.y, left=np.nan, right=np.nan) for one in kept])  # (runs, points)
    count = np.isfinite(y).sum(0)
    return [Curve(label, x, np.nanmean(y, 0), np.nanmin(y, 0), np.nanmax(y, 0), count, kept[0].diverged)]


def make_series(pairs: Iterable[tuple[Any, Any]], *, diverged: bool = False) -> Series:
    """The points that have a finite number. Numbers that are not may be written as `"nan"` or `"inf"`, as JSON needs it."""
    kept = [(x, float(y)) for x, y in pairs if y is not None and math.isfinite(float(y))]
    x, y = (np.array([pair[n] for pair in kept], dtype=np.float64) for n in (0, 1))
    return Series(x, y, diverged)


def stopped_at(line: Line) -> str:
    """Where a run that diverged stopped, in words."""
    steps = line["steps"]  # the last of them is the one that was not finite
    return f"diverged at step {steps[-1]['step']:,}" if steps else "diverged"


# ------------------------------------------------------------------------------------------------------- drawing


# marks tell curves apart where colours do not, as in print
COLORS: Final = (TRAIN, MARK, GREEN, PINK, TEST, SKY, "#000000")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "*")


@dataclass(frozen=True)
class Look:
    """Colour and mark of a curve, the same in every panel."""

    place: int  # in the legend

    @property
    def color(self) -> str:
        """Of line, band, mark and label."""
        return COLORS[self.place % len(COLORS)]

    @property
    def mark(self) -> str:
        """What a curve carries now and then."""
        return MARKS[self.place % len(MARKS)]

    def line(self, points: int) -> dict[str, Any]:
        """How a curve of so many points is drawn: few carry a mark each, many here and there."""
        every = 1 if points <= FEW_POINTS else math.ceil(points / 7)
        marks = {"marker": self.mark, "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6}
        # each begins at another place, so that curves that lie on each other show their marks side by side
        return {"color": self.color, "linewidth": 1.6, **marks, "markevery": (self.place % 5 * every // 5, every)}


def draw_curve(axes: Any, curve: Curve, look: Look) -> None:
    """Mean, band, and a cross where a run diverged."""
    axes.plot(curve.x, curve.mean, zorder=3, **look.line(curve.x.size))
    if curve.count.max() > 1:
        axes.fill_between(curve.x, curve.low, curve.high, color=look.color, alpha=0.18, linewidth=0, zorder=2)
    if curve.diverged:
        cross = {"marker": "X", "markersize": 11, "color": look.color, "markeredgecolor": "white", "clip_on": False}
        axes.plot(curve.x[-1:], curve.mean[-1:], zorder=5, **cross)


def scale_share_axis(axes: Any, curves: Sequence[Curve]) -> None:
    """An axis for shares of 1, such as accuracies, on which they can be told apart after their first rise."""
    late = max(curve.x[-1] for curve in curves) * RISE
    low = min(curve.low[curve.x >= min(late, curve.x[-1])].min() for curve in curves)  # of one that ended early, its end
    high = max(curve.high.max() for curve in curves)
    room = 0.05 * (high - low) or 0.05
    axes.set_ylim(low - room, high + room)


def scale_axis(axes: Any, curves: Sequence[Curve]) -> None:
    """A logarithmic axis where the numbers need one."""
    values = np.concatenate([part for curve in curves for part in (curve.low, curve.high)])
    if not need_logarithms(values.tolist()):
        return
    ticker = require("matplotlib.ticker", "plot")
    axes.set_yscale("log")
    decades = math.log10(values.max() / values.min())  # where there are few, powers of ten alone would leave the axis bare
    between = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 1 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=between, numticks=8))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: tick(value)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def label_ends(axes: Any, curves: Sequence[tuple[Curve, Look, str]], height: float) -> None:
    """Writes a label right of each curve, in its colour, as near to its end as labels that do not overlap can be.

    Args:
        axes: With all curves drawn.
        curves: Each with its look and its text.
        height: Of the axes in inches.
    """
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # as they are now: the labels are placed by them
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [to_axes.transform((curve.x[-1], curve.mean[-1])) for curve, _, _ in curves]
    lines = max((text.count("\n") + 1 for _, _, text in curves), default=1)
    places = move_apart([float(end[1]) for end in ends], LABEL_GAP * lines / height)
    for (_, look, text), end, place in zip(curves, ends, places, strict=True):
        line = {"color": look.color, "linewidth": 0.8, "alpha": 0.6, "clip_on": False}
        axes.plot([end[0], 1.02], [float(end[1]), place], transform=axes.transAxes, **line)
        axes.text(1.03, place, text, transform=axes.transAxes, va="center", ha="left", color=look.color, fontsize=9)


def legend_handles(labels: Sequence[tuple[str, Look]]) -> list[Any]:
    """For a legend: a line of each look."""
    line = require("matplotlib.lines", "plot").Line2D
    return [line([], [], label=label, **look.line(1)) for label, look in labels]
