"""What `bench/run.py` measured, as tables and plots: speed and memory beside goals, floors and peers."""

from orderless.experiments.bench.plots import draw_plots
from orderless.experiments.bench.rows import Measurement, read_measurements
from orderless.experiments.bench.table import goal_lines, to_markdown

__all__ = ["Measurement", "draw_plots", "goal_lines", "read_measurements", "to_markdown"]
