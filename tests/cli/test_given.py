"""What was typed, and what is refused of it (`given.py`)."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from orderless.cli.errors import exits_cleanly
from orderless.cli.given import given, refuse

app = typer.Typer()


@app.command()
@exits_cleanly
def verb(
    context: typer.Context,
    one: int = 1,
    two: Annotated[bool, typer.Option("--two/--no-two")] = True,
    three: Annotated[str, typer.Option("-t", "--three")] = "",
) -> int:
    typer.echo(", ".join(given(context)))
    refuse(context, ("two", "three"), "there is one")
    return 0


def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_a_default_counts_when_it_was_typed():
    assert run() == (0, "\n", "")
    assert run("--one", "1") == (0, "one\n", "")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--two"], "there is one: leave out --two."),
        (["--no-two"], "there is one: leave out --no-two."),
        (["-t", "x", "--two"], "there is one: leave out --two, --three."),
    ],
)
def test_what_would_be_ignored_is_refused_as_it_was_typed(typed, said):
    code, _, err = run(*typed)
    assert (code, err) == (2, f"orderless: {said}\n")
