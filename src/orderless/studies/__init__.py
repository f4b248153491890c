"""A study: from a user's files to a model with an honest estimate of how good it is, and to predictions for other files."""

from orderless.studies.external import ExternalScore, score_files
from orderless.studies.fitting import FitSettings, fit_study
from orderless.studies.predicting import Predictions, predict_files
from orderless.studies.study import Study, make_study

__all__ = [
    "ExternalScore",
    "FitSettings",
    "Predictions",
    "Study",
    "fit_study",
    "make_study",
    "predict_files",
    "score_files",
]
