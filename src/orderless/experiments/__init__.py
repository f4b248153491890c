"""Tables and figures as data: recipes, runs, results, rendering."""

from orderless.experiments.grid import Plan, Recipe, expand
from orderless.experiments.recipe import list_recipes, load_recipe
from orderless.experiments.render import to_markdown, write_table
from orderless.experiments.results import ResultStore, read_results
from orderless.experiments.run import execute
from orderless.experiments.runner import run_missing
from orderless.experiments.spec import RunSpec, make_spec
from orderless.experiments.table import Table, build_table

__all__ = [
    "Plan",
    "Recipe",
    "ResultStore",
    "RunSpec",
    "Table",
    "build_table",
    "execute",
    "expand",
    "list_recipes",
    "load_recipe",
    "make_spec",
    "read_results",
    "run_missing",
    "to_markdown",
    "write_table",
]
