"""`orderless fit`: from files with an outcome per sample to an evaluated model and a bundle to deploy."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orderless.cli.data import AsJson, Debug, Seed, check_seed, print_columns
from orderless.cli.errors import UsageError, of_data, wrong_usage
from orderless.cli.folders import check_room, check_writable
from orderless.cli.given import given, refuse
from orderless.cli.sample_options import (
    Cofactor,
    Compensate,
    Features,
    Ignore,
    LabelId,
    Labels,
    Layer,
    Missing,
    SampleCache,
    SetId,
    Transform,
    fold_bar,
    read_samples,
    reading_options,
    shell_words,
    split_names,
)
from orderless.cli.train import Device
from orderless.experiments.claims import claim
from orderless.experiments.spec import parse_value
from orderless.words import did_you_mean

if TYPE_CHECKING:
    from orderless.evaluate import Evaluation
    from orderless.studies import FitSettings, Study

Data = Annotated[Path, typer.Argument(metavar="DATA", help="A long table (.csv, .parquet), .h5ad, .h5, or a folder of .fcs.")]
Target = Annotated[str, typer.Option(metavar="COL", help="The outcome: a column with one value per set.")]
Group = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Sets of one group are kept together. Default: a column like patient or donor; none: off."),
]
Covariates = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns of sets that the model gets beside elements, such as age.")
]
Split = Annotated[str | None, typer.Option(metavar="COL", help="Your own split: a column with train and test, or with folds.")]
TaskKind = Annotated[str, typer.Option("--task", help="classification, regression, or auto: inferred from the target.")]
ModelName = Annotated[str, typer.Option("--model", help="A network: deep_sets++, set_transformer++, ...")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the estimator, such as depth or epochs. May be repeated."),
]
MaxElements = Annotated[
    int | None, typer.Option(help="Elements of a set in a training epoch, at most. Predictions take all. Default: by size.")
]
Folds = Annotated[int, typer.Option(help="Folds of the cross-validation.")]
Repeats = Annotated[int, typer.Option(help="Number of repeats of the cross-validation.")]


def fit(
    context: typer.Context,
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for all results: new, or of the same fit, which goes on.")],
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
    settings: Settings = None,
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
    A fit that was stopped goes on with the same command.

    Example: orderless fit cells.parquet --set-id donor --labels donors.csv --target cmv --out cmv
    """
    from orderless.studies import fit_study
    from orderless.studies.fit_folder import FitFolder

    reading = {
        "set_id": set_id,
        "features": features,
        "ignore": ignore,
        "layer": layer,
        "missing": missing,
        "transform": transform,
        "cofactor": cofactor,
        "compensate": compensate,
    }
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
            raise UsageError(f"another process is at the fit in {out}: wait for it, or choose another folder (--out).")
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


def print_evaluation(found: Evaluation) -> None:
    """Prints the table of an evaluation and what a reader should know; with fewer columns where a terminal is narrow."""
    from orderless.evaluate.evaluation import SHOWN
    from orderless.evaluate.metrics import METRICS

    lines = found.table().splitlines()
    rows, remarks = lines[: 1 + len(found.models)], lines[1 + len(found.models) :]
    if sys.stdout.isatty() and max(map(len, rows)) > shutil.get_terminal_size().columns:
        models = list(found.models.values())
        columns = {"model": [model.title.partition(":")[0] for model in models]}
        for name in SHOWN[found.objective]:
            scores = [model.metrics[name].interval for model in models]
            columns[METRICS[found.objective][name].title] = [
                f"{i.value:.3f} [{i.low:.3f}, {i.high:.3f}]" if math.isfinite(i.value) else "n/a" for i in scores
            ]
        print_columns(columns, right=list(columns)[1:])
    else:
        typer.echo("\n".join(rows))
    typer.echo("\n".join(remarks))


@contextmanager
def _keeping(out: Path) -> Iterator[None]:
    """Ctrl-C says what is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{out} keeps what is done; the same command goes on from there.") from None


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
