"""The frame around every page."""

import base64
import hashlib
import re

from orderless.pages.frame import html_page
from orderless.pages.html import element


def test_a_page_has_its_sections_and_escapes_its_title():
    page = html_page("<b>&", [element("section", "one"), element("section", "two")], element("nav", "before"))
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "<title>&lt;b&gt;&amp;</title>" in page
    assert "<nav>before</nav><main><section>one</section><section>two</section></main>" in page


def test_a_browser_may_load_nothing_and_run_only_the_script_of_the_page():
    page = html_page("title", [])
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', page)
    assert "default-src &#x27;none&#x27;" in policy
    (script,) = re.findall("<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{digest}" in policy
    assert not re.search(r"https?://|@import|url\(", page)
