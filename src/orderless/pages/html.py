"""HTML from Python: text is escaped unless it was made here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = ("img", "meta")  # elements without an end tag


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Iterable[str | None] | None  # an Html stays as it is, any other text is escaped, None is nothing


def element(name: str, *children: Content, **attributes: str | float | bool | None) -> Html:
    """An element. Attributes are written with `_` for `-`, and `class_` for `class`; None and False leave one out."""
    return Html(f"<{name}{_attributes(attributes)}>{'' if name in _VOID else f'{join(*children)}</{name}>'}")


def join(*children: Content) -> Html:
    """Texts and elements one after the other."""
    return Html("".join(_text(child) for child in children))


def prose(text: str) -> Html:
    """A sentence in which what stands between `backticks` is code."""
    return join(element("code", part) if number % 2 else part for number, part in enumerate(text.split("`")))


def _text(child: Content) -> str:
    if child is None or isinstance(child, Html):
        return child or ""
    return escape(child) if isinstance(child, str) else join(*child)


def _attributes(attributes: dict[str, str | float | bool | None]) -> str:
    known = {name: value for name, value in attributes.items() if value is not None and value is not False}  # 0 is a value
    said = {name.rstrip("_").replace("_", "-"): value for name, value in known.items()}
    return "".join(f" {name}" if value is True else f' {name}="{escape(_number(value))}"' for name, value in said.items())


def _number(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
