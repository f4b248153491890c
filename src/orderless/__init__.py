"""Deep learning on sets: samples made of many elements in no order."""

from orderless import models, nn, ops, testing
from orderless.models import create_model, list_models, load_model, load_released, save_model
from orderless.sets import SetBatch

__version__ = "0.1.0.dev0"

__all__ = [
    "SetBatch",
    "create_model",
    "list_models",
    "load_model",
    "load_released",
    "models",
    "nn",
    "ops",
    "save_model",
    "testing",
]
