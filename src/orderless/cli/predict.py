"""`orderless predict`: a bundle, other files, one row per set."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orderless.cli.errors import FailedError, UsageError, of_data, wrong_usage
from orderless.cli.folders import check_writable
from orderless.cli.options import (
    AsJson,
    Cofactor,
    Compensate,
    Data,
    Debug,
    Device,
    Group,
    Ignore,
    LabelId,
    Labels,
    Layer,
    Missing,
    SampleCache,
    SetId,
    Transform,
)
from orderless.cli.printing import print_evaluation
from orderless.cli.samples import in_shell_words, read_samples, reading_options, shell_words, split_names, typed_reading
from orderless.io.errors import OptionError
from orderless.io.open_samples import find_files
from orderless.words import counted

if TYPE_CHECKING:
    from orderless.estimators.bundle import Estimator
    from orderless.studies import ExternalScore


def predict(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle, or the folder of `orderless fit` that has one.")],
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write: .csv or .parquet.")],
    set_id: SetId = None,
    labels: Labels = None,
    label_id: LabelId = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Where outcomes are known: their column, to score the predictions.")
    ] = None,
    group: Group = None,
    ignore: Ignore = None,
    layer: Layer = None,
    missing: Missing = None,
    transform: Transform = None,
    cofactor: Cofactor = None,
    compensate: Compensate = None,
    device: Device = "auto",
    cache_dir: SampleCache = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Predict every set of other files, from all of its elements.

    Files are read as those of training were, where no option says otherwise. Columns are found by name; one that is missing is
    an error. --labels joins a table with covariates, where the model was given some.

    Where outcomes are known by now, --target names their column, in the files or in --labels: the predictions are scored beside
    the best constant, with 95 % intervals.

    Example: orderless predict cmv/bundle new_cells.parquet --out predictions.csv
    """
    from orderless.estimators.bundle import load_bundle
    from orderless.studies import predict_files, score_files
    from orderless.studies.predicting import SUFFIXES
    from orderless.train import resolve_device

    out = out.expanduser()
    if out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--out must end in {' or '.join(SUFFIXES)}; got {out.name!r}.")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder: name a file.")
    if not out.parent.is_dir():
        raise UsageError(f"--out lies in {out.parent}, which is not a folder: make it first.")
    bundle = _find_bundle(bundle)
    _spare_inputs(out, bundle, data, labels)
    check_writable(out.parent)
    with wrong_usage():
        resolve_device(device)
    model = load_bundle(bundle).set_params(device=device)
    _refuse_idle(model, labels, target, group, split_names(ignore) or [])
    origin, reading = model.schema_.origin, typed_reading(context)
    options = reading_options(reading, data, origin or None)
    if not origin and model.schema_.features and find_files(data.expanduser())[0] in ("CSV", "Parquet"):
        options["features"] = list(model.schema_.features)  # a bundle that was saved in Python does not say how files were read
    try:
        samples = read_samples(data, options, labels=labels, label_id=label_id, cache_dir=cache_dir)
    except (UsageError, FailedError) as error:  # features are what the model asks for, not an option here
        message = str(error).replace("(--features)", "(the model was fitted to it)")
        kind = type(error) if message == str(error) else FailedError
        message = message.replace(", --missing indicator fills in and marks it", "")  # which has to be chosen before a fit
        raise kind(re.sub(r" Choose (one )?of these\.$", "", message)) from error
    try:
        with of_data():
            begun = time.perf_counter()
            predictions = predict_files(model, samples)
            seconds = time.perf_counter() - begun
    except OptionError as error:  # of covariates, which the table of labels should have, where there is one
        raise (UsageError if labels is None else FailedError)(str(error)) from error
    predictions.write(out)
    notes = [*_say_differences(reading, origin), *predictions.notes]

    def score() -> ExternalScore:
        assert target is not None
        with of_data():
            return score_files(model, samples, predictions, target, group=group, seconds=seconds)

    if as_json:
        said: dict[str, Any] = {"file": str(out), "target": list(model.schema_.targets), "notes": notes}
        if target is not None:
            found = score()
            described = [shell_words(line) for line in found.described]
            said["evaluation"] = {**found.evaluation.as_json(), "described": described, "verdict": found.verdict}
        typer.echo(json.dumps({**said, "predictions": predictions.rows()}, indent=1))
        return 0
    for note in notes:
        typer.echo(f"Note: {shell_words(note)}")
    what = ", ".join(model.schema_.targets) or "the target"
    typer.echo(f"{out}: {what} of {counted(len(samples), 'set')}, from all {counted(int(samples.sizes.sum()), 'element')}.")
    if target is not None:  # after it was told what is written: outcomes that will not do cost no predictions
        found = score()
        typer.echo("\n".join(["", *map(shell_words, found.described), ""]))
        print_evaluation(found.evaluation)
        typer.echo(found.verdict)
    return 0


def _refuse_idle(model: Estimator, labels: Path | None, target: str | None, group: str | None, ignore: list[str]) -> None:
    """Refuses what would not be heeded."""
    if group is not None and target is None:
        raise UsageError("--group is for scores: name the column of outcomes with --target, or leave out --group.")
    if labels is not None and target is None and not model.schema_.num_covariates:
        raise UsageError(
            "--labels is for covariates, and the model was fitted without any: leave it out, or name a column of outcomes in it "
            "with --target, to score the predictions."
        )
    if needed := [name for name in ignore if name in (model.schema_.features or ())]:
        raise UsageError(f"--ignore {','.join(needed)}: the model was fitted to it and reads it. Leave it out of --ignore.")


def _find_bundle(path: Path) -> Path:
    """The bundle that is meant: itself, or that in the folder of a fit."""
    from orderless.studies.fit_folder import BUNDLE, is_fit_folder, read_finished

    for fit in (path, path.parent):
        if is_fit_folder(fit) and (fit == path or path.name == BUNDLE):
            read_finished(fit)
    inner = path / BUNDLE
    return inner if inner.is_dir() and not (path / "bundle.json").exists() else path


def _spare_inputs(out: Path, bundle: Path, data: Path, labels: Path | None) -> None:
    """Refuses to write over what is to be read, by whatever path it is named."""
    with in_shell_words():
        files = find_files(data.expanduser())[1]
    inputs = [("DATA", file) for file in files] + ([] if labels is None else [("--labels", labels.expanduser())])
    for what, file in inputs:
        if out.exists() and file.exists() and out.samefile(file):
            raise UsageError(f"--out {out} is a file that is read ({what}), and would be lost: name another file.")
    if (bundle / "bundle.json").is_file() and out.resolve().is_relative_to(bundle.resolve()):
        raise UsageError(f"--out {out} lies in the bundle {bundle}, which must stay as it was written: name a file elsewhere.")


def _say_differences(given: Mapping[str, Any], origin: Mapping[str, Any]) -> list[str]:
    """Options that were typed and that change numbers, where those of training were others."""
    before = origin.get("options", {})
    said = []
    for name in ("transform", "cofactor", "compensate", "missing", "layer"):
        if given[name] is None or name not in before:
            continue
        if name == "cofactor" and before[name] is None:  # there was no arcsinh, which --transform is told of
            continue
        then, now = (_in_shell(name, value) for value in (before[name], given[name]))
        if then != now:
            said.append(f"these files are read with {now}, those of training were read with {then}. Is that what you mean?")
    return said


def _in_shell(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{name}"
    if name == "layer" and value is None:
        return "X and no --layer"
    return f"--{name} {'none' if value is None else f'{value:g}' if isinstance(value, float) else value}"
