"""The tables on the page of results are renderings of the committed result lines, line by line."""

import statistics
from pathlib import Path

import pytest

from orderless.experiments.grid import choose_sources, expand
from orderless.experiments.paper import DrawnFigure, paper_page, paper_recipes
from orderless.experiments.recipe import load_recipe
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
    assert "\n".join(rendered) in (DOCS / "demo.md").read_text()


@pytest.mark.parametrize(("name", "seeds"), [("past_the_paper", None), ("longer", None), ("ingredients", [0])])
def test_the_page_past_the_paper_shows_what_the_lines_say(name, seeds):
    plan = expand(load_recipe(name), seeds=seeds, settings={"precision": "bf16-mixed"})
    table = build_table(plan, read_results(DOCS / "results" / "past_the_paper.jsonl"))
    rendered = [row for row in to_markdown(table).splitlines() if row.startswith("|")]
    assert "\n".join(rendered) in (DOCS / "past-the-paper.md").read_text()


def test_the_page_of_more_cells_shows_what_the_lines_of_invented_patients_say():
    plan = expand(load_recipe("more_elements"), settings={"precision": "bf16-mixed"})
    table = build_table(plan, read_results(DOCS / "results" / "more_elements_simulated.jsonl"))
    rendered = [row for row in to_markdown(table).splitlines() if row.startswith("|")]
    assert "\n".join(rendered) in (DOCS / "more-elements.md").read_text()


def test_the_page_of_the_paper_is_a_rendering_of_the_lines():
    folder = DOCS / "results"
    lines = read_results(folder / "paper.jsonl")
    known = {line["key"] for line in lines}
    tables, figures = [], []
    for recipe in paper_recipes():
        plan = expand(recipe, settings={"precision": "bf16-mixed"} if recipe.blocks else {})
        if recipe.kind == "table":
            tables.append(build_table(plan, lines))
            continue
        plan = choose_sources(plan, known)
        picture = f"figures/{recipe.name}.png"
        num_done = sum(spec.key in known for spec in plan.runs)
        figures.append(DrawnFigure(plan, num_done, picture if (folder / picture).exists() else None))
    rendered = paper_page(tables, figures, ["--precision", "bf16-mixed", "--compile", "--cuda-graphs"])
    assert rendered == (folder / "README.md").read_text(), "render it again, as docs/experiments.md says"


def test_the_page_shows_how_much_the_last_epochs_differ():
    lines = read_results(DOCS / "results" / "normal_var.jsonl")
    assert len(lines) == 4
    page = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (DOCS / "demo.md").read_text().splitlines()]
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
    assert min(tested) == tested[-1] == pytest.approx(line["metrics"]["mse"], rel=1e-5)
    assert [f"{value:.4f}" for value in tested[-3:-1]] == ["0.0396", "0.0108"]
