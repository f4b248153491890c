"""`orderless figure`: a figure of the paper, or one of your own, from its recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from orderless.cli.data import AsJson, CacheDir, DataDir, Debug
from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.table import (
    DryRun,
    Jobs,
    NoRun,
    Only,
    Out,
    PrecisionName,
    Quick,
    Results,
    Seeds,
    do_runs,
    list_all,
    list_runs,
    open_results,
    parse_seeds,
    tell_stopped,
)
from orderless.cli.train import Compile, CudaGraphs, Device
from orderless.experiments.figures import Material, choose_sources, draw_figure, find_drawing, parse_drawing_options, rehearse
from orderless.experiments.recipe import Plan, Recipe, expand, list_recipes, load_recipe, parse_only
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import Summary
from orderless.train import Execution, resolve_device

DrawingOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="What the drawing takes, such as order=paper. May be given often."),
]


def figure(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE.toml]", help="A recipe. Without one, they are listed.")
    ] = None,
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
    if name is None:
        return list_all(as_json)
    with wrong_usage():
        recipe = _load(name)
        plan = _expand(recipe, only, seeds, quick, precision, data_dir, cache_dir)
        material = Material(plan, options=parse_drawing_options(option or ()), data_dir=data_dir, cache_dir=cache_dir)
        execution = Execution(device=device, compile=compiled, cuda_graphs=cuda_graphs)
        if jobs < 1:
            raise UsageError(f"--jobs must be 1 or more, got {jobs}.")
        if plan.runs:
            rehearse(material)
            if not (dry_run or no_run):
                resolve_device(device)
    if dry_run:
        return list_runs(plan, open_results(out, results, to_write=False), as_json)
    store = open_results(out, results)
    summary = Summary()
    if not no_run:
        try:
            summary = do_runs(plan.runs, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir)
        except KeyboardInterrupt:
            tell_stopped(plan.runs, store)
            return 130
    lines = store.by_key() if plan.runs else {}
    with wrong_usage():
        material = Material(plan, lines, material.options, data_dir, cache_dir)
        paths = draw_figure(material, store.folder / "figures")
    _tell(plan, material, store, summary, paths, as_json)
    return 1 if summary.failed else 0


def _load(name: str) -> Recipe:
    """The recipe, whose name may have hyphens, as commands do."""
    underscored = name.replace("-", "_")
    recipe = load_recipe(underscored if underscored in list_recipes() else name)
    find_drawing(recipe)
    return recipe


def _expand(
    recipe: Recipe,
    only: list[str] | None,
    seeds: str | None,
    quick: bool,
    precision: str | None,
    data_dir: Path | None,
    cache_dir: Path | None,
) -> Plan:
    if not recipe.blocks and (seeds is not None or precision is not None):
        raise UsageError(f"{recipe.name} shows no runs: leave --seeds and --precision out.")
    return expand(
        recipe,
        quick=quick,
        seeds=parse_seeds(seeds),
        only=parse_only(only or ()),
        settings={} if precision is None else {"precision": precision},
        data_dir=data_dir,
        cache_dir=cache_dir,
    )


def _tell(plan: Plan, material: Material, store: ResultStore, summary: Summary, paths: list[Path], as_json: bool) -> None:
    runs = choose_sources(plan, material.lines).runs
    missing = [run.key for run in runs if run.key not in material.lines]
    if as_json:
        content = {
            "name": plan.recipe.name,
            "title": plan.recipe.title,
            "quick": plan.describe_shrinking() or None,
            "runs": len(runs),
            "missing": missing,
            "failed": summary.failed,
            "files": {path.suffix.removeprefix("."): str(path) for path in paths},
        }
        typer.echo(json.dumps(content, indent=1))
    else:
        counts = f" {len(runs) - len(missing)} of {len(runs)} runs are in it." if runs else ""
        typer.echo(f"{plan.recipe.title}: drawn to {', '.join(str(path) for path in paths)}.{counts}")
        if plan.quick and runs:
            typer.echo(f"{plan.describe_shrinking()}. Such figures say nothing about the published ones.")
    for key, message in summary.failed.items():
        typer.echo(f"orderless: {key} failed: {message} (all of it: {store.run_folder(key) / 'error.txt'})", err=True)
