"""The doorway: every verb, and nothing else."""

import typer

from orderless.cli.check import check
from orderless.cli.errors import exits_cleanly

app = typer.Typer(
    name="orderless",
    help="Deep learning on sets: samples made of many elements in no order.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keeps verbs as verbs while there is only one."""


app.command()(exits_cleanly(check))


def main() -> None:
    """Runs the command line and exits: 0 done, 1 failed, 2 wrong usage."""
    app()
