"""One picture of a task: a few of its sets, and how elements, targets and sizes are distributed."""

from orderless.tasks.picture.sheet import draw_task

__all__ = ["draw_task"]
