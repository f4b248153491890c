"""The weighted average of the layer-norm analysis."""

import math

import numpy as np
import pytest

from orderless import tasks


def load(name, tmp_path):
    return tasks.load_task(name, cache_dir=tmp_path, num_train=40, num_test=10, set_size=200)


def test_normal_elements_have_the_released_target(tmp_path):
    data = load("weighted_average_normal", tmp_path)
    assert data.element_shape == (100,)
    weights = 0.001 * np.arange(100)
    for x, target in data.train:
        assert target.item() == pytest.approx((x.double().numpy().mean(0) * weights).sum(), rel=1e-5, abs=1e-6)
        assert x.double().std(0).mean().item() == pytest.approx(1, abs=5 / math.sqrt(2 * 200 * 100))  # five standard errors


def test_categorical_elements_have_the_released_target(tmp_path):
    data = load("weighted_average_categorical", tmp_path)
    assert data.element_shape == (100,)
    for x, target in data.train:
        assert set(x.unique().tolist()) == {0.0, 1.0}
        assert (x.sum(1) == 1).all()
        assert target.item() == pytest.approx((x.double().numpy().mean(0) * np.arange(100)).sum(), rel=1e-6)


def test_categories_follow_the_sets_own_proportions(tmp_path):
    """Dirichlet(1) proportions differ widely between sets: over all sets each category is as likely as any other."""
    data = tasks.load_task("weighted_average_categorical", cache_dir=tmp_path, num_train=2000, num_test=1, set_size=50)
    total = sum(batch.sets.x.sum(0) for batch in data.train.batches(500)).numpy() / (2000 * 50)
    # a Dirichlet(1) share of 100 has mean 0.01 and standard deviation 0.00985; 2,000 sets; five standard errors for the extreme
    assert np.abs(total - 0.01).max() < 5 * np.sqrt((0.00985**2 + 0.01 / 50) / 2000)
