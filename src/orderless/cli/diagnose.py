"""`orderless diagnose`: gradients and activations of every layer, of a run or of a network, and what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from orderless.cli.errors import FailedError, UsageError, wrong_usage
from orderless.cli.given import refuse
from orderless.cli.options import AsJson, CacheDir, DataDir, Debug
from orderless.cli.printing import print_columns
from orderless.cli.task_data import describe_sets, tell_stand_in
from orderless.look import check_picture_path, evenly
from orderless.models import SetModel, list_models, load_model
from orderless.train import History, TrainConfig
from orderless.words import counted, did_you_mean

if TYPE_CHECKING:
    from orderless.diagnose import Health
    from orderless.diagnose.picture import Course
    from orderless.tasks.task_data import TaskData

_NUM_SETS = 8  # on which a network is read, unless num_train says otherwise
_DEFAULT_TASK = "normal_var"  # it needs no files
_SHOWN_LAYERS = 12
_NO_EFFECT = {f.name for f in fields(TrainConfig)} - {"seed"} | {"num_test", "training"}  # nothing is trained or tested here
_OF_THE_DATA = {"data_seed", "num_train", "set_size"}


def diagnose(
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="RUN|MODEL", help="Folder of a run, name of a network, or a .safetensors file of one.")
    ],
    task: Annotated[
        str | None,
        typer.Option(metavar="TASK[@SOURCE]", help=f"What a network is tried on. Default for a name: {_DEFAULT_TASK}."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the network (depth, norm, ...), its seed, or of the data (num_train, set_size, data_seed). "
            "May be repeated.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every layer instead of some.")] = False,
    out: Annotated[Path | None, typer.Option(help="Draw it to this file: .png, .svg or .pdf. Default: no picture.")] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say whether gradients vanish, explode or are healthy, layer by layer, with the evidence.

    RUN is a folder of `orderless train`, finished, stopped or diverged: its layers were read before training and after every
    epoch. MODEL is read on a few sets of a task, with fresh weights or with those of the file. Exit code 0 whatever the verdict.

    Example: orderless diagnose deep_sets --set depth=50 --out gradients.png
    """
    from orderless.diagnose.picture import FORMATS, write_figure

    with wrong_usage():
        if out is not None:
            check_picture_path(out, FORMATS)
    if Path(what).is_dir():
        refuse(context, ("task", "settings", "data_dir", "cache_dir"), f"{what} is a run, which says all of this itself")
        found = _of_run(Path(what))
    else:
        found = _of_model(what, task, settings or [], data_dir, cache_dir, quiet=as_json)
    if out is not None:
        write_figure(found.draw(), out)
    if as_json:
        typer.echo(json.dumps({"what": what, **found.to_json(), "picture": None if out is None else str(out)}, indent=1))
        return 0
    found.tell(every=every)
    if out is not None:
        typer.echo(f"Drawn to {out}.")
    return 0


@dataclass(frozen=True)
class _Found:
    """What there is to say: a run has several moments and single steps, a network one moment."""

    title: str
    course: Course
    health: Health
    network: str | None = None  # all its options; None of a run
    status: str | None = None  # of a run of which it is known
    message: str | None = None
    merged: Mapping[str, float] = field(default_factory=dict)  # of the norms of a network

    @property
    def collapse(self) -> str | None:
        from orderless.diagnose import judge_collapse

        return judge_collapse(self.merged)

    def draw(self) -> Any:
        from orderless.diagnose.picture import draw_course, draw_depth

        if self.network is None:
            return draw_course(self.course, title=self.title, note=str(self.health))
        return draw_depth({"": self.course.moments[0]}, names=self.course.names, title=self.title, note=str(self.health))

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "network": self.network,
            "status": self.status,
            "message": self.message,
            "verdict": self.health.verdict,
            "evidence": self.health.evidence,
            "collapse": self.collapse,
            "merged": dict(self.merged),
            "names": list(self.course.names),
            "moments": [self._judged(moment) for moment in self.course.moments],
            "steps": [dict(row) for row in self.course.steps],
        }

    def _judged(self, moment: Mapping[str, Any]) -> dict[str, Any]:
        from orderless.diagnose import judge

        health = judge(self.course.names, moment["gradient"], moment["activation"])
        read = {name: moment[name] for name in ("epoch", "step", "gradient", "activation")}
        return {**read, "verdict": health.verdict, "evidence": health.evidence}

    def tell(self, *, every: bool) -> None:
        names, moments = self.course.names, self.course.moments
        shown = range(len(names)) if every else evenly(len(names), _SHOWN_LAYERS)
        typer.echo(self.title)
        if self.network:
            typer.echo(self.network)
        columns = {"layer": [names[n] for n in shown]}
        for what in ("gradient", "activation"):
            for heading, moment in _ends(moments, what).items():
                columns[heading] = [_number(moment[what][n]) for n in shown]
        print_columns(columns, right=[name for name in columns if name != "layer"])
        if len(shown) < len(names):
            typer.echo(f"({len(shown)} of {len(names)} layers; --all lists every one.)")
        if self.message:
            typer.echo(f"The run stopped: {self.message}")
        typer.echo(f"{self.health.verdict.upper()}: {self.health.evidence}.")
        if self.collapse:
            typer.echo(f"COLLAPSE: {self.collapse}.")


def _ends(moments: Sequence[Mapping[str, Any]], what: str) -> dict[str, Mapping[str, Any]]:
    """The first moment and the last, by heading; a network has one, and its heading needs no time."""
    return {what: moments[0]} if len(moments) == 1 else {f"{what} at start": moments[0], f"{what} at end": moments[-1]}


def _number(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.1e}"


# ------------------------------------------------------------------------------------------------------- of a run


def _of_run(folder: Path) -> _Found:
    from orderless.diagnose import judge_over_time
    from orderless.diagnose.picture import Course

    if not (folder / "history.json").is_file():
        raise UsageError(f"{folder} has no history.json: expected the folder of a run that `orderless train` began.")
    history = _read(folder / "history.json", lambda: History.read(folder))
    rows = history.observed.get("layers", [])
    if not rows:
        raise UsageError(f"the run in {folder} has recorded nothing of its layers, so there is nothing to judge.")
    config, result = (
        _read(folder / name, lambda name=name: _object_in(folder / name)) if (folder / name).is_file() else {}
        for name in ("config.json", "result.json")
    )
    read = f"read up to {counted(rows[-1]['epoch'], 'epoch')}"
    if config:
        status = result.get("status", "not finished")
        spec = config.get("spec") or {}
        network = f"{spec['model']} {spec.get('model_options', {}).get('depth', '')}".strip() if "model" in spec else folder.name
        title = f"{network} on {config.get('title', 'unknown data')}: {status}, {read}"
    else:  # of `train_model`, which keeps neither what it trained on nor how it ended
        status, title = None, f"{folder.resolve().name}: {read}"
    fullest = max(rows, key=lambda row: sum(value is not None for value in row["activation"]))  # some layers may be left out
    course = Course(fullest["names"], rows, history.steps)
    health = judge_over_time(rows, steps=history.steps)
    return _Found(title, course, health, status=status, message=result.get("message"))


def _object_in(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found {type(content).__name__}")
    return content


def _read(path: Path, read: Any) -> Any:
    try:
        return read()
    except (ValueError, TypeError) as error:
        raise FailedError(f"{path} is damaged: {error}.") from error


# ------------------------------------------------------------------------------------------------------- of a network


def _of_model(
    what: str, task: str | None, settings: list[str], data_dir: Path | None, cache_dir: Path | None, *, quiet: bool
) -> _Found:
    from orderless.diagnose import judge, read_collapse, read_layers
    from orderless.diagnose.picture import Course
    from orderless.experiments.run import build_model, open_data
    from orderless.experiments.spec import make_spec, parse_options

    is_file = what.endswith(".safetensors")
    if not is_file and what not in list_models():
        raise UsageError(
            f"{what!r} is neither the folder of a run, nor a .safetensors file, nor a network of {', '.join(list_models())}."
            f"{did_you_mean(what, list_models())}"
        )
    if is_file and task is None:
        raise UsageError(f"name a task to try {what} on, such as --task {_DEFAULT_TASK}.")
    with wrong_usage():
        options = parse_options(settings)
        _check(options, is_file=is_file)
        saved = _load(what) if is_file else None
        spec = make_spec(task or _DEFAULT_TASK, saved.config.name if saved else what, {"num_train": _NUM_SETS, **options})
        data = open_data(spec, data_dir=data_dir, cache_dir=cache_dir, num_test=1)
        model = saved or build_model(spec, data)
        console = Console(stderr=True)
        batch = data.train[:]
        with console.status("reading layers") if console.is_terminal else nullcontext():
            layers = read_layers(model, batch, data.task.loss)
            merged = read_collapse(model, batch.sets)
    if not quiet:
        tell_stand_in(data, data_dir, cache_dir)
    row = layers.to_row()
    course = Course(layers.names, [{"epoch": 0, "step": 0, **row}])
    title = f"{model.config.name} {model.config.depth}, {'as saved' if saved else 'with fresh weights'}, on {_sets(data)}"
    return _Found(title, course, judge(**row), network=repr(model), merged=merged)


def _check(options: Mapping[str, Any], *, is_file: bool) -> None:
    for name in options:
        if name in _NO_EFFECT:
            raise UsageError(f"nothing is trained or tested here, so {name} would change nothing: leave it out.")
        if is_file and name not in _OF_THE_DATA:
            raise UsageError(
                f"a saved network has its {name} already: --set takes {', '.join(sorted(_OF_THE_DATA))} with a file."
            )


def _load(path: str) -> SetModel:
    try:
        return load_model(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(str(error)) from error
    except (OSError, ValueError) as error:
        raise FailedError(str(error)) from error


def _sets(data: TaskData) -> str:
    return f"{describe_sets(data).partition(' training')[0]} sets of {data.title}"
