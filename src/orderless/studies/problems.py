"""What is wrong with data, or may be: told before anybody believes a figure.

Letters: N sets, D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.tails import Sample
from orderless.evaluate import find_duplicates
from orderless.io.samples import listed
from orderless.studies.columns import count_classes
from orderless.studies.study import Study, notes_on_names

_TINY = 10  # elements
_FAR_BELOW = 100  # times smaller than the median is tiny, too
_RARE = 5  # sets of a class
_FAR_OUT = 50.0  # spreads from the median
_TELLS = 0.8  # area under the curve, or rank correlation, at which the size of a set says much of the target
_ENOUGH = 10  # sets to say that


@dataclass(frozen=True)
class Problem:
    """Something about the data that a reader of figures should know.

    Attributes:
        kind: `bad` makes figures wrong, `warn` may, `note` does not.
        title: A few words.
        text: One or two sentences, with names.
    """

    kind: Literal["bad", "warn", "note"]
    title: str
    text: str


def find_problems(study: Study) -> list[Problem]:
    """Looks at every element once, and at what is known of sets."""
    return [*_of_sets(study), *_of_features(study), *_of_target(study)]


def _of_sets(study: Study) -> Iterator[Problem]:
    samples = study.samples
    pairs = find_duplicates(samples, groups=study.groups)
    if pairs:
        shown = "; ".join(f"{samples.ids[a]} and {samples.ids[b]}" for a, b in pairs[:5])
        apart = "" if study.groups is None else f" in different groups of {study.group}"
        more = f" and {len(pairs) - 5} more pairs" if len(pairs) > 5 else ""
        text = f"{shown}{more} hold the same elements{apart}. If one is trained on, the other is no test: keep one of each."
        yield Problem("bad", "The same sample twice", text)
    for text in notes_on_names(study):
        yield Problem("warn", "Names that are nearly the same", text)
    if study.empty:
        yield Problem("warn", "Sets without elements", f"{listed(study.empty, 20)}. They were left out.")
    tiny = _tiny(samples.sizes)
    if len(tiny):
        names = [f"{samples.ids[i]} ({samples.sizes[i]:,})" for i in tiny]
        middle = int(np.median(samples.sizes))
        text = f"{listed(names, 10)} elements, where the median is {middle:,}. Their predictions are the least certain."
        yield Problem("warn", "Very small sets", text)
    if study.unlabelled:
        text = f"Left out, because {study.target} is not known: {listed(study.unlabelled, 20)}."
        yield Problem("note", "Sets without a label", text)


def _tiny(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sets with few elements where others have many, the smallest first."""
    middle = float(np.median(sizes))
    limit = max(min(_TINY, middle / 2), middle / _FAR_BELOW)
    return np.array([i for i in np.argsort(sizes, kind="stable").tolist() if sizes[i] < limit], dtype=np.int64)


def _of_features(study: Study) -> Iterator[Problem]:
    names = study.samples.features
    low, high, middle, spread = _ranges(study)
    constant = [name for name, a, b in zip(names, low, high, strict=True) if a == b]
    if constant:
        text = f"{listed(constant, 20)} have the same value in all elements of all sets, and tell nothing."
        yield Problem("warn", "Features that never change", text)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.maximum(high - middle, middle - low) / spread
    wild = [
        f"{names[i]} ({far[i]:,.0f})" if far[i] < 1e9 else f"{names[i]} ({far[i]:.2g})"
        for i in np.argsort(-far).tolist()
        if np.isfinite(far[i]) and far[i] > _FAR_OUT
    ]
    if wild:
        text = (
            f"{listed(wild, 10)}: the most extreme element lies so many spreads from the median, by the quartiles of all. "
            "Networks see at most 10; a transform (for FCS, --transform arcsinh) or a look at these elements may help."
        )
        yield Problem("warn", "Features with extreme values", text)


def _ranges(study: Study) -> tuple[NDArray[np.float64], ...]:
    """(D,) lowest, highest, median and spread of each feature.

    The spread is that of quartiles, which wild elements do not widen; that of all elements where most are the same.
    """
    D = len(study.samples.features)
    low, high = np.full(D, np.inf), np.full(D, -np.inf)
    count, mean, squares = 0, np.zeros(D), np.zeros(D)
    sample = Sample(int(study.samples.sizes.sum()))
    for number in range(len(study.samples)):
        for block in study.samples.sets.blocks(number):
            x = np.asarray(block, dtype=np.float64)
            if not len(x):
                continue
            low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
            sample.add(x, 1.0)
            its, total = x.mean(0), count + len(x)  # joined as Chan et al. do, so that a large mean costs no digits
            squares += np.square(x - its).sum(0) + np.square(its - mean) * count * len(x) / total
            mean, count = mean + (its - mean) * len(x) / total, total
    deviation = np.sqrt(squares / max(count, 1))
    tails = sample.tails(deviation)
    return low, high, tails.median, np.where(tails.spread > 0, tails.spread, deviation)


def _of_target(study: Study) -> Iterator[Problem]:
    if study.objective == "classification":
        rare = [f"{name} ({count})" for name, count in count_classes(study.y).items() if count < _RARE]
        if rare:
            text = f"{listed(rare, 10)} sets. What is said of such a class rests on very few."
            yield Problem("warn", "Classes with few sets", text)
    if study.groups is not None and study.objective == "classification":
        classes = [len(set(study.y[study.groups == group].tolist())) for group in set(study.groups.tolist())]
        if max(classes) == 1 and len(classes) < len(study.y):
            text = f"All sets of one {study.group} have the same {study.target}, so {len(classes)} is the number that counts."
            yield Problem("note", "One class per group", text)
    for name in _settling_covariates(study):
        text = (
            f"{name} alone says what {study.target} is, in all of these sets. If it was written down because of {study.target}, "
            "leave it out: of new samples it will not be known."
        )
        yield Problem("warn", "A covariate settles the target", text)
    strength = _size_tells(study.samples.sizes, study)
    if strength is not None:
        text = (
            f"The number of elements alone tells much of {study.target} ({strength}). If that comes from how samples were taken "
            "and not from what they are, a model that learns it is of no use elsewhere."
        )
        yield Problem("warn", "Set size goes with the target", text)


def _settling_covariates(study: Study) -> list[str]:
    """Covariates that leave nothing to predict: the target in other words, or in another unit; none where it may be chance."""
    table, units = study.covariates, len(study.y if study.groups is None else set(study.groups.tolist()))
    if table is None or units < _ENOUGH:
        return []
    return [
        name
        for name, words, values in zip(table.names, table.words, table.values.T, strict=True)
        if (words is None and _orders(values.astype(np.float64), study)) or _sorts(values.tolist(), study, units)
    ]


def _orders(values: NDArray[np.float64], study: Study) -> bool:
    """Whether numbers stand in the order of the target, or against it."""
    ranks, classes = _ranks(values), np.unique(study.y)
    if study.objective == "classification":
        parts = [ranks[study.y == label] for label in classes]
        return len(parts) == 2 and bool(parts[0].max() < parts[1].min() or parts[1].max() < parts[0].min())
    target = _ranks(study.y)
    return bool((ranks == target).all() or (ranks == len(ranks) + 1 - target).all())


def _sorts(values: list[Any], study: Study, units: int) -> bool:
    """Whether each of a few values goes with one class."""
    pairs = set(zip(values, study.y.tolist(), strict=True))
    return study.objective == "classification" and len(pairs) == len(set(values)) <= units // 2


def _size_tells(sizes: NDArray[np.int64], study: Study) -> str | None:
    """In words, how far the order of sizes is that of the target; None where it is not, or where nobody could say."""
    if len(sizes) < _ENOUGH or sizes.min() == sizes.max():
        return None
    if study.objective == "regression":
        found = float(np.corrcoef(_ranks(sizes), _ranks(study.y))[0, 1])
        return f"rank correlation {found:.2f}" if abs(found) >= _TELLS else None
    classes = np.unique(study.y)
    if len(classes) != 2:
        return None
    second = study.y == classes[1]
    ranks, n = _ranks(sizes), int(second.sum())
    area = float((ranks[second].sum() - n * (n + 1) / 2) / (n * (len(sizes) - n)))
    return f"area under the ROC curve {max(area, 1 - area):.2f}" if max(area, 1 - area) >= _TELLS else None


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """From 1; the mean rank where values are equal."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[place].astype(np.float64)
