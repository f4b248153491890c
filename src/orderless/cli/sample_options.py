"""What the verbs on people's own files share: options that say how files are read, and reading with a word on a terminal."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orderless.cli.errors import FailedError, UsageError
from orderless.io import Samples, join_labels, open_samples
from orderless.io.errors import ContentError, OptionError
from orderless.io.open_samples import find_files
from orderless.words import counted

SetId = Annotated[str | None, typer.Option(metavar="COL", help="Column that says which set a row belongs to. Not for FCS.")]
Labels = Annotated[Path | None, typer.Option(metavar="FILE", help="CSV or Parquet with one row per set, joined by name.")]
LabelId = Annotated[str | None, typer.Option(metavar="COL", help="Column of --labels with the names of sets. Default: detected.")]
Features = Annotated[str | None, typer.Option(metavar="A,B", help="Only these features, in this order.")]
Ignore = Annotated[str | None, typer.Option(metavar="A,B", help="Columns to leave out.")]
Layer = Annotated[str | None, typer.Option(help="AnnData: a layer to read instead of X.")]
Missing = Annotated[str | None, typer.Option(help="NaN in elements: error, drop or indicator. Default: error.")]
Transform = Annotated[str | None, typer.Option(help="FCS: arcsinh, logicle or none. Default: arcsinh.")]
Cofactor = Annotated[float | None, typer.Option(help="FCS: of arcsinh; 150 is common for fluorescence. Default: 5.")]
Compensate = Annotated[bool | None, typer.Option("--compensate/--no-compensate", help="FCS: take out spillover. Default: yes.")]
SampleCache = Annotated[
    Path | None, typer.Option("--cache-dir", help="Folder for what was read. Default: $ORDERLESS_CACHE or ~/.cache/orderless.")
]

# how options are called in Python and in the shell
_SHELL = {
    r"\bset_id=(?P<v>'[^']*')?": "--set-id ",
    r"\bfeatures=(?P<v>'[^']*')?": "--features ",
    r"\bignore=(?:\[(?P<v>'[^']*'(?:, '[^']*')*)\])?": "--ignore ",
    r"\bmissing=(?P<v>'[^']*')?": "--missing ",
    r"\b(?:another )?id_column\b=?(?P<v>)": "--label-id ",
    r"\btransform=(?P<v>'[^']*'|None)": "--transform ",
    r"\bcompensate=False(?P<v>)": "--no-compensate",
    r"^(?P<v>)(set_id|layer|transform|cofactor|compensate) is": None,
}


def split_names(text: str | None) -> list[str] | None:
    """Names in a text such as a,b; None for None."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"expected names with commas between them, such as CD3,CD4; got {text!r}.")
    return names


def reading_options(given: Mapping[str, Any], path: Path, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Options of `open_samples` from those of the shell; what is not given comes from `before`, or is the shell's default.

    Args:
        given: `set_id`, `features`, `ignore`, `layer`, `missing`, `transform`, `cofactor`, `compensate`; None is not given.
        path: What is to be read.
        before: `Samples.origin` of the data that a model was trained on.
    """
    with in_shell_words():
        kind = find_files(path.expanduser())[0]
    options: dict[str, Any] = dict((before or {}).get("options", {}))
    if before is not None and before.get("kind") != kind:  # as of another kind of file: only what both know
        only = {"CSV": ("set_id",), "Parquet": ("set_id",), "AnnData": ("set_id", "layer"), "HDF5": ()}
        known = only.get(kind, ("transform", "cofactor", "compensate"))
        options = {name: value for name, value in options.items() if name in ("features", "missing", "fill", *known)}
    if before is None and kind == "FCS":
        options["transform"] = "arcsinh"
    for name, value in given.items():
        if value is not None:
            options[name] = split_names(value) if name in ("features", "ignore") else value
    if options.get("missing") != "indicator":
        options.pop("fill", None)
    elif before is not None:
        if before.get("options", {}).get("missing") == "indicator" and "fill" not in options:
            raise UsageError(
                "the model was fitted by an orderless that put 0 for missing numbers, which this one does not: fit it again, or "
                "leave such elements out with --missing drop."
            )
        options.setdefault("fill", {})  # a model that was fitted to data without gaps knows none
    if options.get("transform") == "none":
        options["transform"] = None
    if given.get("cofactor") is None and options.get("transform") != "arcsinh":
        options.pop("cofactor", None)  # that of training goes with its arcsinh; older bundles have one without
    return options


def read_samples(
    path: Path,
    options: Mapping[str, Any],
    *,
    labels: Path | None,
    label_id: str | None,
    per_set: tuple[str, ...] = (),
    cache_dir: Path | None,
) -> Samples:
    """Sets from files, with labels joined; a bar on a terminal while files are read for the first time.

    Args:
        path: The files.
        options: Of `open_samples`.
        labels: A table with one row per set.
        label_id: Its column of names.
        per_set: Columns that are of sets and no features, whatever they look like. So are those that look like groups, where
            every set has one row.
        cache_dir: Where what was read is kept.
    """
    from orderless.studies.columns import looks_like_a_group

    if label_id is not None and labels is None:
        raise UsageError("--label-id is a column of --labels FILE, which is not given.")
    with in_shell_words(), _bar(f"reading {path.name}") as tell:
        samples = open_samples(path, **options, cache_dir=cache_dir, progress=tell)
        # where every set has one row, all columns of numbers look like features, even who the row is of
        if samples.sizes.max(initial=0) <= 1 and options.get("features") is None:
            features = [name for name in samples.features if name not in per_set and not looks_like_a_group(name)]
            if len(features) < len(samples.features):
                again = open_samples(path, **{**options, "features": features}, cache_dir=cache_dir)
                samples = replace(again, are_named=False)  # not by the user
        return samples if labels is None else join_labels(samples, labels, id_column=label_id)


@contextmanager
def in_shell_words() -> Iterator[None]:
    """Errors about options say them as the shell has them."""
    try:
        yield
    except ValueError as error:
        said = shell_words(str(error))
        if isinstance(error, OptionError) or not isinstance(error, ContentError):
            raise UsageError(said) from error
        raise FailedError(said) from error


def shell_words(text: str) -> str:
    """A message about options of Python in the shell's words: set_id='donor' is --set-id donor."""
    for pattern, option in _SHELL.items():
        if option is None:
            text = re.sub(pattern, lambda m: f"--{m[2].replace('_', '-')} is", text)
        else:
            text = re.sub(pattern, lambda m, o=option: (o + _shell_value(m["v"] or "")).strip(), text)  # type: ignore[misc]
    return text


def _shell_value(text: str) -> str:
    """Quoted names, one or more, as a shell takes them."""
    names = "none" if text == "None" else ",".join(re.findall("'([^']*)'", text))
    if re.search(r'["$`\\!]', names):  # which mean something between double quotes, too
        return shlex.quote(names)
    return f'"{names}"' if re.search(r"[^\w.,:/@%+=-]", names) else names


@contextmanager
def _bar(title: str) -> Iterator[Any]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda done: bar.update(task, completed=done)


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
        from orderless.experiments.numbers import duration

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
