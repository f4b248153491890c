"""Trackers beside the CSV files: TensorBoard, Weights & Biases, MLflow, through Lightning's loggers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
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
    return loggers.MLFlowLogger(experiment_name="orderless", run_name=folder.name, save_dir=str(folder / "mlflow"))


def only_numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """What trackers can draw: the numbers of a row."""
    return {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
