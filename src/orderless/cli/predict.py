"""`orderless predict`: a bundle, other files, one row per set."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from orderless.cli.data import AsJson, Debug
from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.fit import Data
from orderless.cli.folders import check_writable
from orderless.cli.sample_options import (
    Cofactor,
    Compensate,
    Ignore,
    LabelId,
    Labels,
    Layer,
    Missing,
    SampleCache,
    SetId,
    Transform,
    read_samples,
    reading_options,
    shell_words,
)
from orderless.cli.train import Device


def predict(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle, or the folder of `orderless fit` that has one.")],
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write: .csv or .parquet.")],
    set_id: SetId = None,
    labels: Labels = None,
    label_id: LabelId = None,
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

    Example: orderless predict cmv/bundle new_cells.parquet --out predictions.csv
    """
    from orderless.estimators.bundle import load_bundle
    from orderless.studies import predict_files
    from orderless.studies.predicting import SUFFIXES
    from orderless.train import resolve_device

    out = out.expanduser()
    if out.suffix not in SUFFIXES:
        raise UsageError(f"--out must end in {' or '.join(SUFFIXES)}; got {out.name!r}.")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder: name a file.")
    if not out.parent.is_dir():
        raise UsageError(f"--out lies in {out.parent}, which is not a folder: make it first.")
    check_writable(out.parent)
    with wrong_usage():
        resolve_device(device)
    inner = bundle / "bundle"
    model = load_bundle(inner if inner.is_dir() and not (bundle / "bundle.json").exists() else bundle).set_params(device=device)
    given = {
        "set_id": set_id,
        "ignore": ignore,
        "layer": layer,
        "missing": missing,
        "transform": transform,
        "cofactor": cofactor,
        "compensate": compensate,
    }
    origin = model.schema_.origin
    options = reading_options(given, data, origin or None)
    try:
        samples = read_samples(data, options, labels=labels, label_id=label_id, cache_dir=cache_dir)
    except UsageError as error:  # features are what the model asks for, not an option here
        message = str(error).replace("(--features)", "(the model was fitted to it)")
        raise UsageError(re.sub(r" Choose (one )?of these\.$", "", message)) from error
    with wrong_usage():
        predictions = predict_files(model, samples)
    predictions.write(out)
    if as_json:
        said = {"file": str(out), "target": list(model.schema_.targets), "notes": list(predictions.notes)}
        typer.echo(json.dumps({**said, "predictions": predictions.rows()}, indent=1))
        return 0
    for note in predictions.notes:
        typer.echo(f"Note: {shell_words(note)}")
    what = ", ".join(model.schema_.targets) or "the target"
    typer.echo(f"{out}: {what} of {len(samples):,} sets, from all {int(samples.sizes.sum()):,} elements.")
    return 0
