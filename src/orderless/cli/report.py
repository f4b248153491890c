"""`orderless report`: one page about a fit, or about runs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from orderless.cli.errors import UsageError, wrong_usage
from orderless.cli.folders import check_writable
from orderless.cli.options import CacheDir, DataDir, Debug
from orderless.words import counted

_SUFFIXES = (".html", ".htm")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FIT|RUN...", help="The folder of a fit; or folders of runs, or of `orderless table`: then all its runs."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write: .html or .htm.")] = Path("report.html"),
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Fit every simple model to all training sets, or none. Default: the quick ones, to at most 2,000 sets.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page. Default: what the runs are about.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    debug: Debug = False,
) -> int:
    """Make one HTML page of a fit or of runs: how good beside simple models, how it was trained, the data, how to go on.

    The page needs no network and no other file. Runs that are not finished, or that diverged, are told of as far as they came.

    Example: orderless report runs/plain runs/plus --out report.html
    """
    from orderless.experiments.report import find_runs, write_report
    from orderless.studies.fit_folder import EVALUATION, FIT

    out = out.expanduser()
    _check_out(out)
    if any((folder / FIT).is_file() for folder in runs):
        return _report_fit(runs, out, title, idle={"--baselines": baselines, "--data-dir": data_dir, "--cache-dir": cache_dir})
    if evaluated := [folder for folder in runs if (folder / EVALUATION).is_file() and not (folder / "config.json").exists()]:
        raise UsageError(
            f"{evaluated[0]} is from `orderless evaluate`, but a report is about a fit or about runs. Its pictures/ show the "
            "evaluation; `orderless fit` with the same options evaluates and fits, and `orderless report` takes its folder."
        )
    with wrong_usage():
        found = find_runs(runs)
    console = Console(stderr=True)
    with console.status("") if console.is_terminal else nullcontext() as status:
        write_report(
            found,
            out,
            title=title,
            baselines={None: "auto", True: "all", False: "none"}[baselines],  # type: ignore[arg-type]
            data_dir=data_dir,
            cache_dir=cache_dir,
            tell=None if status is None else status.update,
        )
    typer.echo(f"{out}: a report on {counted(len(found), 'run')}. Any browser opens it.")
    return 0


def _report_fit(folders: list[Path], out: Path, title: str | None, idle: dict[str, object]) -> int:
    from orderless.studies.report import write_fit_report

    if len(folders) > 1:
        raise UsageError("a page is about one fit, or about runs: name one folder of `orderless fit`.")
    if given := [name for name, value in idle.items() if value is not None]:
        raise UsageError(f"{folders[0]} is a fit, which says all of this itself: leave out {', '.join(given)}.")
    write_fit_report(folders[0], out, title=title)
    typer.echo(f"{out}: a report on the fit in {folders[0]}. Any browser opens it.")
    return 0


def _check_out(out: Path) -> None:
    if out.is_dir():
        raise UsageError(f"--out must name a file, but {out} is a folder.")
    if out.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--out must end in {' or '.join(_SUFFIXES)}; got {out.name!r}.")
    if not out.parent.is_dir():
        raise UsageError(f"--out lies in {out.parent}, which is not a folder: make it first.")
    check_writable(out.parent)
