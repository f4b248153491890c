"""Who listens to a module."""

import pytest
import torch
from torch import nn

from orderless.nn.hooks import has_hooks

WAYS = ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"]


@pytest.mark.parametrize("way", WAYS)
def test_a_listener_inside_is_noticed_until_it_goes(way):
    network = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    assert not has_hooks(network)
    handle = getattr(network[1][0], way)(lambda *_: None)
    assert has_hooks(network)
    assert not has_hooks(network[0])
    handle.remove()
    assert not has_hooks(network)


def test_a_listener_at_all_modules_is_noticed():
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert has_hooks(nn.ReLU())
    finally:
        handle.remove()
    assert not has_hooks(nn.ReLU())
