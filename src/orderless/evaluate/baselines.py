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

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from torch import Tensor

from orderless.evaluate.intervals import bootstrap_mean, paired_difference
from orderless.evaluate.summaries import (
    CoefficientError,
    CoefficientOfVariation,
    ElementContrast,
    EmbeddingContrast,
    MeanEmbedding,
    MomentSummary,
    iterate_sets,
    num_sets,
)
from orderless.io.store import iterate_blocks
from orderless.sets import SetBatch
from orderless.tasks.base import TaskData
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.objectives import MetricName, ObjectiveName

BaselineProgress = Callable[[str, int, int], None]
ORACLE = "oracle"
ORACLE_TITLE = "Oracle: knows what the sets were drawn from (ceiling)"

_ALPHAS = np.logspace(-6, 3, 19)  # embeddings differ between sets by 0.01 to 0.1, so sums of squares are 1e-4 to 1e-2 N
_LEAST_PROBABILITY = 1e-12  # keeps logarithms finite
_HIGHER_IS_BETTER: dict[MetricName, bool] = {"mse": False, "cross_entropy": False, "accuracy": True}


@dataclass(frozen=True)
class BaselineResult:
    """How a baseline did on the test sets. Numbers are NaN where it was skipped.

    Attributes:
        name: Key of `BASELINES`, or `oracle`.
        title: For people.
        metric: What is measured: that of the task.
        value: Mean over test sets.
        low: Lower end of the 95 % bootstrap interval over test sets.
        high: Upper end.
        gain: How much better than the constant, in units of the metric. Above 0 is better, whatever the metric.
        gain_low: Lower end of the paired 95 % bootstrap interval of the gain.
        gain_high: Upper end.
        num_train: Training sets that were used.
        num_test: Test sets.
        seconds: Time to summarise, fit and predict. Summaries that baselines share are counted for each. Left out when results
            are compared.
        skipped: Why it was not run; None if it was.
    """

    name: str
    title: str
    metric: MetricName
    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    num_train: int
    num_test: int
    seconds: float = field(compare=False)
    skipped: str | None = None


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


def evaluate_baselines(
    data: TaskData,
    names: Sequence[str] | None = None,
    *,
    seed: int = 0,
    max_train: int | None = None,
    num_bootstrap: int = 2000,
    groups: str | None = None,
    progress: BaselineProgress | None = None,
) -> list[BaselineResult]:
    """Fits baselines to a task's training sets and measures them on its test sets.

    Where the data are simulated and say what target is to be expected of each set (column `oracle`), a last row tells what a
    predictor would score that knew it: the ceiling.

    Args:
        data: A prepared task.
        names: Keys of `BASELINES`, or `oracle`. Default: all, and the oracle where there is one.
        seed: Of everything that is drawn at random.
        max_train: Train on that many training sets, drawn at random, if there are more.
        num_bootstrap: Bootstrap samples of the intervals.
        groups: Column that says which test sets belong together, such as samples of one patient; the bootstrap then draws
            groups. Default: every set stands for itself.
        progress: Called with the title, number and count of baselines as each begins.

    Returns:
        A row for each name, in order; where a baseline does not apply, one that says why.
    """
    task, metric = data.task, data.task.metric
    if names is None:
        names = [*BASELINES, *([ORACLE] if ORACLE in data.test.columns else [])]
    for name in names:
        if name not in BASELINES and name != ORACLE:
            raise ValueError(f"baselines are {', '.join(BASELINES)} and {ORACLE}; got {name!r}.")
    if max_train is not None and max_train < 1:
        raise ValueError(f"max_train must be 1 or more, got {max_train}.")
    if groups is not None and groups not in data.test.columns:
        raise ValueError(f"groups must be a column of the test sets, {', '.join(data.test.columns)}; got {groups!r}.")
    run = _Run(data, seed, max_train, names)
    resampling: dict[str, Any] = {
        "groups": None if groups is None else data.test.columns[groups],
        "num_samples": num_bootstrap,
        "seed": seed,
    }
    constant, _ = run.scores("constant")
    results = []
    for number, name in enumerate(names):
        title = ORACLE_TITLE if name == ORACLE else BASELINES[name].title_for(task.objective)
        if progress is not None:
            progress(title, number, len(names))
        try:
            scores, seconds = run.scores(name)
        except _DoesNotApply as reason:
            nan = math.nan
            results.append(
                BaselineResult(name, title, metric, nan, nan, nan, nan, nan, nan, 0, len(data.test), 0.0, skipped=str(reason))
            )
            continue
        level = bootstrap_mean(scores, **resampling)
        better, worse = (scores, constant) if _HIGHER_IS_BETTER[metric] else (constant, scores)
        gain = paired_difference(better, worse, **resampling)
        num_train = 0 if name == ORACLE else run.num_train
        results.append(
            BaselineResult(
                name, title, metric, level.value, level.low, level.high, gain.value, gain.low, gain.high,
                num_train, len(data.test), seconds,
            )
        )  # fmt: skip
    return results


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
        self.classifier_ = _fit_elements(clone(self.classifier), rows, _sizes_of(X), np.asarray(y))
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """(T,) log-odds of each element, in the order of elements."""
        return _log_odds(self.classifier_, self.contrast_.transform(X))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """(N,) position of the chosen element in each set. Where several are level, chance decides."""
        sizes = _sizes_of(X)
        _check_choices(sizes)
        odds, set_ids = self.decision_function(X), np.repeat(np.arange(len(sizes)), sizes)
        lots = check_random_state(self.random_state).uniform(size=len(odds))
        order = np.lexsort((lots, odds, set_ids))  # by set, then by odds: the last of each set wins
        return order[sizes.cumsum() - 1] - (sizes.cumsum() - sizes)

    def score(self, X: Any, y: Any) -> float:
        """Share of sets in which the right element is chosen."""
        return float((self.predict(X) == np.asarray(y)).mean())


# ------------------------------------------------------------------------------------------------- how they are made


class _Nothing(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows that say nothing about sets or elements."""

    def __init__(self, per: Literal["set", "element"] = "set") -> None:
        self.per = per

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        return np.zeros((num_sets(X) if self.per == "set" else int(_sizes_of(X).sum()), 1))


def _logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))


def _make_constant(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        return ElementChooser(_Nothing("element"), DummyClassifier(strategy="prior"), random_state=random_state)
    return make_pipeline(_Nothing(), DummyRegressor() if objective == "regression" else DummyClassifier(strategy="prior"))


def _make_rdw(objective: ObjectiveName, random_state: int) -> Any:
    model = LinearRegression() if objective == "regression" else _logistic()
    return make_pipeline(CoefficientOfVariation(), model)


def _make_moments(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        return ElementChooser(ElementContrast(random_state=random_state), _logistic(), random_state=random_state)
    model = make_pipeline(StandardScaler(), LinearRegression()) if objective == "regression" else _logistic()
    return make_pipeline(MomentSummary(random_state=random_state), model)


def _make_moments_boosted(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "regression":
        return make_pipeline(MomentSummary(random_state=random_state), HistGradientBoostingRegressor(random_state=random_state))
    model = HistGradientBoostingClassifier(random_state=random_state)
    if objective == "element_choice":
        return ElementChooser(ElementContrast(random_state=random_state), model, random_state=random_state)
    return make_pipeline(MomentSummary(random_state=random_state), model)


def _make_mean_embedding(objective: ObjectiveName, random_state: int) -> Any:
    if objective == "element_choice":
        return ElementChooser(EmbeddingContrast(random_state=random_state), _logistic(), random_state=random_state)
    model = RidgeCV(_ALPHAS) if objective == "regression" else _logistic()
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


# ------------------------------------------------------------------------------------------------------ how they are run


class _DoesNotApply(Exception):  # noqa: N818
    """Why a baseline cannot be run on a task."""


class _Run:
    """Scores of baselines on one task. Rows that several baselines need are made once."""

    def __init__(self, data: TaskData, seed: int, max_train: int | None, names: Sequence[str]) -> None:
        self.data, self.task, self.seed = data, data.task, seed
        self.chosen: NDArray[np.int64] | None = None
        if max_train is not None and max_train < len(data.train):
            self.chosen = np.sort(np.random.default_rng(seed).permutation(len(data.train))[:max_train])
        self.num_train = len(data.train) if self.chosen is None else len(self.chosen)
        self._wanted = [self._key(name) for name in names]
        self._rows: dict[str, tuple[NDArray[np.float64], NDArray[np.float64], float]] = {}
        self._scores: dict[str, tuple[NDArray[np.float64], float]] = {}

    def scores(self, name: str) -> tuple[NDArray[np.float64], float]:
        """(N,) the task's metric of each test set, and the seconds that it takes to get there."""
        if name not in self._scores:
            if reason := self._why_not(name):
                raise _DoesNotApply(reason)
            key = self._key(name)
            start = time.perf_counter() - (self._rows[key][2] if key in self._rows else 0)  # as if rows were its own
            output = self._oracle_output() if name == ORACLE else self._output(name)
            seconds = time.perf_counter() - start
            target = self.data.test.target
            target = target.double() if target.is_floating_point() else target
            self._scores[name] = (self.task.loss.per_set(output, target)[self.task.metric].double().numpy(), seconds)
        return self._scores[name]

    def _why_not(self, name: str) -> str | None:
        objective, units = self.task.objective, self.task.units
        if name == ORACLE:
            if ORACLE not in self.data.test.columns:
                return "only simulated data know what target is to be expected"
            if objective == "element_choice" or (objective == "classification" and self.data.out_features != 2):
                return "the oracle is the probability of the second of two classes, and this task has no such classes"
            return None
        if objective == "element_choice" and BASELINES[name].element_title is None:
            return "it describes whole sets, so it cannot tell which element is meant"
        if name == "rdw" and not (units and units[0].lower().startswith("volume")):
            return "the data have no volume of red cells in its own units"
        return None

    def _output(self, name: str) -> Tensor | SetBatch:
        """What a network would give: predictions (N, K), logits (N, C), or one logit per element."""
        estimator = make_baseline(name, self.task.objective, self.seed)
        if self.task.objective == "element_choice":
            summary, model = estimator.contrast, estimator.classifier
        else:
            summary, model = estimator[0], estimator[1:]
        try:
            train, test, _ = self._rows_of(name, summary)
        except CoefficientError as error:
            raise _DoesNotApply(str(error)) from error
        target = self.data.train.target.numpy()
        target = target if self.chosen is None else target[self.chosen]
        if self.task.objective == "regression":
            y = target.astype(np.float64).reshape(len(target), -1)  # (N, K)
            return torch.from_numpy(np.stack([clone(model).fit(train, column).predict(test) for column in y.T], 1))
        if self.task.objective == "classification":
            return _logits(model.fit(train, target), test, self.data.out_features)
        sizes = self.data.train.sizes if self.chosen is None else self.data.train.sizes[self.chosen]
        odds = _log_odds(_fit_elements(model, train, sizes, target), test)
        _check_choices(self.data.test.sizes)
        return SetBatch(torch.from_numpy(odds)[:, None], np.concatenate([[0], np.cumsum(self.data.test.sizes)]))

    def _oracle_output(self) -> Tensor:
        expected = torch.from_numpy(np.array(self.data.test.columns[ORACLE], dtype=np.float64))
        if self.task.objective == "regression":
            return expected[:, None]
        return torch.stack([1 - expected, expected], 1).clamp(min=_LEAST_PROBABILITY).log()

    def _rows_of(self, name: str, summary: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Rows of training and test sets, and the seconds that they took. Kept only while a later baseline needs them."""
        key = self._key(name)
        if key not in self._rows:
            start = time.perf_counter()
            train, test = self.data.train, self.data.test
            if BASELINES[name].in_own_units:
                train, test = train.raw, test.raw
            train_rows = summary.fit_transform(train if self.chosen is None else _Chosen(train, self.chosen))
            self._rows[key] = (train_rows, summary.transform(test), time.perf_counter() - start)
        rows = self._rows[key]
        if key in self._wanted:
            self._wanted.remove(key)
        if key not in self._wanted:
            del self._rows[key]
        return rows

    def _key(self, name: str) -> str:
        """Equal for baselines with equal rows."""
        if name == ORACLE or (self.task.objective == "element_choice" and BASELINES[name].element_title is None):
            return name
        estimator = make_baseline(name, self.task.objective, self.seed)
        summary = estimator.contrast if self.task.objective == "element_choice" else estimator[0]
        return f"{type(summary).__name__}{sorted(summary.get_params().items())}{BASELINES[name].in_own_units}"


class _Chosen:
    """Some sets of a dataset, read batch by batch."""

    def __init__(self, dataset: SetDataset, chosen: NDArray[np.int64]) -> None:
        self.dataset, self.chosen = dataset, chosen
        self.sizes = dataset.sizes[chosen]

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, batch_size: int) -> Iterator[LabelledSets]:
        return (self.dataset[self.chosen[block.start : block.stop]] for block in iterate_blocks(len(self), batch_size))


def _logits(model: Any, rows: NDArray[np.float64], num_classes: int) -> Tensor:
    """(N, C) logarithms of probabilities; a class that no training set had gets next to none."""
    probabilities = np.zeros((len(rows), num_classes))
    probabilities[:, model.classes_] = model.predict_proba(rows)
    return torch.from_numpy(np.log(np.maximum(probabilities, _LEAST_PROBABILITY)))


def _fit_elements(model: Any, rows: NDArray[np.float64], sizes: NDArray[np.int64], y: NDArray[Any]) -> Any:
    """Fits a classifier to the rows (T, K) of elements; the element at position `y[n]` of set `n` is the one that is meant."""
    _check_choices(sizes)
    if y.shape != sizes.shape or not ((y >= 0) & (y < sizes)).all():
        raise ValueError(f"y must give a position within each of the {len(sizes)} sets, got shape {y.shape}, values {y[:5]}...")
    meant = np.zeros(len(rows), dtype=np.int64)
    meant[sizes.cumsum() - sizes + y] = 1
    return model.fit(rows, meant)


def _log_odds(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,) log-odds that each element is the one that is meant."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(rows), dtype=np.float64)
    probability = model.predict_proba(rows)[:, -1].clip(_LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.log(probability / (1 - probability))


def _check_choices(sizes: NDArray[np.int64]) -> None:
    if not (sizes > 0).all():
        raise ValueError(f"an empty set has no element to choose, got {int((sizes == 0).sum())} empty sets. Leave them out.")


def _sizes_of(X: Any) -> NDArray[np.int64]:
    """(N,) how many elements each set has. A dataset knows, and need not be read."""
    if hasattr(X, "sizes"):
        return np.asarray(X.sizes)
    sizes = [batch.sizes.cpu().numpy() for batch in iterate_sets(X, 64)]
    return np.concatenate(sizes) if sizes else np.zeros(0, dtype=np.int64)
