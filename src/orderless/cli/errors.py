"""Errors that a verb raises on purpose."""


class UsageError(Exception):
    """The command was called wrongly; its message is one line that says what to do. Exit code 2."""
