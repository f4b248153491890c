"""What was typed, as opposed to defaults; and options that would have no effect, which are refused and not ignored."""

from __future__ import annotations

from collections.abc import Collection

import typer

from orderless.cli.errors import UsageError


def given(context: typer.Context) -> list[str]:
    """Names of the parameters that were typed, in the order of the help."""
    names = [parameter.name or "" for parameter in context.command.params]
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def refuse(context: typer.Context, idle: Collection[str], why: str) -> None:
    """Fails where one of these parameters was typed.

    Args:
        context: Of the verb.
        idle: Names of parameters that would have no effect.
        why: What makes them so, for the message.
    """
    typed = [name for name in given(context) if name in idle]
    if typed:
        raise UsageError(f"{why}: leave out {', '.join(_spelt(context, name) for name in typed)}.")


def _spelt(context: typer.Context, name: str) -> str:
    """A parameter as it was typed: --compensate or --no-compensate."""
    (parameter,) = (parameter for parameter in context.command.params if parameter.name == name)
    is_off = context.params[name] is False and parameter.secondary_opts
    return str((parameter.secondary_opts if is_off else parameter.opts)[-1])
