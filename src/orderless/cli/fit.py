"""`orderless fit`: from files with an outcome per sample to an evaluated model and a bundle to deploy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from orderless.claims import claim
from orderless.cli.errors import UsageError, of_data
from orderless.cli.folders import check_room, check_writable
from orderless.cli.given import given, refuse
from orderless.cli.options import (
    AsJson,
    Cofactor,
    Compensate,
    Covariates,
    Data,
    Debug,
    Device,
    EstimatorOptions,
    Features,
    Folds,
    Group,
    Ignore,
    LabelId,
    Labels,
    Layer,
    MaxElements,
    Missing,
    ModelName,
    Repeats,
    SampleCache,
    Seed,
    SetId,
    Split,
    TaskKind,
    Transform,
)
from orderless.cli.printing import print_evaluation
from orderless.cli.samples import typed_reading
from orderless.cli.studies import choose_settings, fold_bar, open_study

Target = Annotated[str, typer.Option(metavar="COL", help="The outcome: a column with one value per set.")]


def fit(
    context: typer.Context,
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for all results: new, or of the same fit, to continue it.")],
    set_id: SetId = None,
    labels: Labels = None,
    label_id: LabelId = None,
    group: Group = None,
    covariates: Covariates = None,
    split: Split = None,
    features: Features = None,
    ignore: Ignore = None,
    layer: Layer = None,
    missing: Missing = None,
    transform: Transform = None,
    cofactor: Cofactor = None,
    compensate: Compensate = None,
    task: TaskKind = "auto",
    model: ModelName = "deep_sets++",
    settings: EstimatorOptions = None,
    max_elements: MaxElements = None,
    folds: Folds = 5,
    repeats: Repeats = 1,
    evaluate: Annotated[bool, typer.Option("--evaluate/--no-evaluate", help="Cross-validate beside simple models.")] = True,
    seed: Seed = 0,
    device: Device = "auto",
    cache_dir: SampleCache = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Fit a model to your samples, estimate how it will do on new ones, and write a bundle that predicts.

    What was read, and what will be predicted, is shown first. Then the model is cross-validated beside simple ones, by group
    where samples share a patient, and fitted to all labelled samples. DIR gets bundle/, evaluation.json, pictures/ and fit.json.
    The same command continues a fit that was stopped.

    Example: orderless fit cells.parquet --set-id donor --labels donors.csv --target cmv --out cmv
    """
    from orderless.studies import fit_study
    from orderless.studies.fit_folder import FitFolder

    reading = typed_reading(context)
    if not evaluate:
        refuse(context, ("folds", "repeats", "split"), "--no-evaluate means that nothing is cross-validated")
    if split is not None:
        refuse(context, ("folds", "repeats"), "--split gives the folds")
    chosen = choose_settings(
        model, settings, max_elements=max_elements, folds=folds, repeats=repeats, evaluate=evaluate, seed=seed, device=device
    )
    out = out.expanduser()
    FitFolder(out).check_free()
    check_room(out)
    study, lines = open_study(
        data, target, reading, chosen, labels=labels, label_id=label_id, group=group, covariates=covariates, split=split,
        task=task, cache_dir=cache_dir,
    )  # fmt: skip
    if not as_json:
        typer.echo("\n".join(lines))
    existed = out.exists()
    check_writable(out)
    with claim(out) as is_mine, of_data(), _keeping(out):
        if not is_mine:
            raise UsageError(f"another process is working on the fit in {out}: wait for it, or choose another folder (--out).")
        try:
            with fold_bar(lines=not as_json) as tell:
                said = fit_study(
                    study,
                    chosen,
                    out,
                    source=str(data),
                    labels="" if labels is None else str(labels),
                    command=_typed(context),
                    lines=lines,
                    progress=tell,
                )
        except BaseException:
            _leave_nothing(out, existed)
            raise
    _tell(said, out, as_json)
    return 0


def _typed(context: typer.Context) -> str:
    """The command as it was typed, but for options that change nothing about the fit."""
    words = ["orderless", context.info_name or "fit"]
    typed = [name for name in given(context) if name not in ("as_json", "debug")]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in typed:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [parameter.opts[0], str(each)]
    return shlex.join(words)


@contextmanager
def _keeping(out: Path) -> Iterator[None]:
    """Ctrl-C says what is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{out} keeps what is done; the same command continues from there.") from None


def _leave_nothing(out: Path, existed: bool) -> None:
    """A fit that was refused before it began leaves no folder behind."""
    rest = [path for path in out.iterdir() if path.name != ".lock"]
    if not existed and not rest:
        (out / ".lock").unlink(missing_ok=True)
        out.rmdir()


def _tell(said: dict[str, Any], out: Path, as_json: bool) -> None:
    from orderless.studies.fit_folder import EVALUATION
    from orderless.studies.stored import read_evaluation
    from orderless.studies.verdict import say_verdict

    evaluated = (out / EVALUATION).exists()
    if as_json:
        content = {name: said[name] for name in ("settings", "versions", "data", "problems")}
        if evaluated:
            content["evaluation"] = read_evaluation(out / EVALUATION).as_json()
        typer.echo(json.dumps({"folder": str(out), "bundle": str(out / "bundle"), **content}, indent=1))
        return
    if evaluated:
        found = read_evaluation(out / EVALUATION)
        typer.echo()
        print_evaluation(found)
        typer.echo(say_verdict(found, said["settings"]["model"]))
    for problem in said["problems"]:
        if problem["kind"] != "note":
            typer.echo(f"{problem['title']}: {problem['text']}")
    typer.echo(f"\n{out / 'bundle'} is the model, fitted to all {said['data']['num_sets']:,} sets. Next:")
    beside = " --labels COVARIATES" if said["settings"]["covariates"] else ""
    typer.echo(f"  orderless predict {shlex.quote(str(out / 'bundle'))} NEW_DATA --out predictions.csv{beside}")
    typer.echo(f"  orderless report {shlex.quote(str(out))}")
