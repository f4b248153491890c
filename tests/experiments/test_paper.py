"""The page of the whole paper (`paper.py`)."""

import itertools
import re
import shlex

import pytest
from experiments.plans import _nobodys_files, result  # noqa: F401

from orderless.experiments.grid import expand, parse_only
from orderless.experiments.paper import DrawnFigure, paper_page, paper_recipes
from orderless.experiments.recipe import load_recipe
from orderless.experiments.table import build_table

pytestmark = pytest.mark.usefixtures("_nobodys_files")


def tables_of(lines=()):
    return [build_table(expand(recipe), lines) for recipe in paper_recipes() if recipe.kind == "table"]


def figures_of(picture=None):
    return [DrawnFigure(expand(recipe), 0, picture) for recipe in paper_recipes() if recipe.kind == "figure"]


@pytest.fixture(scope="module")
def page():
    return paper_page(tables_of(), figures_of("figures/one.png"), ["--precision", "bf16-mixed"])


def test_every_recipe_of_the_paper_is_there_and_no_other(page):
    names = re.findall(r'<a id="(\w+)"></a>', page)
    assert sorted(names) == sorted(recipe.name for recipe in paper_recipes())
    assert "main_results" in names
    assert "demo" not in names
    assert all(f"(#{name})" in page for name in names)
    assert page.count("![") == len(figures_of())


def test_every_published_figure_has_a_row(page):
    folded = re.findall(r"<summary>(\d+) of (\d+) rows that were not run yet</summary>\n\n(.*?)\n\n</details>", page, re.S)
    assert [(int(some), int(all_of_them)) for some, all_of_them, _ in folded] == [(len(t.entries),) * 2 for t in tables_of()]
    assert [len(rows.splitlines()) - 2 for *_, rows in folded] == [len(table.entries) for table in tables_of()]
    assert "| Deep Sets++ | 50 | Point Cloud | accuracy ↑ | 0.8029\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.0005 |" in re.sub(
        " +", " ", page
    )


def test_the_command_of_a_row_does_the_runs_of_that_row_and_no_others(page):
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("orderless table") and "--only" in line]
    assert len(commands) > 100
    for words in commands:
        assert words[-2:] == ["--precision", "bf16-mixed"]
        only = [value for flag, value in itertools.pairwise(words) if flag == "--only"]
        cells = expand(load_recipe(words[2]), only=parse_only(only)).cells
        assert len(cells) == 1, words


def test_pairs_in_another_order_than_the_papers_are_listed():
    only = {"task": ["normal_var"], "model": ["deep_sets++"], "residual": ["clean"], "norm": ["feature", "set"]}
    runs = expand(load_recipe("clean_path"), only=only).runs
    lines = [result(spec, {"feature": 1.0, "set": 2.0}[spec.model_options["norm"]]) for spec in runs]
    section = paper_page(tables_of(lines), []).partition("### Which network is better")[2].partition("<a id")[0]
    (row,) = [row for row in section.splitlines() if row.startswith("| [`clean_path`]")]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["1", "0", "0", "0"]
    assert "1 pair that is the other way round here" in section
    assert "Deep Sets++, set norm, before Deep Sets++, feature norm: published 0.0198 ± 0.0041 and 0.1195 ± 0.0000" in section


def test_verdicts_are_counted(page):
    recipe = load_recipe("norms")
    plan = expand(recipe, only={"task": ["normal_var"], "norm": ["none"]})
    lines = [result(spec, value) for spec, value in zip(plan.runs, (8.44, 8.45, 8.46), strict=True)]
    text = paper_page(tables_of(lines), [])
    (row,) = [row for row in text.splitlines() if row.startswith("| [`norms`]")]
    assert [cell.strip() for cell in row.split("|")[3:-1]] == ["3 of 36", "1", "", "", "", "11"]
    assert "| 8.4500 ± 0.0100 | 8.4501 ± 0.0031 | reproduced" in re.sub(r"\s+", " ", text)  # spaces that do not break as well
    assert "1 of the 1 rows that are judged have all their seeds" in text
    assert "### Which network is better" not in text, "one row is no pair"
    by_task = text.partition("### Task by task")[2].partition("<a id")[0]
    (row,) = [row for row in by_task.splitlines() if row.startswith("| Normal Var ")]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["MSE ↓", "1", "0", "1.00", "1.00", "1.00"]
