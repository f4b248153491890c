"""What runs are called on the page: short names that tell the runs of a section apart, and numbers for legends and lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from string import ascii_lowercase
from typing import Any

from orderless.experiments.naming import describe_option, title_of_run, varies
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.spec import RunSpec
from orderless.models.registry import MODELS


@dataclass(frozen=True)
class Name:
    """What a run is called.

    Attributes:
        text: Network and depth, and whatever else tells it apart: `Deep Sets++ 50, layer norm`.
        mark: Its number in the section, with a letter where several seeds of one configuration are there: `2b`.
        place: Number of the configuration in the section, from 0: it decides the colour.
    """

    text: str
    mark: str
    place: int

    @property
    def is_one_of_several(self) -> bool:
        """Whether other runs differ from it in nothing but the seed."""
        return self.mark[-1].isalpha()


def name_runs(runs: Sequence[ReportedRun]) -> list[Name]:
    """Names for the runs of a section. Runs that differ in nothing but the seed have one text, one number and one colour."""
    made_with = [_settings(run.spec) for run in runs]
    configurations = [repr(sorted(options.items(), key=str)) for options in made_with]
    places = {text: place for place, text in enumerate(dict.fromkeys(configurations))}
    names = []
    for n, (run, options, configuration) in enumerate(zip(runs, made_with, configurations, strict=True)):
        alike = [other for other in made_with if all(other.get(name) == options.get(name) for name in ("model", "depth"))]
        said = {*_unusual(run.spec), *(name for name in options if varies(name, alike))}
        extras = [describe_option(name, value) for name, value in options.items() if name in said]
        several = configurations.count(configuration) > 1
        letter = _letters(configurations[:n].count(configuration)) if several else ""
        place = places[configuration]
        names.append(Name(", ".join([title_of_run(run.spec), *extras]), f"{place + 1}{letter}", place))
    return names


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = list(words)
    return f"{', '.join(most)} and {last}" if most else last


def _settings(spec: RunSpec) -> dict[str, Any]:
    """Everything that makes up a configuration: all but the data, which a section shares, and the seed."""
    train = {name: value for name, value in asdict(spec.train).items() if name != "seed"}
    return {"model": spec.model, **spec.model_options, **train}


def _unusual(spec: RunSpec) -> list[str]:
    """Norm and residual where they are not what the network usually has."""
    usual = {"norm": MODELS[spec.model].norm[0], "residual": MODELS[spec.model].residual[0]}
    return [option for option, value in usual.items() if spec.model_options.get(option, value) != value]


def _letters(number: int) -> str:
    """a to z, then aa, ab, ..."""
    head, last = divmod(number, len(ascii_lowercase))
    return (_letters(head - 1) if head else "") + ascii_lowercase[last]
