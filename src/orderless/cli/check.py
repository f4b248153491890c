"""`orderless check`: does anybody's module treat sets as sets?"""

import contextlib
import importlib
import importlib.util
import inspect
import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import nn

from orderless.cli.errors import FailedError, UsageError
from orderless.testing.calling import Takes
from orderless.testing.report import MEANINGS, Property, Verdict, check_module
from orderless.words import did_you_mean

DtypeName = Literal["float64", "float32", "bfloat16"]


def check(
    factory: Annotated[
        str,
        typer.Argument(
            metavar="PATH:FACTORY", help="A Python file, or a module's dotted name, and what in it makes the network."
        ),
    ],
    element: Annotated[
        str | None,
        typer.Option(help="Shape of one element, as '3' or '3,64,64'. Default: in_features of the network or its first layer."),
    ] = None,
    takes: Annotated[
        Takes,
        typer.Option(help="What it is called with: a SetBatch; x and a mask of elements, or of padding; x and lengths; x."),
    ] = "auto",
    dtype: Annotated[DtypeName, typer.Option(help="The network is cast to it.")] = "float64",
    tolerance: Annotated[float | None, typer.Option(help="Largest violation to pass. Default: by dtype.")] = None,
    skip: Annotated[str | None, typer.Option(help="Properties to leave out, as 'empty,padding'.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random sets and shuffles.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> int:
    """Check that a network treats sets as sets: order, batch mates and padding must not change its answers.

    FACTORY is a function without arguments that returns an nn.Module, or the module itself. It is checked in the mode in
    which it comes: call .eval() in the factory for what you will deploy. Exit code 1 if a property fails.

    Example: orderless check my_network.py:make_network --element 2
    """
    if tolerance is not None and not tolerance >= 0:  # NaN is not
        raise UsageError(f"--tolerance must be at least 0, got {tolerance:g}.")
    skipped = _properties(skip)
    torch.manual_seed(seed)  # so that the same command checks the same random weights
    with contextlib.redirect_stdout(sys.stderr):  # what a network prints must not get into the answer
        module = _make(factory)
    torch_dtype: torch.dtype = getattr(torch, dtype)
    if isinstance(module, nn.Module):
        module = module.to(torch_dtype)
    shape = _element_shape(element, module)
    with contextlib.redirect_stdout(sys.stderr):
        verdicts = check_module(module, shape, takes=takes, dtype=torch_dtype, tolerance=tolerance, skip=skipped, seed=seed)
    if as_json:
        rows = [{**asdict(v), "violation": _json_number(v.violation)} for v in verdicts]
        typer.echo(json.dumps({"module": factory, "verdicts": rows}, indent=2))
    else:
        _print(verdicts, factory, module, shape)
    return 1 if any(v.status in ("FAIL", "error") for v in verdicts) else 0


def _make(factory: str) -> Any:
    path, colon, name = factory.rpartition(":")
    if not colon or not path or not name:
        raise UsageError(f"expected PATH:FACTORY, such as my_network.py:make_network, got {factory!r}.")
    made = _import(path)
    for part in name.split("."):
        if not hasattr(made, part):
            there = [name for name in vars(made) if not name.startswith("_")]
            raise UsageError(f"{path} has no {part!r}.{did_you_mean(part, there)} It has {', '.join(there)}.")
        made = getattr(made, part)
    if isinstance(made, nn.Module):
        return made
    if not callable(made):
        raise UsageError(f"{factory} is a {type(made).__name__}; expected a function that returns an nn.Module.")
    with contextlib.suppress(ValueError):  # built in C: no signature to read
        try:
            inspect.signature(made).bind()
        except TypeError as error:
            raise UsageError(f"{factory} must be callable without arguments: {error}.") from error
    module = made()
    if not callable(module):
        raise UsageError(f"{factory} returned a {type(module).__name__}; expected an nn.Module.")
    return module


def _import(path: str) -> Any:
    if not path.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not path.startswith(error.name):
                raise  # something that the module itself imports is missing
            raise UsageError(f"no module {path!r} ({error}). For a file, write its name with .py.") from error
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"no file {path}.")
    name = f"orderless_checked_{file.stem}"  # a file called torch.py must not take torch's place
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        fix = 'Put what is to be run as a program under `if __name__ == "__main__":`.'
        raise FailedError(f"{path} ends the program when it is imported, so nothing was checked. {fix}") from None
    return module


def _properties(names: str | None) -> tuple[Property, ...]:
    if names is None:
        return ()
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise UsageError(f"--skip takes {', '.join(MEANINGS)}; got nothing.")
    if unknown := [name for name in chosen if name not in MEANINGS]:
        raise UsageError(f"--skip takes {', '.join(MEANINGS)}; got {unknown[0]!r}.{did_you_mean(unknown[0], MEANINGS)}")
    if len(set(chosen)) == len(MEANINGS):
        raise UsageError("--skip leaves nothing to check.")
    return tuple(name for name in MEANINGS if name in chosen)


def _element_shape(element: str | None, module: Any) -> tuple[int, ...]:
    if element is not None:
        if not re.fullmatch(r"\s*[1-9]\d*\s*(,\s*[1-9]\d*\s*)*", element):
            raise UsageError(f"--element must be whole numbers of at least 1, such as 3 or 3,64,64; got {element!r}.")
        return tuple(int(number) for number in element.split(","))
    if getattr(module, "featurizer", None) is not None:
        if (known := getattr(module, "element_shape", None)) is not None:
            return tuple(known)
        raise UsageError("this network has a featurizer: pass the shape of an element that it takes, such as --element 3,64,64.")
    layers = module.modules() if isinstance(module, nn.Module) else [module]
    for layer in layers:
        if isinstance(in_features := getattr(layer, "in_features", None), int):
            return (in_features,)
    raise UsageError("cannot tell the shape of an element from this network: pass it, such as --element 3.")


def _print(verdicts: list[Verdict], factory: str, module: Any, shape: tuple[int, ...]) -> None:
    mode = f"{'training' if module.training else 'eval'} mode, " if isinstance(module, nn.Module) else ""
    table = Table(title=f"{escape(factory)} ({mode}elements of shape {shape})", title_justify="left", box=None, pad_edge=False)
    for column in ("property", "verdict", "violation", "what was found"):
        table.add_column(column, no_wrap=column != "what was found")
    style = {"pass": "green", "FAIL": "red", "error": "red", "n/a": "dim"}
    for v in verdicts:
        number = "" if v.violation is None else f"{v.violation:.1e}"
        table.add_row(v.property, f"[{style[v.status]}]{v.status}[/]", number, escape(v.detail))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    failed = sum(v.status in ("FAIL", "error") for v in verdicts)
    unasked = sum(v.status == "n/a" for v in verdicts)
    if failed:
        console.print(f"{failed} of {len(verdicts)} properties do not hold.")
    else:
        console.print(
            "every property holds." if not unasked else f"every property that could be tried holds; {unasked} could not."
        )
    if all(v.status == "error" for v in verdicts):
        console.print("nothing could be tried: --element and --takes say how the network is to be called.")


def _json_number(value: float | None) -> float | str | None:
    return str(value) if value is not None and not math.isfinite(value) else value  # JSON has no infinity
