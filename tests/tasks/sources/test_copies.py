"""Copies of training sets among test sets are found, and nothing else (`copies.py`)."""

import numpy as np
import pytest

from orderless.tasks.sources.copies import are_copies, find_copy, fingerprints


def draw(count, *, elements=20, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(count, elements, dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_a_copy_is_found_in_whatever_order_its_elements_are(dim):
    train, test = draw(1500, dim=dim), draw(1100, dim=dim, seed=1)
    assert find_copy(train, test) is None
    test[1050] = train[1203][::-1]
    assert find_copy(train, test) == (1203, 1050)


def test_one_other_number_is_no_copy():
    train, test = draw(30), draw(30, seed=1)
    test[4] = train[7]
    test[4, 3, 1] += 1e-6
    assert find_copy(train, test) is None


def test_swapped_features_and_doubled_elements_are_no_copies():
    train = draw(5)
    swapped, doubled = train.copy(), train.copy()
    swapped[2] = train[2][:, [1, 0, 2]]
    swapped[[0, 1, 3, 4]] += 1
    doubled[:, 0] = doubled[:, 1]
    assert find_copy(train, swapped) is None
    assert find_copy(train, doubled) is None


def test_sets_that_only_share_a_fingerprint_are_no_copies(monkeypatch):
    monkeypatch.setattr("orderless.tasks.sources.copies.fingerprints", lambda sets: np.zeros(len(sets), np.uint64))
    train, test = draw(6), draw(6, seed=1)
    assert find_copy(train, test) is None
    test[5] = train[3]
    assert find_copy(train, test) == (3, 5)


def test_zeros_of_either_sign_are_the_same_number():
    train = np.zeros((1, 2, 2), np.float32)
    assert find_copy(train, -train) == (0, 0)


def test_sets_of_another_shape_are_no_copies():
    assert find_copy(draw(3, elements=20), draw(3, elements=21)) is None


def test_copies_of_images_are_told():
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 4, 4)).astype(np.uint8)
    changed = images[3:6].copy()
    changed[1, 0, 0, 0] ^= 1
    assert are_copies(images, changed).tolist() == [True, False, True]
    assert are_copies(images[:0], changed).tolist() == [False] * 3
    assert are_copies(images, images[:0]).tolist() == []


def test_fingerprints_of_many_sets_differ():
    assert len(set(fingerprints(draw(3000, elements=4, dim=2)).tolist())) == 3000


@pytest.mark.parametrize("seed", range(20))
def test_fingerprints_ignore_order_and_the_sign_of_zero(seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(-1, 2, (3, 6, 2)).astype(np.float32)
    same = np.where(cells == 0, -cells, cells)[:, rng.permutation(6)]
    np.testing.assert_array_equal(fingerprints(cells), fingerprints(same))


def test_fingerprints_do_not_depend_on_how_many_are_taken_together():
    cells = np.random.default_rng(0).normal(size=(2500, 3, 2)).astype(np.float32)
    prints = fingerprints(cells)
    assert len(set(prints.tolist())) == 2500
    np.testing.assert_array_equal(prints[2000:], fingerprints(cells[2000:]))
