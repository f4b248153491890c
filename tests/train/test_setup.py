"""What a run is set up with (`setup.py`)."""

import numpy as np
import pytest
import torch
from small_runs import small_task

from orderless.tasks.augment import SubsampledSets
from orderless.tasks.order import ByElements, BySets
from orderless.train import Execution, TrainConfig
from orderless.train.evaluating import Place
from orderless.train.one_device import OneDevice
from orderless.train.setup import (
    can_record_steps,
    check_num_steps,
    is_ragged,
    make_average,
    make_fabric,
    make_noise,
    make_optimizer,
    order_of_tests,
    order_of_training,
    process_settings,
    recorder_for,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


def test_training_sets_are_shuffled_and_test_sets_are_not(data):
    config = TrainConfig(batch_size=32)
    learning, testing = order_of_training(data.train, config), order_of_tests(data.test, config)
    assert isinstance(learning, BySets)
    assert not np.array_equal(np.concatenate(learning.plan(0)), np.concatenate(learning.plan(1)))
    assert np.array_equal(np.concatenate(testing.plan(0)), np.arange(50))


def test_the_released_protocol_leaves_out_the_batch_that_is_not_full(data):
    plans = [order_of_training(data.train, TrainConfig(batch_size=32, protocol=p)).plan(0) for p in ("whole", "released")]
    assert [[len(batch) for batch in plan] for plan in plans] == [[32, 32, 32, 4], [32, 32, 32]]


def test_batches_may_be_as_many_elements_as_fit(data):
    config = TrainConfig(batch_elements=50)
    assert isinstance(order_of_training(data.train, config), ByElements)
    assert all(len(batch) == 5 for batch in order_of_tests(data.test, config).plan(0))
    assert [len(batch) for batch in order_of_tests(data.test, TrainConfig(batch_elements=5)).plan(0)] == [1] * 50, "one at least"


def test_a_run_without_a_step_or_with_too_long_a_warmup_is_refused():
    config = TrainConfig(batch_size=32, drop_last=True)
    with pytest.raises(ValueError, match=r"left out \(drop_last\), and 10 training sets do not fill one of 32"):
        check_num_steps(0, 10, config, config)
    with pytest.raises(ValueError, match="warmup_steps=5 is more than the run has: 4 steps"):
        check_num_steps(4, 10, TrainConfig(warmup_steps=5), TrainConfig(warmup_steps=5))


def test_settings_of_the_process_are_put_back():
    before = torch.get_float32_matmul_precision()
    with process_settings(TrainConfig(precision="tf32"), []):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_what_was_not_asked_for_is_not_made(data):
    assert isinstance(make_fabric(Execution(device="cpu"), TrainConfig(), CPU, []), OneDevice)
    assert make_noise(TrainConfig(), data.train, 1, Place(CPU)) is None
    assert make_average(torch.nn.Linear(1, 1), TrainConfig()) is None
    assert recorder_for(Execution(device="cpu"), CPU) is None


def test_the_optimizer_is_the_one_that_was_asked_for():
    config = TrainConfig(optimizer="adamw", learning_rate=0.5, weight_decay=0.25)
    optimizer = make_optimizer(list(torch.nn.Linear(1, 1).parameters()), config)
    assert type(optimizer) is torch.optim.AdamW
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.5, 0.25)


def test_steps_are_recorded_where_they_are_one_batch_and_sets_are_padded_where_they_differ(data, caplog):
    assert can_record_steps(TrainConfig(), Place(CPU))
    assert not can_record_steps(TrainConfig(accumulate=2), Place(CPU))
    assert "a step is recorded where it is one batch" in caplog.text
    assert not is_ragged(data.train)
    assert not is_ragged(SubsampledSets(data.train, 0.5, 0, epochs=1))
