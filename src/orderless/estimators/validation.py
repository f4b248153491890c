"""Which sets a member of the ensemble learns from, and which tell it when to stop.

Letters: N sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def split_members(
    labels: NDArray[Any] | None,
    groups: NDArray[Any] | None,
    num_sets: int,
    *,
    num_members: int,
    fraction: float,
    seed: int,
) -> list[tuple[Numbers, Numbers]]:
    """For each member: the sets to learn from, and the sets to validate on.

    Sets are dealt into about 1 / fraction folds, and each member validates on another one, so that every set is learned from by
    most members; further members get further deals. Groups stay whole, each class is dealt out evenly, and no class is left
    without a set to learn from.

    Args:
        labels: (N,) classes, or None for numbers to predict.
        groups: (N,) sets of one group never part, or None.
        num_sets: N.
        num_members: How many splits.
        fraction: Of sets to validate on.
        seed: Of the deals.
    """
    units = np.arange(num_sets) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    num_folds, num_held = _folds_of(fraction, int(units.max()) + 1)
    splits = []
    for member in range(num_members):
        deal, turn = divmod(member, max(num_folds // num_held, 1))
        folds = _deal(labels, units, num_folds, np.random.default_rng([seed, deal]))
        held = (folds - turn * num_held) % num_folds < num_held
        if labels is not None:
            held &= ~_only_there(labels, units, held)
        splits.append((np.flatnonzero(~held), np.flatnonzero(held)))
    return splits


def _folds_of(fraction: float, num_units: int) -> tuple[int, int]:
    """How many folds there are, and how many of them are held back, so that these are about `fraction` of all."""
    num_folds = max(2, round(1 / fraction))
    if abs(1 / num_folds - fraction) > 0.01:
        num_folds = 20
    num_folds = min(num_folds, num_units)
    return num_folds, int(np.clip(round(fraction * num_folds), 1, num_folds - 1))


def _deal(labels: NDArray[Any] | None, units: Numbers, num_folds: int, rng: np.random.Generator) -> Numbers:
    """(N,) the fold of each set. Units, sets or groups, go one by one to the fold that has the least of what they bring."""
    classes = np.zeros(len(units), np.int64) if labels is None else np.unique(labels, return_inverse=True)[1].reshape(-1)
    counts = np.zeros((int(units.max()) + 1, int(classes.max()) + 1))  # (units, classes) sets
    np.add.at(counts, (units, classes), 1)
    rarity = counts.sum(0)
    order = rng.permutation(len(counts))
    order = order[np.argsort(-counts[order].max(1), kind="stable")]  # large ones first, equal ones at random
    load = np.zeros((num_folds, counts.shape[1]))
    fold_of = np.zeros(len(counts), np.int64)
    for unit in order:
        crowding = (load * (counts[unit] / rarity)).sum(1)  # sets of the same classes that are there
        best = np.lexsort((rng.random(num_folds), load.sum(1), crowding))[0]
        fold_of[unit] = best
        load[best] += counts[unit]
    return fold_of[units]


def _only_there(labels: NDArray[Any], units: Numbers, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N,) sets of units that hold all there is of some class: these have to be learned from."""
    lost = np.setdiff1d(labels[held], labels[~held])
    return np.isin(units, units[held & np.isin(labels, lost)])
