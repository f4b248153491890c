"""Plots of the bench: time against the size of sets, depth and width; memory of a training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orderless.experiments.bench.rows import COMPILED, OURS, RELEASED, Measurement, newest
from orderless.experiments.bench.table import CONTENDERS, Cases, place_of, say_failure, say_where, sweep_rows, sweep_title, swept
from orderless.experiments.figures.curves import Look
from orderless.experiments.figures.page import MARGIN, Drawn, Page, Row, Words, open_page, say_empty, styled, write_drawn
from orderless.experiments.naming import title_of_model
from orderless.io.extras import require
from orderless.look import TRAIN
from orderless.numbers import count, plain, tick

_PANEL, _LEFT, _GAP, _FOOT = 3.3, 0.75, 1.0, 0.62  # inches: height, room for numbers at the left, between panels, below them
_BAR_LEFT: Final = 2.1  # room for the contenders' names
_PANELS: Final = 2  # networks on a sheet


@dataclass(frozen=True)
class _Sweep:
    """One quantity over what differs within a group of cases."""

    group: str
    title: str
    x: str
    y: str
    value: Callable[[Measurement], float | None]


def _nanoseconds_per_element(row: Measurement) -> float | None:
    return None if row.p50_ms is None else row.p50_ms * 1e6 / row.num_elements


_SWEEPS: Final = (
    _Sweep("size", "Time against the size of sets", "elements of a set", "ns per element", _nanoseconds_per_element),
    _Sweep("depth", "Time against depth", "layers", "ms", lambda row: row.p50_ms),
    _Sweep("width", "Time against width", "width", "ms", lambda row: row.p50_ms),
)


def draw_plots(rows: Sequence[Measurement], folder: Path) -> list[Path]:
    """Draws what was measured, as `bench_size`, `bench_depth`, `bench_width` and `bench_memory`: PNG, PDF and the numbers as CSV.

    Raises:
        ImportError: If matplotlib is not installed; the message says how to install it.
    """
    cases = newest(rows)
    paths: list[Path] = []
    for sweep in _SWEEPS:
        if found := sweep_rows(cases, sweep.group):
            with styled():
                drawn = _draw_sweep(sweep, found, say_where(cases))
            paths += write_drawn(drawn, folder, f"bench_{sweep.group}")
    if memory := _memory(cases):
        with styled():
            drawn = _draw_memory(memory, say_where(cases))
        paths += write_drawn(drawn, folder, "bench_memory")
    return paths


def _look(contender: str) -> Look:
    order = [OURS, RELEASED, COMPILED, *CONTENDERS]  # those that are met most have the colours that differ most
    return Look(order.index(contender) if contender in order else len(order))


# ------------------------------------------------------------------------------------------------------- over a sweep


def _draw_sweep(sweep: _Sweep, found: Mapping[str, Sequence[Measurement]], where: str) -> Drawn:
    said = ["One training step with Adam; medians, with a fifth of the calls below and above."]
    if sweep.group == "size":
        said.append(
            "As many sets as make 64,000 elements, or one that is larger: a level line is a cost in proportion to elements."
        )
    page = open_page(Words(sweep.title, said=said, notes=[where]), _PANEL + _FOOT)
    width = (page.width - 2 * MARGIN - _PANELS * _LEFT - _GAP) / _PANELS
    drawn: list[Row] = []
    for number, rows in enumerate(found.values()):
        left = MARGIN + _LEFT + number * (width + _LEFT + _GAP)
        axes = page.panel(left, page.bottom + _FOOT, width, _PANEL - 0.3)
        axes.set_title(sweep_title(rows, sweep.group))
        axes.set_xlabel(sweep.x)
        axes.set_ylabel(sweep.y)
        drawn += _draw_lines(axes, sweep, rows)
    return Drawn(page.figure, drawn)


def _draw_lines(axes: Any, sweep: _Sweep, rows: Sequence[Measurement]) -> list[Row]:
    drawn: list[Row] = []
    for name in dict.fromkeys(row.contender for row in rows):
        points = sorted(
            ((swept(row) or 0, value, row) for row in rows if row.contender == name and (value := sweep.value(row)) is not None),
            key=lambda point: point[0],
        )
        if not points:
            continue
        x, y = [point[0] for point in points], [point[1] for point in points]
        look = _look(name)
        axes.plot(x, y, label=CONTENDERS.get(name, name), **{**look.line(1), "zorder": 3})
        ends = [
            (value * (row.p20_ms or 0) / row.p50_ms, value * (row.p80_ms or 0) / row.p50_ms)
            for _, value, row in points
            if row.p50_ms
        ]
        axes.fill_between(x, [low for low, _ in ends], [high for _, high in ends], color=look.color, alpha=0.18, linewidth=0)
        drawn += [{"network": row.network, "contender": name, sweep.x: at, sweep.y: f"{value:.6g}"} for at, value, row in points]
    if not drawn:
        say_empty(axes, "Nothing was measured: every contender failed.")
        return drawn
    ticker = require("matplotlib.ticker", "plot")
    figures = ticker.FuncFormatter(lambda value, _: tick(value))
    values = [float(row[sweep.y]) for row in drawn]
    few = max(values) < 1e3 * min(values)  # powers of ten alone would leave the axis bare
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(ticker.FixedLocator(sorted({row[sweep.x] for row in drawn})))
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(ticker.NullLocator())
        axis.set_major_formatter(figures)
    axes.legend(loc="best")
    return drawn


# ------------------------------------------------------------------------------------------------------- memory


def _memory(cases: Cases) -> dict[str, list[Measurement]]:
    """Contenders whose memory is known, or who ran out of it, by the case: training steps of the group `table`."""
    return {
        case: rows
        for case, contenders in cases.items()
        if any(row.group == "table" and row.direction == "training" and row.peak_mib for row in contenders.values())
        and (rows := [row for row in contenders.values() if row.peak_mib or row.error is not None])
    }


def _draw_memory(found: Mapping[str, Sequence[Measurement]], where: str) -> Drawn:
    bar, above = 0.24, 0.62
    heights = [above + bar * len(rows) for rows in found.values()]
    said = "Peak memory of one training step: weights, gradients, the state of Adam and all activations."
    page = open_page(Words("Memory", said=[said], notes=[where]), sum(heights) + 0.2)
    top, drawn = page.top, []
    for height, rows in zip(heights, found.values(), strict=True):
        top -= height
        drawn += _draw_bars(page, top, height - above, list(rows))
    return Drawn(page.figure, drawn)


def _draw_bars(page: Page, bottom: float, height: float, rows: Sequence[Measurement]) -> list[Row]:
    order = sorted(rows, key=place_of)
    axes = page.panel(MARGIN + _BAR_LEFT, bottom, page.width - 2 * MARGIN - _BAR_LEFT - 1.1, height)
    first = order[0]
    ragged = first.num_elements != first.num_sets * first.largest_set
    sets = f"{first.num_sets} sets of {'up to ' if ragged else ''}{count(first.largest_set)} elements"
    axes.set_title(f"{title_of_model(first.network)} {first.depth}: {sets} with {first.in_features} features")
    gib = [(row.peak_mib or 0.0) / 1024 for row in order]
    axes.barh(range(len(order)), gib, color=[TRAIN if row.contender == OURS else "#BBBBBB" for row in order], height=0.7)
    for place, (row, value) in enumerate(zip(order, gib, strict=True)):
        text = f" {plain(value, 3)} GiB" if row.peak_mib else f" {say_failure(row)}"
        axes.text(value, place, text, va="center", ha="left", fontsize=8.5)
    axes.set_yticks(range(len(order)), [CONTENDERS.get(row.contender, row.contender) for row in order])
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.invert_yaxis()
    return [
        {"case": row.case, "contender": row.contender, "peak_mib": "" if row.peak_mib is None else f"{row.peak_mib:.1f}"}
        for row in order
    ]
