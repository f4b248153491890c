"""HTML from Python."""

from orderless.pages.html import Html, element, join, prose


def test_text_is_escaped_and_html_is_not():
    assert element("p", "<b>&", element("i", "x"), None, class_="a", data_x='"', hidden=True, id=None) == (
        '<p class="a" data-x="&quot;" hidden>&lt;b&gt;&amp;<i>x</i></p>'
    )
    assert join("<", Html("<br>")) == "&lt;<br>"
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("rect", x=0, y=0.0, rx=None, hidden=False) == '<rect x="0" y="0"></rect>'


def test_backticks_become_code():
    assert prose("type `a < b` now") == "type <code>a &lt; b</code> now"
