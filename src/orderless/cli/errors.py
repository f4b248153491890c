"""How a verb ends: 0 done, 1 failed, 2 wrong usage, 130 stopped, and an error is one line that says what to do.

What the command line says wrongly is wrong usage: an option, the name of a column, a path that is not there. A fault inside of a
file that was named rightly is a failure.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec

import typer
from typer.core import TyperGroup

from orderless.files import NO_ROOM, WriteError
from orderless.io.errors import ContentError, OptionError
from orderless.train.checkpoint import CheckpointError
from orderless.train.divergence import TrainingDiverged

P = ParamSpec("P")
_WrongWords: Any = typer.BadParameter.__base__  # an unknown verb or option, a value of the wrong type: typer gives it no name


class UsageError(Exception):
    """The command was called wrongly; the message says what to do. Exit code 2, as of an `OptionError`."""


class FailedError(Exception):
    """It was called rightly and could not be done; the message says why, and what to do. Exit code 1."""


_WRONG_USAGE = (UsageError, OptionError)
_FAILURES = (FailedError, ContentError, WriteError, ImportError, CheckpointError, TrainingDiverged)  # which speak for themselves


class Verbs(TyperGroup):
    """The verbs of the command. What the command line's library refuses is told in one line, as our own errors are."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a verb, and exits with its code if it stands alone."""

        def run() -> Any:
            return super(Verbs, self).main(args, prog_name, complete_var, False, windows_expand_args, **extra)

        if not standalone_mode:
            return run()
        try:
            code = run()
        except _WrongWords as error:
            _say_wrong_words(error)
            code = error.exit_code
        except OSError as error:  # a verb tells its own: this is of help or the version, on their way to a full disk
            typer.echo(f"orderless: {_describe(error)}", err=True)
            code = 1
        sys.exit(code)


def _say_wrong_words(error: Any) -> None:
    message = " ".join(error.format_message().split())
    if not message or "Usage: " in message:  # `orderless` or `orderless data` alone; help in colour was shown when it was made
        error.show()
        return
    command = "orderless" if error.ctx is None else error.ctx.command_path
    typer.echo(f"orderless: {message.rstrip('.')}. `{command} --help` shows what it takes.", err=True)


def exits_cleanly(verb: Callable[P, int]) -> Callable[P, None]:
    """Turns a verb's return value into the exit code and its exceptions into one line, or a traceback with `--debug`."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = verb(*args, **kwargs)
        except BrokenPipeError:  # the reader has seen enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except KeyboardInterrupt as stop:  # a verb that keeps what it has done says so
            kept = str(stop) or "Nothing half-finished was kept; the same command begins or resumes it."
            typer.echo(f"orderless: stopped. {kept}", err=True)
            code = 130
        except Exception as error:
            if kwargs.get("debug"):
                raise
            typer.echo(f"orderless: {_describe(error)}", err=True)
            code = 2 if isinstance(error, _WRONG_USAGE) else 1
        raise typer.Exit(code)

    return run


def _describe(error: Exception) -> str:
    if isinstance(error, _WRONG_USAGE + _FAILURES):
        return str(error)
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = f" {error.filename} could not be written." if error.filename else ""
        return f"the disk is full.{where} Free some space, and run the same command again."
    return f"{type(error).__name__}: {error} (--debug shows the traceback)"


@contextmanager
def wrong_usage() -> Iterator[None]:
    """What is done inside reads what the user typed: a value that will not do is wrong usage, not a failure."""
    try:
        yield
    except ContentError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def of_data() -> Iterator[None]:
    """What is done inside goes by what files hold: a value that will not do is a failure, unless an option named it."""
    try:
        yield
    except (ContentError, OptionError):
        raise
    except ValueError as error:
        raise FailedError(str(error)) from error


def open_streams() -> None:
    """What goes to a stream that the caller has closed (`>&-`) goes nowhere, rather than into the next file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - to the end; it gets the number that is free
            setattr(sys, name, nowhere)


def warn_in_one_line() -> None:
    """From now on a warning is one line without the place in the code that it came from."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"orderless: {message}", err=True)

    warnings.showwarning = show
