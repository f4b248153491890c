"""Cross-validation that cannot leak: models beside baselines on the same folds, everything fitted inside the fold.

Letters: N sets, R repeats, K targets, C classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from orderless.evaluate.baselines import BASELINES
from orderless.evaluate.contenders import Contender, summarize
from orderless.evaluate.duplicates import find_duplicates
from orderless.evaluate.evaluation import Evaluation, Failure
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
)
from orderless.evaluate.material import Material, check_material
from orderless.evaluate.splits import Fold, Goal, check_no_straddling, make_folds, plan_folds
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
    contenders = [Contender(name, name, False, model) for name, model in models.items()]
    names = ["constant", COVARIATES, "moments", TUNED, "moments_boosted", "mean_embedding"]
    contenders += [Contender(n, TITLES[n], True) for n in names if n != COVARIATES or whole.covariates is not None]
    shape = (
        1 + max(fold.repeat for fold in folds),
        len(whole.y),
        whole.y.shape[1] if whole.classes is None else len(whole.classes),
    )
    for contender in contenders:
        contender.output = np.full(shape, np.nan)
    _run_folds(contenders, whole, folds, combinations, inner_folds or _DEFAULT_INNER_FOLDS, seed, progress)
    return summarize(contenders, whole, folds, notes, num_bootstrap, confidence, seed)


def _run_folds(
    contenders: Sequence[Contender],
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
