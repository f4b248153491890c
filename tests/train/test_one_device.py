"""Training without Lightning Fabric, on one device in full precision."""

import sys

import pytest
import torch
from small_runs import run, small_task, weights

from orderless.train import Execution
from orderless.train.one_device import OneDevice


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_task(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def without_extra(monkeypatch):
    for name in ("lightning_fabric", "torchmetrics"):
        monkeypatch.setitem(sys.modules, name, None)


def test_it_trains_to_the_same_bits_as_with_fabric(data, monkeypatch, request):
    settings = {"accumulate": 2, "clip_norm": 1.0, "ema_decay": 0.9, "epochs": 3}
    with monkeypatch.context() as patch:
        patch.setattr("orderless.train.setup.is_enough", lambda execution, config: False)
        with_fabric = run(data, **settings)
    request.getfixturevalue("without_extra")
    plain = run(data, **settings)
    assert torch.equal(weights(plain.model), weights(with_fabric.model))
    assert torch.equal(plain.scores["mse"], with_fabric.scores["mse"])


def test_what_needs_fabric_says_so_in_one_line(data, without_extra):
    with pytest.raises(ImportError, match=r"^lightning_fabric is needed here but not installed: pip install .*train.*'$"):
        run(data, precision="bf16-mixed")
    with pytest.raises(ImportError, match=r"orderless\[train\]"):
        run(data, execution=Execution(device="cpu", num_devices=2))


def test_one_device_has_nobody_to_talk_to():
    place = OneDevice(torch.device("cpu"))
    assert (place.world_size, place.global_rank, place.is_global_zero, place.loggers) == (1, 0, True, [])
    assert place.log_dict({"loss": 1.0}, step=1) is None
