"""The doorway: verbs, exit codes and errors of one line.

Exit codes: 0 done, 1 failed, 2 wrong usage. A traceback is shown only with `--debug`.
"""

import sys

import click
import typer

from orderless.cli.check import check
from orderless.cli.errors import UsageError

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


app.command()(check)


def main() -> None:
    """Runs the command line and exits."""
    debug = "--debug" in sys.argv
    try:
        code = app(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        typer.echo("stopped.", err=True)
        code = 1
    except UsageError as error:
        if debug:
            raise
        typer.echo(f"orderless: {error}", err=True)
        code = 2
    except Exception as error:
        if debug:
            raise
        typer.echo(f"orderless: {type(error).__name__}: {error} (run again with --debug for the traceback)", err=True)
        code = 1
    sys.exit(code)
