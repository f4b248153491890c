"""What readings of a network's layers mean: gradients that vanish, explode or are healthy, and norms that collapse sets.

Thresholds are ratios, since the size of a gradient depends on the scale of the loss. They were chosen on the paper's networks,
on Normal Var and MNIST Var before and during training: `docs/diagnose.md` has the numbers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from orderless.diagnose.layers import Reading, as_floats

Verdict = Literal["vanishing", "exploding", "healthy"]

# The gradient of the first layer, of the largest of any layer. The paper's networks that train have 5e-3 or more, Deep Sets with
# 25 layers and more 3e-8 or less.
VANISHING: Final = 1e-4
# The largest gradient of the first half of the layers, of the largest of the second half. Networks that train have 3 or less at
# the start, and some 20 when the last layers have found the mean of the targets.
EXPLODING: Final = 1e4
# Of the activations from one layer to a later one. A sum over the elements of large sets makes them some thousand times as large.
ACTIVATION_GROWTH: Final = 1e6
# The gradient norm of all layers, of the median of what it was before. Networks that train go up to 80, classifiers that begin
# where the loss is flat.
GROWTH_OVER_TIME: Final = 1e3
# Steps that make a usual gradient norm: the first few may be far from it.
FEWEST_STEPS: Final = 10
# Pairs of elements that a norm makes all but the same. Norms other than layer norm have none, and layer norm on many features.
MERGED: Final = 0.01


@dataclass(frozen=True)
class Health:
    """A verdict on the gradients of a network.

    Attributes:
        verdict: `vanishing`, `exploding` or `healthy`.
        evidence: One sentence that says which numbers it comes from.
    """

    verdict: Verdict
    evidence: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.evidence}"


def judge(names: Sequence[str], gradient: Sequence[Reading], activation: Sequence[Reading]) -> Health:
    """Whether gradients vanish or explode on their way through a network, at one moment.

    Args:
        names: Of the layers, in forward order.
        gradient: Norm of each layer's gradient; None where there is none.
        activation: Root mean square of each layer's activations; None where there are none.
    """
    if not len(names) == len(gradient) == len(activation):
        counts = f"{len(names)} names, {len(gradient)} gradients and {len(activation)} activations"
        raise ValueError(f"every layer has a name, a gradient and an activation, which may be None; got {counts}.")
    gradients, activations = _present(names, gradient), _present(names, activation)
    if not gradients:
        raise ValueError("there is nothing to judge: no layer has a gradient.")
    return _not_finite(activations, gradients) or _dead(gradients) or _growing_activations(activations) or _over_depth(gradients)


def judge_over_time(
    moments: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None, *, steps: Sequence[Mapping[str, Any]] = ()
) -> Health:
    """Whether gradients vanish or explode in the course of training.

    An explosion counts whenever it was; otherwise the last moment decides.

    Args:
        moments: What `LayerObserver` said, in order: `epoch`, `step`, `gradient`, `activation`, and `names` unless given apart.
        names: Of the layers.
        steps: Rows of single steps with `step`, `loss` and `gradient_norm`, as in `steps.csv`; None in them is not finite.
    """
    if not moments:
        raise ValueError("there is nothing to judge: no moment of the run was observed.")
    judged = [judge(names or moment["names"], moment["gradient"], moment["activation"]) for moment in moments]
    for moment, health in zip(moments, judged, strict=True):
        if health.verdict == "exploding":
            return Health("exploding", f"{when(moment)}, {health.evidence}")
    exploded = _stopped(steps) or _grew_between_moments(moments) or _grew_between_steps(steps)
    if exploded:
        return exploded
    last = judged[-1]
    if len(moments) == 1:
        return Health(last.verdict, f"{when(moments[0])}, {last.evidence}")
    changed = "" if judged[0].verdict == last.verdict else f" ({when(moments[0])} it was {judged[0].verdict})"
    grown = ""
    if last.verdict == "healthy":
        norms = [total_gradient(moment) for moment in moments]
        grown = f"; over {len(moments)} moments the gradient norm of all layers went from {norms[0]:.2g} to {norms[-1]:.2g}"
    return Health(last.verdict, f"{when(moments[-1])}, {last.evidence}{grown}{changed}")


def judge_collapse(merged: Mapping[str, float]) -> str | None:
    """Says which norm makes elements of a set indistinguishable, where one does.

    Args:
        merged: For each norm the share of pairs of elements that it makes all but the same, as `read_collapse` gives it.
    """
    if not merged:
        return None
    worst = max(merged, key=lambda name: merged[name])
    if merged[worst] < MERGED:
        return None
    return (
        f"{worst} makes {100 * merged[worst]:.0f} % of the pairs of elements of a set all but the same: "
        "what they differed in is lost to the layers behind it"
    )


def total_gradient(moment: Mapping[str, Any]) -> float:
    """The norm of the gradient of all layers together."""
    return math.hypot(*(value for value in as_floats(moment["gradient"]) if value is not None))


def when(moment: Mapping[str, Any]) -> str:
    """A moment of a run, in words."""
    return "before training" if moment["step"] == 0 else f"after epoch {moment['epoch']}"


# ------------------------------------------------------------------------------------------------------- at one moment

_Values = list[tuple[str, float]]


def _present(names: Sequence[str], values: Sequence[Reading]) -> _Values:
    return [(name, value) for name, value in zip(names, as_floats(values), strict=True) if value is not None]


def _not_finite(activations: _Values, gradients: _Values) -> Health | None:
    for name, value in activations:
        if not math.isfinite(value):
            return Health("exploding", f"the activations of {name} are {value}")
    for name, value in reversed(gradients):  # the way of the backward pass: the first that it meets is the cause
        if not math.isfinite(value):
            return Health("exploding", f"the gradient of {name} is {value}")
    return None


def _dead(gradients: _Values) -> Health | None:
    if any(value for _, value in gradients):
        return None
    return Health("vanishing", f"the gradient of every layer, all {len(gradients)} of them, is exactly 0")


def _growing_activations(activations: _Values) -> Health | None:
    lowest: tuple[str, float] | None = None
    for name, value in activations:
        if lowest is not None and value > ACTIVATION_GROWTH * lowest[1]:
            growth = f"{value / lowest[1]:.1e}-fold from {lowest[0]} ({lowest[1]:.2g}) to {name} ({value:.2g})"
            return Health("exploding", f"activations grow {growth}")
        if value > 0 and (lowest is None or value < lowest[1]):  # one that is all zeros tells nothing of growth
            lowest = (name, value)
    return None


def _over_depth(gradients: _Values) -> Health:
    half = (len(gradients) + 1) // 2
    early, early_value = max(gradients[:half], key=_size)
    late, late_value = max(gradients[half:], key=_size, default=(early, early_value))
    if early_value > EXPLODING * late_value:
        growth = f"{early_value:.2g} at {early}, but at most {late_value:.2g} in the second half of the layers, at {late}"
        return Health("exploding", f"gradients grow on their way back: {growth}")
    first, first_value = gradients[0]
    largest, largest_value = max(gradients, key=_size)
    if first == largest:
        return Health("healthy", f"the gradient of the first layer, {first}, is the largest of all ({first_value:.2g})")
    compared = f"times that of {largest}, the largest ({first_value:.2g} against {largest_value:.2g})"
    share = f"the gradient of the first layer, {first}, is {first_value / largest_value:.1e} {compared}"
    return Health("vanishing" if first_value < VANISHING * largest_value else "healthy", share)


def _size(pair: tuple[str, float]) -> float:
    return pair[1]


# ------------------------------------------------------------------------------------------------------- over time


def _stopped(steps: Sequence[Mapping[str, Any]]) -> Health | None:
    for row in steps:
        if any(value is None or not math.isfinite(float(value)) for value in (row["loss"], row["gradient_norm"])):
            return Health("exploding", f"at step {row['step']}, the loss or its gradient was not finite")
    return None


def _grew_between_moments(moments: Sequence[Mapping[str, Any]]) -> Health | None:
    norms = [total_gradient(moment) for moment in moments]
    for number in range(1, len(norms)):
        usual = statistics.median(norms[:number])
        if norms[number] > GROWTH_OVER_TIME * usual > 0:
            times = f"{norms[number] / usual:.1e}-fold, from {usual:.2g}, the median until then, to {norms[number]:.2g}"
            return Health("exploding", f"{when(moments[number])}, the gradient norm of all layers had grown {times}")
    return None


def _grew_between_steps(steps: Sequence[Mapping[str, Any]]) -> Health | None:
    norms = [float(row["gradient_norm"]) for row in steps]
    for number in range(FEWEST_STEPS, len(norms)):
        usual = statistics.median(norms[:number])
        if norms[number] > GROWTH_OVER_TIME * usual > 0:
            times = f"{norms[number] / usual:.1e} times the median of the steps before ({norms[number]:.2g} against {usual:.2g})"
            return Health("exploding", f"at step {steps[number]['step']}, the gradient norm was {times}")
    return None
