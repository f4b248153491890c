"""How far a run is, on a terminal: loss, sets and elements per second, time left."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class ProgressBar:
    """A bar for `train_model(progress=...)`; draws nothing where there is no terminal.

    Args:
        title: What is trained.
        console: Where to draw. Default: the standard error, which leaves the standard output to results.
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}  step {task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]:.4g}  {task.fields[sets]:,.0f} sets/s  {task.fields[elements]:,.0f} elements/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self.bar.add_task(title, total=None, epoch=0, loss=float("nan"), sets=0.0, elements=0.0)

    def __call__(
        self, *, step: int, num_steps: int, epoch: int, loss: float, sets_per_second: float, elements_per_second: float
    ) -> None:
        """As `train.loop.Progress`."""
        self.bar.update(
            self._task,
            completed=step,
            total=num_steps,
            epoch=epoch,
            loss=loss,
            sets=sets_per_second,
            elements=elements_per_second,
        )

    def __enter__(self) -> ProgressBar:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()
