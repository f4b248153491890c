"""`orderless table`: a table of the paper, or one of your own, from its recipe."""

from __future__ import annotations

import importlib.util
import json
import shlex
from pathlib import Path
from typing import Any

import typer

from orderless.cli.errors import UsageError, wrong_usage
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
from orderless.cli.paper import whole_paper
from orderless.cli.runs import check_asked, check_can_run, choose_runs, do_runs, list_all, list_runs, open_results, tell_failures
from orderless.experiments.grid import Recipe
from orderless.experiments.recipe import PAPER, load_recipe
from orderless.experiments.render import say_counts, to_markdown, to_rows, write_table
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import Summary
from orderless.experiments.table import Table, build_table
from orderless.train import Execution


def table(
    context: typer.Context,
    name: RecipeName = None,
    only: Only = None,
    seeds: Seeds = None,
    quick: Quick = False,
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
    """Do the runs of a table that are missing, and show ours beside the published figures.

    Every finished run is kept as one line of results.jsonl in --out and never done again. The command may be stopped, killed and
    started again at any time, and started several times at once. Renderings go to --out/tables.

    `orderless table paper` is all tables and figures of the paper at once, with a page that compares them: --out/README.md.

    Example: orderless table clean_path --only task=normal_var --seeds 0 --jobs 4
    """
    check_asked(context, name, dry_run=dry_run, no_run=no_run)
    if name is None:
        return list_all(as_json)
    if name == PAPER:
        return whole_paper(
            only=only,
            seeds=seeds,
            quick=quick,
            precision=precision,
            execution=Execution(device=device, compile=compiled, cuda_graphs=cuda_graphs),
            jobs=jobs,
            out=out,
            results=results,
            dry_run=dry_run,
            no_run=no_run,
            data_dir=data_dir,
            cache_dir=cache_dir,
            as_json=as_json,
        )
    with wrong_usage():
        recipe = load_recipe(name)
        if recipe.kind != "table":
            raise UsageError(f"{recipe.name} is a figure: `orderless figure {shlex.quote(name)}` draws it.")
        plan = choose_runs(
            recipe, only=only, seeds=seeds, quick=quick, precision=precision, data_dir=data_dir, cache_dir=cache_dir
        )
        execution = Execution(device=device, compile=compiled, cuda_graphs=cuda_graphs)
        check_can_run(execution, jobs, nothing_runs=dry_run or no_run)
    if dry_run:
        return list_runs(plan, open_results(out, results, to_write=False), as_json)
    store = open_results(out, results)
    summary = Summary()
    if not no_run:
        if recipe.is_timed and jobs > 1:
            jobs = 1
            typer.echo(f"{recipe.name} shows how long runs take, so they are done one at a time.", err=True)
        summary = do_runs(plan.runs, store, jobs=jobs, execution=execution, data_dir=data_dir, cache_dir=cache_dir)
    _show(build_table(plan, store.lines()), store, summary, as_json)
    return tell_failures(summary, store)


def _show(made: Table, store: ResultStore, summary: Summary, as_json: bool) -> None:
    can_draw = importlib.util.find_spec("matplotlib") is not None
    paths = write_table(made, store.folder / "tables", picture=can_draw)
    if as_json:
        typer.echo(json.dumps(_as_json(made, paths, summary), indent=1))
        return
    typer.echo(to_markdown(made), nl=False)
    typer.echo(f"\n{say_counts(made)} Written to {', '.join(str(path) for path in paths.values())}.", err=True)
    if not can_draw:
        typer.echo("No picture was drawn: pip install 'orderless[plot]'.", err=True)


def _as_json(made: Table, paths: dict[str, Path], summary: Summary) -> dict[str, Any]:
    recipe: Recipe = made.recipe
    return {
        "name": recipe.name,
        "title": recipe.title,
        "label": recipe.label,
        "conditions": list(made.conditions),
        "stand_ins": list(made.stand_ins),
        "runs": dict(made.counts),
        "failed": summary.failed,
        "figures": to_rows(made),
        "notes": list(made.notes),
        "files": {ending: str(path) for ending, path in paths.items()},
    }
