"""What runs get their sets from: which source of a task is at hand, whether it has the paper's data, and what it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from orderless.experiments.spec import RunSpec
from orderless.io.cache import default_cache_dir
from orderless.tasks.base import Task
from orderless.tasks.folders import default_data_dir, existing_folder
from orderless.tasks.registry import get_task
from orderless.tasks.source import AUTO, Request, Source

StandIn = Literal["simulated", "substituted"]
Resolve = Callable[[Task, str, Mapping[str, Any]], str]  # task, source or nothing, options -> task and source


def task_of(spec: RunSpec) -> Task:
    """The task of a run, whatever its source."""
    return get_task(spec.task.partition("@")[0])


def stand_in(task: str) -> StandIn | None:
    """What the data of a task and source, as in `hematocrit@simulated`, are where they are not the paper's."""
    kind: Any = None if (source := _source(task)) is None else source.kind
    return kind if kind in get_args(StandIn) else None


def title_of_data(task: str) -> str:
    """What the data of a task and source are, before they are opened: says openly if they are not the published ones."""
    title, source, kind = get_task(task.partition("@")[0]).title, _source(task), stand_in(task)
    return title if source is None else f"{title} ({f'{kind}: ' if kind else ''}{source.title})"


def request_of(task: Task, options: Mapping[str, Any]) -> Request:
    """The sets that a run with these options asks for."""
    sizes = {name: options.get(name) for name in ("num_train", "num_test", "set_size")}
    return task.request(options.get("data_seed", 0), **sizes)


class SourcesAtHand:
    """Which source of a task is at hand. Looked up once for each size of a task.

    Args:
        data_dir: Folder with the publishers' files, as for `load_task`.
        cache_dir: Folder for prepared tasks, as for `load_task`.
    """

    def __init__(self, data_dir: str | Path | None, cache_dir: str | Path | None) -> None:
        self.cache = default_cache_dir() if cache_dir is None else Path(cache_dir).expanduser()
        self.files = default_data_dir(self.cache) if data_dir is None else existing_folder(data_dir)
        self._known: dict[tuple[str, Request], str] = {}

    def resolve(self, task: Task, source: str, options: Mapping[str, Any]) -> str:
        """Task and source, as in `hematocrit@simulated`."""
        if source not in ("", AUTO):
            return f"{task.name}@{task.source(source).name}"
        request = request_of(task, options)
        if (task.name, request) not in self._known:
            self._known[task.name, request] = task.source_at_hand(self.files, self.cache, request).name
        return f"{task.name}@{self._known[task.name, request]}"


def preferred_source(task: Task, source: str, options: Mapping[str, Any]) -> str:
    """The source that is asked for, or else the first: for checks that must not depend on which files are there."""
    return f"{task.name}@{task.sources[0].name if source in ('', AUTO) else task.source(source).name}"


def _source(task: str) -> Source | None:
    name, _, source = task.partition("@")
    return get_task(name).source(source) if source else None
