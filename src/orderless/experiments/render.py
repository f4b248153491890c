"""Renderings of a table: Markdown, CSV, LaTeX and a picture. All say the same, also of what makes figures not the paper's."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orderless.experiments.table import Entry, MeanAndStd, Table
from orderless.files import write_text, written_aside
from orderless.io.extras import require
from orderless.look import DPI, INK, MARK, SOFT, STYLE

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
}


def write_table(table: Table, folder: Path, *, picture: bool = True) -> dict[str, Path]:
    """Writes every rendering to `folder/NAME.md`, `.csv`, `.tex` and, with `picture`, `.png`. Gives paths by their endings."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    writers: dict[str, Callable[[Table], str]] = {"md": to_markdown, "csv": to_csv, "tex": to_latex}
    for ending, render in writers.items():
        paths[ending] = folder / f"{table.recipe.name}.{ending}"
        write_text(paths[ending], render(table))
    if picture:
        paths["png"] = folder / f"{table.recipe.name}.png"
        draw_table(table, paths["png"])
    return paths


def to_markdown(table: Table) -> str:
    """Heading, warnings, table and notes."""
    head, body = _grid(table)
    lines = [f"# {_heading(table)}", ""]
    for warning in (*table.conditions, *table.stand_ins):
        lines += [f"**{warning}**", ""]
    lines += [markdown_grid(head, body, to_left=[i < len(table.axes) for i in range(len(head))]), "", say_counts(table)]
    lines += [f"\n{note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def markdown_grid(head: Sequence[str], body: Sequence[Sequence[str]], *, to_left: Sequence[bool]) -> str:
    """A table in Markdown. Columns lean to the left or to the right, and are padded, so that it reads well as plain text, too."""
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    rule = ["-" * width if left else "-" * (width - 1) + ":" for width, left in zip(widths, to_left, strict=True)]
    rows = [
        [cell.ljust(w) if left else cell.rjust(w) for cell, w, left in zip(row, widths, to_left, strict=True)]
        for row in [head, *body]
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])


def to_csv(table: Table) -> str:
    """One line for each figure, with unrounded numbers."""
    rows = to_rows(table)
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return text.getvalue()


def to_rows(table: Table) -> list[dict[str, Any]]:
    """Every figure as a flat row, for CSV and JSON."""
    return [_row(table, entry) for entry in table.entries.values()]


def to_latex(table: Table) -> str:
    """A floating table to be read with `\\input`; it needs the packages booktabs and graphicx."""
    head, body = _grid(table)
    columns = "l" * len(table.axes) + "r" * (len(head) - len(table.axes))
    rows = []
    for number, row in enumerate(body):
        if number and row[0] != body[number - 1][0] and _has_groups(table, body):
            rows.append(r"\midrule")
        shown = _without_repeats(row, body[number - 1] if number else None, len(table.axes))
        rows.append(" & ".join(map(_latex, shown)) + r" \\")
    caption = " ".join([*_sentences(_heading(table)), *table.conditions, *table.stand_ins, say_counts(table), *table.notes])
    return "\n".join(
        [
            r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(caption)}}}",
            rf"\label{{tab:{table.recipe.name.replace('_', '-')}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(_latex, head)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def say_counts(table: Table) -> str:
    """How many of the runs are done."""
    finished, diverged, missing = (table.counts[name] for name in ("finished", "diverged", "missing"))
    said = f"{finished} of {finished + diverged + missing} runs finished"
    if diverged:
        said += f", {diverged} diverged"
    if missing:
        said += f", {missing} missing"
    return said + "."


# ------------------------------------------------------------------------------------------------------- shared


def _heading(table: Table) -> str:
    label = f" ({table.recipe.label})" if table.recipe.label else ""
    return table.recipe.title + label


def _sentences(text: str) -> list[str]:
    return [text if text.endswith(".") else f"{text}."]


def _grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts: the axes, then for each column ours and, where the paper has figures in it, the published."""
    head = list(table.axes)
    for column in table.columns:
        head += [table.column_label(column), *(["published"] if table.has_published(column) else [])]
    body = []
    for row in table.rows:
        cells = table.row_labels(row)
        for column in table.columns:
            entry = table.entries.get((row, column))
            cells.append(entry.say_ours() if entry else "")
            if table.has_published(column):
                cells.append(entry.say_published() if entry else "")
        body.append(cells)
    return head, body


def _row(table: Table, entry: Entry) -> dict[str, Any]:
    def both(name: str, figure: MeanAndStd | None) -> dict[str, Any]:
        return {f"{name}_mean": figure and figure.mean, f"{name}_std": figure and figure.std}

    published: Mapping[str, Any] = entry.published or {}
    return {
        **entry.cell.settings,
        "source": (entry.source or "").partition("@")[2],
        "metric": entry.metric,
        **both("ours", entry.ours),
        "n": entry.ours.count if entry.ours else 0,
        "num_diverged": entry.num_diverged,
        "num_missing": entry.num_missing,
        **both("released_protocol", entry.released),
        "ratio": entry.ratio,
        "published_mean": _number(published.get("mean")),
        "published_std": _number(published.get("std")),
        "published_ratio": _number(published.get("ratio")),
        "data": entry.data,
        "reason": entry.cell.reason,
        "conditions": " ".join(table.conditions) or "as in the recipe",
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _has_groups(table: Table, body: list[list[str]]) -> bool:
    """Whether several rows begin alike, so that a rule between those that do not helps the eye."""
    return len(table.axes) > 1 and len({row[0] for row in body}) < len(body)


def _without_repeats(row: list[str], before: list[str] | None, num_axes: int) -> list[str]:
    """Leaves out what a row begins with like the one before it."""
    shown = list(row)
    for number in range(num_axes - 1):
        if before is None or row[number] != before[number]:
            break
        shown[number] = ""
    return shown


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


# ------------------------------------------------------------------------------------------------------- the picture

_ROW, _LINE_HEIGHT, _GAP, _MARGIN = 0.27, 0.19, 0.22, 0.3  # inches
_HEAD_LETTERS = 24  # of a column's title in one line
_SMALL, _NORMAL, _LARGE = 8.0, 9.0, 12.0  # points


def draw_table(table: Table, path: Path) -> None:
    """Draws the table to a PNG file.

    Raises:
        ImportError: If matplotlib is not installed; the message says how to install it.
    """
    matplotlib = require("matplotlib", "plot")
    with matplotlib.rc_context(STYLE):
        _Picture(table).write(path)


class _Picture:
    """Lines of text and rules at measured places: as wide as the cells need, as high as the rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        head, self.body = _grid(table)
        self.num_axes = len(table.axes)
        self.has_groups = _has_groups(table, self.body)
        self.heads = [[line for part in cell.split(", ") for line in textwrap.wrap(part, _HEAD_LETTERS)] or [""] for cell in head]
        self.figure = require("matplotlib.figure", "plot").Figure(figsize=(1, 1), dpi=DPI)
        require("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg(self.figure)
        self.widths = [
            max(self._measure(text, _NORMAL) for text in [*heads, *(row[i] for row in self.body)]) + _GAP
            for i, heads in enumerate(self.heads)
        ]
        self.width = max(sum(self.widths) - _GAP, 6.0)

    def write(self, path: Path) -> None:
        letters = int(self.width / self._measure("n" * 100, _SMALL) * 100 * 1.08)  # the usual letter is narrower than an n
        title = textwrap.wrap(_heading(self.table), int(letters * _SMALL / _LARGE))
        warnings = [line for text in (*self.table.conditions, *self.table.stand_ins) for line in textwrap.wrap(text, letters)]
        notes = [line for text in (say_counts(self.table), *self.table.notes) for line in textwrap.wrap(text, letters)]
        num_heads = max(map(len, self.heads))
        inches = [0.27 * len(title), _LINE_HEIGHT * len(warnings), _LINE_HEIGHT * num_heads, _ROW * len(self.body)]
        height = 2 * _MARGIN + sum(inches) + _LINE_HEIGHT * len(notes) + 0.4
        self.figure.set_size_inches(self.width + 2 * _MARGIN, height)
        self.y = height - _MARGIN
        for line in title:
            self._text(_MARGIN, line, 0.27, size=_LARGE, weight="bold")
        for line in warnings:
            self._text(_MARGIN, line, _LINE_HEIGHT, size=_SMALL, color=MARK, weight="bold")
        self.y -= 0.12
        self._rule(1.2)
        self.y -= 0.05
        for number in range(num_heads):
            self._cells(
                [heads[number - num_heads] if len(heads) >= num_heads - number else "" for heads in self.heads], _LINE_HEIGHT
            )
        self.y -= 0.05
        self._rule(0.8)
        for number, row in enumerate(self.body):
            before = self.body[number - 1] if number else None
            if before is not None and before[0] != row[0] and self.has_groups:
                self._rule(0.4)
            self._cells(_without_repeats(row, before, self.num_axes), _ROW)
        self._rule(1.2)
        self.y -= 0.12
        for line in notes:
            self._text(_MARGIN, line, _LINE_HEIGHT, size=_SMALL, color=SOFT)
        with written_aside(path) as beside:
            self.figure.savefig(beside, format="png")

    def _cells(self, row: list[str], height: float) -> None:
        x = _MARGIN
        for number, (text, width) in enumerate(zip(row, self.widths, strict=True)):
            is_label = number < self.num_axes
            is_published = not is_label and self.heads[number] == ["published"]
            self._put(
                x if is_label else x + width - _GAP,
                self.y - height / 2,
                text,
                size=_NORMAL,
                color=SOFT if is_published else INK,
                ha="left" if is_label else "right",
            )
            x += width
        self.y -= height

    def _text(self, x: float, text: str, height: float, **look: Any) -> None:
        self._put(x, self.y - height / 2, text, ha="left", **look)
        self.y -= height

    def _put(self, x: float, y: float, text: str, **look: Any) -> None:
        width, height = self.figure.get_size_inches()
        self.figure.text(x / width, y / height, text, va="center", **look)

    def _rule(self, thickness: float) -> None:
        width, height = self.figure.get_size_inches()
        lines = require("matplotlib.lines", "plot")
        ends = [_MARGIN / width, 1 - _MARGIN / width]
        self.figure.add_artist(lines.Line2D(ends, [self.y / height] * 2, color=INK, linewidth=thickness))

    def _measure(self, text: str, size: float) -> float:
        """Width of a text in inches."""
        drawn = self.figure.text(0, 0, text, size=size)
        width = drawn.get_window_extent(self.figure.canvas.get_renderer()).width / DPI
        drawn.remove()
        return float(width)
