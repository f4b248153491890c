"""Finding the element of a set that is meant, by a classifier of single elements.

Letters: N sets, T elements, K columns.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from orderless.evaluate.reading import sizes_of

LEAST_PROBABILITY = 1e-12  # keeps logarithms finite


class ElementChooser(BaseEstimator):  # type: ignore[misc]
    """Finds the element that is meant, by a classifier that judges each element by how it differs from the rest of its set.

    The classifier learns whether an element is the one that is meant, from the rows of all elements of the training sets. In a
    new set the element with the highest log-odds is chosen. If elements were judged independently, a softmax of their
    log-odds over the set would be the probability that each is the one, given that exactly one is.

    Args:
        contrast: Transformer from sets to one row per element, such as `ElementContrast`.
        classifier: Of two classes, with `predict_proba` or `decision_function`.
        random_state: Decides between elements with the same log-odds.
    """

    def __init__(self, contrast: Any, classifier: Any, *, random_state: int = 0) -> None:
        self.contrast = contrast
        self.classifier = classifier
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from sets and the positions (N,) of the elements that are meant."""
        self.contrast_ = clone(self.contrast)
        rows = self.contrast_.fit_transform(X)
        self.classifier_ = fit_elements(clone(self.classifier), rows, sizes_of(X), np.asarray(y))
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """(T,) log-odds of each element, in the order of elements."""
        return log_odds(self.classifier_, self.contrast_.transform(X))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """(N,) position of the chosen element in each set. Where several are level, chance decides."""
        sizes = sizes_of(X)
        check_choices(sizes)
        odds, set_ids = self.decision_function(X), np.repeat(np.arange(len(sizes)), sizes)
        lots = check_random_state(self.random_state).uniform(size=len(odds))
        order = np.lexsort((lots, odds, set_ids))  # by set, then by odds: the last of each set wins
        return order[sizes.cumsum() - 1] - (sizes.cumsum() - sizes)

    def score(self, X: Any, y: Any) -> float:
        """Share of sets in which the right element is chosen."""
        return float((self.predict(X) == np.asarray(y)).mean())


def fit_elements(model: Any, rows: NDArray[np.float64], sizes: NDArray[np.int64], y: NDArray[Any]) -> Any:
    """Fits a classifier to the rows (T, K) of elements; the element at position `y[n]` of set `n` is the one that is meant."""
    check_choices(sizes)
    if y.shape != sizes.shape or not ((y >= 0) & (y < sizes)).all():
        raise ValueError(f"y must give a position within each of the {len(sizes)} sets, got shape {y.shape}, values {y[:5]}...")
    meant = np.zeros(len(rows), dtype=np.int64)
    meant[sizes.cumsum() - sizes + y] = 1
    return model.fit(rows, meant)


def log_odds(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,) log-odds that each element is the one that is meant, to nine decimals.

    A product of matrices may round equal rows differently, depending on their place; without that, equal elements are level.
    """
    if hasattr(model, "decision_function"):
        odds: NDArray[np.float64] = np.asarray(model.decision_function(rows), dtype=np.float64)
    else:
        probability = model.predict_proba(rows)[:, -1].clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        odds = np.log(probability / (1 - probability))
    return odds.round(9)


def check_choices(sizes: NDArray[np.int64]) -> None:
    """Fails where a set is empty."""
    if not (sizes > 0).all():
        raise ValueError(f"an empty set has no element to choose, got {int((sizes == 0).sum())} empty sets. Leave them out.")
