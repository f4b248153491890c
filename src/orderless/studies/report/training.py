"""How the networks of the bundle were trained: losses over epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orderless.pages.charts import Series, line_chart
from orderless.pages.html import Html, element, join
from orderless.studies.report.reported import ReportedFit

_LOSSES = ("validation_cross_entropy", "validation_mse", "validation_loss")


def training_part(fit: ReportedFit) -> Html | None:
    """Training and validation loss of every network; None where no history was kept."""
    members = fit.model.history_
    validation = next((name for name in _LOSSES if any(name in row for rows in members for row in rows)), None)
    charts = [_chart(members, "train_loss", "Training loss", "Mean over the steps of an epoch.")]
    if validation is not None:
        note = "On sets that the network was not trained on; its weights are those of the lowest point."
        charts.append(_chart(members, validation, "Validation loss", note))
    drawn = [chart for chart in charts if chart is not None]
    if not drawn:
        return None
    said = _say(members, validation)
    return join(element("p", said), element("div", drawn, class_="charts"))


def _say(members: Sequence[Sequence[Mapping[str, Any]]], validation: str | None) -> str:
    ends = sorted({int(rows[-1]["epoch"]) for rows in members if rows})
    epochs = f"{ends[0]}" if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"
    number = f"{len(members)} networks, whose predictions are averaged," if len(members) > 1 else "One network"
    each = "Each" if len(members) > 1 else "It"
    held = f"{each} held back some sets to know when to stop" if validation else "There were too few sets to hold some back"
    return f"{number} {'were' if len(members) > 1 else 'was'} trained for {epochs} epoch{'s' * (epochs != '1')}. {held}."


def _chart(members: Sequence[Sequence[Mapping[str, Any]]], key: str, title: str, note: str) -> Html | None:
    lines = []
    for number, rows in enumerate(members):
        points = [(float(row["epoch"]), float(row[key])) for row in rows if row.get(key) is not None]
        if points:
            lines.append(Series(points, f"network {number + 1}", str(number + 1), number))
    return line_chart(title, lines, x_name="epoch", y_name="loss", note=note)
