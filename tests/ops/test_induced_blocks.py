"""Induced blocks: the definition against the layers; `forward_kernels.py` and `backward_kernels.py` against the definition."""

import math
from contextlib import nullcontext
from typing import NamedTuple

import pytest
import torch
from kernels import DEVICE, HAS_GPU, NUMBERS, assert_as_accurate, assert_same, multiplying, needs_gpu, outcome, poison
from torch.autograd import gradcheck

from orderless import SetBatch, ops
from orderless.nn import ISABPlusPlus
from orderless.ops import _launch
from orderless.ops._launch import plan_for
from orderless.ops.induced_blocks import InducedParameters, fold, fold_queries, induced_blocks, induced_blocks_obstacle
from orderless.ops.induced_blocks.reference import induced_blocks_reference


class Case(NamedTuple):
    sizes: list[int]
    blocks: int = 1
    heads: int = 2
    points: int = 8
    width: int = 32


CASES = {
    "ragged": Case([5, 20, 0, 1, 33], blocks=2),
    "the paper's": Case([7, 18], heads=4, points=32, width=128),
    "odd": Case([17, 3], heads=3, points=20, width=48),
    "many heads": Case([3, 18], heads=16, points=8, width=32),  # more than one chunk
    "many heads, not a power of two": Case([0, 3, 18], heads=10, points=12, width=40),
    "one element": Case([1], heads=1),
    "more sets than programs": Case([2, 0, 1, 3, 1, 2, 0]),
}


@pytest.fixture(params=["float16", "bfloat16", "tf32"] if HAS_GPU else ["float32", "float16"])
def dtype(request):
    dtype, precision = NUMBERS[request.param]
    with multiplying(precision):
        yield dtype


@pytest.fixture
def kernels(request, monkeypatch):
    """Asks for kernels, and gives them memory full of NaN, which nothing may be written around.

    Where a test does not say what numbers are, they are float32, which on a GPU kernels multiply in TF32 only.
    """
    monkeypatch.setenv(ops.backend.VARIABLE, "triton")
    memory = poison(monkeypatch)
    with multiplying("high") if HAS_GPU and "dtype" not in request.fixturenames else nullcontext():
        yield
    memory.assert_nothing_written_around()


def make_parameters(case: Case, *, sure: bool = False) -> InducedParameters:
    """Parameters of a usual size. Where `sure`, what goes into a ReLU is far from 0.

    In low precision, a number near 0 may end up on either side of it. Then one is right by luck where the other is not, and
    largest errors say nothing.
    """
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(case.blocks, *shape, generator=generator, dtype=torch.float64)

    width = case.width
    biases = normal(8, width) / 4
    if sure:
        biases[:, [3, 7]] = 8 * normal(2, width).sign()
    return InducedParameters(
        points=normal(case.points, width),
        weights=normal(8, width, width) / math.sqrt(width),
        biases=biases,
        scales=1 + normal(5, width) / 5,
        shifts=normal(5, width) / 5,
    )


def make_elements(case: Case, *, seed: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(case.sizes), case.width, generator=generator, dtype=torch.float64)
    return x, torch.tensor([0, *case.sizes], device=DEVICE).cumsum(0)


def run(compute, case, x, parameters, *, dtype=torch.float32, parameter_dtype=torch.float32):
    """The result of `compute(x, offsets, parameters)` and all gradients, for a fixed direction."""
    _, offsets = make_elements(case)
    tensors = {"x": x.to(DEVICE, dtype)} | {name: p.to(DEVICE, parameter_dtype) for name, p in parameters._asdict().items()}
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def result(x, **parameters):
        found = compute(x, offsets, InducedParameters(**parameters), num_heads=case.heads)
        return found[0] if isinstance(found, tuple) else found

    return outcome(result, tensors, direction)


def check(case, dtype):
    """The largest error over several draws: of eleven binary digits, that of one is a matter of luck on both sides."""
    parameters = make_parameters(case, sure=dtype != torch.float32 or torch.get_float32_matmul_precision() != "highest")
    draws = []
    for seed in range(2, 6) if HAS_GPU else (2,):  # the interpreter is slow
        x = make_elements(case, seed=seed)[0].to(dtype).double()  # the truth starts at what the kernels are given
        exact = run(induced_blocks_reference, case, x, parameters, dtype=torch.float64, parameter_dtype=torch.float64)
        plain = run(induced_blocks_reference, case, x, parameters, dtype=dtype)
        with ops.backend.recording() as used:
            ours = run(induced_blocks, case, x, parameters, dtype=dtype)
        assert used == {("induced_blocks", "triton"): 1}
        draws.append((ours, plain, exact))
    assert_as_accurate(
        *({name: torch.stack([draw[name] for draw in side]) for name in exact} for side in zip(*draws, strict=True))
    )


# ------------------------------------------------------------------------------------------------------ the definition


def test_it_is_what_the_layers_compute():
    case = Case([5, 0, 3], blocks=2, heads=4, points=6, width=8)
    blocks = [ISABPlusPlus(8, num_heads=4, num_inducing=6).double() for _ in range(2)]
    parameters = make_parameters(case)
    for block, points, weights, biases, scales, shifts in zip(blocks, *parameters, strict=True):
        mabs = (block.gather, block.scatter)
        maps = [fc for m in mabs for fc in (m.attend.fc_q, m.attend.fc_k, m.attend.fc_v, m.fc)]
        norms = [block.gather.key_norm, block.gather.out_norm]
        norms += [block.scatter.query_norm, block.scatter.key_norm, block.scatter.out_norm]
        for module, (weight, bias) in zip(
            [*maps, *norms], [*zip(weights, biases, strict=True), *zip(scales, shifts, strict=True)], strict=True
        ):
            module.load_state_dict({"weight": weight, "bias": bias})
        block.points.data.copy_(points)
    x, offsets = make_elements(case)
    expected = SetBatch(x, offsets.cpu())
    for block in blocks:
        expected = block(expected)
    found = induced_blocks_reference(x, offsets.cpu(), parameters, num_heads=4)
    torch.testing.assert_close(found, expected.x)


@pytest.mark.parametrize("sizes", [[3, 0, 2], [1]], ids=str)
def test_gradients_of_the_definition_are_right(sizes):
    case = Case(sizes, points=2, width=2)
    x, offsets = make_elements(case)
    inputs = [t.requires_grad_() for t in (x, *make_parameters(case))]
    assert gradcheck(lambda x, *p: induced_blocks_reference(x, offsets.cpu(), InducedParameters(*p), num_heads=2), inputs)


def test_folded_queries_score_elements_as_queries_score_keys_but_for_one_number_each():
    points, x = torch.randn(3, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    wq, wk = torch.randn(2, 8, 8, dtype=torch.float64)
    bq, bk = torch.randn(2, 8, dtype=torch.float64)
    scores = fold_queries(points, wq, bq, wk, num_heads=2) @ x.T  # (H, I, T)
    q, k = ((a @ w.T + b).unflatten(1, (2, 4)).transpose(0, 1) for a, w, b in ((points, wq, bq), (x, wk, bk)))
    expected = q @ k.mT / math.sqrt(8)
    torch.testing.assert_close(scores.softmax(-1), expected.softmax(-1))
    assert not torch.allclose(scores, expected)


# --------------------------------------------------------------------------------------------------------- the kernels


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kernels_are_as_accurate_as_pytorch(case, dtype, kernels):
    check(case, dtype)


def test_as_many_points_as_there_are_features(kernels):
    check(Case([3, 17], heads=2, points=128), torch.float16)


def test_with_little_shared_memory_there_are_more_and_smaller_chunks(monkeypatch, kernels):
    monkeypatch.setattr(_launch, "shared_memory", lambda x: 99)
    assert plan_for("induced_blocks", torch.zeros(1, dtype=torch.float16)).most_rows == 64
    check(Case([3, 17], heads=4, points=32, width=16), torch.float16)  # two chunks of two heads


@needs_gpu
@pytest.mark.parametrize(
    "case",
    [
        Case([1000] * 4, blocks=3, heads=4, points=32, width=128),
        Case([3000, 0, 1, 700, 64], blocks=2, heads=8, points=64, width=96),
    ],
    ids=["the paper's", "ragged"],
)
def test_kernels_are_as_accurate_as_pytorch_on_large_sets(case, dtype, kernels):
    check(case, dtype)


def test_without_gradients_nothing_is_kept_and_the_numbers_are_the_same(kernels):
    from orderless.ops.induced_blocks import triton

    case = CASES["ragged"]
    x, offsets = make_elements(case)
    x = x.to(DEVICE, torch.float32)
    parameters = InducedParameters(*(p.to(DEVICE, torch.float32).requires_grad_() for p in make_parameters(case)))
    kept, _ = induced_blocks(x, offsets, parameters, num_heads=case.heads)
    with torch.no_grad():
        y, _ = induced_blocks(x, offsets, parameters, num_heads=case.heads)
        _, _, inputs, inner, *_ = triton._induced_blocks(x, offsets, *fold(parameters, case.heads), 1e-5, False)
    torch.testing.assert_close(y, kept, rtol=0, atol=0)
    assert len(inputs) == 0
    assert len(inner) == 1


def test_kernels_give_the_same_numbers_every_time(kernels):
    case = CASES["more sets than programs"]
    x, _ = make_elements(case)
    first, second = (run(induced_blocks, case, x, make_parameters(case)) for _ in range(2))
    assert_same(first, second)


@pytest.mark.parametrize(
    "case",
    [Case([0, 0]), Case([]), Case([4, 2], blocks=0)],
    ids=["all sets empty", "no sets", "no blocks"],
)
def test_with_nothing_to_do_elements_pass_and_gradients_are_zero(case, kernels):
    x, _ = make_elements(case)
    found = run(induced_blocks, case, x, make_parameters(case))
    torch.testing.assert_close(found["result"].cpu(), x.float())
    assert all((found[f"gradient of {name}"] == 0).all() for name in InducedParameters._fields)


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")  # of the interpreter
def test_a_set_of_nan_does_not_reach_the_others(kernels):
    case = Case([5, 20, 3], blocks=2)
    x, _ = make_elements(case)
    spoilt = x.clone()
    spoilt[7] = math.nan
    healthy, ill = (run(induced_blocks, case, a, make_parameters(case)) for a in (x, spoilt))
    others = [*range(5), *range(25, 28)]
    for name in ("result", "gradient of x"):
        assert ill[name][5:25].isnan().all()
        torch.testing.assert_close(ill[name][others], healthy[name][others], rtol=0, atol=0)


def test_a_large_offset_does_not_drown_a_small_spread(kernels):
    case = Case([40, 3])
    x, _ = make_elements(case)
    x = (x * 1e-2 + 1e3).float().double()
    parameters = make_parameters(case, sure=True)
    exact = run(induced_blocks_reference, case, x, parameters, dtype=torch.float64, parameter_dtype=torch.float64)
    plain = run(induced_blocks_reference, case, x, parameters)
    assert_as_accurate(run(induced_blocks, case, x, parameters), plain, exact)


@pytest.mark.parametrize(
    ("elements", "points", "heads", "reason"),
    [
        (torch.zeros(2, 129), 8, 1, "129 features are more than 128"),
        (torch.zeros(2, 16), 65, 1, "65 inducing points are more than 64 for torch.float32"),
        (torch.zeros(2, 16, dtype=torch.float16), 129, 1, "129 inducing points are more than 128 for torch.float16"),
        (torch.zeros(2, 32), 8, 32, "32 heads are more than 16"),
        (torch.zeros(2, 32), 8, 16, None),
    ],
)
def test_sizes_beyond_the_kernels_are_told(elements, points, heads, reason, kernels):
    assert induced_blocks_obstacle(elements.to(DEVICE), points, heads) == reason


def test_beyond_the_kernels_the_definition_runs(kernels):
    case = Case([3, 2], heads=2, points=2, width=130)
    x, offsets = make_elements(case)
    parameters = InducedParameters(*(p.to(DEVICE) for p in make_parameters(case)))
    with ops.backend.recording() as used:
        y, statistics = induced_blocks(x.to(DEVICE, torch.float32), offsets, parameters, num_heads=2)
    assert used == {("induced_blocks", "reference"): 1}
    assert statistics is None
    assert y.shape == x.shape


# --------------------------------------------------------------------------------------------------------------- pooling


@pytest.mark.parametrize("queries", [4, 20])
@pytest.mark.parametrize("sizes", [[5, 20, 0, 1, 33], [18]], ids=str)
def test_pooling_kernels_are_as_accurate_as_pytorch(sizes, queries, dtype, kernels, monkeypatch):
    width = 48
    generator = torch.Generator().manual_seed(4)
    shapes = {"x": (sum(sizes), width), "queries": (queries, width), "scale": (width,), "shift": (width,)}
    tensors = {name: torch.randn(s, generator=generator, dtype=torch.float64).to(DEVICE) for name, s in shapes.items()}
    tensors["x"] = tensors["x"].to(dtype).double()
    tensors["queries"] /= math.sqrt(width)
    tensors["scale"] = 1 + tensors["scale"] / 5
    given = {name: t.to(dtype if name == "x" else torch.float32) for name, t in tensors.items()}
    offsets = torch.tensor([0, *sizes], device=DEVICE).cumsum(0)
    direction = torch.randn(len(sizes), queries, width, generator=generator, dtype=torch.float64)

    def pooled(x, **rest):
        return ops.norm_attention_pool(x, offsets, **rest)

    with ops.backend.recording() as used:
        ours = outcome(pooled, given, direction)
    assert used == {("norm_attention_pool", "triton"): 1}
    monkeypatch.setenv(ops.backend.VARIABLE, "reference")
    assert_as_accurate(ours, outcome(pooled, given, direction), outcome(pooled, tensors, direction))
    assert (ours["result"].cpu()[[n for n, size in enumerate(sizes) if size == 0]] == 0).all()


def test_pooling_may_use_the_statistics_that_come_with_the_elements(kernels):
    case = CASES["ragged"]
    x, offsets = make_elements(case)
    parameters = InducedParameters(*(p.to(DEVICE, torch.float32) for p in make_parameters(case)))
    y, statistics = induced_blocks(x.to(DEVICE, torch.float32), offsets, parameters, num_heads=case.heads)
    queries = torch.randn(4, case.width, device=DEVICE)
    scale, shift = torch.randn(2, case.width, device=DEVICE)
    with_them, without = (ops.norm_attention_pool(y, offsets, queries, scale, shift, statistics=s) for s in (statistics, None))
    rounding = 2**-10 if HAS_GPU else 1e-5  # statistics differ in the last digit, which TF32 may round the other way
    torch.testing.assert_close(with_them, without, rtol=rounding, atol=rounding * without.abs().max().item())


# ------------------------------------------------------------------------------------------------------ torch's other eyes


def op_arguments():
    case = Case([3, 0, 2], heads=2, points=4, width=16)
    x, offsets = make_elements(case)
    parameters = InducedParameters(*(p.to(DEVICE, torch.float32) for p in make_parameters(case)))
    folded = [t.detach().clone().requires_grad_() for t in fold(parameters, case.heads)]
    return x.to(DEVICE, torch.float32).requires_grad_(), offsets, *folded


def test_ops_are_registered_as_torch_wants_them():
    from orderless.ops.induced_blocks import triton

    x, offsets, *folded = op_arguments()
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    queries = torch.randn(3, 16, device=DEVICE, requires_grad=True)
    with multiplying("high"):  # on a GPU kernels multiply float32 in TF32 only
        torch.library.opcheck(triton._induced_blocks, (x, offsets, *folded, 1e-5, True), test_utils=checks)
        torch.library.opcheck(triton._attention_pool, (x, offsets, queries, None, 16, 1e-5), test_utils=checks)


@pytest.mark.traced
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_compiled_it_is_one_graph_and_gives_the_same_gradients(monkeypatch):
    monkeypatch.setenv(ops.backend.VARIABLE, "triton")
    case = Case([3, 0, 2], heads=2, points=4, width=16)
    x, offsets = make_elements(case)
    queries = torch.randn(3, 16, device=DEVICE)

    def network(x, *parameters):
        y, statistics = induced_blocks(x, offsets, InducedParameters(*parameters), num_heads=case.heads)
        ones, zeros = torch.ones(16, device=DEVICE), torch.zeros(16, device=DEVICE)
        return ops.norm_attention_pool(y, offsets, queries, ones, zeros, statistics=statistics)

    def gradients(f):
        inputs = [t.to(DEVICE, torch.float32).requires_grad_() for t in (x, *make_parameters(case))]
        return torch.autograd.grad(f(*inputs).square().sum(), inputs)

    compiled = gradients(torch.compile(network, backend="aot_eager", fullgraph=True))
    for ours, expected in zip(compiled, gradients(network), strict=True):
        torch.testing.assert_close(ours, expected)
