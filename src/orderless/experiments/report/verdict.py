"""What the runs of a section show, in plain words: the score, what stands beside it, and what it must not be compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orderless.experiments.naming import METRIC_TITLES, describe_network, describe_option, made_of, title_of_model
from orderless.experiments.report.naming import Name, listed
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.sizes import SIZES, say_size, sizes_of
from orderless.experiments.sources import stand_in, task_of
from orderless.experiments.spec import RunSpec, make_spec
from orderless.numbers import count, spread, with_interval
from orderless.tasks.base import Task
from orderless.tasks.objectives import HIGHER_IS_BETTER, MetricName
from orderless.tasks.published import Published

Standing = Literal["better than", "worse than", "not clearly different from"]


@dataclass(frozen=True)
class Score:
    """A number with its interval, and whose it is."""

    title: str
    value: float
    interval: tuple[float, float] | None = None
    is_constant: bool = False
    is_ceiling: bool = False
    num_train: int | None = None

    @property
    def text(self) -> str:
        """Number and interval."""
        value, interval = with_interval(self.value, self.interval)
        return f"{value} {interval}".rstrip()


def score_of(run: ReportedRun) -> Score | None:
    """The score of this run, in the metric that the paper reports for its task."""
    metric = task_of(run.spec).metric
    value = run.metrics.get(metric)
    if value is None or not math.isfinite(value):
        return None
    return Score(describe_network(run.spec), value, run.intervals.get(metric))


def published_for(spec: RunSpec) -> list[Published]:
    """The paper's scores for this very network, in the metric that it reports for the task; what two tables share comes once."""
    task, options = task_of(spec), spec.model_options
    network = (spec.model, options.get("depth"), options.get("norm"), options.get("residual"))
    rows = [row for row in task.published if (row.model, row.depth, row.norm, row.residual) == network]
    rows = sorted((row for row in rows if row.metric == task.metric), key=lambda row: len(spread(row.mean, row.std)))
    return list({round(row.mean, 3): row for row in rows}.values())  # of equal ones the one that is printed most exactly


def compare(mine: Score, other: Score, metric: MetricName) -> Standing:
    """Whether a score is better: intervals that overlap leave it open."""
    low, high = mine.interval or (mine.value, mine.value)
    other_low, other_high = other.interval or (other.value, other.value)
    if low <= other_high and other_low <= high:
        return "not clearly different from"
    return "better than" if (mine.value > other.value) == (metric in HIGHER_IS_BETTER) else "worse than"


def best(scores: Sequence[Score], metric: MetricName) -> Score | None:
    """The best score, if there is any."""
    pick = max if metric in HIGHER_IS_BETTER else min
    return pick(scores, key=lambda score: score.value) if scores else None


def differences(spec: RunSpec) -> list[str]:
    """How a run differs from the paper's, as far as the scores could depend on it."""
    said = [say_size(name, [size]) for name, size in sizes_of(spec).items() if size.differs]
    if not spec.is_baseline:
        said += [describe_option(name, value) for name, value in _unlike_the_paper(spec).items()]
    return said


def changed_options(spec: RunSpec) -> dict[str, Any]:
    """Every option that must be given to `make_spec` to get this run."""
    plain_run = make_spec(spec.task, spec.model)
    usual = {**plain_run.model_options, **vars(plain_run.train)}
    given = {**spec.model_options, **({"seed": spec.train.seed} if spec.is_baseline else vars(spec.train)), **spec.data_options}
    return {name: value for name, value in given.items() if name not in usual or usual[name] != value}


@dataclass(frozen=True)
class Verdict:
    """What is said about the runs of a section.

    Attributes:
        lead: The one sentence to remember.
        beside: How that compares with simple models and with the paper.
        troubles: What else a reader must know: runs that learnt nothing, diverged or are not finished, sick gradients.
    """

    lead: str
    beside: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


def say_verdict(
    runs: Sequence[tuple[ReportedRun, Name]], baselines: Sequence[Score], gradients: Mapping[str, Sequence[str]]
) -> Verdict:
    """The verdict on the runs of a section.

    Args:
        runs: Networks that were tested on the same sets, and what they are called.
        baselines: Scores on the same sets.
        gradients: Verdict on gradients -> marks of the runs that it is about.
    """
    task = task_of(runs[0][0].spec)
    metric = task.metric
    done = [(run, name, score) for run, name in runs if run.status == "finished" and (score := score_of(run)) is not None]
    troubles = _no_better([(name, score) for _, name, score in done], baselines, metric)
    troubles += _ended_early(runs)
    troubles += [f"Gradients are {word} in {_runs(marks)}." for word, marks in gradients.items() if word != "healthy"]
    top = best([score for _, _, score in done], metric)
    if top is None:
        return Verdict(_nothing_to_show(runs, metric), troubles=tuple(troubles))
    run = next(run for run, _, score in done if score is top)
    beside = [*_beside_baselines(top, baselines, metric), *_beside_published(run, task)]
    return Verdict(_lead(run, top, len(runs), len(done), metric), tuple(beside), tuple(troubles))


def say_caveats(runs: Sequence[tuple[ReportedRun, str]]) -> list[str]:
    """What keeps the scores of these runs, each with its mark, from being the paper's: other data or other settings."""
    said, spec = [], runs[0][0].spec
    if kind := stand_in(spec.task):
        source = task_of(spec).sources[0].title
        said.append(f"These are {kind} data, not {source}: published figures are of {source} and say nothing about these sets.")
    whose: dict[str, list[str]] = {}
    for run, mark in runs:
        for difference in differences(run.spec):
            whose.setdefault(difference, []).append(mark)
    if whose:
        words = [text if len(found) == len(runs) else f"{text} ({_runs(found)})" for text, found in whose.items()]
        said.append(f"Not the paper's settings: {'; '.join(words)}.")
    return said


def describe_published(row: Published) -> str:
    """Which network of the paper it is."""
    depth = "" if row.depth is None else f" {row.depth}"
    return f"{title_of_model(row.model)}{depth}{made_of(row.norm, row.residual)}"


def _nothing_to_show(runs: Sequence[tuple[ReportedRun, Name]], metric: MetricName) -> str:
    several = len(runs) > 1
    if any(run.status == "finished" for run, _ in runs):
        measured = f"test {METRIC_TITLES[metric]}"
        return f"No run has a finite {measured}." if several else f"Its {measured} is not a finite number."
    if any(run.status == "unfinished" for run, _ in runs):
        return "No run has finished yet." if several else "The run has not finished."
    return "Every run diverged." if several else "The run diverged."


def _lead(run: ReportedRun, score: Score, num_runs: int, num_done: int, metric: MetricName) -> str:
    value, interval = with_interval(score.value, score.interval)
    certain = f" (95 % interval {interval[1:-1].replace(', ', ' to ')})" if interval else ""
    epochs, sets = count(run.epochs_done), count(run.facts["num_train"])
    trained = f"after {epochs} epoch{'s' * (run.epochs_done != 1)} on {sets} training sets"
    which = f"{num_runs} runs" if num_done == num_runs else f"{num_done} finished runs"
    who = f"The best of {which} is {score.title}: it reached"
    if num_done == 1:
        who = f"{score.title}{'' if num_runs == 1 else f', the only finished one of {num_runs} runs,'} reached"
    return f"{who} a test {METRIC_TITLES[metric]} of {value}{certain} {trained}."


def _beside_baselines(score: Score, baselines: Sequence[Score], metric: MetricName) -> list[str]:
    said = []
    constant = next((row for row in baselines if row.is_constant), None)
    simple = best([row for row in baselines if not row.is_constant and not row.is_ceiling], metric)
    if constant is not None:
        said.append(f"That is {compare(score, constant, metric)} a constant that looks at no set ({constant.text}).")
    if simple is not None:
        how = compare(score, simple, metric)
        said.append(f"It is {how} the best simple model, “{simple.title}” ({simple.text}).")
    return said


def _beside_published(run: ReportedRun, task: Task) -> list[str]:
    where = f" on {task.sources[0].title}" if stand_in(run.spec.task) else ""
    rows = published_for(run.spec)
    if rows:
        settings = ", with its own settings" if differences(run.spec) else ""
        return [f"The paper reports {listed(spread(row.mean, row.std) for row in rows)} for this network{where}{settings}."]
    if top := task.best_published:
        score = spread(top.mean, top.std)
        return [f"The paper does not report this network; its best figure{where} is {score}, {describe_published(top)}."]
    return ["The paper reports no figure for this task."]


def _no_better(scores: Sequence[tuple[Name, Score]], baselines: Sequence[Score], metric: MetricName) -> list[str]:
    constant = next((row for row in baselines if row.is_constant), None)
    if constant is None or len(scores) < 2:
        return []
    failed = [name for name, score in scores if compare(score, constant, metric) != "better than"]
    if not failed:
        return ["Every finished run is better than a constant."]
    if len(failed) == len(scores):
        return ["No finished run is better than a constant."]
    texts = dict.fromkeys(name.text for name in failed)
    whose = [f"{text} ({_runs([name.mark for name in failed if name.text == text])})" for text in texts]
    return [f"No better than a constant: {listed(whose)}."]


def _ended_early(runs: Sequence[tuple[ReportedRun, Name]]) -> list[str]:
    """Runs that diverged or are not finished; of several seeds that did so, the first says why."""
    said = []
    for status, words in (("diverged", "diverged"), ("unfinished", "not finished")):
        early = [(run, name) for run, name in runs if run.status == status]
        for text in dict.fromkeys(name.text for _, name in early):
            alike = [(run, name.mark) for run, name in early if name.text == text]
            first = "" if len(alike) == 1 else f"run {alike[0][1]}: "
            said.append(f"{words.capitalize()}: {text} ({_runs([mark for _, mark in alike])}); {first}{alike[0][0].message}")
    return said


def _unlike_the_paper(spec: RunSpec) -> dict[str, Any]:
    """Options of network and training that the paper has otherwise; depth, norm and residual are what it varies itself."""
    settled = ("depth", "norm", "residual", "seed", "data_seed", "evaluate_every", "protocol", *SIZES)
    return {name: value for name, value in changed_options(spec).items() if name not in settled}


def _runs(marks: Sequence[str]) -> str:
    return f"{'run' if len(marks) == 1 else 'runs'} {listed(marks)}"
