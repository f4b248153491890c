"""Baselines that any network on sets should beat: simple models on summaries of sets, as scikit-learn estimators.

    constant          the mean of the training targets, the most frequent class, or a blind guess
    rdw               red cell distribution width and a linear model, where elements are red blood cells
    moments           the paper's hand-crafted statistics and a linear model
    moments_boosted   the same statistics and boosted trees
    mean_embedding    a kernel mean embedding and a linear model

Where one element of a set is to be found, the models judge single elements by how they differ from the rest of their set.

Letters: N sets, T elements, K columns or targets, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from orderless.evaluate.chooser import ElementChooser
from orderless.evaluate.contrasts import ElementContrast, EmbeddingContrast
from orderless.evaluate.reading import num_sets, sizes_of
from orderless.evaluate.summaries import CoefficientOfVariation, MeanEmbedding, MomentSummary
from orderless.tasks.objectives import ObjectiveName

ORACLE = "oracle"
ORACLE_TITLE = "Oracle: knows what the sets were drawn from (ceiling)"

_ALPHAS = np.logspace(-6, 3, 19)  # embeddings differ between sets by 0.01 to 0.1, so sums of squares are 1e-4 to 1e-2 N
_EMBEDDING_NOISE = 1e-7  # embeddings are averages of float32 numbers up to 0.2: equal sets differ by about 1e-8


@dataclass(frozen=True)
class Baseline:
    """How a baseline is made.

    Attributes:
        title: For people.
        element_title: For people, where an element is to be found; None if there is no such baseline.
        make: From objective and random state to an estimator that is not fitted yet.
        in_own_units: Takes elements in their own units, not as a network takes them.
    """

    title: str
    element_title: str | None
    make: Callable[[ObjectiveName, int], Any]
    in_own_units: bool = False

    def title_for(self, objective: ObjectiveName) -> str:
        """The title that fits an objective."""
        return self.element_title or self.title if objective == "element_choice" else self.title


def make_baseline(name: str, objective: ObjectiveName, random_state: int = 0) -> Any:
    """A baseline as a scikit-learn estimator, not fitted yet.

    `fit(X, y)` and `predict(X)` take sets in any form that the summaries take, such as a list of (n_i, D) arrays, so it goes into
    `cross_val_score` as it is. Targets are (N,): numbers; classes, for which there is `predict_proba` as well; or, for
    `element_choice`, positions of elements in their sets, and then it is an `ElementChooser`.

    Args:
        name: Key of `BASELINES`.
        objective: What is predicted.
        random_state: Of all that is drawn at random.
    """
    if name not in BASELINES:
        raise ValueError(f"baseline must be one of {', '.join(BASELINES)}; got {name!r}.")
    if objective not in ("regression", "classification", "element_choice"):
        raise ValueError(f"objective must be regression, classification or element_choice; got {objective!r}.")
    baseline = BASELINES[name]
    if objective == "element_choice" and baseline.element_title is None:
        raise ValueError(f"{name} describes whole sets, so it cannot tell which element is meant.")
    return baseline.make(objective, random_state)


class Standardizer(StandardScaler):  # type: ignore[misc]
    """Standardises columns. One that varies by rounding alone is centred only: blown up, it would pass for a difference of sets.

    Args:
        noise: Standard deviations up to this are rounding. What float64 rounds off is always left out.
    """

    scale_: NDArray[np.float64]

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X)
        self.scale_ = np.where(np.sqrt(self.var_) <= self.noise, 1.0, self.scale_)
        return self


class _BoostedClassifier(HistGradientBoostingClassifier):  # type: ignore[misc]
    """Boosted trees that hold out no rows where classes are too rare for it.

    scikit-learn stops early on a held-out share of more than 10,000 rows, which must have some of each class.
    """

    early_stopping: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        asked, counts = self.early_stopping, np.unique(y, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > self.validation_fraction * len(y):
            self.early_stopping = False
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self.early_stopping = asked


class _Nothing(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows that say nothing about sets or elements."""

    def __init__(self, per: Literal["set", "element"] = "set") -> None:
        self.per = per

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        return np.zeros((num_sets(X) if self.per == "set" else int(sizes_of(X).sum()), 1))


def _linear() -> Any:
    return make_pipeline(Standardizer(), LinearRegression())


def _logistic(noise: float = 0.0) -> Any:
    return make_pipeline(Standardizer(noise), LogisticRegression(max_iter=5000))


def _make_constant(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        return ElementChooser(_Nothing("element"), DummyClassifier(strategy="prior"), random_state=random_state)
    return make_pipeline(_Nothing(), DummyRegressor() if objective == "regression" else DummyClassifier(strategy="prior"))


def _make_rdw(objective: ObjectiveName, random_state: int) -> Any:
    return make_pipeline(CoefficientOfVariation(), _linear() if objective == "regression" else _logistic())


def _make_moments(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        return ElementChooser(ElementContrast(random_state=random_state), _logistic(), random_state=random_state)
    return make_pipeline(MomentSummary(random_state=random_state), _linear() if objective == "regression" else _logistic())


def _make_moments_boosted(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "regression":
        return make_pipeline(MomentSummary(random_state=random_state), HistGradientBoostingRegressor(random_state=random_state))
    model = _BoostedClassifier(random_state=random_state)
    if objective == "element_choice":
        return ElementChooser(ElementContrast(random_state=random_state), model, random_state=random_state)
    return make_pipeline(MomentSummary(random_state=random_state), model)


def _make_mean_embedding(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        contrast, classifier = EmbeddingContrast(random_state=random_state), _logistic(_EMBEDDING_NOISE)
        return ElementChooser(contrast, classifier, random_state=random_state)
    model = RidgeCV(_ALPHAS) if objective == "regression" else _logistic(_EMBEDDING_NOISE)
    return make_pipeline(MeanEmbedding(random_state=random_state), model)


BASELINES: dict[str, Baseline] = {
    "constant": Baseline("Constant: looks at no set", "Blind guess: looks at no set", _make_constant),
    "rdw": Baseline("RDW, linear", None, _make_rdw, in_own_units=True),
    "moments": Baseline("Moments and quantiles, linear", "Contrast to the rest of the set, linear", _make_moments),
    "moments_boosted": Baseline(
        "Moments and quantiles, boosted trees", "Contrast to the rest of the set, boosted trees", _make_moments_boosted
    ),
    "mean_embedding": Baseline("Kernel mean embedding, linear", "Contrast in kernel space, linear", _make_mean_embedding),
}
