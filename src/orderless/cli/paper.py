"""`orderless table paper`: every table and figure of the paper, and the page that compares them with the published ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.runs import check_can_run, choose_runs, do_runs, list_specs, open_results, parse_seeds, tell_failures
from orderless.experiments.figures import Material, draw_figure
from orderless.experiments.grid import Plan, Recipe, choose_sources, parse_only, value_names
from orderless.experiments.paper import DrawnFigure, paper_recipes, write_page
from orderless.experiments.render import write_table
from orderless.experiments.results import ResultStore
from orderless.experiments.runner import Summary
from orderless.experiments.spec import RunSpec
from orderless.experiments.table import build_table
from orderless.io.extras import require
from orderless.train import Execution
from orderless.words import did_you_mean

PAGE = "README.md"


def whole_paper(
    *,
    only: list[str] | None,
    seeds: str | None,
    quick: bool,
    precision: str | None,
    execution: Execution,
    jobs: int,
    out: Path,
    results: list[Path] | None,
    dry_run: bool,
    no_run: bool,
    data_dir: Path | None,
    cache_dir: Path | None,
    as_json: bool,
) -> int:
    """Does the runs that are missing of all tables and figures, or those that `only` and `seeds` name, and renders everything."""
    with wrong_usage():
        if quick:
            raise UsageError("--quick shrinks one table at a time: `orderless table NAME --quick`.")
        check_can_run(execution, jobs, nothing_runs=dry_run or no_run)
        require("matplotlib", "plot")
        recipes = paper_recipes()

        def plan_of(recipe: Recipe, only: list[str] | None, seeds: str | None) -> Plan:
            has_runs = bool(recipe.blocks)
            return choose_runs(
                recipe,
                only=only,
                seeds=seeds if has_runs else None,
                quick=False,
                precision=precision if has_runs else None,
                data_dir=data_dir,
                cache_dir=cache_dir,
            )

        whole = [plan_of(recipe, None, None) for recipe in recipes]
        chosen = _chosen([recipe for recipe in recipes if recipe.blocks], plan_of, only, seeds)
        timed = {run.key for plan in whole if plan.recipe.is_timed for run in plan.runs}
    if dry_run:
        return list_specs(chosen, open_results(out, results, to_write=False), as_json)
    store = open_results(out, results)
    summary = Summary()
    if not no_run:
        together, alone = ([run for run in chosen if (run.key in timed) is is_timed] for is_timed in (False, True))
        for runs, at_once in ((together, jobs), (alone, 1)):
            summary |= do_runs(runs, store, jobs=at_once, execution=execution, data_dir=data_dir, cache_dir=cache_dir)
    options = ["--precision", precision] if precision else []
    options += [flag for flag, is_set in (("--compile", execution.compile), ("--cuda-graphs", execution.cuda_graphs)) if is_set]
    with wrong_usage():
        _render(whole, store, options, data_dir, cache_dir)
    if as_json:
        typer.echo(json.dumps({"page": str(store.folder / PAGE), "failed": summary.failed}, indent=1))
    else:
        typer.echo(f"Written to {store.folder / PAGE}.", err=True)
    return tell_failures(summary, store)


def _chosen(
    recipes: Sequence[Recipe],
    plan_of: Callable[[Recipe, list[str] | None, str | None], Plan],
    only: list[str] | None,
    seeds: str | None,
) -> list[RunSpec]:
    """The runs that are asked for, each once, the first seed of every cell first.

    Tables differ in their values: each gives the cells with those of the wanted ones that it has.
    """
    wanted = parse_only(only or ())
    for axis, values in wanted.items():
        known = list(dict.fromkeys(name for recipe in recipes for name in value_names(recipe, axis)))
        if not known:
            axes = dict.fromkeys(name for recipe in recipes for name in (*recipe.axes, *recipe.fixed))
            raise ValueError(f"the paper's tables have no axis {axis!r}.{did_you_mean(axis, axes)} Axes: {', '.join(axes)}.")
        if unknown := next((value for value in values if value not in known), None):
            raise ValueError(f"no table or figure of the paper has the {axis} {unknown!r}.{did_you_mean(unknown, known)}")
    shown = sorted({seed for recipe in recipes for seed in recipe.seeds})
    if not set(parse_seeds(seeds) or shown) <= set(shown):
        raise ValueError(f"the page shows the seeds {', '.join(map(str, shown))}, and no others; got --seeds {seeds}.")
    plans: list[Plan] = []
    refusals: list[ValueError] = []
    for recipe in recipes:
        kept = {axis: [value for value in values if value in value_names(recipe, axis)] for axis, values in wanted.items()}
        if not all(kept.values()):
            continue
        try:
            plans.append(plan_of(recipe, [f"{axis}={','.join(values)}" for axis, values in kept.items()], seeds))
        except ValueError as error:  # each value is there, but not together
            refusals.append(error)
    if not plans:
        raise next(iter(refusals), ValueError(f"no table or figure of the paper has all of {' '.join(only or ())}."))
    longest = max(len(cell.runs) for plan in plans for cell in plan.cells)
    return list(
        {
            cell.runs[i].key: cell.runs[i] for i in range(longest) for plan in plans for cell in plan.cells if i < len(cell.runs)
        }.values()
    )


def _render(
    plans: Sequence[Plan], store: ResultStore, options: Sequence[str], data_dir: Path | None, cache_dir: Path | None
) -> None:
    lines = store.lines()
    by_key = {line["key"]: line for line in lines}
    tables = [build_table(plan, lines) for plan in plans if plan.recipe.kind == "table"]
    for table in tables:
        write_table(table, store.folder / "tables", picture=False)
    figures = []
    for plan in (plan for plan in plans if plan.recipe.kind == "figure"):
        sourced = choose_sources(plan, by_key)
        num_done = sum(run.key in by_key for run in sourced.runs)
        material = Material(plan, lines=by_key, data_dir=data_dir, cache_dir=cache_dir)
        drawn = num_done or not plan.runs
        paths = draw_figure(material, store.folder / "figures") if drawn else []
        picture = next((f"figures/{path.name}" for path in paths if path.suffix == ".png"), None)
        figures.append(DrawnFigure(sourced, num_done, picture))
    write_page(store.folder / PAGE, tables, figures, options)
