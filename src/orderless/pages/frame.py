"""What every page has around its sections: a head without a single address, style, script, title and foot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from orderless.pages.html import Html, element
from orderless.version import __version__


def html_page(title: str, sections: Sequence[Html], overview: Html | None = None) -> str:
    """A whole page that needs no network and no other file, and may load none.

    Args:
        title: Of the page.
        sections: What is on it.
        overview: What stands before them.
    """
    style, script = (resources.files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing may be loaded, and no script may run but ours: the browser itself sees to it
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        element("header", element("h1", title)),
        overview,
        element("main", sections),
        element("footer", f"Made by orderless {__version__}. This page needs no network and no other file."),
        element("script", Html(script)),
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n</html>\n'
