"""What a report is about: runs as their folders or result lines tell of them, finished or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from orderless.experiments.results import ResultStore, read_results
from orderless.experiments.sources import stand_in, task_of, title_of_data
from orderless.experiments.spec import RunSpec
from orderless.io.errors import DataError
from orderless.models.registry import MODELS
from orderless.train.history import History

Status = Literal["finished", "diverged", "unfinished"]
Row = Mapping[str, Any]

LAYERS = "layers"  # the observer whose rows are norms of layers


@dataclass(frozen=True)
class ReportedRun:
    """A run, and all that is known of it.

    Attributes:
        spec: What was run.
        status: `finished`; `diverged` where loss or gradients became infinite; `unfinished` where it has left no result yet.
        title: The data, said openly if they are not the published ones.
        message: Why it ended early; None if it did not.
        metrics: Of the whole test set: at the end, or at the last test of a run that is not finished.
        intervals: 95 % intervals of the metrics of a finished run.
        epochs: Rows of `History.epochs`.
        steps: Rows of `History.steps`, or some of them.
        layers: `names`, and `moments` with `gradient` and `activation` of each; None where nobody looked.
        facts: Everything else of the result line: hardware, versions, times, counts.
        execution: Where and how it was computed, as far as the folder says.
        folder: Its folder; None where only a result line is left.
    """

    spec: RunSpec
    status: Status
    title: str
    message: str | None
    metrics: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    epochs: Sequence[Row]
    steps: Sequence[Row]
    layers: Mapping[str, Any] | None
    facts: Mapping[str, Any]
    execution: Mapping[str, Any]
    folder: Path | None

    @property
    def data_key(self) -> str:
        """Equal for runs that were tested on the same sets, and so can be compared."""
        return json.dumps([self.spec.task, dict(self.spec.data_options)], sort_keys=True)

    @property
    def epochs_done(self) -> int:
        """Epochs that were trained, of `spec.train.epochs`."""
        return _last_epoch(self.epochs)


def find_runs(paths: Iterable[str | Path]) -> list[ReportedRun]:
    """Every run that the paths name, each once, in the order of the paths.

    Args:
        paths: Run folders; results folders, with `results.jsonl` and the folder `runs`; or `results.jsonl` files.

    Raises:
        ValueError: If a path is not there, or is none of these.
        DataError: If a file in it is damaged.
    """
    runs = [run for path in paths for run in _runs_of(Path(path).expanduser())]
    return list({(run.spec.key, run.folder and run.folder.resolve()): run for run in runs}.values())


def read_run(folder: Path) -> ReportedRun:
    """The run in this folder: from `result.json`, with all that `history.json` has and a line leaves out, or from that alone."""
    config = _read_json(folder / "config.json")
    execution = config.get("execution", {})
    history = _history_of(folder)
    if (folder / "result.json").exists():
        run = _from_line(_read_json(folder / "result.json"), folder / "result.json", folder, execution)
        return replace(run, steps=history.steps or run.steps, layers=_layers_of(history) or run.layers)
    spec = _spec_of(config, folder / "config.json")
    tested = [row for row in history.epochs if _metrics_of(row)]
    return ReportedRun(
        spec=spec,
        status="unfinished",
        title=config.get("title") or title_of_data(spec.task),
        message=f"stopped, or still running: {_last_epoch(history.epochs)} of {spec.train.epochs} epochs.",
        metrics=_metrics_of(tested[-1]) if tested else {},
        intervals={},
        epochs=history.epochs,
        steps=history.steps,
        layers=_layers_of(history),
        facts={},
        execution=execution,
        folder=folder,
    )


def _runs_of(path: Path) -> list[ReportedRun]:
    if path.is_file():
        return [_from_line(line, path, None, {}) for line in read_results(path)]
    if (path / "config.json").is_file():
        return [read_run(path)]
    store = ResultStore(path)
    written = [_from_line(line, store.path, None, {}) for line in store.lines()]
    folders = [read_run(config.parent) for config in sorted(path.glob("runs/*/config.json"))]
    if runs := {run.spec.key: run for run in [*written, *folders]}:  # the folder knows more than the line
        return sorted(runs.values(), key=_order)
    if not path.exists():
        raise ValueError(f"there is no folder {path}.")
    raise ValueError(
        f"{path} is neither a fit nor a run: expected fit.json of `orderless fit`, config.json of `orderless train`, or "
        "results.jsonl or runs/ of `orderless table`, and found none of them."
    )


def _order(run: ReportedRun) -> tuple[Any, ...]:
    """As a table has them, and the paper's data first: lines come in the order in which runs happened to finish."""
    options, known = run.spec.model_options, list(MODELS)
    place = known.index(run.spec.model) if run.spec.model in known else len(known)  # baselines last
    return (
        stand_in(run.spec.task) is not None,
        run.spec.task,
        place,
        options.get("depth", 0),
        repr(sorted(options.items())),
        run.spec.train.seed,
    )


def _from_line(line: Any, path: Path, folder: Path | None, execution: Mapping[str, Any]) -> ReportedRun:
    spec = _spec_of(line, path)
    try:
        return ReportedRun(
            spec=spec,
            status=line["status"],
            title=line["title"],
            message=line["message"],
            metrics=line["metrics"],
            intervals={name: (low, high) for name, (low, high) in line["intervals"].items()},
            epochs=line["epochs"],
            steps=line["steps"],
            layers=line["layers"],
            facts=line,
            execution=execution,
            folder=folder,
        )
    except KeyError as error:
        raise DataError(path, expected="a result line", found=f"one without {error}") from None


def _spec_of(content: Any, path: Path) -> RunSpec:
    try:
        spec = RunSpec.from_json(content["spec"])
        task_of(spec)  # which must be one that there is
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(path, expected="a run of this version of orderless", found=f"{type(error).__name__}: {error}") from None
    return spec


def _history_of(folder: Path) -> History:
    if not (folder / "history.json").exists():  # it has only just begun
        return History()
    try:
        return History.read(folder)
    except (TypeError, ValueError) as error:
        raise DataError(folder / "history.json", expected="the history of a run", found=str(error)) from None


def _read_json(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(path, expected="JSON", found=str(error)) from None
    if not isinstance(content, dict):
        raise DataError(path, expected="a JSON object", found=type(content).__name__)
    return content


def _metrics_of(row: Row) -> dict[str, float]:
    return {name.removeprefix("test_"): value for name, value in row.items() if name.startswith("test_") and value is not None}


def _layers_of(history: History) -> dict[str, Any] | None:
    moments = history.observed.get(LAYERS, [])
    return {"names": moments[0]["names"], "moments": moments} if moments else None


def _last_epoch(rows: Sequence[Row]) -> int:
    return max((row["epoch"] for row in rows), default=0)
