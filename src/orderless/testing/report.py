"""All symmetries of one module at once, each with a verdict: what `orderless check` prints."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from orderless.sets import SetBatch
from orderless.testing.assertions import gradient_tolerance_for, padding_moves_gradients, tolerance_for
from orderless.testing.calling import Caller, Module, Takes, untouched
from orderless.testing.gradients import independence_of_gradients, permutation_of_gradients
from orderless.testing.violations import (
    IN_GRADIENTS,
    by_set,
    gradients_are_finite,
    independence_violation,
    padding_in_gradients,
    padding_violation,
    permutation_violation,
    relative_difference,
    values_of,
)

Property = Literal["permutation", "independence", "padding", "empty"]
Status = Literal["pass", "FAIL", "error", "n/a"]

MEANINGS: dict[Property, str] = {
    "permutation": "the order of elements does not matter",
    "independence": "sets ignore their batch mates",
    "padding": "padding changes nothing",
    "empty": "empty sets give finite numbers and gradients",
}
SIZES = (5, 1, 100, 2)  # one larger than the limits that people build in
EQUAL_SIZES = ((8, 8, 8), (100, 100, 100))  # of a module that takes nothing else
_ONE_OF_TIED = "where elements tie, their order decides whose the gradient is, as in max and sort; amax shares it"
_MASKS = {"mask": "its mask taken as True at real elements", "padding_mask": "its mask taken as True at padding"}


@dataclass(frozen=True)
class Verdict:
    """The outcome for one property.

    Attributes:
        property: Which one.
        status: `pass`, `FAIL`, `error` where the module raised, `n/a` where the question cannot be put to it.
        violation: Largest difference relative to the size of the answer or, where it is the gradient that moved, of the
            gradient; None where there is no number.
        detail: What was found, in words.
    """

    property: Property
    status: Status
    violation: float | None
    detail: str


def check_module(
    module: Module,
    element_shape: tuple[int, ...],
    *,
    takes: Takes = "auto",
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    skip: tuple[Property, ...] = (),
    seed: int = 0,
) -> list[Verdict]:
    """Puts every question to a module, in the mode (training or eval) in which it is.

    Args:
        module: Takes a SetBatch or a padded tensor, as `takes` says, of dtype `dtype`.
        element_shape: Shape of one element.
        takes: As in the assertions.
        dtype: Of the random elements.
        tolerance: Largest violation to pass. Default: by dtype. One that is larger than what is accepted of gradients holds
            for them, too.
        skip: Questions not to put.
        seed: Of the random elements and shuffles.
    """
    batch = _random_batch(SIZES, element_shape, dtype, seed).to(_device_of(module))
    takes = Caller(module, batch, takes).takes
    batches = [batch]
    if takes == "dense":
        batches = [_random_batch(sizes, element_shape, dtype, seed).to(batch.device) for sizes in EQUAL_SIZES]
    allowed = tolerance_for(dtype) if tolerance is None else tolerance
    of_gradients = gradient_tolerance_for(dtype, tolerance)
    questions: dict[Property, Callable[[], tuple[float, str]]] = {
        "permutation": lambda: _permutation_violation(module, batches, takes, allowed, of_gradients, seed),
        "independence": lambda: _independence_violation(module, batches, takes, allowed, of_gradients, seed),
        "padding": lambda: _padding_violation(module, batch, takes, allowed, of_gradients),
        "empty": lambda: _empty_violation(module, batch, takes, allowed),
    }
    verdicts = []
    for name, ask in questions.items():
        if name in skip:
            continue
        if takes == "dense" and name in ("padding", "empty"):
            verdicts.append(Verdict(name, "n/a", None, "the module takes only a dense tensor"))
            continue
        verdicts.append(_judge(name, ask, allowed, module))
    notes = {"permutation": _draw_note(module, batches[0], takes, allowed), "padding": _MASKS.get(takes, "")}
    return [v if v.violation is None else replace(v, detail=_join(v.detail, notes.get(v.property, ""))) for v in verdicts]


def _permutation_violation(
    module: Module, batches: Sequence[SetBatch], takes: Takes, allowed: float, of_gradients: float | None, seed: int
) -> tuple[float, str]:
    """Elements that differ in every feature first, then elements that agree in some, as counts and categories do.

    Whoever takes the first of the largest, or sorts, is right about the former and wrong about the latter. Gradients come last.
    Where elements tie, a maximum of torch's gives it to one of them, which is told and no violation.
    """

    def ask(batch: SetBatch) -> tuple[float, str]:
        return permutation_violation(module, batch, takes=takes, seed=seed)

    violation, symmetry = _worst(ask, batches, allowed)
    if not violation <= allowed:
        return violation, symmetry
    tied_batches = [batch.with_x(_tied(batch.x)) for batch in batches] if batches[0].dtype.is_floating_point else []
    tied = 0.0
    with contextlib.suppress(Exception):  # what cannot be computed of them, or is not finite, is no matter of order
        tied = _worst(ask, tied_batches, allowed)[0] if tied_batches else 0.0
    if allowed < tied < math.inf:
        return tied, f"{symmetry} where elements tie in some features"
    if of_gradients is None:
        return violation, symmetry
    moved, whose = _worst_gradient(permutation_of_gradients, module, batches, takes, of_gradients, seed)
    if not moved <= of_gradients:
        return moved, f"{symmetry} of {whose}, though not of the answer"
    moved, _ = _worst_gradient(permutation_of_gradients, module, tied_batches, takes, of_gradients, seed)
    if of_gradients < moved < math.inf:  # a jump, so that it is no mistake to take either side
        return violation, f"{symmetry}; {_ONE_OF_TIED}"
    return violation, symmetry


def _independence_violation(
    module: Module, batches: Sequence[SetBatch], takes: Takes, allowed: float, of_gradients: float | None, seed: int
) -> tuple[float, str]:
    """What batch mates do to the answer and, where that is nothing, to gradients."""
    violation, _ = _worst(
        lambda b: (independence_violation(module, b, allowed=allowed, takes=takes, seed=seed), ""), batches, allowed
    )
    if not violation <= allowed:
        return violation, "the answer for a set depends on the other sets of its batch"
    if of_gradients is None:
        return violation, ""
    moved, whose = _worst_gradient(independence_of_gradients, module, batches, takes, of_gradients, seed)
    if not moved <= of_gradients:
        return moved, f"the other sets of the batch moved {whose}, though not the answer"
    return violation, ""


def _worst_gradient(
    ask: Callable[..., tuple[float, str]],
    module: Module,
    batches: Sequence[SetBatch],
    takes: Takes,
    allowed: float,
    seed: int,
) -> tuple[float, str]:
    return max((ask(module, batch, allowed=allowed, takes=takes, seed=seed) for batch in batches), default=(0.0, ""))


def _tied(x: Tensor) -> Tensor:
    """Elements of four values, none of which is 0: a network may divide by the length of an element."""
    return torch.where(x < 0, -1.0, 1.0).to(x.dtype) * torch.where(x.abs() > 1, 2.0, 1.0).to(x.dtype)


def _worst(ask: Callable[[SetBatch], tuple[float, str]], batches: Sequence[SetBatch], allowed: float) -> tuple[float, str]:
    """The largest violation. Where the module raises on some batch, that is raised, unless on another it is too far off."""
    found, raised = [], None
    for batch in batches:
        try:
            found.append(ask(batch))
        except Exception as error:  # kept: how far an answer moved, where it did, says more
            raised = raised or error
    if raised is not None and (not found or max(found)[0] <= allowed):
        raise raised
    return max(found)


def _draw_note(module: Module, batch: SetBatch, takes: Takes, allowed: float) -> str:
    """Questions are put with the same random numbers each time; in eval mode there should be none."""
    if isinstance(module, nn.Module) and module.training:
        return ""
    call = Caller(module, batch, takes)
    try:
        with untouched(module):
            once, again = (values_of(call(batch)).nan_to_num() for _ in range(2))
        differ = relative_difference(once, again) > allowed  # less is the order of sums, where threads decide on it
    except Exception:  # which is reported with the question that raised it
        return ""
    return "but two calls on the same sets differ: the module draws random numbers, or keeps state" if differ else ""


def _judge(name: Property, ask: Callable[[], tuple[float, str]], allowed: float, module: Module) -> Verdict:
    try:
        violation, detail = ask()
    except Exception as error:  # somebody else's module may raise anything
        said = (str(error).splitlines() or [""])[0]
        return Verdict(name, "error", None, _join(f"{type(error).__name__}: {said}", _mode_hint(module, ask, allowed)))
    if violation <= allowed:
        shown = detail if name == "permutation" or violation == 0 else ""  # what came nearest to a violation is no finding
        return Verdict(name, "pass", violation, MEANINGS[name] + (f" ({shown})" if shown else ""))
    broken = f"shuffling the elements broke {detail}" if name == "permutation" else detail
    return Verdict(name, "FAIL", violation, _join(broken, _mode_hint(module, ask, allowed)))


def _join(finding: str, hint: str) -> str:
    return f"{finding}; {hint}" if hint else finding


def _mode_hint(module: Module, ask: Callable[[], tuple[float, str]], allowed: float) -> str:
    """Batch norm and dropout in training mode are the usual culprits: say so when eval mode cures it."""
    if not isinstance(module, nn.Module) or not module.training:
        return ""
    modes = {child: child.training for child in module.modules()}
    module.eval()
    try:
        cured = ask()[0] <= allowed
    except Exception:  # in eval mode too
        cured = False
    finally:
        for child, training in modes.items():
            child.training = training
    return "the module is in training mode, and passes in eval mode: call .eval()" if cured else ""


def _padding_violation(
    module: Module, batch: SetBatch, takes: Takes, allowed: float, of_gradients: float | None
) -> tuple[float, str]:
    """What padding does to the answer and, where that is nothing, to gradients."""
    violation, cause = padding_violation(module, batch, takes=takes)
    if not violation <= allowed:
        return violation, f"padding with {cause} moved the answer"
    if (fill := padding_in_gradients(module, batch, takes=takes)) is not None:
        return math.inf, f"padding with {fill} {IN_GRADIENTS}"
    if of_gradients is not None:
        moved, does = padding_moves_gradients(module, batch, allowed=of_gradients, takes=takes)
        if not moved <= of_gradients:
            return moved, does
    return violation, cause


def _empty_violation(module: Module, batch: SetBatch, takes: Takes, allowed: float) -> tuple[float, str]:
    """Puts an empty set into the batch: everything must stay finite, and the others must not notice."""
    call = Caller(module, batch, takes)
    with_empty = SetBatch.from_list([*batch.to_list(), batch.x[:0]])
    with untouched(module):
        plain = call(batch)
    with untouched(module):
        answer = call(with_empty)
    if not bool(values_of(answer).isfinite().all()):
        return math.inf, "an empty set gives NaN or Inf"
    before, after = by_set(plain), by_set(answer)
    moved = max((relative_difference(a, b, among=before) for a, b in zip(before, after, strict=False)), default=0.0)
    if not moved <= allowed:
        return moved, "an empty set moved the answers for the others"
    nothing, no_element = batch.x.new_zeros(1, 1, *batch.element_shape), batch.x.new_zeros(1, 1, dtype=torch.bool)
    with untouched(module):
        alone = call.on_padded(nothing, no_element)
    if not bool(values_of(alone).isfinite().all()):
        return math.inf, "a batch of nothing but an empty set gives NaN or Inf"
    if batch.dtype.is_floating_point and not gradients_are_finite(module, with_empty.x, lambda x: call(with_empty.with_x(x))):
        return math.inf, "an empty set makes gradients NaN or Inf"
    return moved, ""


def _device_of(module: Module) -> torch.device:
    parameters = module.parameters() if isinstance(module, nn.Module) else iter(())
    return next((p.device for p in parameters), torch.device("cpu"))


def _random_batch(sizes: tuple[int, ...], element_shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> SetBatch:
    generator = torch.Generator().manual_seed(seed)
    sets = [torch.randn(size, *element_shape, generator=generator, dtype=torch.float64) for size in sizes]
    return SetBatch.from_list([s.to(dtype) for s in sets])
