"""Losses and gradient norms on their way from the device to the history."""

import math

import pytest
import torch
from torch import nn

from orderless.train.watch import Watch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def make_watch(device="cpu"):
    weight = nn.Parameter(torch.ones(1, device=device))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=True)
    return Watch(torch.device(device), optimizer), optimizer, weight


def add(watch, step, loss=None, norm=1.0, device="cpu"):
    loss = float(step) if loss is None else loss
    known = {"step": step, "num_sets": 10 * step, "num_elements": 100 * step, "learning_rate": 0.5, "batches": (f"batch {step}",)}
    watch.add(torch.tensor(loss, device=device), torch.tensor(norm, device=device), **known)


def test_on_the_cpu_every_number_is_read_at_once():
    watch, _, _ = make_watch()
    for step in (1, 2, 3):
        add(watch, step, loss=step / 4, norm=step / 2)
        (taken,) = watch.read()
        assert (taken.step, taken.loss, taken.gradient_norm) == (step, step / 4, step / 2)
    assert list(watch.read(everything=True)) == []


def test_what_is_known_of_a_step_comes_with_it():
    watch, _, _ = make_watch()
    add(watch, 3)
    (taken,) = watch.read()
    assert (taken.num_sets, taken.num_elements, taken.learning_rate, taken.batches) == (30, 300, 0.5, ("batch 3",))


def test_steps_come_in_their_order():
    watch, _, _ = make_watch()
    for step in range(1, 6):
        add(watch, step)
    assert [(taken.step, taken.loss) for taken in watch.read()] == [(step, float(step)) for step in range(1, 6)]


def test_a_number_is_what_it_was_when_it_was_added():
    """The tensor of a loss may be used again, as that of a recording is."""
    watch, _, _ = make_watch()
    loss = torch.tensor(1.0)
    watch.add(loss, torch.tensor(2.0), step=1, num_sets=1, num_elements=1, learning_rate=0.1, batches=())
    loss.fill_(9.0)
    assert next(watch.read()).loss == 1.0


def test_on_the_cpu_the_optimizer_has_no_flag():
    _, optimizer, _ = make_watch()
    assert not hasattr(optimizer, "found_inf")


@needs_gpu
def test_a_gpu_is_read_two_steps_late_and_in_order():
    watch, _, _ = make_watch("cuda:0")
    seen = []
    for step in range(1, 9):
        add(watch, step, device="cuda:0")
        seen.append([taken.step for taken in watch.read()])
    assert seen == [[], [], [1], [2], [3], [4], [5], [6]]
    rest = list(watch.read(everything=True))
    assert [(taken.step, taken.loss) for taken in rest] == [(7, 7.0), (8, 8.0)]


@needs_gpu
@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf)], ids=["loss", "gradient"])
def test_from_a_step_that_failed_on_the_optimizer_leaves_the_weights_alone(loss, norm):
    watch, optimizer, weight = make_watch("cuda:0")
    values, taken = [], []
    for step in range(1, 5):
        weight.grad = torch.ones_like(weight)
        add(watch, step, **({"loss": loss, "norm": norm} if step == 3 else {}), device="cuda:0")
        taken += watch.read()
        optimizer.step()
        values.append(weight.item())
    assert values[0] != values[1]
    assert values[1] == values[2] == values[3]  # the fourth step was finite again
    taken += watch.read(everything=True)
    assert [math.isfinite(t.loss + t.gradient_norm) for t in taken] == [True, True, False, True]
