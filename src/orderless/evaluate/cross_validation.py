"""Cross-validation that cannot leak: models beside baselines on the same folds, everything fitted inside the fold.

Letters: N sets, R repeats, K targets, C classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from orderless.evaluate.baselines import BASELINES
from orderless.evaluate.duplicates import find_duplicates
from orderless.evaluate.evaluation import Evaluation, Failure, MetricScore, ModelScores, make_caution, number_folds
from orderless.evaluate.fold_models import (
    COVARIATES,
    OF_THE_MACHINE,
    TITLES,
    TUNED,
    FoldBaselines,
    choose_parameters,
    describe_error,
    fit_model,
    predict_model,
    takes_covariates,
)
from orderless.evaluate.material import Material, check_material
from orderless.evaluate.metrics import METRICS
from orderless.evaluate.reading import sizes_of
from orderless.evaluate.resampling import Draws, Resampler, interval_of
from orderless.evaluate.splits import Fold, Goal, check_no_straddling, group_numbers, make_folds, plan_folds
from orderless.io.spelling import describe_alike
from orderless.words import capitalized

Progress = Callable[[str, int, int], None]

_DEFAULT_INNER_FOLDS = 3
_NAMED_PAIRS = 3


def cross_validate(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    objective: Goal,
    groups: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
    num_folds: int = 5,
    num_repeats: int = 1,
    folds: Sequence[Fold] | None = None,
    inner_folds: int | None = None,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Cross-validates models beside the baselines, on the same folds.

    In every fold a clone of each model is fitted to the training sets alone, with all its preprocessing, and predicts the test
    sets. Sets of one group are never on both sides. Baselines are a constant, moments with a linear model, with one whose
    penalty is chosen inside the fold and with trees, a kernel mean embedding and, where there are covariates, these alone.
    A model that fails in a fold is reported, and the others continue. A full disk or memory and a damaged file are not failures
    of a model: they are raised. A class that a training part lacks gets probability 0.

    Args:
        models: Estimators like scikit-learn's by name: `get_params`, `fit`, `predict`, and `predict_proba` for probabilities.
            Where their `fit` takes `groups`, `covariates` or `sample_weight`, they get them. May be empty: baselines alone.
        X: Sets: a list of (n_i, D) arrays, an array of such, a dense array (N, M, D), a `SetBatch`, or `Samples`.
        y: (N,) classes, or (N,) or (N, K) numbers.
        objective: `classification` or `regression`.
        groups: (N,) who each set belongs to, such as the patient. Default: every set stands for itself.
        covariates: (N,) or (N, K) further numbers of each set, such as age.
        sample_weight: (N,) weights in fitting. Metrics count every set once.
        num_folds: Folds. There are fewer where groups or classes are too few, and a note says so.
        num_repeats: How often all sets are dealt into folds. Metrics are averaged over repeats.
        folds: Splits to use instead, such as those of `folds_by_hand`. Refused if a group straddles.
        inner_folds: Folds within each training part, by group again, by which parameters are chosen from `grids`. Default: 3.
        grids: Parameters to choose from, by model; every combination is tried.
        num_bootstrap: Bootstrap samples of the intervals.
        confidence: Of the intervals.
        seed: Of folds, of draws, and of random states that the models leave open.
        progress: Called with a title, number (from 1) and count as each fit begins; those of nested folds are not counted.
    """
    whole = check_material(X, y, objective, groups, covariates, sample_weight)
    combinations = _check_models(models, grids, inner_folds)
    if num_bootstrap < 1:
        raise ValueError(f"num_bootstrap must be 1 or more, got {num_bootstrap}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95, got {confidence}.")
    notes: list[str] = []
    if folds is None:
        num_folds, reason = plan_folds(whole.y, whole.groups, objective, num_folds)
        notes += [capitalized(reason)] if reason else []
        folds = make_folds(
            whole.y, groups=whole.groups, objective=objective, num_folds=num_folds, num_repeats=num_repeats, seed=seed
        )
    else:
        _check_folds(folds, whole)
    notes += _notes_on_data(whole, folds)
    contenders = [_Contender(name, name, False, model) for name, model in models.items()]
    names = ["constant", COVARIATES, "moments", TUNED, "moments_boosted", "mean_embedding"]
    contenders += [_Contender(n, TITLES[n], True) for n in names if n != COVARIATES or whole.covariates is not None]
    shape = (
        1 + max(fold.repeat for fold in folds),
        len(whole.y),
        whole.y.shape[1] if whole.classes is None else len(whole.classes),
    )
    for contender in contenders:
        contender.output = np.full(shape, np.nan)
    _run_folds(contenders, whole, folds, combinations, inner_folds or _DEFAULT_INNER_FOLDS, seed, progress)
    return _summarize(contenders, whole, folds, notes, num_bootstrap, confidence, seed)


@dataclass
class _Contender:
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


def _run_folds(
    contenders: Sequence[_Contender],
    whole: Material,
    folds: Sequence[Fold],
    grids: Mapping[str, Sequence[Mapping[str, Any]]],
    inner_folds: int,
    seed: int,
    progress: Progress | None,
) -> None:
    done, of_repeat = 0, -1
    for number, fold in enumerate(folds):
        of_repeat = of_repeat + 1 if number and folds[number - 1].repeat == fold.repeat else 0
        train, test = whole.part(fold.train), whole.part(fold.test)
        state = int(np.random.default_rng([seed, fold.repeat, of_repeat]).integers(2**31))
        baselines = FoldBaselines(train, test, seed)
        for contender in contenders:
            done += 1
            if progress is not None:
                progress(contender.title, done, len(folds) * len(contenders))
            start = time.perf_counter()
            try:
                if contender.is_baseline:
                    output = baselines.predict(contender.name)
                else:
                    model = contender.model
                    if contender.name in grids:
                        best = choose_parameters(model, grids[contender.name], train, inner_folds, state)
                        contender.chosen.append(best)
                        model = clone(model).set_params(**best)
                    output, contender.has_probabilities = predict_model(fit_model(model, train, state), test)
                contender.output[fold.repeat, fold.test] = output
            except OF_THE_MACHINE:
                raise
            except Exception as error:
                contender.failures.append(Failure(fold.repeat, of_repeat, describe_error(error)))
            contender.seconds += time.perf_counter() - start


# ------------------------------------------------------------------------------------------------------- results


def _summarize(
    contenders: Sequence[_Contender],
    whole: Material,
    folds: Sequence[Fold],
    notes: Sequence[str],
    num_bootstrap: int,
    confidence: float,
    seed: int,
) -> Evaluation:
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

    def gain(c: _Contender, other: str, name: str) -> Any:
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

    def score(c: _Contender, name: str) -> MetricScore:
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


def _notes_on_model(contender: _Contender, whole: Material) -> list[str]:
    notes = []
    if not contender.is_baseline and whole.covariates is not None and not takes_covariates(contender.model):
        notes.append("its fit takes no covariates, so it saw none.")
    if whole.classes is not None and not contender.has_probabilities:
        notes.append("it gives classes and no probabilities, so only shares of right answers are known.")
    return notes


def _notes_on_data(whole: Material, folds: Sequence[Fold]) -> list[str]:
    notes = []
    if whole.classes is not None:
        lacking = [c for c in whole.classes if any(c not in whole.y[fold.train] for fold in folds)]
        if lacking:
            notes.append(f"Some training parts have no set of class {', '.join(map(str, lacking))}: it gets probability 0 there.")
    pairs = find_duplicates(whole.X, groups=whole.groups)
    if pairs:
        ids = getattr(whole.X, "ids", range(len(whole.y)))
        shown = "; ".join(f"{ids[a]} and {ids[b]}" for a, b in pairs[:_NAMED_PAIRS])
        more = f" and {len(pairs) - _NAMED_PAIRS} more pairs" if len(pairs) > _NAMED_PAIRS else ""
        apart = "" if whole.groups is None else ", in different groups"
        notes.append(
            f"Possible leak: sets with the same elements{apart}: {shown}{more}. One may be tested by what learnt the other."
        )
    groups = None if whole.groups is None else whole.groups.tolist()
    return [*notes, *(f"Possible leak: {said}" for said in describe_alike(getattr(whole.X, "ids", ()), groups))]


# ------------------------------------------------------------------------------------------------------- checks


def _check_models(
    models: Mapping[str, Any], grids: Mapping[str, Mapping[str, Sequence[Any]]] | None, inner_folds: int | None
) -> dict[str, list[Mapping[str, Any]]]:
    """The combinations of each grid."""
    taken = {*BASELINES, *TITLES} & set(models)
    if taken:
        raise ValueError(
            f"{', '.join(sorted(taken))} is the name of a baseline, which always takes part. Give the model another name."
        )
    for name, model in models.items():
        if not (hasattr(model, "fit") and hasattr(model, "predict") and hasattr(model, "get_params")):
            raise ValueError(f"model {name!r} must be an estimator with fit, predict and get_params, got {type(model).__name__}.")
        if any(value is not None for option, value in model.get_params().items() if option.split("__")[-1] == "work_dir"):
            raise ValueError(f"model {name!r} has a work_dir, which holds one fit; cross-validation fits many. Leave it out.")
    if unknown := set(grids or {}) - set(models):
        raise ValueError(f"grids must be for the models {', '.join(models) or '(none)'}; got {', '.join(sorted(unknown))}.")
    if inner_folds is not None and not grids:
        raise ValueError("inner_folds choose parameters from grids, but there are none: give grids={name: {parameter: values}}.")
    if inner_folds is not None and inner_folds < 2:
        raise ValueError(f"inner_folds must be 2 or more, got {inner_folds}.")
    combinations = {name: list(ParameterGrid(dict(grid))) for name, grid in (grids or {}).items()}
    for name, listed in combinations.items():
        unknown = set(listed[0]) - set(models[name].get_params(deep=True))
        if unknown:
            raise ValueError(f"{name} has no parameter {', '.join(sorted(unknown))}, but its grid does.")
    return combinations


def _check_folds(folds: Sequence[Fold], whole: Material) -> None:
    if not folds:
        raise ValueError("folds must hold at least one split, got none.")
    count = len(whole.y)
    for fold in folds:
        both = np.concatenate([fold.train, fold.test])
        if not len(fold.train) or not len(fold.test) or both.min() < 0 or both.max() >= count:
            raise ValueError(f"a fold must train and test on some of the sets 0 to {count - 1}.")
        check_no_straddling(fold.train, fold.test, np.arange(count) if whole.groups is None else whole.groups)
    for repeat in {fold.repeat for fold in folds}:
        tested = np.concatenate([fold.test for fold in folds if fold.repeat == repeat])
        if len(np.unique(tested)) < len(tested):
            raise ValueError("a set is tested twice in one repeat. Give folds that test sets again a repeat of their own.")
