"""People's own files, read as options of the shell say, with a word on a terminal; errors in the shell's words."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orderless.cli.errors import FailedError, UsageError
from orderless.io import Samples, join_labels, open_samples
from orderless.io.errors import ContentError, DataError, OptionError
from orderless.io.open_samples import find_files

_READING = ("set_id", "features", "ignore", "layer", "missing", "transform", "cofactor", "compensate")
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
    """Names in a text such as a,b or "age, years",b; None for None."""
    if text is None:
        return None
    names = [name.strip() for row in csv.reader([text], skipinitialspace=True) for name in row]
    if not names or not all(names):
        raise UsageError(f"expected names with commas between them, such as CD3,CD4; got {text!r}.")
    return names


def typed_reading(context: typer.Context) -> dict[str, Any]:
    """What was typed of how files are read, for `reading_options`; None where it was not, or where a verb has no such option."""
    return {name: context.params.get(name) for name in _READING}


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
        options = {name: value for name, value in options.items() if name in ("features", "ignore", "missing", "fill", *known)}
    if before is None and kind == "FCS":
        options["transform"] = "arcsinh"
    ignored = options.pop("ignore", [])
    for name, value in given.items():
        if value is not None:
            options[name] = split_names(value) if name in ("features", "ignore") else value
    # what was left out of training stays so, beside what is typed now, but for a column that is now to name the sets
    if ignored := [name for name in ignored if name != options.get("set_id") and name not in options.get("ignore", [])]:
        options["ignore"] = [*ignored, *options.get("ignore", [])]
    if options.get("missing") != "indicator":
        options.pop("fill", None)
    elif before is not None:
        if before.get("options", {}).get("missing") == "indicator" and "fill" not in options:
            raise UsageError(
                "the model was fitted by an older orderless, which replaced missing numbers by 0, as this one does not: fit it "
                "again, or leave such elements out with --missing drop."
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
        if isinstance(error, DataError):  # what was found is the user's: a file or a column may be called as an option is
            expected, fix = shell_words(error.expected), shell_words(error.fix)
            said = str(DataError(error.path, expected=expected, found=error.found, fix=fix))
        if isinstance(error, OptionError) or not isinstance(error, ContentError):
            raise UsageError(said) from error
        raise FailedError(said) from error


def shell_words(text: str) -> str:
    """A message about options of Python in the shell's words: set_id='donor' is --set-id donor."""
    for pattern, option in _SHELL.items():
        if option is None:
            text = re.sub(pattern, lambda m: f"--{m[2].replace('_', '-')} is", text)
        else:
            several = option in ("--features ", "--ignore ")
            text = re.sub(pattern, lambda m, o=option, s=several: (o + _shell_value(m["v"] or "", s)).strip(), text)  # type: ignore[misc]
    return text


def _shell_value(text: str, several: bool) -> str:
    """Quoted names, one or more, as a shell takes them; of several, one with a comma has quotes of its own."""
    found = re.findall("'([^']*)'", text)
    names = "none" if text == "None" else ",".join(f'"{name}"' if several and "," in name else name for name in found)
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
