"""The learning rate of every step."""

import math

import pytest
import torch

from orderless.train.config import TrainConfig
from orderless.train.schedule import learning_rate_at, rate_after


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


def test_the_eleventh_epoch_without_a_lower_loss_halves_the_rate():
    assert rate_after([1.0] * 11, 1e-3) == 1e-3  # the first is the lowest, ten have waited
    assert rate_after([1.0] * 12, 1e-3) == 5e-4
    assert rate_after([1.0] * 22, 1e-3) == 5e-4
    assert rate_after([1.0] * 23, 1e-3) == 2.5e-4
    assert rate_after([1.0] * 1000, 1e-3) == 1e-5
    assert rate_after([1.0] * 1000, 1e-6) == 1e-6  # a floor lifts nothing
    assert rate_after([1 / n for n in range(1, 100)], 1e-3) == 1e-3


def test_plateaus_are_those_of_torch():
    losses = torch.randn(300, generator=torch.Generator().manual_seed(0)).abs().cumsum(0).reciprocal().clamp(min=0.02).tolist()
    losses[100:110] = [float("nan")] * 10
    optimizer = torch.optim.Adam([torch.zeros(1)], lr=1e-3)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=10, min_lr=1e-5)
    for n, loss in enumerate(losses):
        theirs.step(loss)
        assert rate_after(losses[: n + 1], 1e-3) == pytest.approx(optimizer.param_groups[0]["lr"])
    assert rate_after(losses, 1e-3) < 1e-3


def test_a_plateau_counts_after_the_warmup():
    config = TrainConfig(learning_rate=1e-3, schedule="plateau", warmup_steps=2)
    assert learning_rate_at(0, 9, config, [1.0] * 12) == 5e-4
    assert learning_rate_at(5, 9, config, [1.0] * 12) == 5e-4
    assert learning_rate_at(5, 9, config) == 1e-3
