"""What cross-validation found: predictions of sets that the model had not seen, metrics with intervals, and words of caution.

Letters: N sets, G groups, R repeats, C classes, K targets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.intervals import Interval
from orderless.evaluate.metrics import METRICS
from orderless.evaluate.splits import Fold, Goal

_WRONG_BY = 0.1  # an accuracy of the constant below the share of the most frequent class: folds differ by chance, too
SHOWN: dict[str, tuple[str, ...]] = {"classification": ("accuracy", "roc_auc", "log_loss"), "regression": ("rmse", "mae", "r2")}
_SMALL, _LEAST = 0.01, 1e-4  # where the largest is below, numbers have more than three decimals; or are written as powers of ten


@dataclass(frozen=True)
class MetricScore:
    """A metric of one model.

    Attributes:
        value: Mean over repeats.
        over_sets: Its bootstrap interval over sets.
        over_groups: Its bootstrap interval over groups; None where there are no groups.
        over_constant: How much better than the constant, paired. Above 0 is better, whatever the metric. Over groups where there
            are groups, else over sets. None for the constant itself.
        over_best: The same against the best baseline; None for that baseline.
    """

    value: float
    over_sets: Interval
    over_groups: Interval | None
    over_constant: Interval | None
    over_best: Interval | None

    @property
    def interval(self) -> Interval:
        """The one to report: over groups where there are groups."""
        return self.over_groups or self.over_sets


@dataclass(frozen=True)
class Failure:
    """A fold in which a model could not be fitted or could not predict: the repeat and fold, from 0, and why."""

    repeat: int
    fold: int
    reason: str


@dataclass(frozen=True)
class ModelScores:
    """How one model did.

    Attributes:
        name: As given, or key of `BASELINES`.
        title: For people.
        is_baseline: Whether it is one of ours, to compare with.
        metrics: By name.
        output: (R, N, C) probabilities of classes or (R, N, K) predictions, each by a model that had not seen the set; NaN where
            there is none.
        has_probabilities: False for a classifier that gives classes only: `output` is then 1 for the class it gave.
        chosen: The parameters that nested cross-validation chose in each fold; empty where there was no grid.
        failures: Folds that failed.
        notes: What a reader should know of this model, one sentence each.
        seconds: Time to fit and predict in all folds.
    """

    name: str
    title: str
    is_baseline: bool
    metrics: Mapping[str, MetricScore]
    output: NDArray[np.float64] = field(repr=False)
    has_probabilities: bool
    chosen: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """Models and baselines on the same folds.

    Attributes:
        objective: What is predicted.
        models: By name: those that were given, then the baselines.
        target: (N,) classes as numbers, or (N, K) numbers.
        classes: (C,) names of the classes; None in regression.
        groups: (N,) who each set belongs to; None where every set stands for itself.
        sizes: (N,) elements of each set.
        folds: The splits, in the order in which they were used.
        best_baseline: For each metric the baseline that did best in it, of those that failed in no fold. It was chosen by the
            same sets, which favours it.
        caution: What so few sets or groups cannot tell; '' where there are enough of them.
        notes: What else a reader should know, one sentence each: fewer folds, possible leaks.
        confidence: Of the intervals.
        num_bootstrap: Bootstrap samples of the intervals.
        seed: Of everything that was drawn.
    """

    objective: Goal
    models: Mapping[str, ModelScores]
    target: NDArray[Any] = field(repr=False)
    classes: NDArray[Any] | None
    groups: NDArray[Any] | None = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)
    folds: Sequence[Fold] = field(repr=False)
    best_baseline: Mapping[str, str]
    caution: str
    notes: tuple[str, ...]
    confidence: float
    num_bootstrap: int
    seed: int

    @property
    def fold_numbers(self) -> NDArray[np.int64]:
        """(R, N) the fold in which each set was tested in each repeat, -1 where it was not."""
        return number_folds(self.folds, len(self.sizes))

    def table(self, metrics: Sequence[str] | None = None) -> str:
        """Models as rows and metrics as columns, each with its interval, then what a reader should know. Plain text.

        Args:
            metrics: Names of metrics; the first is the one in which models are compared with baselines. Default: a few.
        """
        columns = self._columns(metrics)
        widths = {name: max(len(name), *map(len, cells)) for name, cells in columns.items()}
        left = next(iter(columns))
        lines = []
        for cells in [list(columns), *zip(*columns.values(), strict=True)]:
            padded = [
                cell.ljust(widths[name]) if name == left else cell.rjust(widths[name])
                for name, cell in zip(columns, cells, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join([*lines, *self._remarks()])

    def to_markdown(self, metrics: Sequence[str] | None = None) -> str:
        """The same table in Markdown."""
        columns = self._columns(metrics)
        lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in zip(*columns.values(), strict=True)]
        remarks = self._remarks()
        return "\n".join([*lines, *([""] if remarks else []), *(f"- {remark}" for remark in remarks)])

    def as_json(self, *, predictions: bool = False) -> dict[str, Any]:
        """Everything as JSON knows it: NaN is None.

        Args:
            predictions: Also the target, the folds and the out-of-fold output of every model.
        """
        content: dict[str, Any] = {
            "objective": self.objective,
            "num_sets": len(self.sizes),
            "num_groups": None if self.groups is None else len(set(self.groups.tolist())),
            "classes": None if self.classes is None else self.classes.tolist(),
            "num_folds": len({fold for fold in self.fold_numbers[0].tolist() if fold >= 0}),
            "num_repeats": len(self.fold_numbers),
            "confidence": self.confidence,
            "num_bootstrap": self.num_bootstrap,
            "seed": self.seed,
            "best_baseline": dict(self.best_baseline),
            "caution": self.caution,
            "notes": list(self.notes),
            "models": [_model_json(model, predictions=predictions) for model in self.models.values()],
        }
        if predictions:
            content |= {"target": self.target.tolist(), "fold": self.fold_numbers.tolist(), "sizes": self.sizes.tolist()}
            content["groups"] = None if self.groups is None else self.groups.tolist()
        return _clean(content)

    def check_metrics(self, metrics: Sequence[str] | None) -> list[str]:
        """Names of metrics, checked; the default is a few that say most."""
        names = list(SHOWN[self.objective] if metrics is None else metrics)
        known = METRICS[self.objective]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"metrics of {self.objective} are {', '.join(known)}; got {', '.join(map(repr, unknown))}.")
        if not names:
            raise ValueError(f"name at least one metric of {', '.join(known)}.")
        return names

    def _columns(self, metrics: Sequence[str] | None) -> dict[str, list[str]]:
        names = self.check_metrics(metrics)
        known, first = METRICS[self.objective], names[0]
        rows = list(self.models.values())
        columns = {"model": [row.title for row in rows]}
        for name in names:
            columns[known[name].title] = _with_intervals([row.metrics[name].interval for row in rows])
        title = known[first].title
        columns[f"{title}: gain over constant"] = _with_intervals([row.metrics[first].over_constant for row in rows])
        if sum(row.is_baseline for row in rows) > 1:  # else it is the constant
            columns["over best baseline"] = _with_intervals([row.metrics[first].over_best for row in rows])
        columns["seconds"] = [f"{row.seconds:.1f}" for row in rows]
        return columns

    def _remarks(self) -> list[str]:
        over = "sets" if self.groups is None else "groups"
        said = [f"Brackets: {100 * self.confidence:g} % bootstrap intervals over {over}. Gains are paired; above 0 is better."]
        for model in self.models.values():
            if model.failures:
                said.append(describe_failures(model, len(self.folds)))
            said += [f"{model.title}: {note}" for note in model.notes]
        said += self.remarks_on_metrics
        return [*said, *self.notes, *([self.caution] if self.caution else [])]

    @property
    def remarks_on_metrics(self) -> list[str]:
        """What makes figures of these splits look other than they are, in sentences."""
        return [remark for remark in (self._wrong_constant(), self._unknown_auc()) if remark]

    def _wrong_constant(self) -> str:
        """Where single sets or sites are left out, the most frequent class of the others may be rare among them."""
        if self.objective != "classification" or "constant" not in self.models:
            return ""
        assert self.classes is not None
        tested = np.unique(np.concatenate([fold.test for fold in self.folds]))
        counts = np.bincount(self.target[tested].astype(np.int64), minlength=len(self.classes))
        share, found = counts.max() / counts.sum(), self.models["constant"].metrics["accuracy"].value
        if not found < share - _WRONG_BY:
            return ""
        return (
            f"The constant has an accuracy of {found:.2f} only because training and test parts differ in their classes: to say "
            f"{self.classes[counts.argmax()]} of all sets would be right in {share:.2f} of them. Compare with that."
        )

    def _unknown_auc(self) -> str:
        """Where single sets are left out, no fold has two to be ranked."""
        metrics = [model.metrics for model in self.models.values()]
        if self.objective != "classification" or not all(math.isnan(of_model["roc_auc"].value) for of_model in metrics):
            return ""
        return "ROC AUC ranks the sets of a fold, which one model predicted, and no fold here has sets of two classes."


def describe_failures(model: ModelScores, num_folds: int) -> str:
    """In how many folds it failed, why in the first of them, and what its figures are of."""
    count = len(model.failures)
    others = "" if count == num_folds else ", so its figures are of the other sets alone"
    return f"{model.title} failed in {count} of {num_folds} folds{others}: {model.failures[0].reason}"


def number_folds(folds: Sequence[Fold], count: int) -> NDArray[np.int64]:
    """(R, N) the fold in which each set is tested in each repeat, -1 where it is not."""
    numbers = np.full((1 + max(fold.repeat for fold in folds), count), -1, dtype=np.int64)
    for fold in folds:
        numbers[fold.repeat, fold.test] = numbers[fold.repeat].max() + 1
    return numbers


def most_errors(count: int) -> float:
    """The share of errors at which none among so many sets or groups is still 5 % probable."""
    return 1 - 0.05 ** (1 / count)


def make_caution(objective: Goal, target: NDArray[Any], classes: NDArray[Any] | None, members: NDArray[np.int64] | None) -> str:
    """What so few sets or groups cannot tell, in a sentence; '' where there are enough."""
    unit = "sets" if members is None else "groups"
    units = np.arange(len(target)) if members is None else members
    count = len(np.unique(units))
    if objective == "classification":
        assert classes is not None
        held = [len(np.unique(units[target == code])) for code in range(len(classes))]
        rarest = int(np.argmin(held))
        if count < 100 or held[rarest] < 20:
            of_them = f", {held[rarest]} of them of class {classes[rarest]}" if held[rarest] < count else ""
            known = 2 * math.sqrt(0.8 * 0.2 / count)  # two standard errors
            return (
                f"Only {count} {unit}{of_them}: an accuracy near 0.8 is known to about ±{known:.2f}, and not one error among "
                f"them would still allow {100 * most_errors(count):.0f} % among new ones. Intervals of so few are too narrow; "
                "take small differences for none."
            )
        return ""
    if count < 50:
        return (
            f"Only {count} {unit}: one unusual {unit[:-1]} moves every figure. Intervals of so few are too narrow; take small "
            "differences for none."
        )
    return ""


def _with_intervals(column: Sequence[Interval | None]) -> list[str]:
    """Cells of a column, all with as many digits."""
    style = number_format([end for i in column if i is not None for end in (i.value, i.low, i.high)])
    return [_with_interval(interval, style) for interval in column]


def _with_interval(interval: Interval | None, style: str) -> str:
    if interval is None or math.isnan(interval.value):
        return "" if interval is None else "n/a"
    value, low, high = (f"{number:{style}}" for number in (interval.value, interval.low, interval.high))
    return value if math.isnan(interval.low) else f"{value} [{low}, {high}]"


def number_format(numbers: Sequence[float]) -> str:
    """How numbers that stand together are written: all with as many decimals, which are those that most of them need.

    One model that is far off has no say in it, and numbers in a small unit do not all become 0.000.
    """
    sizes = sorted(abs(number) for number in numbers if math.isfinite(number) and number != 0)
    if not sizes:
        return ",.3f"
    middle, largest = sizes[len(sizes) // 2], sizes[-1]
    if largest < _LEAST:
        return ".2e"
    if largest < _SMALL:
        return f".{2 - math.floor(math.log10(largest))}f"
    return f",.{3 if middle < 10 else 2 if middle < 1000 else 0}f"


def _model_json(model: ModelScores, *, predictions: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": model.name,
        "title": model.title,
        "is_baseline": model.is_baseline,
        "metrics": {
            name: {
                "value": score.value,
                **{
                    part: None if interval is None else {"low": interval.low, "high": interval.high, "value": interval.value}
                    for part, interval in (
                        ("over_sets", score.over_sets),
                        ("over_groups", score.over_groups),
                        ("over_constant", score.over_constant),
                        ("over_best", score.over_best),
                    )
                },
            }
            for name, score in model.metrics.items()
        },
        "has_probabilities": model.has_probabilities,
        "chosen": [dict(chosen) for chosen in model.chosen],
        "failures": [{"repeat": f.repeat, "fold": f.fold, "reason": f.reason} for f in model.failures],
        "notes": list(model.notes),
        "seconds": model.seconds,
    }
    if predictions:
        content["output"] = model.output.tolist()
    return content


def _clean(value: Any) -> Any:
    """What JSON can hold: NaN and infinity are None, numpy's numbers are Python's, and what it does not know becomes text."""
    if isinstance(value, dict):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, np.generic):
        return _clean(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
