"""How good: the model beside simple ones, as pictures and numbers."""

from __future__ import annotations

import math

from orderless.evaluate import Interval
from orderless.evaluate.evaluation import describe_failures, number_format
from orderless.numbers import duration
from orderless.pages.charts import interval_row, scale_row
from orderless.pages.html import Html, element, join
from orderless.pages.parts import scrolling
from orderless.pages.scale import fit_scale
from orderless.studies.report.reported import ReportedFit
from orderless.words import capitalized


def performance_part(fit: ReportedFit) -> Html:
    """A picture of each metric, and all of them as a table."""
    forests = [forest for name in fit.metrics() if (forest := _forest(fit, name)) is not None]
    return join(element("div", forests, class_="stacked"), _table(fit), _remarks(fit))


def _forest(fit: ReportedFit, name: str) -> Html | None:
    metric, found = fit.metrics()[name], fit.known()
    scores = {key: i for key, model in found.models.items() if math.isfinite((i := model.metrics[name].interval).value)}
    if not scores:
        return None
    scale = fit_scale([end for i in scores.values() for end in (i.value, i.low, i.high)], log=False)
    constant = scores["constant"].value if "constant" in scores else None
    rows = []
    for key, interval in scores.items():
        model = found.models[key]
        color = None if model.is_baseline else 0
        drawn = interval_row(
            model.title, interval.value, _ends(interval), _words(interval), scale, constant=constant, color=color
        )
        rows.append(drawn)
    better = f"further {'right' if metric.higher_is_better else 'left'} is better"
    over = "sets" if found.groups is None else "groups"
    caption = join(
        element("b", capitalized(metric.title)),
        f" of sets that the model had not seen, with {100 * found.confidence:g} % intervals over {over} ({better}",
        "; dashed: a constant)" if constant is not None else ")",
    )
    return element("figure", element("figcaption", caption), rows, scale_row(scale), class_="chart forest")


def _table(fit: ReportedFit) -> Html:
    found, metrics = fit.known(), fit.metrics()
    first = next(iter(metrics))
    heads = [metric.title for metric in metrics.values()]
    heads += [f"{metrics[first].title}: gain over constant", "over best simple model"]
    rows = []
    for model in found.models.values():
        score = model.metrics[first]
        cells: list[Html | str] = [_cell(model.metrics[metric].interval) for metric in metrics]
        cells += [_cell(score.over_constant), _cell(score.over_best)]
        title = model.title if model.is_baseline else element("b", model.title)
        row_head = element("th", title, element("div", duration(model.seconds), class_="soft"), scope="row")
        rows.append(element("tr", row_head, [element("td", cell, class_="number") for cell in cells]))
    head = element(
        "tr",
        element("th", "model, and time in all folds", scope="col"),
        [element("th", text, scope="col", class_="number") for text in heads],
    )
    return scrolling(element("table", element("thead", head), element("tbody", rows)), "Results as numbers")


def _remarks(fit: ReportedFit) -> Html:
    found = fit.known()
    best = fit.title_of(found.best_baseline[next(iter(fit.metrics()))])
    said = [
        f"Gains are paired and above 0 where better. The best simple model, {best}, was picked by these same sets, which favours "
        "it a little.",
        *found.notes,
    ]
    for model in found.models.values():
        said += [f"{model.title}: {note}" for note in model.notes]
        if model.failures:
            said.append(describe_failures(model, len(found.folds)))
    said += found.remarks_on_metrics
    return join([element("p", text, class_="note") for text in said])


def _cell(interval: Interval | None) -> Html | str:
    """A figure with its interval below it: beside it, a table of six such columns would be wider than most windows."""
    if interval is None:
        return ""
    if not math.isfinite(interval.value):
        return "n/a"
    value, ends = _words(interval)
    return join(value, element("div", ends, class_="soft") if ends else None)


def _words(interval: Interval) -> tuple[str, str]:
    """A figure and its interval, with as many decimals as a table on the terminal would give them."""
    numbers = (interval.value, interval.low, interval.high)
    style = number_format(numbers)
    value, low, high = (f"{number:{style}}" for number in numbers)
    return value, "" if _ends(interval) is None else f"[{low}, {high}]"


def _ends(interval: Interval) -> tuple[float, float] | None:
    return (interval.low, interval.high) if math.isfinite(interval.low + interval.high) else None
