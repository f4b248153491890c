"""Small parts of pages: badges, marks of lines, tables that scroll."""

from __future__ import annotations

from orderless.pages.charts import NUM_COLORS
from orderless.pages.html import Html, element


def mark(text: str, color: int) -> Html:
    """The letters at the end of a line, in its colour."""
    return element("span", text, class_=f"mark c{color % NUM_COLORS}")


def badge(text: str, kind: str = "") -> Html:
    """A word that is a verdict."""
    return element("span", text, class_=f"badge {kind}".strip())


def scrolling(table: Html, label: str) -> Html:
    """A table that scrolls inside its own place where it is too wide; the keyboard reaches it."""
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)
