"""The part of a report about how runs were made: what they share, where they differ, and the commands that do them again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from orderless.experiments.report.comparison import Named, mark_of
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.report.verdict import changed_options
from orderless.experiments.sources import task_of
from orderless.experiments.spec import RunSpec
from orderless.models.registry import DEFAULT_EPS, DEFAULT_NUM_HEADS, DEFAULT_NUM_INDUCING, MODELS
from orderless.numbers import count, duration, plain, setting
from orderless.pages.html import Html, element, join, prose
from orderless.pages.parts import scrolling

_TOLD = ("device", "num_devices", "compile", "cuda_graphs", "num_workers", "loggers")  # of the execution
Settings = dict[str, dict[str, str]]  # heading -> name -> value


def settings_part(runs: Named) -> Html:
    """What all runs share as lists, and where they differ as a table."""
    by_run = [_settings(run) for run, _ in runs]
    shared: Settings = {}
    differing: dict[tuple[str, str], None] = {}
    for heading in by_run[0]:
        for name in dict.fromkeys(name for settings in by_run for name in settings[heading]):
            values = {settings[heading][name] for settings in by_run if name in settings[heading]}
            if len(values) == 1:
                shared.setdefault(heading, {})[name] = values.pop()
            else:
                differing[heading, name] = None
    lists = [
        element("div", element("h4", heading), element("dl", [_pair(name, value) for name, value in group.items()]))
        for heading, group in shared.items()
    ]
    table = None
    if differing:
        head = element("tr", [element("th", name, scope="col") for name in ("run", *(name for _, name in differing))])
        rows = [
            element(
                "tr",
                element("th", mark_of(name), name.text, scope="row"),
                [element("td", settings[heading].get(option, "")) for heading, option in differing],
            )
            for (_, name), settings in zip(runs, by_run, strict=True)
        ]
        where = element("p", "Where the runs differ:")
        table = join(where, scrolling(element("table", element("thead", head), element("tbody", rows)), "Where the runs differ"))
    intro = element("p", "The same in all runs that have it:") if len(runs) > 1 else None
    return join(intro, element("div", lists, class_="settings"), table)


def reproduce_part(runs: Named) -> Html:
    """The command of every run."""
    commands = [
        join(
            element("p", mark_of(name), name.text) if len(runs) > 1 else None,
            element("pre", element("code", _breaking_between(command_for(run.spec)))),
        )
        for run, name in runs
    ]
    note = "Each gives the same weights on the same hardware and versions. `--device`, `--compile`, `--cuda-graphs` may be added."
    return join(commands, element("p", prose(note), class_="note"))


def command_for(spec: RunSpec) -> list[str]:
    """What to type to do a run again, in parts that belong together: the paper's settings need no saying."""
    options = changed_options(spec)
    seed = options.pop("seed", 0)
    parts = [["orderless", "train", spec.task], ["--model", spec.model], *([["--seed", str(seed)]] if seed else [])]
    parts += [["--set", f"{name}={str(v).lower() if isinstance(v, bool) else v}"] for name, v in options.items()]
    return [shlex.join(part) for part in parts]


def _settings(run: ReportedRun) -> Settings:
    return {
        "Network": _network(run),
        "Training": _training(run.spec),
        "Data": _data(run),
        "Computed": _computed(run),
    }


def _network(run: ReportedRun) -> dict[str, str]:
    legal = MODELS[run.spec.model]
    usual: dict[str, Any] = {"depth": legal.depth, "width": legal.width, "norm": legal.norm[0], "residual": legal.residual[0]}
    usual |= {"order": legal.order[0], "eps": DEFAULT_EPS, "standardize": False}
    usual |= {"num_heads": DEFAULT_NUM_HEADS, "num_inducing": DEFAULT_NUM_INDUCING} if legal.attends else {}
    said = _texts({"model": run.spec.model, **usual, **run.spec.model_options})
    if run.facts.get("num_parameters"):
        said["parameters"] = count(run.facts["num_parameters"])
    return said


def _training(spec: RunSpec) -> dict[str, str]:
    return _texts({name: value for name, value in vars(spec.train).items() if value is not None})


def _data(run: ReportedRun) -> dict[str, str]:
    task = task_of(run.spec)
    low, high = task.set_size
    sizes = count(low) if low == high else f"{count(low)} to {count(high)}"
    known = {"training sets": run.facts.get("num_train"), "test sets": run.facts.get("num_test")}
    said = {"task": run.spec.task} | {name: count(value) for name, value in known.items() if value}
    said["elements of a set"] = count(run.spec.data_options["set_size"]) if "set_size" in run.spec.data_options else sizes
    return said | {"seed of the data": str(run.spec.data_options.get("data_seed", 0))}


def _computed(run: ReportedRun) -> dict[str, str]:
    facts = run.facts
    said = _texts({name: value for name, value in facts.get("hardware", {}).items() if value not in (None, False)})
    wanted = {name: value for name, value in run.execution.items() if value not in (None, False, [], ()) and name in _TOLD}
    said = _texts({name: value for name, value in wanted.items() if name not in said}) | said
    if facts.get("seconds"):
        said["time"] = duration(facts["seconds"])
    if facts.get("step_seconds"):
        said["median step"] = f"{plain(1000 * facts['step_seconds'], 3)} ms"
    said |= {name: str(value) for name, value in facts.get("versions", {}).items()}
    if facts.get("commit"):
        said["commit"] = str(facts["commit"])
    if facts.get("finished"):
        said["finished"] = str(facts["finished"]).replace("T", " ").replace("Z", " UTC")
    return said


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", " "): _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return setting(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def _breaking_between(parts: Sequence[str]) -> Html:
    """A command that is broken between its parts: a browser would break it after the hyphens of an option, too."""
    return Html(" ".join(element("span", part) for part in parts))


def _pair(name: str, value: str) -> Html:
    return join(element("dt", name), element("dd", value))
