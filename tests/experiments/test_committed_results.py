"""The tables on the page of results are renderings of the committed result lines, line by line."""

import statistics
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


def test_the_page_shows_how_much_the_last_epochs_differ():
    lines = read_results(DOCS / "results" / "normal_var.jsonl")
    assert len(lines) == 4
    page = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (DOCS / "results.md").read_text().splitlines()]
    names = {
        "deep_sets": "Deep Sets",
        "deep_sets++": "Deep Sets++",
        "set_transformer": "Set Transformer",
        "set_transformer++": "Set Transformer++",
    }
    for line in lines:
        last = [row["test_mse"] for row in line["epochs"]][-10:]
        figures = (min(last), statistics.median(last), max(last), line["metrics"]["mse"])
        depth = str(line["spec"]["model_options"]["depth"])
        assert [names[line["spec"]["model"]], depth, *(f"{figure:.4f}" for figure in figures)] in page


def test_the_last_epoch_of_set_transformer_plus_plus_is_its_best_as_the_page_says():
    (line,) = [r for r in read_results(DOCS / "results" / "normal_var.jsonl") if r["spec"]["model"] == "set_transformer++"]
    tested = [row["test_mse"] for row in line["epochs"]]
    assert min(tested) == tested[-1] == line["metrics"]["mse"]
    assert [f"{value:.4f}" for value in tested[-3:-1]] == ["0.0396", "0.0108"]
