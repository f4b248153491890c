"""What the verbs that learn from people's own files share: settings, what is to be learned, and a word about each fold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orderless.cli.errors import UsageError, of_data, wrong_usage
from orderless.cli.options import check_seed
from orderless.cli.samples import read_samples, reading_options, shell_words, split_names
from orderless.experiments.spec import parse_value
from orderless.words import counted, did_you_mean

if TYPE_CHECKING:
    from orderless.studies import FitSettings, Study


def choose_settings(
    model: str,
    settings: list[str] | None,
    *,
    max_elements: int | None,
    folds: int,
    repeats: int,
    evaluate: bool,
    seed: int,
    device: str,
) -> FitSettings:
    """How to fit, from what was typed."""
    from orderless.models.registry import MODELS
    from orderless.studies import FitSettings
    from orderless.train import resolve_device

    with wrong_usage():
        resolve_device(device)
    if model not in MODELS:
        raise UsageError(f"--model must be one of {', '.join(MODELS)}; got {model!r}.{did_you_mean(model, MODELS)}")
    for name, value, least in (("--folds", folds, 2), ("--repeats", repeats, 1), ("--max-elements", max_elements, 1)):
        if value is not None and value < least:
            raise UsageError(f"{name} must be {least} or more, got {value}.")
    check_seed(seed)
    return FitSettings(  # which looks at the options' names
        model=model,
        options=_parse(settings or []),
        max_elements="auto" if max_elements is None else max_elements,
        num_folds=folds,
        num_repeats=repeats,
        evaluate=evaluate,
        seed=seed,
        device=device,
    )


def _parse(texts: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"--set takes key=value, such as depth=6; got {text!r}.")
        if name in options:
            raise UsageError(f"--set {name}=... is given twice.")
        options[name] = parse_value(value)
    return options


def open_study(
    data: Path,
    target: str,
    reading: dict[str, Any],
    settings: FitSettings,
    *,
    labels: Path | None,
    label_id: str | None,
    group: str | None,
    covariates: str | None,
    split: str | None,
    task: str,
    cache_dir: Path | None,
) -> tuple[Study, list[str]]:
    """What is to be learned, read from files, and the lines that describe it."""
    from orderless.studies import make_study
    from orderless.studies.study import describe_study

    if task not in ("auto", "classification", "regression"):
        raise UsageError(f"--task must be auto, classification or regression; got {task!r}.")
    beside = tuple(split_names(covariates) or ())
    named = tuple(name for name in (target, group, split, *beside) if name)
    samples = read_samples(
        data,
        reading_options(reading, data),
        labels=labels,
        label_id=label_id,
        per_set=named,
        cache_dir=cache_dir,
    )
    with of_data():
        study = make_study(samples, target, task=task, group=group, covariates=beside, split=split)  # type: ignore[arg-type]
        num_folds = settings.num_folds if settings.evaluate else None
        lines = describe_study(study, data.name, num_folds=num_folds, num_repeats=settings.num_repeats)
    return study, [shell_words(line) for line in lines]


@contextmanager
def fold_bar(*, lines: bool = True) -> Iterator[Any]:
    """For `progress=` of `fit_study` and `cross_validate`: a bar on a terminal, elsewhere a line as each fold is done.

    Args:
        lines: Whether to print lines where there is no terminal.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        told = _FoldLines()
        yield told if lines else None
        told.finish()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("fit {task.completed} of {task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("cross-validation", total=None)

        def tell(title: str, number: int, count: int) -> None:
            bar.update(task, description=f"fitting {title.partition(':')[0]}", completed=number, total=count)

        yield tell


class _FoldLines:
    """Prints a line to stderr as a fold, or the last fit, is done: a log file shows that something goes on.

    A call says that a fit begins. The models of a fold come in turn, so the next fold begins with the first one again.
    """

    def __init__(self) -> None:
        self._titles: list[str] = []  # of the fold that is under way
        self._fold, self._count, self._start = 0, 0, 0.0

    def __call__(self, title: str, number: int, count: int) -> None:
        if number == 1 or title == self._titles[0]:
            self.finish()
            self._fold = 1 if number == 1 else self._fold + 1
            self._titles, self._count, self._start = [], count, time.perf_counter()
        self._titles.append(title)

    def finish(self) -> None:
        """What is under way is done."""
        from orderless.numbers import duration

        if not self._titles:
            return
        first, *others = (title.partition(":")[0] for title in self._titles)
        took = duration(time.perf_counter() - self._start)
        if self._count == 1:
            said = f"{first}: {took}"
        else:
            also = f" and {counted(len(others), 'other model')}" if others else ""
            said = f"fold {self._fold} of {self._count // len(self._titles)}: {first}{also}, {took}"
        typer.echo(said, err=True)
        self._titles = []
