"""Figures of recipes: `draw_figure` draws one from the results that are there, and writes it."""

from orderless.experiments.figures.material import Material
from orderless.experiments.figures.registry import (
    DRAWINGS,
    check_options,
    draw_figure,
    find_drawing,
    parse_drawing_options,
    rehearse,
)

__all__ = [
    "DRAWINGS", "Material", "check_options", "draw_figure", "find_drawing", "parse_drawing_options", "rehearse",
]  # fmt: skip
