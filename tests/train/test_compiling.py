"""Tests of `orderless.train.compiling`."""

import torch
from torch import nn

import orderless as ol
from orderless.train.compiling import compiled_layers, layered_parts


def test_layers_are_compiled_inside_the_block_alone():
    model = nn.Sequential(ol.create_model("deep_sets", 2, 1, depth=2, width=8), nn.Linear(1, 1))
    parts = layered_parts(model)
    assert parts == [model[0].encoder]
    with compiled_layers(parts):
        assert model[0].encoder.compile_layers
    assert not model[0].encoder.compile_layers


def test_a_process_may_compile_one_network_after_another():
    parts = layered_parts(ol.create_model("deep_sets", 2, 1, depth=2, width=8))
    before = torch._dynamo.config.recompile_limit
    with compiled_layers(parts):
        assert torch._dynamo.config.recompile_limit > 10 * before  # beyond it torch gives up, and says so in the log alone
    assert torch._dynamo.config.recompile_limit == before


def test_a_network_without_layers_of_ours_has_none():
    assert layered_parts(nn.Linear(2, 2)) == []
