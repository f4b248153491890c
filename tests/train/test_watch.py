"""Losses and gradient norms on their way from the device to the history."""

import pytest
import torch

from orderless.train.watch import Watch

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def add(watch, step, loss=None, norm=1.0, device="cpu"):
    loss = float(step) if loss is None else loss
    known = {"step": step, "num_sets": 10 * step, "num_elements": 100 * step, "learning_rate": 0.5, "batches": (f"batch {step}",)}
    watch.add(torch.tensor([loss, norm], device=device), **known)


def test_on_the_cpu_every_number_is_read_at_once():
    watch = Watch(CPU)
    for step in (1, 2, 3):
        add(watch, step, loss=step / 4, norm=step / 2)
        (taken,) = watch.read()
        assert (taken.step, taken.loss, taken.gradient_norm) == (step, step / 4, step / 2)
    assert list(watch.read(everything=True)) == []


def test_what_is_known_of_a_step_comes_with_it():
    watch = Watch(CPU)
    add(watch, 3)
    (taken,) = watch.read()
    assert (taken.num_sets, taken.num_elements, taken.learning_rate, taken.batches) == (30, 300, 0.5, ("batch 3",))


def test_steps_come_in_their_order():
    watch = Watch(CPU)
    for step in range(1, 6):
        add(watch, step)
    assert [(taken.step, taken.loss) for taken in watch.read()] == [(step, float(step)) for step in range(1, 6)]


def test_a_number_is_what_it_was_when_it_was_added():
    """The tensor of a loss may be used again, as that of a recording is."""
    watch = Watch(CPU)
    numbers = torch.tensor([1.0, 2.0])
    watch.add(numbers, step=1, num_sets=1, num_elements=1, learning_rate=0.1, batches=())
    numbers.fill_(9.0)
    taken = next(watch.read())
    assert (taken.loss, taken.gradient_norm) == (1.0, 2.0)


@needs_gpu
def test_a_gpu_is_read_two_steps_late_and_in_order():
    watch = Watch(torch.device("cuda", 0))
    seen = []
    for step in range(1, 9):
        add(watch, step, device="cuda:0")
        seen.append([taken.step for taken in watch.read()])
    assert seen == [[], [], [1], [2], [3], [4], [5], [6]]
    rest = list(watch.read(everything=True))
    assert [(taken.step, taken.loss) for taken in rest] == [(7, 7.0), (8, 8.0)]
