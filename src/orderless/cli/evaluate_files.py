"""`orderless evaluate DATA`: a model beside simple ones on people's own files, cross-validated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orderless.cli.errors import UsageError, of_data
from orderless.cli.folders import check_room, check_writable
from orderless.cli.printing import print_evaluation
from orderless.cli.studies import fold_bar, open_study

if TYPE_CHECKING:
    from orderless.studies import FitSettings


def evaluate_files(
    data: Path,
    target: str,
    reading: dict[str, Any],
    settings: FitSettings,
    *,
    out: Path | None,
    baselines_only: bool,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Cross-validates a model beside the baselines on sets of files, prints it and, with `out`, writes and draws it.

    Args:
        data: The files.
        target: The column to predict.
        reading: Options that say how files are read.
        settings: How to fit and evaluate.
        out: Folder for evaluation.json and pictures.
        baselines_only: Leave the model out.
        as_json: Print JSON.
        **chosen: Further arguments of `open_study`.
    """
    from orderless.evaluate import draw_evaluation
    from orderless.files import write_json
    from orderless.studies.fit_folder import EVALUATION, PICTURES
    from orderless.studies.fitting import evaluate_study
    from orderless.studies.verdict import say_verdict

    if out is not None:
        out = out.expanduser()
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"--out {out} is in use already: name a folder that is new or empty.")
        check_room(out)
    study, lines = open_study(data, target, reading, settings, **chosen)
    if not as_json:
        typer.echo("\n".join(lines))
    if out is not None:
        check_writable(out)
    with of_data(), fold_bar(lines=not as_json) as tell:
        found = evaluate_study(study, settings, baselines_only=baselines_only, progress=tell)
    verdict = None if baselines_only else say_verdict(found, settings.model)
    said = {"described": lines, "verdict": verdict}
    if as_json:
        typer.echo(json.dumps({**found.as_json(), **said}, indent=1))
    else:
        typer.echo()
        print_evaluation(found)
        if verdict is not None:
            typer.echo(verdict)
    if out is not None:  # after it was told: a full disk must not cost the whole evaluation
        draw_evaluation(found, out / PICTURES)
        write_json(out / EVALUATION, {**found.as_json(predictions=True), "ids": list(study.samples.ids), **said})
        if not as_json:
            typer.echo(f"\n{out} holds {EVALUATION} and {PICTURES}/.")
    return 0
