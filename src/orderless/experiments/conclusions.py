"""Whether what the paper concludes from its tables holds in our runs, too.

A conclusion says that some networks are better than others that differ from them in nothing else: clean paths than non-clean
ones, say, of the same network, norm and task. Each such comparison is for the conclusion, against it, or too close to tell.
Close is a difference below twice the standard error over seeds, or below what the figures usually change from one epoch to the
next. The number of test sets does not count: both networks are tested on the same ones. A network that diverged is behind one
that did not.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orderless.experiments.agreement import Order, compared, leads, published_order, seed_error
from orderless.experiments.grid import Conclusion, Value
from orderless.experiments.table import Entry, Table

Answer = Literal["holds", "mostly holds", "mixed", "does not hold", "cannot be told", "not testable here", "not run"]


@dataclass(frozen=True)
class Comparison:
    """Two places of a table, of which a conclusion says that the first is better."""

    better: Entry
    worse: Entry

    @property
    def published(self) -> Order | None:
        """Where the paper's figures have the first; None where it does not print both."""
        return published_order(self.better, self.worse)

    @property
    def ours(self) -> Order | None:
        """Where our runs have the first; None where one of the two was not run, or both diverged."""
        failed, rival_failed = _has_diverged(self.better), _has_diverged(self.worse)
        if failed != rival_failed and all(entry.ours or entry.num_diverged for entry in (self.better, self.worse)):
            return "behind" if failed else "ahead"
        if failed or self.better.ours is None or self.worse.ours is None:
            return None
        mean, rival = compared(self.better).mean, compared(self.worse).mean
        chance = 2 * math.hypot(seed_error(self.better), seed_error(self.worse))
        if abs(mean - rival) <= max(chance, math.hypot(self.better.noise or 0.0, self.worse.noise or 0.0)):
            return "close"
        return "ahead" if leads(self.better.metric, mean, rival) else "behind"

    @property
    def is_on_stand_in(self) -> bool:
        """Whether our data are not the paper's."""
        return self.better.stand_in is not None

    @property
    def is_preliminary(self) -> bool:
        """Whether a seed is missing."""
        return bool(self.better.num_missing or self.worse.num_missing)


@dataclass(frozen=True)
class Finding:
    """A conclusion of the paper and all comparisons that it rests on."""

    conclusion: Conclusion
    comparisons: tuple[Comparison, ...]

    @property
    def published(self) -> Counter[Order]:
        """How the paper's own figures stand to it."""
        return Counter(order for comparison in self.comparisons if (order := comparison.published) is not None)

    def made(self, *, on_stand_in: bool) -> list[Comparison]:
        """Those comparisons for which there are runs: on the paper's data, or on others."""
        return [made for made in self.comparisons if made.is_on_stand_in == on_stand_in and made.ours is not None]

    def ours(self, *, on_stand_in: bool) -> Counter[Order]:
        """How our figures stand to it: on the paper's data, or on others."""
        return Counter(order for made in self.made(on_stand_in=on_stand_in) if (order := made.ours) is not None)

    @property
    def answer(self) -> Answer:
        """Whether it is so in our runs on the paper's data."""
        orders = self.ours(on_stand_in=False)
        if not orders:
            return "not testable here" if self.ours(on_stand_in=True) else "not run"
        so, not_so = orders["ahead"], orders["behind"]
        if so == not_so:
            return "mixed" if so else "cannot be told"
        if so < not_so:
            return "does not hold"
        return "mostly holds" if not_so else "holds"


def find(table: Table) -> list[Finding]:
    """What a table says of each conclusion that the paper draws from it."""
    entries = list(table.entries.values())
    settings = [{**table.recipe.fixed, **entry.cell.settings, "task": entry.cell.task} for entry in entries]
    places = list(zip(entries, settings, strict=True))
    return [Finding(conclusion, _comparisons(conclusion, places)) for conclusion in table.recipe.conclusions]


def _comparisons(conclusion: Conclusion, places: Sequence[tuple[Entry, dict[str, Value]]]) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(one, other)
        for (one, settings), (other, of_other) in itertools.permutations(places, 2)
        if one.metric == other.metric and conclusion.compares(settings, of_other)
    )


def _has_diverged(entry: Entry) -> bool:
    return entry.num_diverged > 0
