"""Training of any module on any task, on Lightning Fabric."""

from orderless.train.checkpoint import CheckpointError
from orderless.train.config import Execution, TrainConfig
from orderless.train.device import resolve_device
from orderless.train.divergence import TrainingDiverged
from orderless.train.graphs import GraphedModel
from orderless.train.history import History, Moment, Observer
from orderless.train.loop import Trained, train_model

__all__ = [
    "CheckpointError",
    "Execution",
    "GraphedModel",
    "History",
    "Moment",
    "Observer",
    "TrainConfig",
    "Trained",
    "TrainingDiverged",
    "resolve_device",
    "train_model",
]
