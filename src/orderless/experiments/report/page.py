"""A report: one HTML page about some runs, which needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orderless.experiments.report.comparison import Named, picture_of_scores, table_of_scores
from orderless.experiments.report.curves import curves_part
from orderless.experiments.report.data import Baselines, Effort, SectionData, Tell
from orderless.experiments.report.health import gradients_part, judge_run
from orderless.experiments.report.naming import listed, name_runs
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.report.settings import reproduce_part, settings_part
from orderless.experiments.report.verdict import Verdict, say_caveats, say_verdict
from orderless.experiments.sources import task_of
from orderless.files import write_text
from orderless.numbers import count
from orderless.pages.frame import html_page
from orderless.pages.html import Html, element, join, prose


def write_report(
    runs: Sequence[ReportedRun],
    out: str | Path,
    *,
    title: str | None = None,
    baselines: Effort = "auto",
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    tell: Tell | None = None,
) -> Path:
    """Writes a page about some runs.

    Args:
        runs: What `find_runs` found; one or more.
        out: The page to write. A file of that name is replaced.
        title: Of the page. Default: what the runs are about.
        baselines: `auto` fits the quick ones to at most 2,000 training sets, `all` fits every one to all training sets, `none`
            fits none. What is found out is kept in each run's folder, in `baselines.json`.
        data_dir: Folder with publishers' files, as for `load_task`.
        cache_dir: Folder for prepared tasks, as for `load_task`.
        tell: Called with what is being done whenever it may take a while.

    Returns:
        The path of the page.
    """
    sections = [
        _Section(group, SectionData(group, data_dir=data_dir, cache_dir=cache_dir, tell=tell or (lambda _: None)), baselines)
        for group in _grouped(runs)
    ]
    rendered = [section.render(number) for number, section in enumerate(sections, start=1)]
    write_text(Path(out), html_page(title or _title(sections), rendered, _overview(sections)))
    return Path(out)


class _Section:
    """Everything about runs that were tested on the same sets."""

    def __init__(self, runs: Sequence[ReportedRun], data: SectionData, effort: Effort) -> None:
        self.spec, self.title = runs[0].spec, runs[0].title
        self.task = task_of(self.spec)
        networks = [run for run in runs if not run.spec.is_baseline]
        self.networks: Named = sorted(zip(networks, name_runs(networks), strict=True), key=lambda pair: pair[1].place)
        self.num_runs = len(runs)
        self.baselines: Baselines = data.baselines(effort)
        self.picture = data.picture()
        self.health = {name.mark: found for run, name in self.networks if (found := judge_run(run)) is not None}
        self.verdict = self._say()
        self.caveats = say_caveats([(run, name.mark) for run, name in self.networks] or [(run, "") for run in runs])

    def render(self, number: int) -> Html:
        """The section as HTML."""
        return element(
            "section",
            element("h2", self.title),
            element("p", self.task.about, class_="soft"),
            self._verdict(),
            [element("p", caveat, class_="caveat") for caveat in self.caveats],
            self._results(),
            self._curves(),
            self._gradients(),
            self._sets(),
            self._settings(),
            id=f"task-{number}",
        )

    def _say(self) -> Verdict:
        if not self.networks:
            return Verdict("Only simple models were run on these sets; no network.")
        by_verdict: dict[str, list[str]] = {}
        for mark, (_, last) in self.health.items():
            by_verdict.setdefault(last.verdict, []).append(mark)
        return say_verdict(self.networks, self.baselines.scores, by_verdict)

    def _verdict(self) -> Html:
        said = self.verdict
        return element(
            "div",
            element("p", said.lead),
            element("p", " ".join(said.beside)) if said.beside else None,
            element("ul", [element("li", prose(trouble)) for trouble in said.troubles]) if said.troubles else None,
            class_="verdict",
        )

    def _results(self) -> Html:
        scores = self.baselines.scores
        health = {mark: last.verdict for mark, (_, last) in self.health.items()}
        return join(
            element("h3", "Results"),
            picture_of_scores(self.networks, scores, self.task.metric),
            table_of_scores(self.spec, self.networks, scores, health),
            [element("p", prose(note), class_="note") for note in self.baselines.notes],
        )

    def _curves(self) -> Html | None:
        part = curves_part(self.networks, self.task, self.baselines.scores)
        return None if part is None else join(element("h3", "Curves"), part)

    def _gradients(self) -> Html | None:
        part = gradients_part(self.networks, self.health)
        return None if part is None else join(element("h3", "Gradients"), part)

    def _settings(self) -> Html | None:
        if not self.networks:
            return None
        return join(
            element("h3", "Settings"), settings_part(self.networks), element("h3", "Do it again"), reproduce_part(self.networks)
        )

    def _sets(self) -> Html:
        address, said = self.picture
        if address is None:
            return join(element("h3", "The sets"), element("p", prose(said), class_="note"))
        described = f"Some sets of {self.title}, and how elements, targets and sizes are distributed. {said}"
        image = element("img", src=address, alt=described)
        picture = element("div", image, class_="picture", tabindex="0", role="region", aria_label="Picture of sets")
        caption = element("figcaption", element("b", "Some sets"), ", and the distribution of elements, targets and sizes.")
        return join(element("h3", "The sets"), element("figure", caption, picture))


def _grouped(runs: Sequence[ReportedRun]) -> list[list[ReportedRun]]:
    groups: dict[str, list[ReportedRun]] = {}
    for run in runs:
        groups.setdefault(run.data_key, []).append(run)
    return list(groups.values())


def _title(sections: Sequence[_Section]) -> str:
    titles = list(dict.fromkeys(section.task.title for section in sections))
    if len(sections) == 1 and len(sections[0].networks) == 1:
        return f"{sections[0].networks[0][1].text} on {titles[0]}"
    num_runs = sum(section.num_runs for section in sections)
    return f"{count(num_runs)} runs on {listed(titles)}"


def _overview(sections: Sequence[_Section]) -> Html | None:
    """The first sentence about each section, where there are several."""
    if len(sections) < 2:
        return None
    entries = [
        element("li", element("a", section.title, href=f"#task-{number}"), ": ", section.verdict.lead)
        for number, section in enumerate(sections, start=1)
    ]
    return element("nav", element("ol", entries), aria_label="Sections")
