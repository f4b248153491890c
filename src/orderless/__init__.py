"""Deep learning on sets: samples made of many elements in no order."""

from orderless import models, nn, ops, testing
from orderless.models import create_model, list_models, load_model, load_released, save_model
from orderless.sets import SetBatch
from orderless.version import __version__ as __version__

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
