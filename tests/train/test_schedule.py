"""The learning rate of every step."""

import math

import pytest

from orderless.train.config import TrainConfig
from orderless.train.schedule import learning_rate_at


def rates(num_steps, **options):
    return [learning_rate_at(step, num_steps, TrainConfig(learning_rate=1.0, **options)) for step in range(num_steps)]


def test_constant_is_the_same_at_every_step():
    assert rates(5) == [1.0] * 5


def test_warmup_rises_linearly_and_is_full_with_its_last_step():
    assert rates(6, warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_cosine_starts_full_is_half_at_the_middle_and_would_be_zero_after_the_last_step():
    found = rates(100, schedule="cosine")
    assert found[0] == 1.0
    assert found[50] == pytest.approx(0.5)
    assert found[99] == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.99)))
    assert sorted(found, reverse=True) == found
    assert learning_rate_at(100, 100, TrainConfig(schedule="cosine")) == pytest.approx(0, abs=1e-12)


def test_cosine_begins_after_the_warmup():
    found = rates(14, schedule="cosine", warmup_steps=4)
    assert found[:4] == [0.25, 0.5, 0.75, 1.0]
    assert found[4] == 1.0
    assert found[9] == pytest.approx(0.5)


def test_a_warmup_longer_than_the_run_never_reaches_the_full_rate():
    assert max(rates(3, schedule="cosine", warmup_steps=10)) == pytest.approx(0.3)
