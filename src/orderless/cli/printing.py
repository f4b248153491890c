"""Tables on a terminal, with as many columns as it has room for."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from orderless.evaluate import Evaluation

_WIDTH = 160  # columns where there is no terminal


def print_columns(columns: dict[str, list[str]], *, right: Collection[str] = (), least: int = 2) -> None:
    """Prints a table whose cells are never cut: where the terminal is too narrow, columns are left out from the last on."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, markup=False, highlight=False)
    shown: list[str] = []
    used = 0
    for name, cells in columns.items():
        used += max(len(name), *(len(cell) for cell in cells)) + 2
        if len(shown) >= least and used > console.width + 2:
            break
        shown.append(name)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in zip(*(columns[name] for name in shown), strict=True):
        table.add_row(*row)
    console.print(table)


def print_evaluation(found: Evaluation) -> None:
    """Prints the table of an evaluation and what a reader should know; with fewer columns where a terminal is narrow."""
    from orderless.evaluate.evaluation import SHOWN
    from orderless.evaluate.metrics import METRICS

    lines = found.table().splitlines()
    rows, remarks = lines[: 1 + len(found.models)], lines[1 + len(found.models) :]
    if sys.stdout.isatty() and max(map(len, rows)) > shutil.get_terminal_size().columns:
        models = list(found.models.values())
        columns = {"model": [model.title.partition(":")[0] for model in models]}
        for name in SHOWN[found.objective]:
            scores = [model.metrics[name].interval for model in models]
            columns[METRICS[found.objective][name].title] = [
                f"{i.value:.3f} [{i.low:.3f}, {i.high:.3f}]" if math.isfinite(i.value) else "n/a" for i in scores
            ]
        print_columns(columns, right=list(columns)[1:])
    else:
        typer.echo("\n".join(rows))
    typer.echo("\n".join(remarks))
