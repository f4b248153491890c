"""Networks on sets, by name."""

from orderless.models.base import ModelConfig, SetModel
from orderless.models.export import export_model
from orderless.models.registry import create_model, legal_table, list_models
from orderless.models.released import load_released, released_names
from orderless.models.serialize import load_model, save_model

__all__ = [
    "ModelConfig",
    "SetModel",
    "create_model",
    "export_model",
    "legal_table",
    "list_models",
    "load_model",
    "load_released",
    "released_names",
    "save_model",
]
