"""What a figure is worth: splits that cannot leak, cross-validation beside baselines, intervals over sets and groups."""

from orderless.evaluate.baselines import BASELINES, Baseline, make_baseline
from orderless.evaluate.chooser import ElementChooser
from orderless.evaluate.contrasts import ElementContrast, EmbeddingContrast
from orderless.evaluate.cross_validation import cross_validate
from orderless.evaluate.drawing import draw_evaluation
from orderless.evaluate.duplicates import find_duplicates
from orderless.evaluate.evaluation import Evaluation, ModelScores
from orderless.evaluate.external import score_predictions
from orderless.evaluate.intervals import Interval, bootstrap_mean, paired_difference
from orderless.evaluate.reading import iterate_sets, num_sets, take_sets
from orderless.evaluate.scoring import BaselineResult, evaluate_baselines
from orderless.evaluate.splits import Fold, check_no_straddling, folds_by_hand, make_folds
from orderless.evaluate.summaries import CoefficientOfVariation, MeanEmbedding, MomentSummary

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineResult",
    "CoefficientOfVariation",
    "ElementChooser",
    "ElementContrast",
    "EmbeddingContrast",
    "Evaluation",
    "Fold",
    "Interval",
    "MeanEmbedding",
    "ModelScores",
    "MomentSummary",
    "bootstrap_mean",
    "check_no_straddling",
    "cross_validate",
    "draw_evaluation",
    "evaluate_baselines",
    "find_duplicates",
    "folds_by_hand",
    "iterate_sets",
    "make_baseline",
    "make_folds",
    "num_sets",
    "paired_difference",
    "score_predictions",
    "take_sets",
]
