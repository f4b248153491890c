"""The logicle scale for fluorescence: linear around zero, logarithmic above, defined for negative numbers.

Reference: Parks, Roederer, Moore (2006), "A new logicle display method avoids deceptive effects of logarithmic scaling for low
signals and compensated data", Cytometry A 69A. Constants as in Moore, Parks (2012), Cytometry A 81A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOP = 262144.0  # T: the value at the top of the scale
DECADES = 4.5  # M: breadth of the scale
LINEAR = 0.5  # W: decades of the linear part


@dataclass(frozen=True)
class _Biexponential:
    r"""$S(y) = a e^{by} - c e^{-dy} + f$ above its `zero`, where it is 0, and $-S(2\,zero - y)$ below it."""

    a: float
    b: float
    c: float
    d: float
    f: float
    zero: float

    def __call__(self, y: NDArray[Any]) -> NDArray[Any]:
        return self.a * np.exp(self.b * y) - self.c * np.exp(-self.d * y) + self.f

    def slope(self, y: NDArray[Any]) -> NDArray[Any]:
        return self.a * self.b * np.exp(self.b * y) + self.c * self.d * np.exp(-self.d * y)


def logicle(
    x: NDArray[Any], *, top: float = TOP, decades: float = DECADES, linear: float = LINEAR, negative: float = 0.0
) -> NDArray[Any]:
    """Intensities on the logicle scale, in decades: `top` is at `decades`, 0 is at `linear`.

    Args:
        x: Intensities of any shape. NaN stays NaN.
        top: T, the intensity at the top of the scale.
        decades: M, breadth of the scale.
        linear: W, decades of the linear part; less than half of `decades`.
        negative: A, further decades below zero.
    """
    scale = make_scale(top, decades, linear, negative)
    values = np.asarray(x, dtype=np.float64)
    size = np.abs(values)
    # S is convex above its zero: Newton's steps from the right go down to the root and never past it
    y = np.log((size + scale.c * math.exp(-scale.d * scale.zero) - scale.f) / scale.a) / scale.b
    for _ in range(50):
        step = (scale(y) - size) / scale.slope(y)
        y = y - step
        if not (np.abs(step[np.isfinite(step)]) > 1e-12).any():
            break
    y = np.where(values < 0, 2 * scale.zero - y, y)
    return y * (decades + negative) - negative


def make_scale(top: float, decades: float, linear: float, negative: float) -> _Biexponential:
    """The biexponential of these parameters: its second derivative is 0 at its zero, and S(1) is `top`."""
    if not (top > 0 and decades > 0 and 0 <= 2 * linear <= decades and -linear <= negative <= decades - 2 * linear):
        raise ValueError(
            "logicle needs T > 0, M > 0, 0 <= W <= M/2 and -W <= A <= M - 2W; "
            f"got T={top}, M={decades}, W={linear}, A={negative}."
        )
    breadth = decades + negative
    w, x2 = linear / breadth, negative / breadth
    x1, x0 = x2 + w, x2 + 2 * w
    b = breadth * math.log(10)
    d = _solve_d(b, w)
    c_over_a = math.exp(x0 * (b + d))
    f_over_a = math.exp(b * x1) - c_over_a * math.exp(-d * x1)
    a = top / (math.exp(b) - f_over_a - c_over_a * math.exp(-d))
    return _Biexponential(a=a, b=b, c=c_over_a * a, d=d, f=-f_over_a * a, zero=x1)


def _solve_d(b: float, w: float) -> float:
    """The root of 2 (ln d - ln b) + w (d + b), which grows with d, by halving the interval."""
    if w == 0:
        return b
    low, high = 0.0, b
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if 2 * (math.log(middle) - math.log(b)) + w * (middle + b) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
