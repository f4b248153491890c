"""Tasks by name."""

from __future__ import annotations

from typing import Any

from orderless.tasks import anemia, hematocrit, mnist_var, normal_var, point_cloud, set_anomaly, weighted_average
from orderless.tasks.base import Task
from orderless.tasks.source import AUTO
from orderless.tasks.task_data import TaskData
from orderless.words import did_you_mean

TASKS: dict[str, Task] = {
    task.name: task
    for module in (hematocrit, anemia, point_cloud, mnist_var, normal_var, set_anomaly, weighted_average)
    for task in module.TASKS
}


def list_tasks() -> list[str]:
    """Names of all tasks: the paper's six, and their variants."""
    return list(TASKS)


def get_task(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}.{did_you_mean(name, TASKS)} Tasks: {', '.join(TASKS)}.")
    return TASKS[name]


def load_task(name: str, **options: Any) -> TaskData:
    """Prepares and opens a task.

    Args:
        name: The task, or task and source as in `set_anomaly@cifar10`.
        options: As for `Task.load`.
    """
    task, at, source = name.partition("@")
    if at and not source:
        raise ValueError(f"{name!r} names no source after the @.")
    if source and options.get("source", AUTO) not in (AUTO, source):
        raise ValueError(f"the source is given twice: {name!r} and source={options['source']!r}.")
    return get_task(task).load(**(options | ({"source": source} if source else {})))
