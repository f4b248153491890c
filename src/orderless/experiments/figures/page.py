"""The sheet that a figure of runs is drawn on: title, what was done to get it, panels, notes; and how it is written.

All lengths are inches.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orderless.files import write_text, written_aside
from orderless.io.extras import require
from orderless.look import DPI, INK, MARK, SOFT, STYLE, WIDTH

MARGIN: Final = 0.36
LINE_HEIGHT: Final = 0.215
LETTERS_IN_A_LINE: Final = 158  # of the small print, on a sheet of the usual width
LETTERS_OF_A_TITLE: Final = 92  # so many fit at its usual size

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Drawn:
    """A figure, and the numbers that are drawn in it, as rows of a table; none where it has no numbers."""

    figure: Any
    rows: Sequence[Row] = ()


@dataclass(frozen=True)
class Words:
    """What stands around the panels.

    Attributes:
        title: Above all.
        said: Lines below it.
        warned: Lines that must not be overlooked: that data are made up, that runs were shrunk.
        notes: Small print at the foot.
    """

    title: str
    said: Sequence[str] = ()
    warned: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass
class Page:
    """A sheet with room for panels.

    Attributes:
        figure: The matplotlib figure.
        width: Of the sheet.
        height: Of the sheet.
        top: Where the panels' room begins, from the lower edge.
        bottom: Where it ends.
    """

    figure: Any
    width: float
    height: float
    top: float
    bottom: float

    def panel(self, left: float, bottom: float, width: float, height: float) -> Any:
        """Axes at this place of the sheet."""
        axes = self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))
        axes.grid(axis="y", color="#E6E6E6", linewidth=0.7)
        axes.set_axisbelow(True)
        return axes


def open_page(words: Words, panels: float, width: float = WIDTH) -> Page:
    """A sheet with these words, and `panels` inches of height between them. Call it within `styled`."""
    share = (width - 2 * MARGIN) / (WIDTH - 2 * MARGIN)  # of the usual room for words
    letters = int(LETTERS_IN_A_LINE * share)
    said = [(line, False) for text in words.said for line in textwrap.wrap(text, letters)]
    said += [(line, True) for text in words.warned for line in textwrap.wrap(text, letters)]
    notes = [line for text in words.notes for line in textwrap.wrap(text, letters)]
    header = 0.72 + LINE_HEIGHT * len(said)
    footer = 0.16 + (LINE_HEIGHT * len(notes) + 0.14 if notes else 0.0)
    height = header + panels + footer
    figure = require("matplotlib.figure", "plot").Figure(figsize=(width, height))
    size = 15 * min(1.0, LETTERS_OF_A_TITLE * share / len(words.title))
    figure.text(MARGIN / width, 1 - 0.38 / height, words.title, fontsize=size, fontweight="bold", va="center", color=INK)
    for n, (text, alarming) in enumerate(said):
        weight, color = ("bold", MARK) if alarming else ("normal", SOFT)
        y = height - 0.70 - n * LINE_HEIGHT
        figure.text(MARGIN / width, y / height, text, fontsize=9, va="center", color=color, fontweight=weight)
    for n, text in enumerate(notes):
        y = footer - 0.16 - n * LINE_HEIGHT
        figure.text(MARGIN / width, y / height, text, fontsize=8.5, va="center", color=SOFT)
    return Page(figure, width, height, height - header, footer)


def styled() -> Any:
    """The look of all figures, as a context."""
    return require("matplotlib", "plot").rc_context(STYLE)


def say_empty(axes: Any, text: str) -> None:
    """Words where there is nothing to draw: bare axes would look like a result."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_facecolor("#F4F4F4")
    axes.text(
        0.5, 0.5, textwrap.fill(text, 44), transform=axes.transAxes, ha="center", va="center", color=SOFT, fontsize=9.5, wrap=True
    )


def write_drawn(drawn: Drawn, folder: Path, name: str) -> list[Path]:
    """Writes NAME.png, NAME.pdf, and NAME.csv where there are numbers; each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with styled():
        for suffix, options in (("png", {"dpi": DPI}), ("pdf", {"metadata": {"CreationDate": None}})):
            path = folder / f"{name}.{suffix}"
            with written_aside(path) as beside:
                drawn.figure.savefig(beside, format=suffix, **options)
            paths.append(path)
    numbers = folder / f"{name}.csv"
    if drawn.rows:
        write_text(numbers, _csv(drawn.rows))
        return [*paths, numbers]
    numbers.unlink(missing_ok=True)  # an earlier drawing's numbers are not this one's
    return paths


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
