"""Deep learning on sets: samples made of many elements in no order."""

from typing import TYPE_CHECKING, Any

from orderless import models, nn, ops, testing
from orderless.models import create_model, list_models, load_model, load_released, save_model
from orderless.sets import SetBatch
from orderless.version import __version__ as __version__

if TYPE_CHECKING:
    from orderless import estimators
    from orderless.estimators import SetClassifier, SetRegressor

__all__ = [
    "SetBatch",
    "SetClassifier",
    "SetRegressor",
    "create_model",
    "estimators",
    "list_models",
    "load_model",
    "load_released",
    "models",
    "nn",
    "ops",
    "save_model",
    "testing",
]


def __getattr__(name: str) -> Any:
    """The estimators, when they are first asked for: scikit-learn takes longer to import than all the rest."""
    if name in ("SetClassifier", "SetRegressor", "estimators"):
        import importlib

        module = importlib.import_module("orderless.estimators")
        return module if name == "estimators" else getattr(module, name)
    raise AttributeError(f"module 'orderless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
