"""Words of messages: how many there are of something, what an unknown name may mean, texts with a capital or cut short."""

import difflib
from collections.abc import Iterable


def counted(number: int, what: str) -> str:
    """A number of things: 1 set, 12,000 sets."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def capitalized(text: str) -> str:
    """The text with a capital in front, and all else as it is: `str.capitalize` would make MSE Mse."""
    return text[:1].upper() + text[1:]


def shortened(text: str, most: int) -> str:
    """The text, or as much of it as fits into so many letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A question that offers the known word that is closest, to follow a sentence; '' if none is close. Capitals do not count."""
    plain: dict[str, str] = {}
    for name in known:
        plain.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(str(word).casefold(), plain, n=1)
    return f" Did you mean {plain[close[0]]!r}?" if close else ""
