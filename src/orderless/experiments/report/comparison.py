"""The part of a report that says how good runs are: one picture and one table of all of them, beside baselines and the paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby

from orderless.experiments.naming import METRIC_TITLES, SHARES
from orderless.experiments.report.naming import Name
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.report.verdict import (
    Score,
    Standing,
    compare,
    describe_published,
    published_for,
    score_of,
)
from orderless.experiments.sources import stand_in, task_of
from orderless.experiments.spec import RunSpec
from orderless.numbers import count, duration, plain, spread, with_interval
from orderless.pages.charts import interval_row, scale_row
from orderless.pages.html import Html, element, join
from orderless.pages.parts import badge, mark, scrolling
from orderless.pages.scale import fit_scale
from orderless.tasks.objectives import HIGHER_IS_BETTER, MetricName

Named = Sequence[tuple[ReportedRun, Name]]

_BADGES: Mapping[Standing, tuple[str, str]] = {
    "better than": ("good", "better"),
    "worse than": ("bad", "worse"),
    "not clearly different from": ("bad", "no different"),
}
_HEALTH = {"healthy": "good", "vanishing": "bad", "exploding": "bad"}


def mark_of(name: Name) -> Html:
    """The number of a run in its colour."""
    return mark(name.mark, name.place)


def health_badge(verdict: str) -> Html:
    """What was found out about gradients."""
    return badge(verdict, _HEALTH.get(verdict, ""))


def picture_of_scores(runs: Named, baselines: Sequence[Score], metric: MetricName) -> Html | None:
    """Every score with its interval on one axis; None where there is none."""
    tested = [(run, name, score) for run, name in runs if (score := score_of(run)) is not None]
    if not tested and not baselines:
        return None
    published = {name.mark: _published_spans(run) for run, name, _ in tested}
    numbers = [score for _, _, score in tested] + list(baselines)
    ends = [end for score in numbers for end in (score.interval or (score.value,))]
    ends += [end for spans in published.values() for span in spans for end in span]
    scale = fit_scale(ends, log=False if metric in SHARES else None)
    constant = next((row for row in baselines if row.is_constant), None)
    level = None if constant is None else constant.value
    rows = []
    for _, name, score in tested:
        title, words, spans = join(mark_of(name), name.text), with_interval(score.value, score.interval), published[name.mark]
        row = interval_row(title, score.value, score.interval, words, scale, published=spans, constant=level, color=name.place)
        rows.append(row)
    for score in baselines:
        words = with_interval(score.value, score.interval)
        rows.append(interval_row(score.title, score.value, score.interval, words, scale, constant=level))
    better = f"further {'right' if metric in HIGHER_IS_BETTER else 'left'} is better"
    title = join(
        element("b", f"Test {METRIC_TITLES[metric]} with 95 % intervals"),
        f" ({better}{'; logarithmic scale' if scale.log else ''})",
    )
    return element(
        "figure",
        element("figcaption", title),
        rows,
        scale_row(scale),
        _key(constant is not None, any(published.values())),
        class_="chart forest",
    )


def table_of_scores(spec: RunSpec, runs: Named, baselines: Sequence[Score], health: Mapping[str, str]) -> Html:
    """All scores as numbers: networks, the mean of seeds, baselines, and the best that the paper reports.

    Args:
        spec: Of any run on these sets.
        runs: Networks that were tested on them.
        baselines: Simple models on the same sets.
        health: Verdict on the gradients of runs, by their marks.
    """
    task = task_of(spec)
    where = f" (on {task.sources[0].title})" if stand_in(spec.task) else ""
    constant = next((score for score in baselines if score.is_constant), None)
    columns = _columns(runs, task.metric, where)
    rows = []
    for _, alike in groupby(runs, key=lambda pair: pair[1].place):
        group = list(alike)
        mean = _mean_of_seeds(group)
        for run, name in group:
            cells = _run_cells(run, task.metric, constant)
            if name.mark in health:
                cells["gradients"] = health_badge(health[name.mark])
            if not mean:  # the paper's scores are means: they stand beside the mean where there is one
                cells["paper"] = _paper(run)
            rows.append(_row(_run_head(run, name), cells, columns))
        rows += [_row(head, cells, columns, kind="mean") for head, cells in mean]
    bodies = [element("tbody", rows)]
    if baselines:
        rows = [_row(_baseline_head(score), _cells(score, task.metric, constant), columns) for score in baselines]
        bodies.append(_group("Simple models on the same sets", rows, columns))
    if top := task.best_published:
        rows = [_row(join(describe_published(top)), {"value": spread(top.mean, top.std)}, columns)]
        bodies.append(_group(f"Best figure of the paper{where}", rows, columns))
    heads = [element("th", text, scope="col", class_=_alignment(column)) for column, text in columns.items()]
    header = element("thead", element("tr", element("th", "run", scope="col"), heads))
    return scrolling(element("table", header, bodies), "Results as numbers")


def _published_spans(run: ReportedRun) -> list[tuple[float, float]]:
    return [(row.mean - (row.std or 0.0), row.mean + (row.std or 0.0)) for row in published_for(run.spec)]


def _key(has_constant: bool, has_published: bool) -> Html:
    def sample(kind: str, path: str) -> Html:
        drawing = element("path", d=path, class_=kind)
        return element("svg", drawing, viewBox="0 0 10 10", preserveAspectRatio="none", aria_hidden="true")

    entries = [element("span", sample("whisker", "M0 5H10"), "95 % interval over test sets")]
    entries += [element("span", sample("published", "M0 5H10"), "the paper, ± standard deviation")] if has_published else []
    entries += [element("span", sample("level", "M5 0V10"), "constant")] if has_constant else []
    return element("div", entries, class_="key-line")


def _columns(runs: Named, metric: MetricName, where: str) -> dict[str, str]:
    """What the columns are called, by what they hold; those that no run could fill are left out."""
    others = [name for name in dict.fromkeys(name for run, _ in runs for name in run.metrics) if name != metric]
    columns = {"value": f"test {METRIC_TITLES[metric]}", "interval": "95 % interval"}
    columns |= {name: f"test {name.replace('_', ' ')}" for name in others}
    columns |= {"released": "released protocol"} if any(run.facts.get("released") for run, _ in runs) else {}
    columns |= {"paper": f"paper, same network{where}", "against": "against a constant", "gradients": "gradients"}
    columns |= {"parameters": "parameters", "time": "time"}
    columns |= {"memory": "GPU memory"} if any(run.facts.get("peak_memory_mib") for run, _ in runs) else {}
    return columns


def _run_head(run: ReportedRun, name: Name) -> Html:
    seed = element("span", f" seed {run.spec.train.seed}", class_="soft") if name.is_one_of_several else None
    said = {"finished": None, "diverged": "diverged", "unfinished": "not finished"}[run.status]
    return join(mark_of(name), name.text, seed, None if said is None else join(" ", badge(said, "warn")))


def _run_cells(run: ReportedRun, metric: MetricName, constant: Score | None) -> dict[str, str]:
    score, facts = score_of(run), run.facts
    cells = {name: plain(value) for name, value in run.metrics.items() if value is not None}
    if score is not None:
        cells |= _cells(score, metric, constant)
        if run.status == "unfinished":  # what it will reach is not known yet
            cells["value"] += " so far"
            cells.pop("against", None)
    if facts.get("released"):
        cells["released"] = plain(facts["released"][metric])
    if facts.get("num_parameters"):
        cells["parameters"] = count(facts["num_parameters"])
    if facts.get("seconds"):
        cells["time"] = duration(facts["seconds"])
    if facts.get("peak_memory_mib"):
        cells["memory"] = f"{plain(facts['peak_memory_mib'] / 1024, 2)} GiB"
    return cells


def _cells(score: Score, metric: MetricName, constant: Score | None) -> dict[str, str]:
    value, interval = with_interval(score.value, score.interval)
    cells = {"value": value, "interval": interval}
    if constant is not None and not score.is_constant:
        kind, word = _BADGES[compare(score, constant, metric)]
        cells["against"] = badge(word, kind)
    return cells


def _paper(run: ReportedRun) -> str:
    return ", ".join(spread(row.mean, row.std) for row in published_for(run.spec))


def _mean_of_seeds(group: Named) -> list[tuple[Html, dict[str, str]]]:
    """Head and cells of the row that is like the paper's scores, where a configuration was run with several seeds."""
    finished = [score_of(run) for run, _ in group if run.status == "finished"]
    values = [score.value for score in finished if score is not None]
    if len(values) < 2:
        return []
    run, name = group[0]
    whose = Name(name.text, f"{name.place + 1}", name.place)
    head = join(mark_of(whose), f"mean ± standard deviation of {len(values)} runs")
    return [(head, {"value": spread(statistics.fmean(values), statistics.stdev(values)), "paper": _paper(run)})]


def _baseline_head(score: Score) -> Html:
    return join(score.title, join(" ", badge("constant")) if score.is_constant else None)


def _row(head: Html, cells: Mapping[str, str], columns: Mapping[str, str], kind: str | None = None) -> Html:
    filled = [element("td", cells.get(column, ""), class_=_alignment(column)) for column in columns]
    return element("tr", element("th", head, scope="row"), filled, class_=kind)


def _group(title: str, rows: Sequence[Html], columns: Mapping[str, str]) -> Html:
    head = element("th", title, scope="rowgroup", colspan=str(len(columns) + 1))
    return element("tbody", element("tr", head), rows)


def _alignment(column: str) -> str | None:
    return None if column in ("against", "gradients") else "number"
