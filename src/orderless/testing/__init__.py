"""Symmetry checks for any module on sets, ours or yours.

Each takes a module and a `SetBatch` to try it on, and raises AssertionError with the size of the violation.
"""

from orderless.testing.assertions import (
    assert_equivariant,
    assert_invariant,
    assert_padding_ignored,
    assert_sets_independent,
)
from orderless.testing.report import Verdict, check_module

__all__ = [
    "Verdict",
    "assert_equivariant",
    "assert_invariant",
    "assert_padding_ignored",
    "assert_sets_independent",
    "check_module",
]
