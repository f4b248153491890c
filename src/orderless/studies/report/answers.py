"""What the answers for unseen sets are like: ranking, calibration, confusion, parity, errors against size, the worst ones.

Letters: N sets.
"""

from __future__ import annotations

import numpy as np

from orderless.evaluate.curves import confusion, error_by_size, mean_prediction, reliability, roc_curve
from orderless.numbers import count, plain
from orderless.pages.charts import Series, line_chart
from orderless.pages.html import Html, element, join
from orderless.pages.parts import scrolling
from orderless.pages.scale import Scale, fit_scale
from orderless.studies.report.reported import ReportedFit, legend, letter_of

_POINTS = 101  # of a curve
_WORST = 10
_CLASSES = 12  # of a confusion table that can be read
_UNIT = Scale(0.0, 1.0)


def answers_part(fit: ReportedFit) -> Html:
    """Charts of the model beside the best baseline, and the sets that it was most wrong about."""
    names = fit.compared()
    classifies = fit.known().classes is not None
    charts = [_roc(fit, names), _calibration(fit, names)] if classifies else [_parity(fit, names), _residuals(fit, names)]
    square = element("div", [chart for chart in charts if chart is not None], class_="charts square")
    return join(legend(fit, names), square, _confusion(fit) if classifies else None)


def sizes_part(fit: ReportedFit) -> Html | None:
    """Errors against set size; None where all sets are of one size."""
    found, names = fit.known(), fit.compared()
    if found.sizes.min() == found.sizes.max():
        return None
    wide = found.sizes.min() > 0 and found.sizes.max() > 5 * found.sizes.min()
    lines = []
    for number, name in enumerate(names):
        effect = error_by_size(found, name)
        bars = [(max(0.0, e - s), e + s) for e, s in zip(effect.error, effect.standard_error, strict=True)]
        points = list(zip(effect.size.tolist(), effect.error.tolist(), strict=True))
        lines.append(Series(points, fit.title_of(name), letter_of(number), number, bars=bars))
    what = "share of wrong answers" if found.classes is not None else "mean absolute error"
    note = "Sets in bins with as many sets each; bars are standard errors." + (" Sizes on a logarithmic scale." if wide else "")
    ends = (float(found.sizes.min()), float(found.sizes.max()))
    top = max((y for line in lines for _, y in line.points), default=1.0)
    highest = max([end for line in lines for _, end in line.bars if np.isfinite(end)] + [top]) or 1.0
    scale = Scale(*ends, log=True) if wide else Scale(*ends)
    y_scale = Scale(0.0, 1.05 * highest)
    chart = line_chart(
        "Error against set size", lines, x_name="elements of a set", y_name=what, note=note, x_scale=scale, y_scale=y_scale
    )
    return join(legend(fit, names), element("div", chart, class_="charts"))


def worst_part(fit: ReportedFit) -> Html | None:
    """The sets that the model was most wrong about, by name."""
    found = fit.known()
    predicted = mean_prediction(found, fit.name)
    known = np.flatnonzero(np.isfinite(predicted).all(1))
    if found.classes is not None:
        of_truth = predicted[known, found.target[known]]
        order = known[np.argsort(of_truth, kind="stable")]
        heads = ("true", "predicted", "probability of the truth")
    else:
        order = known[np.argsort(-abs(predicted[known] - found.target[known]).mean(1), kind="stable")]
        heads = ("true", "predicted", "error")
    ids = fit.said["data"]["ids"]
    rows = []
    for number in order[:_WORST].tolist():
        if found.classes is not None:
            truth = int(found.target[number])
            said = int(predicted[number].argmax())
            cells = [str(found.classes[truth]), str(found.classes[said]), f"{predicted[number, truth]:.2f}"]
        else:
            true, said_number = found.target[number, 0], predicted[number, 0]
            cells = [plain(float(true)), plain(float(said_number)), plain(float(said_number - true))]
        group = [] if found.groups is None else [str(found.groups[number])]
        row = [*group, count(int(found.sizes[number])), *cells]
        rows.append(
            element("tr", element("th", ids[number], scope="row"), [element("td", cell, class_="number") for cell in row])
        )
    columns = [*([] if found.groups is None else [fit.unit]), "elements", *heads]
    head = element(
        "tr", element("th", "set", scope="col"), [element("th", text, scope="col", class_="number") for text in columns]
    )
    return scrolling(element("table", element("thead", head), element("tbody", rows)), "Sets predicted worst")


def _roc(fit: ReportedFit, names: list[str]) -> Html | None:
    found, lines = fit.known(), []
    for number, name in enumerate(names):
        curve = roc_curve(found, name)
        if len(curve.x):
            chosen = np.unique(np.linspace(0, len(curve.x) - 1, _POINTS).round().astype(int))
            points = list(zip(curve.x[chosen].tolist(), curve.y[chosen].tolist(), strict=True))
            area = found.models[name].metrics["roc_auc"].value
            lines.append(Series(points, f"{fit.title_of(name)}, area {area:.2f}", letter_of(number), number))
    assert found.classes is not None
    of = f", class {found.classes[1]}" if len(found.classes) == 2 else ", mean over classes"
    areas = "; ".join(f"{line.mark} {line.name.rpartition(' ')[2]}" for line in lines)
    note = f"Area under the curve: {areas}. Sets are compared within their fold."
    return line_chart(
        "ROC", lines, x_name=f"false positive rate{of}", y_name="true positive rate", note=note,
        x_scale=_UNIT, y_scale=_UNIT, whole=False, diagonal=True,
    )  # fmt: skip


def _calibration(fit: ReportedFit, names: list[str]) -> Html | None:
    found, lines = fit.known(), []
    for number, name in enumerate(names):
        bins = reliability(found, name)
        points = list(zip(bins.probability.tolist(), bins.share.tolist(), strict=True))
        bars = list(zip(bins.low.tolist(), bins.high.tolist(), strict=True))
        lines.append(Series(points, fit.title_of(name), letter_of(number), number, bars=bars))
    assert found.classes is not None
    event = f"of class {found.classes[1]}" if len(found.classes) == 2 else "that the answer is right"
    errors = [
        f"{line.mark} {found.models[n].metrics['calibration_error'].value:.2f}" for line, n in zip(lines, names, strict=True)
    ]
    note = f"On the dashed line probabilities are what they say. Calibration error: {'; '.join(errors)}. Bars: 95 % intervals."
    return line_chart(
        "Calibration", lines, x_name=f"probability {event}", y_name="how often it was so", note=note,
        x_scale=_UNIT, y_scale=_UNIT, whole=False, diagonal=True,
    )  # fmt: skip


def _parity(fit: ReportedFit, names: list[str]) -> Html | None:
    found, lines = fit.known(), []
    for number, name in enumerate(names):
        predicted = mean_prediction(found, name)[:, 0]
        points = list(zip(found.target[:, 0].tolist(), predicted.tolist(), strict=True))
        lines.append(Series(points, fit.title_of(name), letter_of(number), number, dots=True))
    scale = fit_scale([v for line in lines for point in line.points for v in point], log=False)
    r2 = "; ".join(f"{line.mark} {found.models[n].metrics['r2'].value:.2f}" for line, n in zip(lines, names, strict=True))
    note = f"R²: {r2}. On the dashed line a prediction is right."
    return line_chart(
        "Parity", lines, x_name=f"true {fit.target}", y_name=f"predicted {fit.target}", note=note,
        x_scale=scale, y_scale=scale, whole=False, diagonal=True,
    )  # fmt: skip


def _residuals(fit: ReportedFit, names: list[str]) -> Html | None:
    found, lines = fit.known(), []
    for number, name in enumerate(names):
        predicted = mean_prediction(found, name)[:, 0]
        points = list(zip(predicted.tolist(), (predicted - found.target[:, 0]).tolist(), strict=True))
        lines.append(Series(points, fit.title_of(name), letter_of(number), number, dots=True))
    across = fit_scale([x for line in lines for x, _ in line.points], log=False)
    most = 1.05 * max([abs(y) for line in lines for _, y in line.points if np.isfinite(y)] + [1e-12])
    return line_chart(
        "Residuals", lines, x_name=f"predicted {fit.target}", y_name="predicted minus true", note="A trend is a bias.",
        x_scale=across, y_scale=Scale(-most, most), whole=False,
    )  # fmt: skip


def _confusion(fit: ReportedFit) -> Html | None:
    found = fit.known()
    assert found.classes is not None
    if len(found.classes) > _CLASSES:
        return None
    counts, names = confusion(found, fit.name), [str(name) for name in found.classes]
    rows = [
        element(
            "tr",
            element("th", f"is {name}", scope="row"),
            [element("td", f"{v:,.3g}" if v < 1000 else count(round(v)), class_="number") for v in row],
        )
        for name, row in zip(names, counts.tolist(), strict=True)
    ]
    heads = [element("th", f"called {name}", scope="col", class_="number") for name in names]
    table = element("table", element("thead", element("tr", element("th", "sets", scope="col"), heads)), element("tbody", rows))
    repeats = ", averaged over repeats" if len(found.fold_numbers) > 1 else ""
    return join(element("p", f"Answers of {fit.name} for sets that it had not seen{repeats}:"), scrolling(table, "Confusion"))
