"""What a report asks of a run's data: baselines on the same sets, kept beside the run, and a picture of some of them.

A report never starts a download, and never fails for lack of data: it says what was left out and why.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

from orderless.evaluate.baselines import BASELINES, ORACLE
from orderless.evaluate.scoring import evaluate_baselines
from orderless.experiments.report.runs import ReportedRun
from orderless.experiments.report.verdict import Score
from orderless.experiments.run import open_data
from orderless.experiments.sources import request_of, task_of
from orderless.experiments.spec import BASELINE
from orderless.files import write_json
from orderless.io.cache import default_cache_dir
from orderless.io.errors import DataError
from orderless.tasks.folders import default_data_dir
from orderless.tasks.picture import draw_task
from orderless.tasks.task_data import TaskData
from orderless.version import __version__

Effort = Literal["none", "auto", "all"]
Tell = Callable[[str], None]

FILE: Final = "baselines.json"
MOST_TRAIN: Final = 2000  # training sets that baselines are fitted to in a hurry
MOST_NUMBERS: Final = 10_000_000  # that a kernel mean embedding reads in a hurry: some seconds


@dataclass(frozen=True)
class Baselines:
    """Scores of simple models on the sets of a section.

    Attributes:
        scores: Those that were run.
        notes: What a reader must know about them: fewer training sets, skipped or left out ones.
    """

    scores: tuple[Score, ...] = ()
    notes: tuple[str, ...] = ()


class SectionData:
    """The sets on which some runs were trained and tested. They are opened when they are first needed.

    Args:
        runs: Runs on the same sets.
        data_dir: Folder with publishers' files, as for `load_task`.
        cache_dir: Folder for prepared tasks.
        tell: Called with what is being done whenever it may take a while.
    """

    def __init__(self, runs: Sequence[ReportedRun], *, data_dir: Path | None, cache_dir: Path | None, tell: Tell) -> None:
        self._runs, self._spec = runs, runs[0].spec
        self._data_dir, self._cache_dir, self._tell = data_dir, cache_dir, tell
        self._opened: TaskData | None = None

    def baselines(self, effort: Effort) -> Baselines:
        """Baselines on these sets: those that were run as runs, then kept ones, then new ones as `effort` allows."""
        own = {run.spec.model.removeprefix(BASELINE): run for run in self._runs if run.spec.is_baseline and run.metrics}
        if effort == "none":
            return Baselines(tuple(self._own_score(name, run) for name, run in own.items()))
        try:
            rows, asked = self._rows(effort)
        except (DataError, ImportError) as error:
            return Baselines(tuple(self._own_score(name, run) for name, run in own.items()), (f"No baselines: {error}",))
        scores = [self._own_score(row["name"], own[row["name"]]) if row["name"] in own else _score(row) for row in rows]
        return Baselines(tuple(score for score in scores if score is not None), tuple(self._notes(rows, asked, effort)))

    def picture(self) -> tuple[str | None, str]:
        """A picture of some sets as a `data:` address and what it shows; None and the reason where there is none."""
        try:
            data = self._open()
            self._tell(f"drawing sets of {data.name}")
            with tempfile.TemporaryDirectory() as folder:
                content = draw_task(data, Path(folder) / "sets.png").read_bytes()
        except (DataError, ImportError) as error:
            return None, f"No picture of the sets: {error}"
        return f"data:image/png;base64,{base64.b64encode(content).decode()}", data.task.about

    def _open(self) -> TaskData:
        if self._opened is None:
            self._check_at_hand()
            self._tell(f"opening {self._spec.task}")
            self._opened = open_data(self._spec, data_dir=self._data_dir, cache_dir=self._cache_dir)
        return self._opened

    def _check_at_hand(self) -> None:
        """That opening the data downloads nothing."""
        source_name, task = self._spec.task.partition("@")[2], task_of(self._spec)
        if not source_name:
            return
        cache = default_cache_dir() if self._cache_dir is None else self._cache_dir.expanduser()
        folder = default_data_dir(cache) if self._data_dir is None else self._data_dir.expanduser()
        source = task.source(source_name)
        prepared = task.is_prepared(source, cache, request_of(task, self._spec.data_options))
        if source.files is not None and source.files.find(folder) is None and not prepared:
            fix = f"`orderless data prepare {self._spec.task}` gets them, or says how."
            raise DataError(folder, expected=f"the files of {source.title}", found="none", fix=fix)

    def _rows(self, effort: Effort) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows of `BaselineResult.as_json`, kept or new, and the names that were asked for."""
        if kept := self._kept(effort):
            return kept["results"], kept["asked"]
        data = self._open()
        asked = _all_names(data) if effort == "all" else _cheap_names(data)
        max_train = None if effort == "all" else MOST_TRAIN
        results = evaluate_baselines(
            data, asked, max_train=max_train, progress=lambda title, *_: self._tell(f"baseline on {data.name}: {title}")
        )
        rows = [result.as_json() for result in results]
        content = {"data": self._runs[0].data_key, "orderless": __version__, "effort": effort, "asked": asked, "results": rows}
        for run in self._runs:
            if run.folder is not None:
                with suppress(OSError):  # a run that may only be read is reported all the same
                    write_json(run.folder / FILE, content)
        return rows, asked

    def _kept(self, effort: Effort) -> dict[str, Any] | None:
        """What an earlier report found out; more than is asked for is welcome."""
        for run in self._runs:
            if run.folder is None or not (run.folder / FILE).exists():
                continue
            with suppress(ValueError, KeyError, TypeError, OSError):  # a file that cannot be read is written again
                content: dict[str, Any] = json.loads((run.folder / FILE).read_text(encoding="utf-8"))
                fits = (content["data"], content["orderless"]) == (run.data_key, __version__)
                if fits and content["effort"] in (effort, "all") and isinstance(content["results"], list) and content["asked"]:
                    return content
        return None

    def _own_score(self, name: str, run: ReportedRun) -> Score:
        task = task_of(run.spec)
        return Score(
            BASELINES[name].title_for(task.objective),
            run.metrics[task.metric],
            run.intervals.get(task.metric),
            is_constant=name == "constant",
            num_train=run.facts.get("num_train"),
        )

    def _notes(self, rows: Sequence[dict[str, Any]], asked: Sequence[str], effort: Effort) -> list[str]:
        notes = []
        if effort == "auto":
            run = [row["num_train"] for row in rows if row["num_train"]]
            if run and max(run) < self._num_train():
                notes.append(f"Baselines were fitted to {max(run):,} training sets, not all; `--baselines` takes all.")
            task = task_of(self._spec)
            left_out = [BASELINES[name].title_for(task.objective) for name in BASELINES if name not in asked]
            if left_out:
                notes.append(f"Left out because they would take a while: {', '.join(left_out)}; `--baselines` adds them.")
        return notes

    def _num_train(self) -> int:
        known = [run.facts["num_train"] for run in self._runs if run.facts.get("num_train")]
        return known[0] if known else len(self._open().train)


def _score(row: dict[str, Any]) -> Score | None:
    if row["skipped"] is not None or row["value"] is None:
        return None
    return Score(
        row["title"],
        row["value"],
        (row["low"], row["high"]),
        is_constant=row["name"] == "constant",
        is_ceiling=row["name"] == ORACLE,
        num_train=row["num_train"],
    )


def _all_names(data: TaskData) -> list[str]:
    return [*BASELINES, *([ORACLE] if ORACLE in data.test.columns else [])]


def _cheap_names(data: TaskData) -> list[str]:
    """Those that take seconds: trees where one ensemble is enough, and kernels where there are few numbers to read."""
    numbers = (data.test.sizes.sum() + data.train.sizes.mean() * min(len(data.train), MOST_TRAIN)) * prod(data.element_shape)
    one_ensemble = data.task.objective == "regression" or (data.task.objective == "classification" and data.out_features == 2)
    slow = {"moments_boosted": not one_ensemble, "mean_embedding": numbers > MOST_NUMBERS}
    return [name for name in _all_names(data) if not slow.get(name, False)]
