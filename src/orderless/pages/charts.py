"""Charts as HTML and inline SVG. Lines live in an SVG that stretches with the page, words beside it keep their size.

So a chart is as wide as its place, its text is always readable, and both colour schemes are a matter of the style sheet. All
numbers of a chart are in `data-read`, from which a script shows them where one points; without it nothing is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from string import ascii_lowercase

from orderless.look import move_apart
from orderless.numbers import plain
from orderless.pages.html import Html, element, join
from orderless.pages.scale import Scale, fit_scale

NUM_COLORS = 8
_SIDE = 1000.0  # of the square that is stretched over the plot
_LABEL_GAP = 0.055  # least distance of the marks at the ends of lines, as a share of the height
_EARLY = 0.97  # a line that ends before this share of the width has its mark there, not in the margin
NUM_LEVELS = 12  # shades of a heat map

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line.

    Attributes:
        points: (x, y) each; where y is not finite the line has a gap.
        name: For people.
        mark: A few letters at its end.
        color: Number of its colour.
        dashed: Whether it is dashed.
        ended: Whether the line ended for a bad reason: a cross is put there.
        dots: Whether points stand for themselves, with no line between them.
        bars: For each point the ends of its interval; empty where there are none.
    """

    points: Sequence[Point]
    name: str
    mark: str = ""
    color: int = 0
    dashed: bool = False
    ended: bool = False
    dots: bool = False
    bars: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Level:
    """A number that lines are compared with: a thin line from side to side."""

    value: float
    name: str


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_name: str,
    y_name: str,
    note: str = "",
    levels: Sequence[Level] = (),
    x_scale: Scale | None = None,
    y_scale: Scale | None = None,
    log: bool | None = None,
    whole: bool = True,
    diagonal: bool = False,
    caption: Html | None = None,
) -> Html | None:
    """A figure with lines over numbers; None where no line has a point to draw.

    Args:
        title: What is shown.
        series: The lines.
        x_name: What the numbers from left to right are.
        y_name: What the numbers from bottom to top are.
        note: A second, quieter sentence of the caption.
        levels: Numbers to compare with.
        x_scale: The scale from left to right. Default: from the first number to the last.
        y_scale: The scale, where several charts share one. Default: as the numbers need it.
        log: Whether that scale is logarithmic. Default: where the numbers need it.
        whole: Whether the numbers from left to right are whole, such as epochs.
        diagonal: Whether to draw the line on which both numbers are the same.
        caption: The whole caption, in place of title and note.
    """
    shown = [line for line in series if any(math.isfinite(y) for _, y in line.points)]
    if not shown:
        return None
    xs = [x for line in shown for x, _ in line.points]
    if x_scale is None:
        x_scale = Scale(min(xs), max(xs)) if max(xs) > min(xs) else Scale(min(xs) - 0.5, max(xs) + 0.5)
    x_ticks = x_scale.ticks(5, whole=whole)
    values = [y for line in shown for _, y in line.points if math.isfinite(y)]
    y_scale = y_scale or fit_scale([*values, *(level.value for level in levels)], log=log)
    notes = [
        note,
        "Logarithmic scale." if y_scale.log else "",
        "A thick dot: diverged there." if any(line.ended for line in shown) else "",
    ]
    described = f"{title}. {y_name} over {x_name}. " + " ".join(_summary(line) for line in shown)
    drawing = element(
        "svg",
        _grid(x_ticks, y_scale),
        element("path", d=_diagonal(x_scale, y_scale), class_="level") if diagonal else None,
        [_level_line(level, y_scale) for level in levels],
        [_line(line, x_scale, y_scale) for line in shown],
        viewBox=f"0 0 {_SIDE:g} {_SIDE:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=described,
    )
    plot = element(
        "div",
        element("div", y_name, class_="yname"),
        element("div", [_tick("bottom", at, text) for at, text in y_scale.ticks()], class_="y", aria_hidden="true"),
        element("div", drawing, _level_names(levels, y_scale), _early_ends(shown, x_scale, y_scale), class_="area"),
        element("div", _ends(shown, x_scale, y_scale), class_="ends", aria_hidden="true"),
        element("div", [_tick("left", at, text) for at, text in x_ticks], class_="x", aria_hidden="true"),
        element("div", x_name, class_="xname"),
        class_="plot",
        # a script finds numbers along a line: a cloud of dots has none, nor does it know of logarithms
        data_read=None if x_scale.log or any(line.dots for line in shown) else _readable(shown, x_scale, x_name),
    )
    heading = caption or join(element("b", f"{title}."), " ", " ".join(part for part in notes if part))
    return element("figure", element("figcaption", heading), plot, class_="chart")


def heat_map(
    rows: Sequence[Sequence[float | None]], scale: Scale, *, description: str, x_names: Sequence[str], y_names: tuple[str, str]
) -> Html:
    """A plot whose columns are moments, whose rows are layers from bottom to top, and whose shade says how large a number is.

    Args:
        rows: For every moment, the number of each layer; None where there is none.
        scale: Which numbers are faint and which are dark.
        description: For those who cannot see it.
        x_names: Of the first and the last moment.
        y_names: Of the first and the last layer.
    """
    width, height = len(rows), max(len(row) for row in rows)
    cells: dict[str, list[str]] = {}
    for x, row in enumerate(rows):
        for y, value in enumerate(row):
            cells.setdefault(_shade(value, scale), []).append(f"M{x} {height - 1 - y}h1v1h-1z")
    drawing = element(
        "svg",
        [element("path", d="".join(parts), class_=shade) for shade, parts in sorted(cells.items())],
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=description,
        shape_rendering="crispEdges",
    )
    return element(
        "div",
        element("div", _tick("bottom", 0.0, y_names[0]), _tick("bottom", 1.0, y_names[1]), class_="y words"),
        element("div", drawing, class_="area"),
        element("div", _tick("left", 0.0, x_names[0]), _tick("left", 1.0, x_names[-1]), class_="x words"),
        class_="plot heat",
    )


def shade_key(scale: Scale) -> Html:
    """Which shade is which number."""
    cells = [element("path", d=f"M{n} 0h1v1h-1z", class_=f"h{n}") for n in range(NUM_LEVELS)]
    bar = element("svg", cells, viewBox=f"0 0 {NUM_LEVELS} 1", preserveAspectRatio="none", aria_hidden="true", class_="key")
    return element("span", plain(scale.low, 2), bar, plain(scale.high, 2), class_="shades")


def interval_row(
    title: Html | str,
    value: float,
    interval: tuple[float, float] | None,
    words: tuple[str, str],
    scale: Scale,
    *,
    published: Sequence[tuple[float, float]] = (),
    constant: float | None = None,
    color: int | None = None,
) -> Html:
    """A row of three: what a number is of, number and interval on a line, and both in words.

    Args:
        title: What it is of.
        value: The number.
        interval: Its ends; None where it has none.
        words: Number and interval as readers see them.
        scale: Of the line; rows of one figure share it.
        published: Spans to compare with.
        constant: What a constant reaches.
        color: Number of its colour. Default: none.
    """
    marks = [f"M{_SIDE * at:.1f} 0v{_SIDE:g}" for at, _ in scale.ticks(5)]
    parts = [element("path", d="".join(marks), class_="grid")]
    if constant is not None:
        parts.append(element("path", d=f"M{_SIDE * scale.place(constant):.1f} 0v{_SIDE:g}", class_="level"))
    for low, high in published:
        left, right = _SIDE * scale.place(low) - 2, _SIDE * scale.place(high) + 2  # a narrow one shall be seen, too
        parts.append(element("path", d=f"M{left:.1f} 500H{right:.1f}", class_="published"))
    if interval is not None:
        parts.append(
            element(
                "path", d=f"M{_SIDE * scale.place(interval[0]):.1f} 500H{_SIDE * scale.place(interval[1]):.1f}", class_="whisker"
            )
        )
    parts.append(element("path", d=f"M{_SIDE * scale.place(value):.1f} 500h0", class_="dot"))
    drawing = element(
        "svg",
        parts,
        viewBox=f"0 0 {_SIDE:g} {_SIDE:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=" ".join(words).strip(),
    )
    number = element("span", element("b", words[0]), " ", element("span", words[1], class_="interval"))
    classes = "row" if color is None else f"row c{color % NUM_COLORS}"
    return element("div", element("span", title), drawing, number, class_=classes)


def scale_row(scale: Scale) -> Html:
    """The row below those of `interval_row`: the numbers of their scale."""
    ticks = element("div", [_tick("left", at, text) for at, text in scale.ticks(5)], class_="x", aria_hidden="true")
    return element("div", element("span"), ticks, element("span"), class_="row scale")


# --------------------------------------------------------------------------------------------------- parts of a chart


def _grid(x_ticks: Sequence[tuple[float, str]], y_scale: Scale) -> Html:
    across = [f"M0 {_SIDE * (1 - at):.1f}H{_SIDE:g}" for at, _ in y_scale.ticks()]
    up = [f"M{_SIDE * at:.1f} 0V{_SIDE:g}" for at, _ in x_ticks]
    return element("path", d="".join(across + up), class_="grid")


def _diagonal(x_scale: Scale, y_scale: Scale) -> str:
    low, high = max(x_scale.low, y_scale.low), min(x_scale.high, y_scale.high)
    ends = [f"{_SIDE * x_scale.place(v):.1f} {_SIDE * (1 - y_scale.place(v)):.1f}" for v in (low, high)]
    return f"M{ends[0]}L{ends[1]}"


def _dots(line: Series, x_scale: Scale, y_scale: Scale) -> Html:
    places = [(_SIDE * x_scale.place(x), _SIDE * (1 - y_scale.place(y))) for x, y in line.points if math.isfinite(y)]
    drawn = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
    return element("path", d=drawn, class_=f"dots c{line.color % NUM_COLORS}")


def _bars(line: Series, x_scale: Scale, y_scale: Scale) -> Html | None:
    ends = [(x, low, high) for (x, _), (low, high) in zip(line.points, line.bars, strict=False) if math.isfinite(low + high)]
    if not ends:
        return None
    drawn = [
        f"M{_SIDE * x_scale.place(x):.1f} {_SIDE * (1 - y_scale.place(low)):.1f}V{_SIDE * (1 - y_scale.place(high)):.1f}"
        for x, low, high in ends
    ]
    return element("path", d="".join(drawn), class_=f"bar c{line.color % NUM_COLORS}")


def _line(line: Series, x_scale: Scale, y_scale: Scale) -> Html:
    if line.dots:
        return join(_bars(line, x_scale, y_scale), _dots(line, x_scale, y_scale))
    pieces, pen_down = [], False
    for x, y in line.points:
        if math.isfinite(y):
            at = f"{_SIDE * x_scale.place(x):.1f} {_SIDE * (1 - y_scale.place(y)):.1f}"
            pieces.append(f"{'L' if pen_down else 'M'}{at}")
        pen_down = math.isfinite(y)
    classes = f"line c{line.color % NUM_COLORS}{' dashed' if line.dashed else _dash(line.color)}"
    drawn = [_bars(line, x_scale, y_scale), element("path", d="".join(pieces), class_=classes)]
    finite = [(x, y) for x, y in line.points if math.isfinite(y)]
    x, y = finite[-1]
    at = f"{_SIDE * x_scale.place(x):.1f} {_SIDE * (1 - y_scale.place(y)):.1f}"
    if line.ended or len(finite) == 1:  # a line of one point is a dot
        drawn.append(element("path", d=f"M{at}h0", class_=f"{'cross' if line.ended else 'dot'} c{line.color % NUM_COLORS}"))
    return join(drawn)


def _dash(color: int) -> str:
    """Colours come round again after a while; then the stroke tells lines apart."""
    return ("", " dash1", " dash2")[color // NUM_COLORS % 3]


def _level_line(level: Level, scale: Scale) -> Html:
    return element("path", d=f"M0 {_SIDE * (1 - scale.place(level.value)):.1f}H{_SIDE:g}", class_="level")


def _level_names(levels: Sequence[Level], scale: Scale) -> list[Html]:
    return [
        element("span", level.name, class_="levelname", style=f"bottom:{100 * scale.place(level.value):.2f}%", aria_hidden="true")
        for level in levels
    ]


def _tick(side: str, at: float, text: str) -> Html:
    return element("span", text, style=f"{side}:{100 * at:.2f}%")


def _early_ends(series: Sequence[Series], x_scale: Scale, y_scale: Scale) -> list[Html]:
    """The marks of lines that end before the right side."""
    marks = []
    for line in series:
        left, bottom = _end_of(line, x_scale, y_scale)
        if line.mark and left <= _EARLY:
            style = f"left:{100 * left:.2f}%;bottom:{100 * bottom:.2f}%"
            marks.append(
                element("span", line.mark, class_=f"endmark c{line.color % NUM_COLORS}", style=style, aria_hidden="true")
            )
    return marks


def _end_of(line: Series, x_scale: Scale, y_scale: Scale) -> Point:
    x, y = [(x, y) for x, y in line.points if math.isfinite(y)][-1]
    return x_scale.place(x), y_scale.place(y)


def _ends(series: Sequence[Series], x_scale: Scale, y_scale: Scale) -> list[Html]:
    """The marks of lines that end at the right side, moved apart where they would cover each other."""
    ends = [(*_end_of(line, x_scale, y_scale), line) for line in series if line.mark]
    wanted = [(bottom, line.mark, line.color) for left, bottom, line in ends if left > _EARLY]
    if len(wanted) * _LABEL_GAP > 1:  # no room for all: lines of one colour share a mark, which is the number without a letter
        by_color = {color: [bottom for bottom, _, other in wanted if other == color] for _, _, color in wanted}
        shared = {color: mark.rstrip(ascii_lowercase) for _, mark, color in wanted}
        wanted = [(median(places), shared[color], color) for color, places in by_color.items()]
    wanted.sort()
    if len(wanted) * _LABEL_GAP > 1:
        return []
    places = move_apart([place for place, _, _ in wanted], _LABEL_GAP)
    return [
        element("span", mark, class_=f"c{color % NUM_COLORS}", style=f"bottom:{100 * place:.2f}%")
        for place, (_, mark, color) in zip(places, wanted, strict=True)
    ]


def _summary(line: Series) -> str:
    finite = [(x, y) for x, y in line.points if math.isfinite(y)]
    if line.dots:
        return f"{line.name}: {len(finite)} points."
    return f"{line.name}: from {plain(finite[0][1])} to {plain(finite[-1][1])}."


def _readable(series: Sequence[Series], x_scale: Scale, x_name: str) -> str:
    content = {
        "x": x_name.partition(" (")[0],
        "low": x_scale.low,
        "high": x_scale.high,
        "lines": [
            {
                "name": line.mark or line.name,
                "color": line.color % NUM_COLORS,
                "points": [[float(f"{x:.6g}"), plain(y, 3)] for x, y in line.points if math.isfinite(y)],
            }
            for line in series
        ],
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _shade(value: float | None, scale: Scale) -> str:
    if value is None or math.isnan(value):
        return "none"
    return f"h{min(NUM_LEVELS - 1, int(NUM_LEVELS * scale.place(value)))}"
