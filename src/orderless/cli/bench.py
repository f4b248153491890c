"""`orderless bench`: which backend runs here and why; measuring; what was measured, as tables and plots."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from orderless.cli.errors import UsageError, exits_cleanly, wrong_usage
from orderless.cli.folders import check_writable
from orderless.cli.options import AsJson, Debug
from orderless.files import write_text
from orderless.ops import backend
from orderless.ops._launch import describe_plans

_SCRIPT = Path(__file__).parents[3] / "bench" / "run.py"  # in a clone; the installed package has none
app = typer.Typer(
    no_args_is_help=True,
    help="Speed and memory: what runs here and why, measuring it, tables and plots of it.\n\nExample: orderless bench env",
)


def env(
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where there is one.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show which backend computes here, and why: Triton kernels or plain PyTorch.

    ORDERLESS_BACKEND=reference or triton forces one.

    Example: orderless bench env --json
    """
    found = _describe(_device(device))
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return 0
    shown = {
        "backend": f"{found['backend']}: {found['reason']}",
        "device": found["device"] + (f", compute capability {found['capability']}" if found["capability"] else ""),
        "torch": found["torch"] + (f", CUDA {found['cuda']}" if found["cuda"] else ""),
        "triton": found["triton"] or "not installed",
        "orderless": found["orderless"],
        backend.VARIABLE: found[backend.VARIABLE] or "not set",
    }
    if found["kernels_launched"]:
        shown["kernels are launched"] = found["kernels_launched"]
    width = max(map(len, shown)) + 2
    for name, value in shown.items():
        typer.echo(f"{name:{width}}{value}")
    return 0


def run(context: typer.Context) -> int:
    """Measure here, with the bench of the repository: bench/run.py, whose options this takes.

    The most important cases come first; rows are written one by one to bench/results.jsonl, or to --out.

    Example: orderless bench run --only table --budget-seconds 240
    """
    if not _SCRIPT.is_file():
        raise UsageError(
            "the bench is part of the repository, not of the installed package. Clone it, and install it from there."
        )
    return subprocess.run([sys.executable, str(_SCRIPT), *context.args], check=False).returncode


def show(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.jsonl", help="What bench/run.py wrote.")],
    out: Annotated[Path | None, typer.Option(help="Folder for bench.md and the plots. Default: the tables are printed.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what was measured: goals beside floors, peers and what was reached; with --out, plots as well.

    Of several runs in the file, the last that measured a case counts, and it is compared within that run only.

    Example: orderless bench show bench/results.jsonl --out bench/plots
    """
    from orderless.experiments.bench import draw_plots, goal_lines, read_measurements, to_markdown

    if not rows.exists():
        raise UsageError(f"there is no file {rows}: name one that bench/run.py wrote.")
    measured = read_measurements(rows)
    paths: list[Path] = []
    if out is not None:
        check_writable(out)
        paths = [out / "bench.md"]
        write_text(paths[0], to_markdown(measured))
        paths += draw_plots(measured, out)
    if as_json:
        content = {"goals": [asdict(line) for line in goal_lines(measured)], "files": [str(path) for path in paths]}
        typer.echo(json.dumps(content, indent=1))
    elif paths:
        typer.echo("\n".join(str(path) for path in paths))
    else:
        typer.echo(to_markdown(measured), nl=False)
    return 0


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"--device must be cpu or cuda; got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here: leave --device out.")
    return torch.device(name)


def _describe(device: torch.device) -> dict[str, Any]:
    with wrong_usage():
        choice = backend.choose(torch.empty(0, device=device))
    on_gpu = device.type == "cuda"
    launches = on_gpu and choice.name == "triton"
    return {
        "backend": choice.name,
        "reason": choice.reason,
        "device": torch.cuda.get_device_name(device)
        if on_gpu
        else f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "capability": ".".join(map(str, torch.cuda.get_device_capability(device))) if on_gpu else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": version("triton") if importlib.util.find_spec("triton") else None,
        "orderless": version("orderless"),
        backend.VARIABLE: os.environ.get(backend.VARIABLE),
        "kernels_launched": describe_plans(torch.empty(0, device=device, dtype=torch.bfloat16)) if launches else None,
    }


app.command()(exits_cleanly(env))
# whatever is typed after it is for the script, --help included
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    exits_cleanly(run)
)
app.command()(exits_cleanly(show))
