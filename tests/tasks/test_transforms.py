"""What is done to elements before a network sees them (`transforms.py`)."""

import json

import numpy as np
import pytest

from orderless.tasks.transforms import AsStored, OneHot, Standardize, from_description

ALL = [AsStored(), Standardize((1.0, -2.0), (2.0, 4.0)), OneHot(5)]


@pytest.mark.parametrize("transform", ALL, ids=lambda t: type(t).__name__)
def test_a_manifest_can_say_it(transform):
    assert from_description(json.loads(json.dumps(transform.describe()))) == transform


def test_features_are_standardised_one_by_one():
    got = Standardize((1.0, -2.0), (2.0, 4.0))(np.array([[3.0, 2.0], [1.0, -2.0]], np.float32))
    assert got.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert got.dtype == np.float32


def test_categories_become_vectors():
    got = OneHot(3)(np.array([[2.0], [0.0]], np.float32))
    assert got.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert got.dtype == np.float32
    assert OneHot(3).element_shape((1,)) == (3,)


def test_numbers_stay_as_they_are():
    x = np.array([[255.0]], np.float32)
    assert AsStored()(x) is x
    assert AsStored().element_shape((3, 8, 8)) == (3, 8, 8)
