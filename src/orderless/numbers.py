"""Numbers as readers see them: the same way in reports, figures and on the terminal; published ones as they were printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DIGITS = 4  # of a number without an interval
_TIMES = "\N{MULTIPLICATION SIGN}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST, _MOST = 1e-4, 1e5  # outside these, numbers are written as powers of ten
_LOG_RANGE = 5.0  # numbers whose largest is so many times the smallest need a logarithmic axis, as falling losses do


class AsPrinted(float):
    """A number that remembers how it was written: the paper's 0.4520 shall not be shown as 0.452."""

    text: str

    def __new__(cls, text: str) -> AsPrinted:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __reduce__(self) -> tuple[object, ...]:
        return (AsPrinted, (self.text,))


def plain(value: float, digits: int = _DIGITS) -> str:
    """A number with so many significant digits: 25.88, 0.0198, 2.5 × 10⁻⁷."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else f"{'-' if value < 0 else ''}∞"
    if value == 0:
        return "0"
    if not _LEAST <= abs(value) < _MOST:
        return scientific(value, digits)
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def scientific(value: float, digits: int = _DIGITS) -> str:
    """A number as a power of ten: 2.5 × 10⁻⁷, or 10⁵."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa} {_TIMES} {power}"


def with_interval(value: float, interval: tuple[float, float] | None) -> tuple[str, str]:
    """A figure and its interval with equal decimals: (`8.25`, `[7.80, 8.72]`). Narrower intervals have more of them."""
    if interval is None or not all(map(math.isfinite, (value, *interval))):
        return plain(value), ""
    low, high = interval
    if high == low or not _LEAST <= abs(value) < _MOST:
        return plain(value), f"[{plain(low)}, {plain(high)}]"
    by_width, by_size = 1 - math.floor(math.log10(high - low)), 2 - math.floor(math.log10(abs(value)))  # two digits; three
    decimals = min(8, max(0, by_width, by_size))
    return f"{value:,.{decimals}f}", f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"


def spread(mean: float, std: float | None) -> str:
    """A mean and its standard deviation, as tables of papers have them: `0.0198 ± 0.0041`. Published ones stay as printed."""
    texts = [value.text if isinstance(value, AsPrinted) else f"{value:.4f}" for value in (mean, std) if value is not None]
    return " ± ".join(texts)


def tick(value: float) -> str:
    """A number at an axis, with no more digits than it needs: 0.05, 20, 10⁻⁵."""
    return scientific(value, 3) if value and not 1e-3 <= abs(value) < _MOST else f"{value:,.10g}"


def need_logarithms(values: Sequence[float]) -> bool:
    """Whether numbers span so much that an axis should be logarithmic, and can be."""
    return bool(values) and min(values) > 0 and max(values) > _LOG_RANGE * min(values)


def setting(value: float) -> str:
    """A number that somebody chose, with the digits that they chose: 0.01, 10⁻⁵."""
    return scientific(value) if "e" in f"{value:g}" else f"{value:g}"


def count(value: int) -> str:
    """A whole number with thousands apart: 898,689."""
    return f"{value:,}"


def duration(seconds: float) -> str:
    """A time that people can compare: 0.4 s, 42 s, 3 min 20 s, 2 h 5 min, 2 d 7 h."""
    if seconds < 10:
        return f"{plain(seconds, 2)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
