"""Sets of skewed positive numbers, and every summary and contrast of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from orderless import SetBatch
from orderless.evaluate import CoefficientOfVariation, ElementContrast, EmbeddingContrast, MeanEmbedding, MomentSummary

SUMMARIES = {
    "moments": lambda **o: MomentSummary(**o),
    "projected moments": lambda **o: MomentSummary(max_features=2, **o),
    "coefficient of variation": lambda **o: CoefficientOfVariation(1, **o),
    "embedding": lambda **o: MeanEmbedding(16, **o),
    "projected embedding": lambda **o: MeanEmbedding(16, max_features=2, **o),
}
CONTRASTS = {
    "contrast": lambda **o: ElementContrast(**o),
    "projected contrast": lambda **o: ElementContrast(2, **o),
    "embedding contrast": lambda **o: EmbeddingContrast(8, **o),
}
every_summary = pytest.mark.parametrize("make", SUMMARIES.values(), ids=SUMMARIES.keys())
every_contrast = pytest.mark.parametrize("make", CONTRASTS.values(), ids=CONTRASTS.keys())
every_transformer = pytest.mark.parametrize("make", [*SUMMARIES.values(), *CONTRASTS.values()], ids=[*SUMMARIES, *CONTRASTS])
RAGGED = [7, 1, 300, 2, 31, 5, 64, 3, 3, 1000, 12]


class Dataset:
    """As `SetDataset`: sets that are only ever given out in batches."""

    def __init__(self, sets):
        self.sets, self.largest = sets, 0

    def __len__(self):
        return len(self.sets)

    def batches(self, batch_size):
        self.largest = max(self.largest, batch_size)
        for start in range(0, len(self.sets), batch_size):
            yield SimpleNamespace(sets=SetBatch.from_list(self.sets[start : start + batch_size]))


def draw(sizes, dim=4, *, seed=0, dtype=np.float64):
    """Sets of skewed positive numbers."""
    rng = np.random.default_rng(seed)
    return [(rng.gamma(2.0, size=(n, dim)) * (1 + np.arange(dim)) + rng.uniform(0, 5)).astype(dtype) for n in sizes]


def assert_rows_agree(found, wanted, tolerance=1e-10):
    """Float64 sums in another order; a thousand terms of skewness lose a few digits of 16."""
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def tolerance_of(transformer):
    """Random features are float32: 6e-8 of angles up to about 30, averaged."""
    return 1e-5 if isinstance(transformer, MeanEmbedding | EmbeddingContrast) else 1e-10
