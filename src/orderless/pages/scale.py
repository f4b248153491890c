"""Axes: from numbers to places between 0 and 1, with round numbers marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from orderless.numbers import need_logarithms, tick

_MOST_DECADES = 24.0  # below this many powers of ten under the largest, numbers are drawn at the bottom


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a number is: 0 at the low end, 1 at the high end. What lies outside is at the end."""
        low, high, at = (self._along(number) for number in (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def ticks(self, most: int = 6, *, whole: bool = False) -> list[tuple[float, str]]:
        """Round numbers on the axis, or whole ones alone: (place, text) each."""
        values = self._decades(most) if self.log else self._steps(most, 1.0 if whole else 0.0)
        return [(self.place(value), tick(value)) for value in values]

    def _along(self, value: float) -> float:
        return (math.log10(value) if value > 0 else -math.inf) if self.log else value

    def _steps(self, most: int, least: float) -> list[float]:
        rough = max((self.high - self.low) / most, least)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) if step > 1e-10 else n * step for n in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        low, high = math.log10(self.low), math.log10(self.high)
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        if last - first < 2:  # a decade or so: powers of ten alone would leave the axis bare
            parts = [times * 10.0**n for n in range(first - 1, last + 1) for times in (1, 2, 5)]
            return [value for value in parts if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
        stride = math.ceil((last - first + 1) / most)
        return [10.0**n for n in range(first, last + 1) if (n - first) % stride == 0]


def fit_scale(values: Iterable[float], *, log: bool | None = None) -> Scale:
    """The axis on which these numbers fit, with a little room; logarithmic where their range needs it."""
    finite = [value for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    if log is None:
        log = need_logarithms(finite)
    if log and positive:
        high = math.log10(max(positive))
        low = max(math.log10(min(positive)), high - _MOST_DECADES)
        room = 0.04 * (high - low) or 0.5
        return Scale(10 ** (low - room), 10 ** (high + room), log=True)
    if not finite:
        return Scale(0.0, 1.0)
    low, high = min(finite), max(finite)
    room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
    floor = 0.0 if 0 <= low < 0.35 * high else low - room  # an axis that nearly begins at zero begins there
    return Scale(floor, high + room)
