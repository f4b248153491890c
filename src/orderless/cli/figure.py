"""`orderless figure`: a figure of the paper, or one of your own, from its recipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.given import refuse
from orderless.cli.options import (
    AsJson,
    CacheDir,
    Compile,
    CudaGraphs,
    DataDir,
    Debug,
    Device,
    DryRun,
    Jobs,
    NoRun,
    Only,
    Out,
    PrecisionName,
    Quick,
    RecipeName,
    Results,
    Seeds,
)
from orderless.cli.runs import check_asked, check_can_run, choose_runs, do_runs, list_all, list_runs, open_results, tell_failures
from orderless.experiments.figures import Material, draw_figure, find_drawing, parse_drawing_options, rehearse
from orderless.experiments.grid import Plan, Recipe, choose_sources
from orderless.experiments.recipe import PAPER, list_recipes, load_recipe
from orderless.experiments.runner import Summary
from orderless.train import Execution

DrawingOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="What the drawing takes, such as order=paper. May be repeated."),
]

_OF_RUNS = ("seeds", "quick", "device", "jobs", "results", "precision", "compiled", "cuda_graphs")


def figure(
    context: typer.Context,
    name: RecipeName = None,
    only: Only = None,
    seeds: Seeds = None,
    quick: Quick = False,
    option: DrawingOptions = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    out: Out = Path("results"),
    results: Results = None,
    precision: PrecisionName = None,
    compiled: Compile = False,
    cuda_graphs: CudaGraphs = False,
    dry_run: DryRun = False,
    no_run: NoRun = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Do the runs of a figure that are missing, if it shows runs, and draw it.

    Runs are kept as those of tables are, in --out, and shared with them. Pictures go to --out/figures as PNG and PDF, with the
    numbers that are drawn as CSV. What is missing, shrunk or made up is said on the figure.

    Example: orderless figure gradients --quick --jobs 2
    """
    check_asked(context, name, dry_run=dry_run, no_run=no_run)
    if name is None:
        return list_all(as_json)
    with wrong_usage():
        recipe = _load(name)
        if not recipe.blocks:
            refuse(context, _OF_RUNS, f"{recipe.name} shows no runs")
            if not find_drawing(recipe).of_data:
                refuse(context, ("data_dir", "cache_dir"), f"{recipe.name} shows no data")
        plan = choose_runs(
            recipe, only=only, seeds=seeds, quick=quick, precision=precision, data_dir=data_dir, cache_dir=cache_dir
        )
        material = Material(plan, options=parse_drawing_options(option or ()), data_dir=data_dir, cache_dir=cache_dir)
        execution = Execution(device=device, compile=compiled, cuda_graphs=cuda_graphs)
        check_can_run(execution, jobs, nothing_runs=dry_run or no_run or not plan.runs)
        if plan.runs:
            rehearse(material)
    if dry_run:
        return list_runs(plan, open_results(out, results, to_write=False), as_json)
    store = open_results(out, results)
    summary = Summary()
    if not no_run:
        summary = do_runs(plan.runs, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir)
    lines = store.by_key() if plan.runs else {}
    with wrong_usage():
        material = replace(material, lines=lines)
        paths = draw_figure(material, store.folder / "figures")
    _tell(plan, material, summary, paths, as_json)
    return tell_failures(summary, store)


def _load(name: str) -> Recipe:
    """The recipe, whose name may have hyphens, as commands do."""
    if name == PAPER:
        raise UsageError("the paper's figures come with its tables: `orderless table paper` makes all of them.")
    underscored = name.replace("-", "_")
    recipe = load_recipe(underscored if underscored in list_recipes() else name)
    find_drawing(recipe)
    return recipe


def _tell(plan: Plan, material: Material, summary: Summary, paths: list[Path], as_json: bool) -> None:
    runs = choose_sources(plan, material.lines).runs
    missing = [run.key for run in runs if run.key not in material.lines]
    reduced = plan.describe_reduction()
    if as_json:
        content = {
            "name": plan.recipe.name,
            "title": plan.recipe.title,
            "reduced": reduced or None,
            "runs": len(runs),
            "missing": missing,
            "failed": summary.failed,
            "files": {path.suffix.removeprefix("."): str(path) for path in paths},
        }
        typer.echo(json.dumps(content, indent=1))
        return
    counts = f" {len(runs) - len(missing)} of {len(runs)} runs are in it." if runs else ""
    typer.echo(f"{plan.recipe.title}: drawn to {', '.join(str(path) for path in paths)}.{counts}")
    if reduced:
        typer.echo(f"{reduced}. Such figures say nothing about the published ones.")
