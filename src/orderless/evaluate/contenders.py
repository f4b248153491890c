"""What models and baselines predicted of the same sets, and what that is worth: metrics, intervals, paired gains.

Letters: N sets, R repeats, C classes, K targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.evaluate.evaluation import Evaluation, Failure, MetricScore, ModelScores, make_caution, number_folds
from orderless.evaluate.fold_models import takes_covariates
from orderless.evaluate.material import Material
from orderless.evaluate.metrics import METRICS
from orderless.evaluate.reading import sizes_of
from orderless.evaluate.resampling import Draws, Resampler, interval_of
from orderless.evaluate.splits import Fold, group_numbers


@dataclass
class Contender:
    """A model or baseline, and what is gathered of it fold by fold."""

    name: str
    title: str
    is_baseline: bool
    model: Any = None
    output: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # (R, N, C or K)
    has_probabilities: bool = True
    chosen: list[Mapping[str, Any]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


def summarize(
    contenders: Sequence[Contender],
    whole: Material,
    folds: Sequence[Fold],
    notes: Sequence[str],
    num_bootstrap: int,
    confidence: float,
    seed: int,
) -> Evaluation:
    """Metrics of all of them with intervals, and their gains over the constant and over the best baseline.

    Args:
        contenders: The constant among them.
        whole: All sets, and what is true of them.
        folds: The splits in which they predicted.
        notes: What else a reader should know.
        num_bootstrap: Bootstrap samples of the intervals.
        confidence: Of the intervals.
        seed: Of the bootstrap.
    """
    objective, target = whole.objective, whole.encoded_target
    members = None if whole.groups is None else group_numbers(whole.groups)[0]
    fold_numbers = number_folds(folds, len(target))
    resampler = Resampler(objective, target, fold_numbers, members, num_bootstrap, seed)
    known: dict[str, NDArray[np.bool_]] = {c.name: np.asarray(np.isfinite(c.output).all(2)) for c in contenders}  # (R, N)
    nobody = np.zeros_like(fold_numbers, dtype=bool)
    draws: dict[str, dict[str, Draws]] = {
        c.name: {
            name: resampler.draw(
                metric, c.output, known[c.name] if c.has_probabilities or not metric.needs_probabilities else nobody
            )
            for name, metric in METRICS[objective].items()
        }
        for c in contenders
    }
    by_name = {c.name: c for c in contenders}
    # a baseline that failed in a fold was scored without the sets there, which may be the hard ones
    most = max(int(known[c.name].sum()) for c in contenders if c.is_baseline)
    whole_ones = [c.name for c in contenders if c.is_baseline and known[c.name].sum() == most]
    best = {}
    for name, metric in METRICS[objective].items():
        signed = {baseline: draws[baseline][name].value * (1 if metric.higher_is_better else -1) for baseline in whole_ones}
        best[name] = max(signed, key=lambda b, of=signed: -np.inf if np.isnan(of[b]) else of[b])  # type: ignore[misc]

    def gain(c: Contender, other: str, name: str) -> Any:
        """Paired, on the sets that both predicted."""
        if c.name == other:
            return None
        metric = METRICS[objective][name]
        ours, theirs = draws[c.name][name], draws[other][name]
        both: NDArray[np.bool_] = np.logical_and(known[c.name], known[other])
        if not np.isnan(ours.value) and not (np.array_equal(both, known[c.name]) and np.array_equal(both, known[other])):
            ours, theirs = (resampler.draw(metric, by_name[n].output, both) for n in (c.name, other))
        difference = ours.minus(theirs, 1 if metric.higher_is_better else -1)
        sampled = difference.over_sets if difference.over_groups is None else difference.over_groups
        return interval_of(difference.value, sampled, confidence)

    def score(c: Contender, name: str) -> MetricScore:
        drawn = draws[c.name][name]
        over_sets = interval_of(drawn.value, drawn.over_sets, confidence)
        assert over_sets is not None
        over_groups = interval_of(drawn.value, drawn.over_groups, confidence)
        return MetricScore(drawn.value, over_sets, over_groups, gain(c, "constant", name), gain(c, best[name], name))

    scored = {
        c.name: ModelScores(
            c.name, c.title, c.is_baseline, {name: score(c, name) for name in METRICS[objective]}, c.output,
            c.has_probabilities, tuple(c.chosen), tuple(c.failures), tuple(_notes_on_model(c, whole)), c.seconds,
        )
        for c in contenders
    }  # fmt: skip
    tested = (fold_numbers >= 0).any(0)
    caution = make_caution(objective, target[tested], whole.classes, None if members is None else members[tested])
    return Evaluation(
        objective, scored, target, whole.classes, whole.groups, sizes_of(whole.X), folds, best, caution, tuple(notes),
        confidence, num_bootstrap, seed,
    )  # fmt: skip


def _notes_on_model(contender: Contender, whole: Material) -> list[str]:
    notes = []
    if not contender.is_baseline and whole.covariates is not None and not takes_covariates(contender.model):
        notes.append("its fit takes no covariates, so it saw none.")
    if whole.classes is not None and not contender.has_probabilities:
        notes.append("it gives classes and no probabilities, so only shares of right answers are known.")
    return notes
