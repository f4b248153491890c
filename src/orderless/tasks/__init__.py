"""The paper's tasks: their data, targets, losses, metrics, settings and published figures."""

from orderless.tasks.base import Task
from orderless.tasks.dataset import LabelledSets, SetDataset, collate_sets
from orderless.tasks.published import Published
from orderless.tasks.registry import get_task, list_tasks, load_task
from orderless.tasks.source import Source
from orderless.tasks.task_data import TaskData

__all__ = [
    "LabelledSets",
    "Published",
    "SetDataset",
    "Source",
    "Task",
    "TaskData",
    "collate_sets",
    "get_task",
    "list_tasks",
    "load_task",
]
