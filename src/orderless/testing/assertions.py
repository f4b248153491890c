"""The symmetries as assertions.

The tolerance is relative to the size of the module's answers and comes from the dtype of the elements. With `gradients=True`
gradients are compared, too, where the answers are right: that takes the memory of a backward pass, and several of them.
"""

import torch

from orderless.sets import SetBatch
from orderless.testing.calling import Module, Takes
from orderless.testing.gradients import (
    PADDING,
    independence_of_gradients,
    padding_of_gradients,
    permutation_of_gradients,
)
from orderless.testing.violations import (
    IN_GRADIENTS,
    independence_violation,
    padding_in_gradients,
    padding_violation,
    permutation_violation,
)

# What rounding may do: sums in another order, through some fifty layers.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 1e-1, torch.float16: 5e-2}
# Of gradients. A backward pass divides by small deviations layer by layer, and where rounding decides on which side of a ReLU's 0
# a number lies, part of an element's gradient is there or not: rare in float64, some in a million in float32, and everywhere in
# half precision, where they are not compared. A set of 100 elements that lost the gradient of one is off by 1e-1.
GRADIENT_TOLERANCES = {torch.float64: 1e-6, torch.float32: 5e-2}


def assert_invariant(
    module: Module,
    batch: SetBatch,
    *,
    tolerance: float | None = None,
    takes: Takes = "auto",
    seed: int = 0,
    gradients: bool = False,
) -> None:
    """Asserts that the order of a set's elements does not change the module's answer for the set.

    Args:
        module: Takes a SetBatch, or `(x, mask)`, and answers per set.
        batch: What to try it on: with sets of two or more elements, or nothing can be shuffled.
        tolerance: Largest relative difference to accept. Default: by the dtype of `batch`. Of gradients more is accepted; a
            larger tolerance holds for them, too.
        takes: `set_batch`, `mask` (True at real elements), `padding_mask` (True at padding), `lengths` or `dense`;
            `auto` reads the module's signature.
        seed: Of the shuffle.
        gradients: Whether the gradients must have the symmetry as well. Not in half precision, where rounding decides.
    """
    violation, symmetry = permutation_violation(module, batch, takes=takes, seed=seed)
    if symmetry != "invariance":
        raise AssertionError("expected one answer per set, but the module answers per element; try assert_equivariant.")
    _assert_small(violation, _allowed(batch, tolerance), "shuffling the elements of each set moved the answer")
    if gradients:
        _assert_shuffled_gradients(module, batch, tolerance, takes, seed)


def assert_equivariant(
    module: Module,
    batch: SetBatch,
    *,
    tolerance: float | None = None,
    takes: Takes = "auto",
    seed: int = 0,
    gradients: bool = False,
) -> None:
    """Asserts that shuffling a set's elements shuffles the answers for them alike.

    Arguments as in `assert_invariant`.
    """
    violation, symmetry = permutation_violation(module, batch, takes=takes, seed=seed)
    if symmetry != "equivariance":
        raise AssertionError("expected one answer per element, but the module answers per set; try assert_invariant.")
    _assert_small(violation, _allowed(batch, tolerance), "shuffling the elements of each set did not shuffle the answers alike")
    if gradients:
        _assert_shuffled_gradients(module, batch, tolerance, takes, seed)


def assert_sets_independent(
    module: Module,
    batch: SetBatch,
    *,
    tolerance: float | None = None,
    takes: Takes = "auto",
    seed: int = 0,
    gradients: bool = False,
) -> None:
    """Asserts that the answer for a set depends neither on the other sets of the batch nor on its place in it.

    Arguments as in `assert_invariant`. The module is tried in the mode it is in: a batch norm in training mode fails. With
    `gradients=True` what sets give to the weights must add up, too.
    """
    allowed = _allowed(batch, tolerance)
    violation = independence_violation(module, batch, allowed=allowed, takes=takes, seed=seed)
    _assert_small(violation, allowed, "other batch mates moved the answer for a set")
    of_gradients = gradient_tolerance_for(batch.dtype, tolerance)
    if gradients and of_gradients is not None:
        violation, whose = independence_of_gradients(module, batch, allowed=of_gradients, takes=takes, seed=seed)
        _assert_small(violation, of_gradients, f"other batch mates moved {whose}, though not the answer,")


def assert_padding_ignored(
    module: Module, batch: SetBatch, *, tolerance: float | None = None, takes: Takes = "auto", gradients: bool = False
) -> None:
    """Asserts that neither the amount nor the content of padding changes the answer, or makes gradients NaN or infinite.

    Arguments as in `assert_invariant`. With `gradients=True` padding with finite numbers must get no gradient, and change none.
    """
    allowed = _allowed(batch, tolerance)
    violation, cause = padding_violation(module, batch, takes=takes)
    _assert_small(violation, allowed, f"padding with {cause} moved the answer")
    fill = padding_in_gradients(module, batch, takes=takes)
    if fill is not None:
        raise AssertionError(f"padding with {fill} {IN_GRADIENTS}.")
    of_gradients = gradient_tolerance_for(batch.dtype, tolerance)
    if gradients and of_gradients is not None:
        violation, moved = padding_moves_gradients(module, batch, allowed=of_gradients, takes=takes)
        _assert_small(violation, of_gradients, f"{moved},")


def tolerance_for(dtype: torch.dtype) -> float:
    """The largest relative difference that rounding may cause in this dtype."""
    return TOLERANCES.get(dtype, TOLERANCES[torch.float32])


def gradient_tolerance_for(dtype: torch.dtype, tolerance: float | None = None) -> float | None:
    """The largest relative difference of gradients to accept in this dtype; None where gradients are not compared."""
    if dtype in (torch.float16, torch.bfloat16):
        return None
    return max(GRADIENT_TOLERANCES.get(dtype, GRADIENT_TOLERANCES[torch.float32]), tolerance or 0.0)


def padding_moves_gradients(module: Module, batch: SetBatch, *, allowed: float, takes: Takes) -> tuple[float, str]:
    """The violation and what padding does, in words."""
    violation, whose, cause = padding_of_gradients(module, batch, allowed=allowed, takes=takes)
    if whose == PADDING:
        return violation, f"padding with {cause} gets a gradient, though the answer does not depend on it"
    return violation, f"padding with {cause} moved {whose}, though not the answer"


def _assert_shuffled_gradients(module: Module, batch: SetBatch, tolerance: float | None, takes: Takes, seed: int) -> None:
    allowed = gradient_tolerance_for(batch.dtype, tolerance)
    if allowed is None:
        return
    violation, whose = permutation_of_gradients(module, batch, allowed=allowed, takes=takes, seed=seed)
    if violation <= allowed:
        return
    what = f"shuffling the elements of each set moved {whose}, though not the answer,"
    if batch.dtype.is_floating_point:
        untied = batch.with_x(batch.x + torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(seed)).to(batch.x))
        if permutation_of_gradients(module, untied, allowed=allowed, takes=takes, seed=seed)[0] <= allowed:
            what += " where elements tie (max and sort give it to one of them, amax shares it)"
    _assert_small(violation, allowed, what)


def _allowed(batch: SetBatch, tolerance: float | None) -> float:
    if not isinstance(batch, SetBatch):
        raise TypeError(f"a module is tried on a SetBatch, got {type(batch).__name__}. Make one with SetBatch.from_list.")
    allowed = tolerance_for(batch.dtype) if tolerance is None else tolerance
    if not allowed >= 0:
        raise ValueError(f"tolerance must be at least 0; got {tolerance!r}.")
    return allowed


def _assert_small(violation: float, allowed: float, what: str) -> None:
    if not violation <= allowed:
        raise AssertionError(f"{what} by {violation:.2g} of its size; at most {allowed:.0e} is rounding.")
