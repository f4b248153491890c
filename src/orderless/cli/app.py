"""The doorway: every verb, and nothing else."""

import platform
from importlib.metadata import version as installed_version
from typing import Annotated

import torch
import typer

from orderless.cli import bench, data
from orderless.cli.check import check
from orderless.cli.diagnose import diagnose
from orderless.cli.errors import Verbs, exits_cleanly, open_streams, warn_in_one_line
from orderless.cli.evaluate import evaluate
from orderless.cli.figure import figure
from orderless.cli.fit import fit
from orderless.cli.predict import predict
from orderless.cli.report import report
from orderless.cli.table import table
from orderless.cli.train import train

app = typer.Typer(
    name="orderless",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    """Prints the versions that a bug report needs, and exits."""
    if wanted:
        typer.echo(f"orderless {installed_version('orderless')} (torch {torch.__version__}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show versions and exit.")
    ] = False,
) -> None:
    """Deep learning on sets: samples made of many elements in no order."""


app.command()(exits_cleanly(fit))
app.command()(exits_cleanly(predict))
app.command()(exits_cleanly(check))
app.command()(exits_cleanly(evaluate))
app.command()(exits_cleanly(diagnose))
app.command()(exits_cleanly(train))
app.command()(exits_cleanly(table))
app.command()(exits_cleanly(figure))
app.command()(exits_cleanly(report))
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Runs the command line and exits: 0 done, 1 failed, 2 wrong usage."""
    open_streams()
    warn_in_one_line()
    app()
