"""What a run depends on."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from orderless.train.config import Execution, TrainConfig


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 10**22}, "epochs must be at most 1,000,000, got 10000000000000000000000"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
        ({"batch_size": True}, "batch_size must be a whole number of at least 1, got True"),
        ({"batch_elements": 0}, "batch_elements must be a whole number of at least 1, got 0"),
        ({"accumulate": 0}, "accumulate must be"),
        ({"warmup_steps": -1}, "warmup_steps must be a whole number of at least 0, got -1"),
        ({"optimizer": "sgd"}, "optimizer must be one of adam, adamw; got 'sgd'"),
        ({"schedule": "step"}, "schedule must be one of constant, cosine, plateau; got 'step'"),
        ({"precision": "16-mixed"}, "precision must be one of 32-true, tf32, bf16-mixed; got '16-mixed'"),
        ({"protocol": "best"}, "protocol must be one of whole, released; got 'best'"),
        ({"learning_rate": 0}, "learning_rate must be above 0, got 0.0"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, got 'fast'"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"weight_decay": -1}, "weight_decay must be 0 or more, got -1.0"),
        ({"clip_norm": 0}, "clip_norm must be above 0, got 0.0"),
        ({"ema_decay": 1}, "ema_decay must lie between 0 and 1, such as 0.999; got 1.0"),
        ({"warmup_share": 1}, "warmup_share must be 0 or more and below 1, such as 0.1; got 1.0"),
        ({"warmup_share": 0.1, "warmup_steps": 5}, "set warmup_steps or warmup_share"),
        ({"ema_share": 0}, "ema_share must lie between 0 and 1; got 0.0"),
        ({"ema_share": 0.1, "ema_decay": 0.9}, "set ema_decay or ema_share"),
        ({"subsample": 1.0}, "subsample must lie between 0 and 1; got 1.0"),
        ({"noise": 0}, "noise must be above 0 and at most 100, such as 0.3, or None; got 0.0"),
        ({"noise": 1e300}, "noise must be above 0 and at most 100, .* got 1e\\+300"),
        ({"noise": "loud"}, "noise must be a number, got 'loud'"),
        ({"protocol": "released", "batch_elements": 10}, "the released protocol has batches of batch_size sets"),
        ({"drop_last": 1}, "drop_last must be true or false, got 1"),
        ({"drop_last": True, "protocol": "released"}, "always leaves out a batch that is not full"),
        ({"drop_last": True, "batch_elements": 10}, "are never full: leave drop_last alone"),
    ],
    ids=str,
)
def test_a_value_that_will_not_do_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        TrainConfig(**options)


def test_what_is_not_a_default_identifies_a_run():
    assert TrainConfig().changed() == {}
    assert TrainConfig(epochs=3, learning_rate=1e-4).changed() == {"epochs": 3}


def test_one_and_one_point_zero_are_one_run():
    assert TrainConfig(clip_norm=1) == TrainConfig(clip_norm=1.0)
    assert TrainConfig(clip_norm=1).changed() == {"clip_norm": 1.0}


def test_numbers_of_numpy_are_those_of_python():
    config = TrainConfig(epochs=np.int64(3), seed=np.int32(7), learning_rate=np.float64(1e-3), clip_norm=np.float32(0.5))
    assert config == TrainConfig(epochs=3, seed=7, learning_rate=1e-3, clip_norm=0.5)
    assert json.loads(json.dumps(asdict(config))) == asdict(config)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_devices": 0}, "num_devices must be a whole number of at least 1"),
        ({"num_workers": -1}, "num_workers must be a whole number of at least 0"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds must be 0 or more"),
        ({"loggers": ("comet",)}, "loggers must be of tensorboard, wandb, mlflow; got 'comet'"),
    ],
    ids=str,
)
def test_an_execution_that_cannot_be_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        Execution(**options)


def test_shares_of_a_run_become_numbers_of_steps():
    config = TrainConfig(warmup_share=0.1, ema_share=0.05)
    assert config.for_steps(1000) == TrainConfig(warmup_steps=100, ema_decay=0.98)
    assert config.for_steps(39) == TrainConfig(warmup_steps=3)  # an average over two steps is none
    assert TrainConfig(warmup_steps=5, ema_decay=0.9).for_steps(1000) == TrainConfig(warmup_steps=5, ema_decay=0.9)


def test_an_execution_takes_torchs_device_and_numpys_numbers():
    execution = Execution(device=torch.device("cpu"), num_workers=np.int64(1), num_devices=np.int32(2))
    assert execution == Execution(device="cpu", num_workers=1, num_devices=2)
