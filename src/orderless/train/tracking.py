"""Trackers beside the CSV files: TensorBoard, Weights & Biases, MLflow, through Lightning's loggers."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orderless.train.config import LoggerName

_NEEDS: dict[LoggerName, tuple[str, ...]] = {
    "tensorboard": ("lightning_fabric", "tensorboard"),
    "wandb": ("pytorch_lightning", "wandb"),
    "mlflow": ("pytorch_lightning", "mlflow"),
}


def make_loggers(names: Sequence[LoggerName], folder: Path | None) -> list[Any]:
    """Lightning's loggers of these names, which write into the run's folder unless their own settings say otherwise."""
    if names and folder is None:
        raise ValueError(f"the logger {names[0]} needs a folder to write to: pass folder=.")
    return [_make(name, Path(folder or "")) for name in names]


def _make(name: LoggerName, folder: Path) -> Any:
    for library in _NEEDS[name]:
        if importlib.util.find_spec(library) is None:
            raise ImportError(
                f"the logger {name} needs {' and '.join(_NEEDS[name])}; {library} is not installed: "
                f"pip install 'orderless[train]' {' '.join(lib.replace('_', '-') for lib in _NEEDS[name])}",
                name=library,
            )
    if name == "tensorboard":
        loggers = importlib.import_module("lightning_fabric.loggers")
        return loggers.TensorBoardLogger(folder, name="tensorboard", version="")
    loggers = importlib.import_module("pytorch_lightning.loggers")
    if name == "wandb":
        return loggers.WandbLogger(project="orderless", name=folder.name, id=folder.name, save_dir=folder, resume="allow")
    folder.mkdir(parents=True, exist_ok=True)  # a database does not make its own folder
    where = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve() / 'mlflow.db'}")
    return loggers.MLFlowLogger(experiment_name="orderless", run_name=folder.name, tracking_uri=where)


@contextmanager
def closing(loggers: Sequence[Any]) -> Iterator[None]:
    """Whatever happens inside, what was logged is written in the end, and trackers learn how the run ended."""
    status = "failed"
    try:
        yield
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)


def only_numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """What trackers can draw: the numbers of a row."""
    return {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
