"""Times and memory (`bench/timing.py`)."""

import pytest
import timing
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def test_quantiles_are_those_of_the_calls():
    assert timing.quantiles([float(n) for n in range(11)]) == {"p20_ms": 2.0, "p50_ms": 5.0, "p80_ms": 8.0}
    assert timing.quantiles([3.0]) == {"p20_ms": 3.0, "p50_ms": 3.0, "p80_ms": 3.0}


def test_contenders_take_turns():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = timing.time_in_turns(calls, 3)
    assert order == list("ababab")
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_a_copys_speed_is_a_number_of_bytes_a_second():
    assert 1e8 < timing.copy_bandwidth(torch.device("cpu")) < 1e13


@needs_gpu
def test_a_recorded_step_does_what_the_step_does():
    x = torch.zeros(3, device="cuda")
    device = torch.device("cuda")

    def step():
        return x.add_(1)

    timing.warm_up(step, device)
    before = x.clone()
    replay = timing.record_graph(step)
    replay()
    torch.testing.assert_close(x, before + 1)
    assert len(timing.time_on_gpu(replay, 7)) == 7
