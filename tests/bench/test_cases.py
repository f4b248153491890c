"""Cases and contenders are data that fit each other (`bench/cases.py`, `bench/contenders.py`, `bench/traffic.py`)."""

import os

import cases
import contenders
import pytest
import torch
import traffic
from contenders import CONTENDERS

import orderless as ol
from orderless.experiments.bench.goals import GOALS
from orderless.experiments.bench.table import CONTENDERS as TITLES
from orderless.experiments.bench.table import SWEEPS
from orderless.ops import backend

ALL = [*cases.GPU_CASES, *cases.CPU_CASES]
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_every_case_has_a_name_of_its_own_and_contenders_that_exist():
    assert len({case.name for case in ALL}) == len(ALL)
    for case in ALL:
        assert set(case.contenders) <= CONTENDERS.keys()
        assert case.contenders[0] == "orderless"


def test_the_ragged_batch_has_as_many_elements_as_the_papers():
    sizes = cases.zipf_sizes(64, 64_000)
    assert sum(sizes) == 64_000
    assert len(sizes) == 64
    assert sizes == tuple(sorted(sizes, reverse=True))
    assert 11_000 < sizes[0] < 11_500
    assert sizes[-1] >= 1
    assert sum(cases.zipf_sizes(5, 7)) == 7


def test_sets_grow_from_ten_elements_to_a_million_and_the_batch_stays_in_bounds():
    grown = {sum(case.sizes): max(case.sizes) for case in cases.size_cases()}
    assert max(grown) == 1_000_000
    assert {case.sizes[0] for case in cases.size_cases()} == {10**n for n in range(1, 7)}


def test_what_the_table_needs_is_measured():
    described = {case.name: case.describe() for case in cases.table_cases()}
    assert described["deep_sets++-50-training"]["num_elements"] == 64_000
    assert described["deep_sets++-50-784"] | {"num_elements": 640, "in_features": 784} == described["deep_sets++-50-784"]
    assert described["deep_sets++-50-55000"]["num_elements"] == 64 * 55_000
    assert described["set_norm"]["direction"] == "forward+backward"


def test_every_goal_is_about_a_case_and_every_contender_has_a_title():
    known = {case.name for case in ALL}
    for goal in GOALS:
        assert goal.case in known
        assert (goal.relative_to in known) == (goal.kind == "times a case")
    assert TITLES.keys() == CONTENDERS.keys()
    assert set(SWEEPS) == {case.group for case in ALL} - {"table", "cpu"}


def test_a_cpu_computes_in_float32_without_graphs():
    case = cases.CPU_CASES[0]
    for contender in CONTENDERS.values():
        there = contenders.on_device(contender, case, CPU)
        assert (there.dtype, there.graph) == ("float32", False)


def test_a_case_may_fix_the_dtype():
    norm = next(case for case in cases.GPU_CASES if case.name == "set_norm")
    assert contenders.on_device(CONTENDERS["orderless"], norm, CUDA).dtype == "float32"
    assert contenders.on_device(CONTENDERS["orderless"], cases.GPU_CASES[0], CUDA).dtype == "bfloat16"


def test_only_ours_is_expected_to_run_by_kernels_and_only_on_a_gpu(monkeypatch):
    monkeypatch.delenv(backend.VARIABLE, raising=False)

    def expected(case, device):
        return {name for name, contender in CONTENDERS.items() if contenders.expects_fused(contender, case, device)}

    every = {"orderless", "orderless-float32", "orderless-tf32", "orderless-eager", "orderless-compiled"}
    usual = {case.network: case for case in reversed(cases.table_cases())}
    assert expected(usual["deep_sets++"], CUDA) == expected(usual["set_norm"], CUDA) == every
    assert expected(usual["set_transformer++"], CUDA) == every - {"orderless-float32"}
    assert expected(next(case for case in cases.width_cases() if case.width == 256), CUDA) == set()
    assert expected(usual["deep_sets++"], CPU) == set()
    monkeypatch.setenv(backend.VARIABLE, "reference")
    assert expected(usual["deep_sets++"], CUDA) == set()


def test_the_bench_knows_what_fused_kernels_are_not_made_for(monkeypatch):
    """The same limits as the ops have."""
    from orderless.ops import clean_blocks_obstacle, induced_blocks_obstacle

    monkeypatch.setenv(backend.VARIABLE, "triton")
    for case in cases.width_cases():
        told = contenders.obstacle(CONTENDERS["orderless"], case)
        x = torch.zeros(2, case.width, dtype=torch.float16)
        found = clean_blocks_obstacle(x) if case.network == "deep_sets++" else induced_blocks_obstacle(x, 32, 4)
        assert (told is None) == (found is None), case


def test_a_contenders_settings_end_with_it(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "triton")
    with contenders.settings_of(CONTENDERS["reference"]):
        assert os.environ[backend.VARIABLE] == "reference"
    assert os.environ[backend.VARIABLE] == "triton"
    monkeypatch.delenv(backend.VARIABLE)
    with contenders.settings_of(CONTENDERS["reference"]):
        assert os.environ[backend.VARIABLE] == "reference"
    assert backend.VARIABLE not in os.environ
    with contenders.settings_of(CONTENDERS["orderless-tf32"]):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def tiny(network, direction, sizes, **options):
    return cases.BenchCase("tiny", "table", network, direction, sizes, ("orderless",), **options)


@pytest.mark.parametrize("sizes", [(5, 5), (5, 2)], ids=["equal", "ragged"])
@pytest.mark.parametrize("code", ["orderless", "released", "plain"])
def test_a_training_step_of_every_contender_makes_the_same_progress(code, sizes):
    case = tiny("deep_sets++", "training", sizes, depth=4, width=8)
    losses = {}
    for name in ("orderless", code):
        contender = next(c for c in CONTENDERS.values() if c.code == name and not c.compiled)
        step = contenders.prepare(case, contenders.on_device(contender, case, CPU), CPU)
        losses[name] = torch.stack([step().detach() for _ in range(4)])
    assert losses[code][-1] < losses[code][0]
    torch.testing.assert_close(losses[code], losses["orderless"], rtol=1e-4, atol=0)  # float32, after some steps of Adam


@pytest.mark.parametrize("code", ["orderless", "released", "plain"])
def test_inference_and_set_norm_of_every_contender_agree(code):
    contender = contenders.on_device(next(c for c in CONTENDERS.values() if c.code == code and not c.compiled), ALL[0], CPU)
    ours = contenders.on_device(CONTENDERS["orderless"], ALL[0], CPU)
    network = tiny("set_transformer++", "inference", (6, 6), depth=2, width=8)
    norm = tiny("set_norm", "forward+backward", (6, 6), in_features=8)
    answers = [contenders.prepare(network, who, CPU)() for who in (contender, ours)]
    assert not answers[0].requires_grad
    torch.testing.assert_close(*answers, rtol=1e-4, atol=1e-5)  # float32
    gradients = [contenders.prepare(norm, who, CPU)() for who in (contender, ours)]
    assert [tuple(g.shape) for g in gradients[0]] == [(12, 8), (8,), (8,)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_the_least_traffic_is_counted_by_passes():
    parameters = sum(p.numel() for p in ol.create_model("deep_sets++", 3, 1, depth=2, width=8).parameters())
    case = tiny("deep_sets++", "inference", (10, 20), in_features=3, depth=2, width=8)
    assert traffic.least_bytes(case, "bfloat16") == (5 + 2) * 30 * 8 * 2 + 30 * 3 * 4 + parameters * 4
    training = tiny("deep_sets++", "training", (10, 20), in_features=3, depth=2, width=8)
    assert traffic.least_bytes(training, "float32") == (15 + 5) * 30 * 8 * 4 + 2 * 30 * 3 * 4 + 10 * parameters * 4
    assert traffic.least_bytes(tiny("set_norm", "forward+backward", (30,), in_features=8), "float32") == 5 * 30 * 8 * 4


def test_the_floor_of_the_papers_batch_is_what_one_expects_of_a_gpu():
    """At 4.3 TB/s, which a copy reaches on an H200: half a millisecond for inference, three times that for training."""
    floors = [traffic.least_bytes(case, "bfloat16") / 4.3e9 for case in cases.table_cases()[:4]]
    assert floors == pytest.approx([1.456, 1.261, 0.485, 0.315], abs=0.001)
