"""Scoring baselines: each is fitted to a task's training sets and measured on its test sets, beside a constant.

A baseline that does not fit a task, or that these training sets cannot teach, is skipped with a reason; the others run.

Letters: N sets, T elements, K targets, C classes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from orderless.evaluate.baselines import BASELINES, ORACLE, ORACLE_TITLE, make_baseline
from orderless.evaluate.chooser import LEAST_PROBABILITY, fit_elements, log_odds
from orderless.evaluate.intervals import bootstrap_mean, paired_difference
from orderless.evaluate.summaries import CoefficientError
from orderless.io.store import iterate_blocks
from orderless.sets import SetBatch
from orderless.tasks.dataset import LabelledSets, SetDataset
from orderless.tasks.objectives import HIGHER_IS_BETTER, MetricName
from orderless.tasks.task_data import TaskData

BaselineProgress = Callable[[str, int, int], None]


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
        scores: (N,) the metric of each test set, in the order of the test sets; None where it was skipped. For
            `paired_difference` with the same numbers of a network. Left out when results are compared, shown or saved.
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
    scores: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON knows them: NaN is None, and scores are left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "scores"}
        return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}


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
        names: Keys of `BASELINES`, or `oracle`; each counts once. Default: all, and the oracle where there is one.
        seed: Of everything that is drawn at random.
        max_train: Train on that many training sets, drawn at random, if there are more.
        num_bootstrap: Bootstrap samples of the intervals.
        groups: Column that says which test sets belong together, such as samples of one patient; the bootstrap then draws
            groups. Default: every set stands for itself.
        progress: Called with the title, number (from 1) and count of baselines as each begins.

    Returns:
        A row for each name, in order; where a baseline does not apply or cannot be fitted, one that says why.
    """
    task, metric = data.task, data.task.metric
    if names is None:
        names = [*BASELINES, *([ORACLE] if ORACLE in data.test.columns else [])]
    names = list(dict.fromkeys(names))
    unknown = [name for name in names if name not in BASELINES and name != ORACLE]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise ValueError(f"baselines are {', '.join(BASELINES)} and {ORACLE}; got {got}.")
    if max_train is not None and max_train < 1:
        raise ValueError(f"max_train must be 1 or more, got {max_train}.")
    if groups is not None and groups not in data.test.columns:
        raise ValueError(f"groups must be a column of the test sets, {', '.join(data.test.columns)}; got {groups!r}.")
    for split, sets in (("training", data.train), ("test", data.test)):
        if len(sets) == 0:
            raise ValueError(f"baselines need at least one {split} set, got none.")
    run = _Run(data, seed, max_train, names)
    resampling: dict[str, Any] = {
        "groups": None if groups is None else data.test.columns[groups],
        "num_samples": num_bootstrap,
        "seed": seed,
    }
    results = []
    for number, name in enumerate(names, start=1):
        title = ORACLE_TITLE if name == ORACLE else BASELINES[name].title_for(task.objective)
        if progress is not None:
            progress(title, number, len(names))
        try:
            scores, seconds = run.scores(name)
            constant, _ = run.scores("constant")  # whatever keeps it from running keeps the others, too
        except _DoesNotApply as reason:
            nan = math.nan
            results.append(
                BaselineResult(name, title, metric, nan, nan, nan, nan, nan, nan, 0, len(data.test), 0.0, skipped=str(reason))
            )
            continue
        level = bootstrap_mean(scores, **resampling)
        better, worse = (scores, constant) if metric in HIGHER_IS_BETTER else (constant, scores)
        gain = paired_difference(better, worse, **resampling)
        num_train = 0 if name == ORACLE else run.num_train
        results.append(
            BaselineResult(
                name, title, metric, level.value, level.low, level.high, gain.value, gain.low, gain.high,
                num_train, len(data.test), seconds, scores=scores,
            )
        )  # fmt: skip
    return results


class _DoesNotApply(Exception):  # noqa: N818
    """Why a baseline cannot be run on a task."""


class _Run:
    """Scores of baselines on one task. Rows that several baselines need are made once."""

    def __init__(self, data: TaskData, seed: int, max_train: int | None, names: Sequence[str]) -> None:
        self.data, self.task, self.seed = data, data.task, seed
        # an empty set has no element to choose, so there is nothing to learn from it
        usable = data.train.sizes > 0 if self.task.objective == "element_choice" else np.ones(len(data.train), dtype=bool)
        chosen = np.flatnonzero(usable)
        if max_train is not None and max_train < len(chosen):
            chosen = np.sort(chosen[np.random.default_rng(seed).permutation(len(chosen))[:max_train]])
        self.train_sets = _Part(data.train, chosen)
        self.num_train = len(chosen)
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
            self._scores[name] = (self.task.per_set(output, target)[self.task.metric].double().numpy(), seconds)
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
        return self._why_not_fitted(name)

    def _why_not_fitted(self, name: str) -> str | None:
        """What keeps these training sets from teaching, or these test sets from being judged."""
        objective, sizes, target = self.task.objective, self.train_sets.sizes, self.train_sets.target
        if objective == "element_choice" and (empty := int((self.data.test.sizes == 0).sum())):
            return f"{empty} test {'set is' if empty == 1 else 'sets are'} empty and so without an element to choose"
        if name == "constant" and (objective != "element_choice" or len(sizes)):
            return None
        if not sizes.any():
            return "no training set has an element"
        if objective == "element_choice" and (sizes == 1).all():
            return "every training set has one element, so there is none to choose between"
        if objective == "classification" and (target == target[0]).all():
            return "all training sets are of one class, so there is nothing to tell apart"
        if objective == "regression" and len(target) == 1:
            return "one training set does not show how targets differ"
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
            raise _DoesNotApply(
                "the volumes of red cells are not clearly positive, as they would be in their own units"
            ) from error
        target = self.train_sets.target
        if self.task.objective == "regression":
            y = target.astype(np.float64).reshape(len(target), -1)  # (N, K)
            return torch.from_numpy(np.stack([clone(model).fit(train, column).predict(test) for column in y.T], 1))
        if self.task.objective == "classification":
            return _logits(model.fit(train, target), test, self.data.out_features)
        odds = log_odds(fit_elements(model, train, self.train_sets.sizes, target), test)
        return SetBatch(torch.from_numpy(odds)[:, None], np.concatenate([[0], np.cumsum(self.data.test.sizes)]))

    def _oracle_output(self) -> Tensor:
        expected = torch.from_numpy(np.array(self.data.test.columns[ORACLE], dtype=np.float64))
        if self.task.objective == "regression":
            return expected[:, None]
        return torch.stack([1 - expected, expected], 1).clamp(min=LEAST_PROBABILITY).log()

    def _rows_of(self, name: str, summary: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Rows of training and test sets, and the seconds that they took. Kept only while a later baseline needs them."""
        key = self._key(name)
        if key not in self._rows:
            start = time.perf_counter()
            train, test = self.train_sets, self.data.test
            if BASELINES[name].in_own_units:
                train, test = train.raw, test.raw
            self._rows[key] = (summary.fit_transform(train), summary.transform(test), time.perf_counter() - start)
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


class _Part:
    """Some sets of a dataset, read batch by batch."""

    def __init__(self, dataset: SetDataset, chosen: NDArray[np.int64]) -> None:
        self.dataset, self.chosen = dataset, chosen
        self.sizes = dataset.sizes[chosen]  # (N,)
        self.target = dataset.target.numpy()[chosen]  # (N, ...)

    @property
    def raw(self) -> _Part:
        """The same sets in their own units."""
        return _Part(self.dataset.raw, self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, batch_size: int) -> Iterator[LabelledSets]:
        if len(self) == len(self.dataset):
            return self.dataset.batches(batch_size)
        return (self.dataset[self.chosen[block.start : block.stop]] for block in iterate_blocks(len(self), batch_size))


def _logits(model: Any, rows: NDArray[np.float64], num_classes: int) -> Tensor:
    """(N, C) logarithms of probabilities; a class that no training set had gets next to none."""
    probabilities = np.zeros((len(rows), num_classes))
    probabilities[:, model.classes_] = model.predict_proba(rows)
    return torch.from_numpy(np.log(np.maximum(probabilities, LEAST_PROBABILITY)))
