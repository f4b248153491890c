"""The page about a fit: one file that needs nothing but itself."""

from __future__ import annotations

from pathlib import Path

from orderless.evaluate import Interval
from orderless.evaluate.evaluation import most_errors
from orderless.files import write_text
from orderless.pages.frame import html_page
from orderless.pages.html import Html, element, join
from orderless.studies.report.answers import answers_part, sizes_part, worst_part
from orderless.studies.report.data import data_part, problems_part
from orderless.studies.report.performance import performance_part
from orderless.studies.report.reported import ReportedFit, read_reported
from orderless.studies.report.training import training_part
from orderless.studies.report.use import settings_part, use_part
from orderless.studies.verdict import say_verdict


def write_fit_report(folder: str | Path, out: str | Path, *, title: str | None = None) -> Path:
    """Writes a page about a fit.

    Args:
        folder: The folder of `orderless fit`, when it is finished.
        out: The page to write. A file of that name is replaced.
        title: Of the page. Default: what is predicted, from which data.

    Raises:
        DataError: If the fit is not finished, or a file of it was changed.
    """
    fit = read_reported(Path(folder))
    source = Path(fit.said["data"]["source"]).name
    parts: list[tuple[str, Html | None]] = [("Problems of the data", problems_part(fit))]
    if fit.evaluation is not None:
        parts = [
            ("Beside simple models", performance_part(fit)),
            ("What the answers are like", answers_part(fit)),
            ("Small and large sets", sizes_part(fit)),
            ("Sets that were predicted worst", worst_part(fit)),
            *parts,
        ]
    parts += [
        ("The data", data_part(fit)),
        ("Training", training_part(fit)),
        ("Predict", use_part(fit)),
        ("Settings", settings_part(fit)),
    ]
    shown = [join(element("h3", head), part) for head, part in parts if part is not None]
    section = element("section", _verdict(fit), _cautions(fit), shown, id="fit")
    write_text(Path(out), html_page(title or f"{fit.target} from {source}", [section]))
    return Path(out)


def _verdict(fit: ReportedFit) -> Html:
    if fit.evaluation is None:
        said = f"{fit.name} was fitted without an evaluation: nobody knows how good it is."
        return element("div", element("p", said), class_="verdict")
    found = fit.evaluation
    name, metric = next(iter(fit.metrics().items()))
    figure = _figure(fit, found.models[fit.name].metrics[name].interval, is_share=name == "accuracy")
    folds = f"{len(found.folds)} splits" if len(found.folds) > 1 else "one split"
    of = "set" if found.groups is None else fit.unit
    new = f"{'an' if of[0] in 'aeioAEIO' else 'a'} {of}"
    lead = f"For {new} that it has not seen, expect {fit.name} to predict {fit.target} with {metric.title} {figure}."
    how = f"Estimated from {int((found.fold_numbers >= 0).any(0).sum()):,} sets by {folds} into training and test sets"
    how += "." if found.groups is None else f", {fit.unit} by {fit.unit}."
    return element("div", element("p", lead), element("p", f"{say_verdict(found, fit.name)} {how}"), class_="verdict")


def _figure(fit: ReportedFit, interval: Interval, *, is_share: bool) -> str:
    """A metric with its interval; where all answers were right or all wrong, the bootstrap has no width and says nothing."""
    if is_share and interval.low == interval.high == interval.value and interval.value in (0.0, 1.0):
        found = fit.known()
        count = len(found.sizes) if found.groups is None else len(set(found.groups.tolist()))
        of = "" if found.groups is None else f" of {count:,} {fit.unit}s"
        none = "no error" if interval.value else "no right answer"
        most = f"up to {100 * most_errors(count):.0f} % would still be possible"
        return f"{interval.value:.3g}: {none} among {len(found.sizes):,} sets{of}; {most}"
    value, low, high = (
        f"{number:,.0f}" if 1000 <= abs(number) < 1e7 else f"{number:.3g}"
        for number in (interval.value, interval.low, interval.high)
    )
    return f"{value} [{low}, {high}]"


def _cautions(fit: ReportedFit) -> list[Html]:
    said = [] if fit.evaluation is None else [fit.evaluation.caution]
    said += [f"{p['title']}: {p['text']}" for p in fit.said["problems"] if p["kind"] == "bad"]
    return [element("p", text, class_="caveat") for text in said if text]
