"""How a verb ends: 0 done, 1 failed, 2 wrong usage, and an error is one line that says what to do."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

P = ParamSpec("P")


class UsageError(Exception):
    """The command was called wrongly; the message says what to do. Exit code 2."""


def exits_cleanly(verb: Callable[P, int]) -> Callable[P, None]:
    """Turns a verb's return value into the exit code and its exceptions into one line, or a traceback with `--debug`."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = verb(*args, **kwargs)
        except Exception as error:
            if "--debug" in sys.argv:
                raise
            is_usage = isinstance(error, UsageError)
            what = str(error) if is_usage else f"{type(error).__name__}: {error} (--debug shows the traceback)"
            typer.echo(f"orderless: {what}", err=True)
            code = 2 if is_usage else 1
        raise typer.Exit(code)

    return run
