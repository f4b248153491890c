"""Block diagrams of the residual arrangements: what a block does as data, and one routine that draws it.

A diagram is read from top to bottom. Its path runs straight down and carries the residual; a branch leaves it, and is added to
it again. `formula` says the same in one line, which tests compare with what the layers of `orderless.nn` really compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from orderless.io.extras import require
from orderless.look import INK, MARK, SOFT, STYLE, TRAIN
from orderless.nn import Order

Kind = Literal["weight", "norm", "relu", "aggregate"]


@dataclass(frozen=True)
class Op:
    """One operation.

    Attributes:
        kind: What it does.
        part: The part of the layer that does it, as in `branch.fc1`; a ReLU has no part of its own.
        label: What its box says.
    """

    kind: Kind
    part: str = ""
    label: str = ""

    def formula(self, x: str) -> str:
        """The operation on `x`, in one line."""
        return f"{self.part or self.kind}({x})"


@dataclass(frozen=True)
class Attention:
    """What comes in asks a second input y; `keys` and `values` say what happens to y before."""

    keys: tuple[Op, ...]
    values: tuple[Op, ...]

    def formula(self, query: str) -> str:
        """The attention of `query`, in one line."""
        return f"attention({query}, {_apply(self.keys, 'y')}, {_apply(self.values, 'y')})"


@dataclass(frozen=True)
class Residual:
    """The path splits here, and what the branch makes of it is added to it; `skip` acts on the path in between."""

    branch: tuple[Op | Attention, ...]
    skip: tuple[Op, ...] = ()

    def formula(self, x: str) -> str:
        """The sum, in one line."""
        return f"({_apply(self.skip, x)} + {_apply(self.branch, x)})"


@dataclass(frozen=True)
class Diagram:
    """A block of a network.

    Attributes:
        title: For people.
        layer: The class of `orderless.nn` that it shows.
        path: What happens on the way from the input to the output.
    """

    title: str
    layer: str
    path: tuple[Op | Residual, ...]

    @property
    def formula(self) -> str:
        """All of it in one line, of the input x and the second input y."""
        return _apply(self.path, "x")

    @property
    def on_path(self) -> tuple[Op, ...]:
        """What acts on the residual path, and so stands between a block's gradient and the block before. None: it is clean."""
        return tuple(op for step in self.path for op in ((step,) if isinstance(step, Op) else step.skip))


def arrangements(order: Order = "released") -> dict[str, Diagram]:
    """Every residual arrangement by its name, those of the paper's figure first.

    Args:
        order: `released` as in the authors' code, `paper` as in the paper's equations. The two differ in clean and aggregated
            blocks.
    """
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}; got {order!r}.")
    branch = _BRANCHES[order]
    return {
        "set_transformer_non_clean": Diagram(
            "Set Transformer, non-clean path",
            "MAB",
            (
                _weight("attend.fc_q", "weight Q"),
                Residual((Attention((_KEY_WEIGHT,), (_VALUE_WEIGHT,)),)),
                _norm("attention_norm"),
                Residual((_weight("fc"), _RELU)),
                _norm("out_norm"),
            ),
        ),
        "set_transformer_clean": Diagram("Set Transformer, clean path", "MABPlusPlus", _clean_attention(order)),
        "deep_sets_non_clean": Diagram("Deep Sets, non-clean path", "NonCleanBlock", (Residual(_BRANCHES["paper"]), _RELU)),
        "deep_sets_clean": Diagram("Deep Sets, clean path", "CleanBlock", (Residual(branch),)),
        "deep_sets_freq_add": Diagram("Deep Sets, FreqAdd", "FreqAddBlock", (Residual((_weight("fc"), _norm("norm"))), _RELU)),
        "deep_sets_aggregated": Diagram("Deep Sets, aggregated", "AggregatedBlock", (Residual(branch, skip=(_AGGREGATE,)),)),
        "set_transformer_aggregated": Diagram(
            "Set Transformer, aggregated", "MABPlusPlus", _clean_attention(order, skip=(_AGGREGATE,))
        ),
    }


IN_THE_PAPER: Final = ("set_transformer_non_clean", "set_transformer_clean", "deep_sets_non_clean", "deep_sets_clean")


def _apply(steps: Sequence[Op | Attention | Residual], x: str) -> str:
    for step in steps:
        x = step.formula(x)
    return x


def _weight(part: str, label: str = "weight") -> Op:
    return Op("weight", part, label)


def _norm(part: str) -> Op:
    return Op("norm", part, "norm")


_RELU: Final = Op("relu", "", "ReLU")
_AGGREGATE: Final = Op("aggregate", "skip", "mean of\nthe set")
_KEY_WEIGHT: Final = _weight("attend.fc_k", "weight K")
_VALUE_WEIGHT: Final = _weight("attend.fc_v", "weight V")
_BRANCHES: Final[Mapping[Order, tuple[Op, ...]]] = {
    "released": (
        _norm("branch.norm1"),
        _RELU,
        _weight("branch.fc1"),
        _norm("branch.norm2"),
        _RELU,
        _weight("branch.fc2"),
    ),
    "paper": (_weight("branch.fc1"), _norm("branch.norm1"), _RELU, _weight("branch.fc2"), _norm("branch.norm2")),
}


def _clean_attention(order: Order, skip: tuple[Op, ...] = ()) -> tuple[Residual, Residual]:
    """The two residuals of a multihead attention block with a clean path; the released code normalises the values as well."""
    key_norm = _norm("key_norm")
    values = (key_norm, _VALUE_WEIGHT) if order == "released" else (_VALUE_WEIGHT,)
    tail = (_weight("fc"), _RELU) if order == "released" else (_RELU, _weight("fc"))
    attend = (_norm("query_norm"), _weight("attend.fc_q", "weight Q"), Attention((key_norm, _KEY_WEIGHT), values))
    return Residual(attend, skip), Residual((_norm("out_norm"), *tail), skip)


# ------------------------------------------------------------------------------------------------------- placing
# All lengths are inches. The path runs from (0, 0) down, so y is negative below the input.

BOX_WIDTH, BOX_HEIGHT, PITCH = 0.80, 0.33, 0.50
BRANCH_AT, COLUMN = 1.12, 0.92  # from the path to the branch, and from there to the keys and to the values
PLUS_RADIUS = 0.11

Point = tuple[float, float]


@dataclass(frozen=True)
class _Box:
    at: Point
    label: str
    width: float = BOX_WIDTH
    on_path: bool = False


@dataclass
class _Layout:
    """Where everything of a diagram goes: boxes, additions, lines that end in an arrow, and the names of the inputs."""

    boxes: list[_Box] = field(default_factory=list)
    additions: list[Point] = field(default_factory=list)
    arrows: list[list[Point]] = field(default_factory=list)
    names: list[tuple[Point, str]] = field(default_factory=list)
    bottom: float = 0.0  # where the path ends
    right: float = BOX_WIDTH / 2


def _place(diagram: Diagram) -> _Layout:
    layout = _Layout(names=[((0.0, 0.14), "x")])
    y = 0.0
    for step in diagram.path:
        if isinstance(step, Op):
            y -= PITCH * (0.75 if y == 0 else 0.95)
            layout.boxes.append(_Box((0.0, y), step.label, on_path=True))
        else:
            y = _place_residual(layout, step, y - PITCH * (0.35 if y == 0 else 0.65))
    layout.bottom = y - PITCH
    return layout


def _place_residual(layout: _Layout, step: Residual, split: float) -> float:
    """Places what lies between the split and the addition; returns the addition's height."""
    y = split - PITCH * 0.75
    arrow: list[Point] = [(0.0, split), (BRANCH_AT, split)]
    for op in step.branch:
        layout.arrows.append([*arrow, (BRANCH_AT, y + BOX_HEIGHT / 2)])
        if isinstance(op, Attention):
            _place_attention(layout, op, y)
        else:
            layout.boxes.append(_Box((BRANCH_AT, y), op.label))
        layout.right = max(layout.right, BRANCH_AT + BOX_WIDTH / 2)
        arrow = [(BRANCH_AT, y - BOX_HEIGHT / 2)]
        y -= PITCH
    plus = y + PITCH * 0.35
    layout.arrows.append([*arrow, (BRANCH_AT, plus), (PLUS_RADIUS, plus)])
    layout.additions.append((0.0, plus))
    for n, op in enumerate(step.skip):
        layout.boxes.append(_Box((0.0, split + (plus - split) * (n + 1) / (len(step.skip) + 1)), op.label, on_path=True))
    return plus


def _place_attention(layout: _Layout, attention: Attention, y: float) -> None:
    """A wide box: the query comes down into its left, keys and values, made of y, into its middle and its right."""
    middle, right = BRANCH_AT + COLUMN, BRANCH_AT + 2 * COLUMN
    layout.boxes.append(_Box((middle, y), "attention", BOX_WIDTH + 2 * COLUMN))
    layout.right = right + BOX_WIDTH / 2
    shared = sum(a == b for a, b in zip(attention.keys, attention.values, strict=False))  # they begin alike or not at all
    start = y + PITCH * (max(len(attention.keys), len(attention.values)) + 0.72)
    between = (middle + right) / 2
    layout.names.append(((between, start + 0.12), "y"))
    for column, ops in ((middle, attention.keys), (right, attention.values)):
        arrow: list[Point] = [(between, start), (between, start - 0.08), (column, start - 0.08)]
        for n, op in enumerate(ops):
            at = y + PITCH * (len(ops) - n)
            if n >= shared:
                layout.arrows.append([*arrow, (column, at + BOX_HEIGHT / 2)])
                layout.boxes.append(_Box((column, at), op.label))
            elif column == middle:  # one box for both
                layout.arrows.append([(between, start), (between, at + BOX_HEIGHT / 2)])
                layout.boxes.append(_Box((between, at), op.label, BOX_WIDTH + COLUMN))
            arrow = [(column, at - BOX_HEIGHT / 2)]
        layout.arrows.append([*arrow, (column, y + BOX_HEIGHT / 2)])


# ------------------------------------------------------------------------------------------------------- drawing

PATH_COLOR, ON_PATH, IN_BRANCH = "#BDBDBD", "#FBE0CF", "#E6F1F8"
MOST_IN_A_ROW: Final = 4
SIDE, ABOVE, BELOW = 0.30, 0.95, 0.62  # room around a diagram; its title is above, its caption below
HEADER, FOOTER = 0.95, 0.56
LEAST_WIDTH, LEAST_SHEET = 2.65, 9.2  # the titles and the key need that much


def draw_arrangements(order: Order = "released", names: Sequence[str] = IN_THE_PAPER) -> Any:
    """Draws block diagrams side by side.

    Args:
        order: As in `arrangements`.
        names: Which of `arrangements`, in this order.

    Returns:
        A matplotlib figure.
    """
    known = arrangements(order)
    if not names:
        raise ValueError(f"name at least one arrangement of {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise ValueError(f"there is no arrangement {name!r}. Arrangements: {', '.join(known)}.")
    rows = [
        [(known[name], _place(known[name])) for name in names[n : n + MOST_IN_A_ROW]] for n in range(0, len(names), MOST_IN_A_ROW)
    ]
    heights = [ABOVE + max(-layout.bottom for _, layout in row) + BELOW for row in rows]
    width = max(LEAST_SHEET, *(sum(_width(layout) for _, layout in row) for row in rows))
    height = HEADER + sum(heights) + FOOTER
    with require("matplotlib", "plot").rc_context(STYLE):
        figure = require("matplotlib.figure", "plot").Figure(figsize=(width, height))
        sheet = figure.add_axes((0, 0, 1, 1))
        sheet.set(xlim=(0, width), ylim=(0, height))
        sheet.set_axis_off()
        sheet.text(SIDE, height - 0.36, "Residual arrangements", fontsize=15, fontweight="bold", va="center")
        sheet.text(SIDE, height - 0.68, _ORDERS[order], fontsize=9.5, color=SOFT, va="center")
        top = height - HEADER
        for row, row_height in zip(rows, heights, strict=True):
            gap = (width - sum(_width(layout) for _, layout in row)) / len(row)  # spread over the row
            left = 0.0
            for diagram, layout in row:
                _draw(sheet, diagram, layout, left + SIDE + BOX_WIDTH / 2, top - ABOVE, top - row_height)
                left += _width(layout) + gap
            top -= row_height
        _draw_key(sheet)
    return figure


_ORDERS: Final = {
    "released": "Order 'released': as in the authors' code, which the published tables come from.",
    "paper": "Order 'paper': as in the paper's equations.",
}


def _width(layout: _Layout) -> float:
    return max(LEAST_WIDTH, SIDE + BOX_WIDTH / 2 + layout.right + SIDE)


def _draw(sheet: Any, diagram: Diagram, layout: _Layout, x: float, y: float, bottom: float) -> None:
    """One diagram whose path begins at (x, y); its caption stands just above `bottom`."""
    left = x - BOX_WIDTH / 2
    sheet.text(left, y + 0.62, diagram.title, fontsize=11, fontweight="bold", va="center")
    sheet.text(left, y + 0.40, f"orderless.nn.{diagram.layer}", fontsize=8, color=SOFT, va="center", family="monospace")
    _draw_path(sheet, (x, y), (x, y + layout.bottom))
    for arrow in layout.arrows:
        _draw_arrow(sheet, [(x + dx, y + dy) for dx, dy in arrow])
    for dx, dy in layout.additions:
        circle = require("matplotlib.patches", "plot").Circle
        sheet.add_patch(circle((x + dx, y + dy), PLUS_RADIUS, facecolor="white", edgecolor=INK, linewidth=1.1, zorder=4))
        for across, down in ((0.06, 0.0), (0.0, 0.06)):
            sheet.plot([x + dx - across, x + dx + across], [y + dy - down, y + dy + down], color=INK, linewidth=1.3, zorder=5)
    for box in layout.boxes:
        _draw_box(sheet, box, (x + box.at[0], y + box.at[1]))
    for (dx, dy), name in layout.names:
        sheet.text(x + dx, y + dy, name, ha="center", va="center", fontsize=11, fontstyle="italic")
    acting = ", ".join(op.label.replace("\n", " ") for op in diagram.on_path)
    caption = f"on the path: {acting}" if acting else "nothing on the path"
    sheet.text(left, bottom + 0.30, caption, fontsize=9.5, color=MARK if acting else TRAIN, fontweight="bold", va="center")


def _draw_box(sheet: Any, box: _Box, at: Point) -> None:
    lines = box.label.count("\n") + 1
    height = BOX_HEIGHT * (1 if lines == 1 else 1.3)
    patch = require("matplotlib.patches", "plot").FancyBboxPatch(
        (at[0] - box.width / 2, at[1] - height / 2),
        box.width,
        height,
        boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=ON_PATH if box.on_path else IN_BRANCH,
        edgecolor=MARK if box.on_path else TRAIN,
        linewidth=1.4 if box.on_path else 1.0,
        zorder=4,
    )
    sheet.add_patch(patch)
    sheet.text(*at, box.label, ha="center", va="center", fontsize=9, zorder=5, linespacing=1.0)


def _draw_path(sheet: Any, start: Point, end: Point) -> None:
    arrow = require("matplotlib.patches", "plot").FancyArrow
    length = end[1] - start[1]
    shape = {"width": 0.085, "head_width": 0.24, "head_length": 0.17, "length_includes_head": True}
    sheet.add_patch(arrow(*start, 0.0, length, **shape, facecolor=PATH_COLOR, edgecolor="none", zorder=1))


def _draw_arrow(sheet: Any, points: Sequence[Point]) -> None:
    xs, ys = zip(*points, strict=True)
    sheet.plot(xs, ys, color=INK, linewidth=1.0, solid_joinstyle="round", zorder=2)
    sheet.annotate(
        "",
        xy=points[-1],
        xytext=points[-2],
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9},
        zorder=3,
    )


def _draw_key(sheet: Any) -> None:
    """What the colours mean, at the foot of the sheet."""
    y = 0.31
    _draw_path(sheet, (SIDE + 0.1, y + 0.16), (SIDE + 0.1, y - 0.16))
    sheet.text(SIDE + 0.3, y, "residual path", fontsize=8.5, color=SOFT, va="center")
    key = (("acts on the path", True, 1.55), ("acts in a branch", False, 3.15))
    for label, on_path, x in key:
        _draw_box(sheet, _Box((0, 0), "", 0.26, on_path=on_path), (SIDE + x, y))
        sheet.text(SIDE + x + 0.2, y, label, fontsize=8.5, color=SOFT, va="center")
    explained = "x: the elements,  y: the elements that they attend to"
    sheet.text(SIDE + 4.75, y, explained, fontsize=8.5, color=SOFT, va="center")
