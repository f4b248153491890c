"""The part of a report about gradients: a verdict with its evidence, and the norms of layers over depth and over time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orderless.diagnose import Health, judge, judge_over_time
from orderless.diagnose.layers import as_floats
from orderless.experiments.report.comparison import Named, health_badge, mark_of
from orderless.experiments.report.naming import Name
from orderless.experiments.report.runs import ReportedRun
from orderless.look import evenly
from orderless.numbers import plain
from orderless.pages.charts import NUM_COLORS, Series, heat_map, line_chart, shade_key
from orderless.pages.html import Html, element, join
from orderless.pages.scale import Scale, fit_scale
from orderless.words import capitalized

_LEAST_RANGE = 1e4  # from the faintest shade to the strongest: as much as gradients may fall before they vanish
_MOST_MOMENTS = 24  # columns of a heat map; more would be narrower than a phone shows


def judge_run(run: ReportedRun) -> tuple[Health, Health] | None:
    """The verdict before the first step, and on the whole run; None where nobody looked at the gradients."""
    moments = _moments(run)
    if run.layers is None or not moments:
        return None
    names = run.layers["names"]
    return judge(names, moments[0]["gradient"], moments[0]["activation"]), judge_over_time(moments, names, steps=run.steps)


def gradients_part(runs: Named, health: Mapping[str, tuple[Health, Health]]) -> Html | None:
    """A card for each configuration whose gradients were looked at; None where there is none."""
    chosen = {name.place: (run, name) for run, name in reversed(runs) if name.mark in health}  # the first seed of each
    if not chosen:
        return None
    shown = [chosen[place] for place in sorted(chosen)]
    scale = _scale([value for run, _ in shown for row in _gradients(run) for value in row if value is not None])
    intro = element(
        "p",
        "The norm of each layer's gradient, from the layer next to the input to the one next to the output. Where it is many "
        "powers of ten smaller at the input, the first layers do not learn; where it is many times larger, steps tear them "
        "apart. Shades: ",
        shade_key(scale),
        "; all charts have one scale.",
        class_="note",
    )
    seeds = len({name.mark for _, name in runs if name.mark in health}) > len(shown)
    also = (
        element("p", "Drawn for one seed of each network; the table above has the verdict on every run.", class_="note")
        if seeds
        else None
    )
    return join(intro, also, [_card(run, name, health[name.mark], scale) for run, name in shown])


def _card(run: ReportedRun, name: Name, health: tuple[Health, Health], scale: Scale) -> Html:
    first, last = health
    moments = _moments(run)
    header = element(
        "header",
        element("div", mark_of(name), element("b", name.text), " ", health_badge(last.verdict)),
        element("p", _sentence(last.evidence)),
        element("p", f"Before training: {first.verdict}. {_sentence(first.evidence)}", class_="note")
        if len(moments) > 1
        else None,
    )
    color = name.place % NUM_COLORS
    lines = [Series(_over_depth(moments[-1]), _when(moments[-1]), "end", color)]
    if len(moments) > 1:
        lines.insert(0, Series(_over_depth(moments[0]), "before training", "start", color, dashed=True))
    depth = line_chart(
        f"Gradient norms of {name.text} over depth",
        lines,
        x_name="layer (1 is next to the input)",
        y_name="gradient norm",
        y_scale=scale,
        caption=join(element("b", "Over depth."), " Dashed: before training. Solid: at the end."),
    )
    return element("div", header, depth, _over_time(name, moments, scale), class_="gradients")


def _over_time(name: Name, moments: Sequence[Mapping[str, Any]], scale: Scale) -> Html | None:
    if len(moments) < 2:
        return None
    shown = [moments[n] for n in evenly(len(moments), _MOST_MOMENTS)]
    rows = [as_floats(moment["gradient"]) for moment in shown]
    drawing = heat_map(
        rows,
        scale,
        description=f"Gradient norms of every layer of {name.text} at {len(shown)} moments of training.",
        x_names=[_when(moment) for moment in shown],
        y_names=("input", "output"),
    )
    caption = join(element("b", "Over time."), " Columns are moments of training, rows are layers; darker or brighter is larger.")
    return element("figure", element("figcaption", caption), drawing, class_="chart")


def _scale(values: Sequence[float]) -> Scale:
    """One for all charts, and never so narrow that healthy differences would look like sick ones."""
    scale = fit_scale(values, log=True)
    return Scale(min(scale.low, scale.high / _LEAST_RANGE), scale.high, log=True) if scale.log else scale


def _sentence(evidence: str) -> str:
    """Evidence as a sentence, in which numbers are written as on the rest of the page."""
    text = re.sub(r"\b\d(\.\d+)?e[+-]\d+\b", lambda number: plain(float(number[0]), 2), evidence)
    return f"{capitalized(text)}."


def _moments(run: ReportedRun) -> list[Mapping[str, Any]]:
    return [] if run.layers is None else list(run.layers["moments"])


def _gradients(run: ReportedRun) -> list[list[float | None]]:
    return [as_floats(moment["gradient"]) for moment in _moments(run)]


def _over_depth(moment: Mapping[str, Any]) -> list[tuple[float, float]]:
    values = as_floats(moment["gradient"])
    return [(float(layer), float("nan") if value is None else value) for layer, value in enumerate(values, start=1)]


def _when(moment: Mapping[str, Any]) -> str:
    return "start" if moment["step"] == 0 else f"epoch {moment['epoch']}"
