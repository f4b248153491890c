"""What a figure is worth: baselines on summaries of sets, and bootstrap intervals over sets."""

from orderless.evaluate.baselines import BASELINES, Baseline, make_baseline
from orderless.evaluate.chooser import ElementChooser
from orderless.evaluate.contrasts import ElementContrast, EmbeddingContrast
from orderless.evaluate.intervals import Interval, bootstrap_mean, paired_difference
from orderless.evaluate.reading import iterate_sets, num_sets
from orderless.evaluate.scoring import BaselineResult, evaluate_baselines
from orderless.evaluate.summaries import CoefficientOfVariation, MeanEmbedding, MomentSummary

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineResult",
    "CoefficientOfVariation",
    "ElementChooser",
    "ElementContrast",
    "EmbeddingContrast",
    "Interval",
    "MeanEmbedding",
    "MomentSummary",
    "bootstrap_mean",
    "evaluate_baselines",
    "iterate_sets",
    "make_baseline",
    "num_sets",
    "paired_difference",
]
