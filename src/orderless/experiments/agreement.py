"""Whether our figure says what the paper's says: one rule for every place of every table.

Like is compared with like: the paper's figures come from the released protocol, so where our runs have that figure, too, that is
judged. Two figures agree if they differ by no more than twice the standard error of their difference, or by no more than ours
changes from one epoch to the next, and by half of the last digit that the paper printed. The verdict says by how much they differ
and how much of that may be chance; where that is much, agreeing says little.

A network of which a run diverged does not agree, whatever its other runs have reached.

The error has three sources: seeds, in both; the test sets, where they are drawn from a distribution or from a pool of images, so
that ours are not the paper's; and the test sets that the released protocol leaves out, which differ from program to program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from orderless.experiments.table import Entry, MeanAndStd
from orderless.numbers import AsPrinted
from orderless.tasks.objectives import HIGHER_IS_BETTER
from orderless.tasks.registry import get_task

Word = Literal["reproduced", "better", "not reproduced", "not testable here", "not run"]
WORDS: tuple[Word, ...] = ("reproduced", "better", "not reproduced", "not testable here", "not run")
PUBLISHED_SEEDS = 3  # runs behind the paper's means and standard deviations
_SAYS_LITTLE = 0.25  # of the published figure: what agrees within more than this is hardly compared


@dataclass(frozen=True)
class Agreement:
    """How far ours agrees with the paper's in one place of a table.

    Attributes:
        word: The verdict.
        because: What else has to be said.
    """

    word: Word
    because: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.because})" if self.because else self.word


def judge(entry: Entry) -> Agreement | None:
    """The verdict on a place of a table; None where the paper has no figure to compare with."""
    if entry.published is None or "mean" not in entry.published:
        return None
    if entry.ours is None and not entry.num_diverged:
        return Agreement("not run")
    if entry.stand_in is not None:
        return Agreement("not testable here", f"{entry.stand_in} data")
    num_done = entry.num_diverged + (entry.ours.count if entry.ours else 0)
    remarks = [f"{num_done} of {entry.cell.num_seeds} seeds"] if num_done < entry.cell.num_seeds else []
    if entry.ours is None or entry.num_diverged:
        return Agreement("not reproduced", ", ".join([f"{entry.num_diverged} of {num_done} diverged", *remarks]))
    ours = entry.released or entry.ours
    difference, allowed = ours.mean - entry.published["mean"], allowance(entry)
    said = f"off by {abs(difference):.2g}, {allowed}"
    if abs(difference) <= allowed.size:
        little = ["which says little"] if allowed.size > _SAYS_LITTLE * abs(entry.published["mean"]) else []
        return Agreement("reproduced", ", ".join([said, *little, *remarks]))
    word: Word = "better" if (difference > 0) == (entry.metric in HIGHER_IS_BETTER) else "not reproduced"
    return Agreement(word, ", ".join([said, *remarks]))


@dataclass(frozen=True)
class Allowance:
    """The largest difference that is none, and what makes it so large: `chance`, or `epochs` that differ by as much."""

    size: float
    by: Literal["chance", "epochs"]

    def __str__(self) -> str:
        return f"{'chance explains' if self.by == 'chance' else 'epochs differ by'} {self.size:.2g}"


def allowance(entry: Entry) -> Allowance:
    """The largest difference that is none."""
    assert entry.published is not None
    seeds = math.hypot(seed_error(entry), _published_error(entry))
    # sets that the protocol leaves out are the same for all seeds, in the authors' program and in ours, but not in both
    others = 1.0 if _draws_test_sets(entry) else entry.left_out if entry.released else 0.0
    error = math.hypot(seeds, entry.test_error * math.sqrt(2 * others))  # of two figures, ours and theirs
    noise, digit = entry.noise or 0.0, _half_of_last_digit(entry.published["mean"])
    return Allowance(noise + digit, "epochs") if noise > 2 * error else Allowance(2 * error + digit, "chance")


def seed_error(entry: Entry) -> float:
    """Standard error of our figure that comes from having so many seeds and not more."""
    ours = compared(entry)
    spread = _published_spread(entry) if ours.std is None else ours.std  # one run says nothing of how runs differ; theirs do
    return spread / math.sqrt(ours.count)


@dataclass(frozen=True)
class Pair:
    """Two places of a table, of one task and one metric, that the paper tells apart. It has the first ahead of the second."""

    first: Entry
    second: Entry

    @property
    def is_kept(self) -> bool:
        """Whether ours are in the same order."""
        return leads(self.first.metric, compared(self.first).mean, compared(self.second).mean)


def pairs_told_apart(entries: Iterable[Entry]) -> list[Pair]:
    """All pairs of places whose published figures differ by more than chance explains, and that have figures of ours."""
    known = [entry for entry in entries if entry.ours is not None]
    pairs = []
    for one, other in itertools.combinations(known, 2):
        if (one.cell.task, one.metric) == (other.cell.task, other.metric):
            order = published_order(one, other)
            pairs += [Pair(one, other)] if order == "ahead" else [Pair(other, one)] if order == "behind" else []
    return pairs


Order = Literal["ahead", "behind", "close"]


def published_order(one: Entry, other: Entry) -> Order | None:
    """Whether the paper has `one` ahead of `other`, by more than chance explains; None where it does not print both."""
    if not all(entry.published is not None and "mean" in entry.published for entry in (one, other)):
        return None
    assert one.published is not None
    assert other.published is not None
    mean, rival = one.published["mean"], other.published["mean"]
    error = math.hypot(_published_error(one), _published_error(other))
    if abs(mean - rival) <= 2 * error + _half_of_last_digit(mean) + _half_of_last_digit(rival):
        return "close"
    return "ahead" if leads(one.metric, mean, rival) else "behind"


def _published_error(entry: Entry) -> float:
    return _published_spread(entry) / math.sqrt(PUBLISHED_SEEDS)


def _published_spread(entry: Entry) -> float:
    """The paper's ±; 0 where it prints none."""
    return float((entry.published or {}).get("std") or 0.0)


def leads(metric: str, mean: float, rival: float) -> bool:
    """Whether the first of two figures is the better one."""
    return mean > rival if metric in HIGHER_IS_BETTER else mean < rival


def compared(entry: Entry) -> MeanAndStd:
    """Our figure that stands for what the paper's stands for."""
    figure = entry.released or entry.ours
    assert figure is not None
    return figure


def _draws_test_sets(entry: Entry) -> bool:
    assert entry.source is not None
    name, _, source = entry.source.partition("@")
    return not get_task(name).source(source).finite


def _half_of_last_digit(number: Any) -> float:
    text = number.text if isinstance(number, AsPrinted) else f"{number:g}"
    return 0.5 * 10 ** -len(text.partition(".")[2])
