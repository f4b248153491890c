"""From a user's word to a device."""

import pytest
import torch

from orderless.train.device import describe_device, resolve_device

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_the_cpu_is_always_there():
    assert resolve_device("cpu") == torch.device("cpu")
    assert "CPU" in describe_device(torch.device("cpu"))


@no_gpu
def test_auto_is_the_cpu_where_there_is_no_gpu():
    assert resolve_device() == torch.device("cpu")


@no_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_an_error(name):
    with pytest.raises(ValueError, match=f"device {name} was asked for, but PyTorch sees no GPU"):
        resolve_device(name)


def test_auto_is_the_first_gpu_and_others_are_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="device cuda:2 was asked for, but there are 2 GPUs"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps", ""])
def test_another_word_is_an_error(name):
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:N"):
        resolve_device(name)
