import numpy as np
import pytest

from orderless.estimators.validation import split_members


def split(labels=None, groups=None, num_sets=40, num_members=5, fraction=0.2, seed=0):
    return split_members(labels, groups, num_sets, num_members=num_members, fraction=fraction, seed=seed)


def test_members_validate_on_different_fifths_and_every_set_is_in_one():
    held = np.concatenate([validate for _, validate in split()])
    assert sorted(held) == list(range(40))
    for learn, validate in split():
        assert sorted([*learn, *validate]) == list(range(40))
        assert len(validate) == 8


def test_further_members_get_another_deal():
    splits = split(num_members=10)
    assert {tuple(v) for _, v in splits[:5]} != {tuple(v) for _, v in splits[5:]}


def test_the_seed_decides():
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(split(), split(), strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(split(), split(seed=1), strict=True))


def test_classes_are_dealt_out_evenly():
    labels = np.array([0] * 30 + [1] * 10)
    for _, validate in split(labels):
        assert np.bincount(labels[validate]).tolist() == [6, 2]


@pytest.mark.parametrize("labels", [None, np.arange(40) % 2], ids=["numbers", "classes"])
def test_no_group_is_on_both_sides(labels):
    groups = np.random.default_rng(0).integers(0, 9, size=40)
    sizes = []
    for learn, validate in split(labels, groups):
        assert not set(groups[learn]) & set(groups[validate])
        sizes.append(len(validate))
    assert max(sizes) <= 16
    assert min(sizes) >= 1


def test_no_class_is_left_without_a_set_to_learn_from():
    labels = np.array([0] * 20 + [1] * 19 + [2])
    for learn, _ in split(labels):
        assert set(labels[learn]) == {0, 1, 2}
    groups = np.repeat(np.arange(4), 10)
    by_group = np.repeat([0, 0, 1, 2], 10)  # a class in one group alone
    for learn, validate in split(by_group, groups):
        assert set(by_group[learn]) == {0, 1, 2}
        assert not set(groups[learn]) & set(groups[validate])


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.3, 0.4, 0.5, 0.8, 0.9])
def test_as_many_sets_are_held_back_as_was_asked_for(fraction):
    for learn, validate in split(num_sets=100, fraction=fraction):
        assert len(validate) == pytest.approx(100 * fraction, abs=1)
        assert sorted([*learn, *validate]) == list(range(100))


def test_of_few_groups_one_at_least_is_learned_from_and_one_held_back():
    for learn, validate in split(groups=np.arange(40) // 20, fraction=0.9):
        assert (len(learn), len(validate)) == (20, 20)
