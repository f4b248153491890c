"""The `orderless` command: one short file per verb."""

from orderless.cli.app import main

__all__ = ["main"]
