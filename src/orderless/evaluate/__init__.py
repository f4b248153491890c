"""What a figure is worth: baselines on summaries of sets, and bootstrap intervals over sets."""

from orderless.evaluate.baselines import (
    BASELINES,
    Baseline,
    BaselineResult,
    ElementChooser,
    evaluate_baselines,
    make_baseline,
)
from orderless.evaluate.intervals import Interval, bootstrap_mean, paired_difference
from orderless.evaluate.summaries import (
    CoefficientOfVariation,
    ElementContrast,
    EmbeddingContrast,
    MeanEmbedding,
    MomentSummary,
    iterate_sets,
    num_sets,
)

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
