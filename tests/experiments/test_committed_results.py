"""The tables on the page of results are renderings of the committed result lines, line by line."""

from pathlib import Path

import pytest

from orderless.experiments.recipe import expand, load_recipe
from orderless.experiments.render import to_markdown
from orderless.experiments.results import read_results
from orderless.experiments.table import build_table

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "options"), [("normal_var", {"seeds": [0]}), ("demo", {"quick": True})])
def test_the_page_shows_what_the_lines_say(name, options):
    plan = expand(load_recipe(name), **options)
    lines = read_results(DOCS / "results" / f"{name}.jsonl")
    rendered = [row for row in to_markdown(build_table(plan, lines)).splitlines() if row.startswith("|")]
    assert len(rendered) > 3
    assert "\n".join(rendered) in (DOCS / "results.md").read_text()
