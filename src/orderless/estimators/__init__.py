"""scikit-learn estimators for samples that are sets: sets in, one prediction for each out."""

from orderless.estimators.bundle import load_bundle, save_bundle
from orderless.estimators.classifier import SetClassifier
from orderless.estimators.export import export_onnx, export_program
from orderless.estimators.objective import guess_objective
from orderless.estimators.regressor import SetRegressor
from orderless.estimators.scaling import ElementScaler

__all__ = [
    "ElementScaler",
    "SetClassifier",
    "SetRegressor",
    "export_onnx",
    "export_program",
    "guess_objective",
    "load_bundle",
    "save_bundle",
]
