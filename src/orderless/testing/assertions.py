"""The symmetries as assertions.

The tolerance is relative to the size of the module's answers and comes from the dtype of the elements.
"""

import torch

from orderless.sets import SetBatch
from orderless.testing.calling import Module, Takes
from orderless.testing.violations import (
    IN_GRADIENTS,
    independence_violation,
    padding_in_gradients,
    padding_violation,
    permutation_violation,
)

# What rounding may do: sums in another order, through some fifty layers.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 1e-1, torch.float16: 5e-2}


def assert_invariant(
    module: Module, batch: SetBatch, *, tolerance: float | None = None, takes: Takes = "auto", seed: int = 0
) -> None:
    """Asserts that the order of a set's elements does not change the module's answer for the set.

    Args:
        module: Takes a SetBatch, or `(x, mask)`, and answers per set.
        batch: What to try it on: with sets of two or more elements, or nothing can be shuffled.
        tolerance: Largest relative difference to accept. Default: by the dtype of `batch`.
        takes: `set_batch`, `mask` (True at real elements), `padding_mask` (True at padding), `lengths` or `dense`;
            `auto` reads the module's signature.
        seed: Of the shuffle.
    """
    violation, symmetry = permutation_violation(module, batch, takes=takes, seed=seed)
    if symmetry != "invariance":
        raise AssertionError("expected one answer per set, but the module answers per element; try assert_equivariant.")
    _assert_small(violation, _allowed(batch, tolerance), "shuffling the elements of each set moved the answer")


def assert_equivariant(
    module: Module, batch: SetBatch, *, tolerance: float | None = None, takes: Takes = "auto", seed: int = 0
) -> None:
    """Asserts that shuffling a set's elements shuffles the answers for them alike. Arguments as in `assert_invariant`."""
    violation, symmetry = permutation_violation(module, batch, takes=takes, seed=seed)
    if symmetry != "equivariance":
        raise AssertionError("expected one answer per element, but the module answers per set; try assert_invariant.")
    _assert_small(violation, _allowed(batch, tolerance), "shuffling the elements of each set did not shuffle the answers alike")


def assert_sets_independent(
    module: Module, batch: SetBatch, *, tolerance: float | None = None, takes: Takes = "auto", seed: int = 0
) -> None:
    """Asserts that the answer for a set depends neither on the other sets of the batch nor on its place in it.

    Arguments as in `assert_invariant`. The module is tried in the mode it is in: a batch norm in training mode fails.
    """
    allowed = _allowed(batch, tolerance)
    violation = independence_violation(module, batch, allowed=allowed, takes=takes, seed=seed)
    _assert_small(violation, allowed, "other batch mates moved the answer for a set")


def assert_padding_ignored(module: Module, batch: SetBatch, *, tolerance: float | None = None, takes: Takes = "auto") -> None:
    """Asserts that neither the amount nor the content of padding changes the answer, or makes gradients NaN or infinite.

    Arguments as in `assert_invariant`.
    """
    allowed = _allowed(batch, tolerance)
    violation, cause = padding_violation(module, batch, takes=takes)
    _assert_small(violation, allowed, f"padding with {cause} moved the answer")
    fill = padding_in_gradients(module, batch, takes=takes)
    if fill is not None:
        raise AssertionError(f"padding with {fill} {IN_GRADIENTS}.")


def tolerance_for(dtype: torch.dtype) -> float:
    """The largest relative difference that rounding may cause in this dtype."""
    return TOLERANCES.get(dtype, TOLERANCES[torch.float32])


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
