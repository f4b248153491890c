"""The least that a case must move: bytes between the GPU's memory and its cores, with every matrix product computed once.

A set norm, or an attention over a set, needs the whole set before the first number of its result, so everything that is alive
then is written and read again. A pass below is all elements once, `width` numbers each, read or written.
"""

from __future__ import annotations

from typing import Final

import torch
from cases import BenchCase

import orderless as ol

# forward of a block: read x, write the inner product | read that and x, write the sum
# backward: read the inner product, write the gradient of what the second product got | read that, the inner product and x, write
# the gradient of what the first product got | read that, x and the gradient of the sum, write the gradient of x
_CLEAN_BLOCK: Final = {"inference": 5, "training": 5 + 10}
# forward: read x to gather | read x, write h | read h, write the sum
# backward: read h, write the gradient of the normed h | read that, h, x and the gradient of the sum, write the gradients of h and
# of the queries | read the latter and x, write the gradient of the normed x | read that, x and the gradient of h, write that of x
_INDUCED_BLOCK: Final = {"inference": 5, "training": 5 + 15}
_PASSES: Final = {"deep_sets++": (_CLEAN_BLOCK, 2), "set_transformer++": (_INDUCED_BLOCK, 1)}  # and layers of a block
_ENDS: Final = {"inference": 2, "training": 5}  # write what the first layer gives, read what the pooling takes; and back
_INPUTS: Final = {"inference": 1, "training": 2}  # reads of the elements themselves
_PARAMETERS: Final = {"inference": 1, "training": 10}  # read, read, gradient written; Adam reads four and writes three
_NORM: Final = 5  # set norm: read x, write y | read x, read the gradient, write the gradient


def least_bytes(case: BenchCase, dtype: str) -> int:
    """Of one call, with activations in `dtype`."""
    elements = sum(case.sizes)
    if case.network == "set_norm":
        return _NORM * elements * case.in_features * 4
    assert case.depth is not None
    per_block, layers = _PASSES[case.network]
    passes = (case.depth // layers) * per_block[case.direction] + _ENDS[case.direction]
    activations = passes * elements * case.width * (2 if dtype == "bfloat16" else 4)
    inputs = _INPUTS[case.direction] * elements * case.in_features * 4
    return activations + inputs + _PARAMETERS[case.direction] * _num_parameters(case) * 4


def _num_parameters(case: BenchCase) -> int:
    with torch.device("meta"):
        model = ol.create_model(case.network, case.in_features, 1, depth=case.depth, width=case.width)
    return sum(parameter.numel() for parameter in model.parameters())
