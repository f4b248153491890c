"""Encoders hand runs of blocks to kernels, and give what their layers give one by one; who listens to a layer hears it."""

import copy
import os
from functools import cache, partial
from unittest.mock import patch

import pytest
import torch
from batches import make_batch
from kernels import DEVICE, HAS_GPU, Outcome, assert_as_accurate, assert_as_accurate_together, multiplying
from torch import nn

import orderless as ol
from orderless import SetBatch, ops
from orderless.models import export_model
from orderless.nn import CleanBlock, ElementDropout, ElementLinear, ElementReLU, Encoder, ISABPlusPlus, SumPool
from orderless.nn.encoder import _compiled_forward, _runs
from orderless.ops.backend import VARIABLE

SIZES = [3, 0, 18]
FUSED = {"clean_blocks", "induced_blocks", "norm_relu_pool", "norm_attention_pool"}
SMALL_DS = {"depth": 4, "width": 32}
SMALL_ST = {"depth": 1, "width": 32, "num_heads": 2, "num_inducing": 8}

# of each model: options, and which ops run how often by kernels
MODELS = {
    "deep_sets++ sum": (SMALL_DS | {"pool": "sum"}, {"clean_blocks": 1, "norm_relu_pool": 1}),
    "deep_sets++ mean": (SMALL_DS | {"pool": "mean"}, {"clean_blocks": 1, "norm_relu_pool": 1}),
    "deep_sets++ max": (SMALL_DS | {"pool": "max", "depth": 2}, {"clean_blocks": 1, "set_norm": 1}),
    "deep_sets++ attention": (SMALL_DS | {"pool": "attention", "num_heads": 2, "depth": 2}, {"clean_blocks": 1, "set_norm": 1}),
    "deep_sets++ element": (SMALL_DS | {"output": "element", "depth": 2}, {"clean_blocks": 1}),
    "deep_sets++ paper": (SMALL_DS | {"order": "paper", "depth": 2}, {"set_norm": 3}),
    "set_transformer++ attention": (SMALL_ST, {"induced_blocks": 1, "norm_attention_pool": 1}),
    "set_transformer++ mean": (SMALL_ST | {"pool": "mean"}, {"induced_blocks": 1, "set_norm": 1}),
    "set_transformer++ element": (SMALL_ST | {"output": "element"}, {"induced_blocks": 1, "set_norm": 1}),
    "set_transformer++ paper": (SMALL_ST | {"order": "paper"}, {"set_norm": 5}),
}
BOTH = pytest.mark.parametrize("key", ["deep_sets++ sum", "set_transformer++ attention"])


@pytest.fixture(autouse=True)
def _kernels_where_not_told_otherwise(monkeypatch):
    monkeypatch.setenv(VARIABLE, "triton")


@pytest.fixture
def tf32():
    """On a GPU the kernels of attention multiply float32 in TF32 only; the interpreter has no TF32, and is exact."""
    with multiplying("high"):
        yield


TF32 = {"rtol": 1e-2, "atol": 1e-2} if HAS_GPU else {"rtol": 1e-4, "atol": 1e-5}  # it has eleven binary digits, float32 24


def make(key):
    """A model whose norms have learned something."""
    torch.manual_seed(1)
    options, _ = MODELS[key]
    model = ol.create_model(key.split()[0], 2, 3, **options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # biases, and the scales and shifts of norms
                parameter.add_(torch.randn_like(parameter) / 5)
            assert parameter.isfinite().all(), name
    return model.to(DEVICE)


def numbers(answer):
    return answer.x if isinstance(answer, SetBatch) else answer


def run(model, batch, *, backend="triton") -> tuple[Outcome, dict]:
    """The answer, the gradients of elements and parameters along a fixed direction, and the ops that ran by kernels."""
    x = batch.x.detach().requires_grad_()
    names, parameters = zip(*model.named_parameters(), strict=True)
    with patch.dict(os.environ, {VARIABLE: backend}):
        with ops.backend.recording() as used:
            answer = numbers(model(batch.with_x(x)))
        direction = torch.randn(answer.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        gradients = torch.autograd.grad(answer, (x, *parameters), direction.to(answer))
    outcome = {"answer": answer.detach()} | dict(zip(("elements", *names), gradients, strict=True))
    return outcome, {op: count for (op, by), count in used.items() if by == "triton"}


def is_coarse(key):
    return HAS_GPU and MODELS[key][1].keys() & {"induced_blocks"}


def terms_of_scores(exact):
    """What gradients of scores are sums of: a softmax leaves differences of what the values get, a thousandth of it here."""
    sizes = {name.removesuffix("attend.fc_v.weight"): v.abs().max().item() for name, v in exact.items() if ".fc_v.weight" in name}
    scores = ("attend.fc_q", "attend.fc_k", "query_norm", "key_norm")
    return {name: size for block, size in sizes.items() for name in exact if name.startswith(tuple(block + s for s in scores))}


@pytest.mark.parametrize("key", MODELS)
def test_kernels_give_what_the_layers_give(key):
    model, batch = make(key), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    exact, _ = run(copy.deepcopy(model).double(), batch.to(torch.float64), backend="reference")
    with multiplying("high" if is_coarse(key) else "highest"):
        plain, nothing = run(model, batch, backend="reference")
        fast, used = run(model, batch)
    assert nothing == {}
    assert used == MODELS[key][1]
    if is_coarse(key):
        assert_as_accurate_together(fast, plain, exact)
        return
    # a decoder attends to one element, and what is added to all keys cancels: there gradients are rounding of the others
    largest = max(value.abs().max().item() for value in exact.values())
    zeros = {name: largest for name, value in exact.items() if value.abs().max() < 1e-12 * largest}
    assert all(any(part in name for part in ("decoder", "fc_k.bias", "key_norm.bias")) for name in zeros)
    assert_as_accurate(fast, plain, exact, terms=terms_of_scores(exact) | zeros)


@BOTH
def test_dense_batches_give_the_same(key, monkeypatch, tf32):
    model, x = make(key), torch.randn(3, 5, 2, device=DEVICE)
    mask = torch.tensor([[True] * 5, [True, False, True, False, False], [False] * 5], device=DEVICE)
    found = [model(x), model(x, mask)]
    monkeypatch.setenv(VARIABLE, "reference")
    for a, b in zip(found, (model(x), model(x, mask)), strict=True):
        torch.testing.assert_close(a, b, **TF32)


@BOTH
def test_nothing_is_different_without_gradients(key, tf32):
    model, batch = make(key), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    with torch.no_grad():
        found = model(batch)
    torch.testing.assert_close(found, run(model, batch)[0]["answer"], rtol=0, atol=0)


@BOTH
def test_under_autocast_kernels_run_in_half_precision(key, monkeypatch):
    half = torch.bfloat16 if HAS_GPU else torch.float16  # which the interpreter rounds
    model, batch = make(key), make_batch([5, 0, 40], 2, dtype=torch.float32).to(DEVICE)
    exact, _ = run(copy.deepcopy(model).double(), batch.to(torch.float64), backend="reference")
    seen = []
    op = "clean_blocks" if key.startswith("deep") else "induced_blocks"
    blocks = getattr(ops, op)
    monkeypatch.setattr(ops, op, lambda x, *args, **options: seen.append(x.dtype) or blocks(x, *args, **options))
    with torch.autocast(DEVICE.type, half):
        plain, _ = run(model, batch, backend="reference")
        fast, used = run(model, batch)
    assert used == MODELS[key][1]
    assert seen == [half]
    assert fast["answer"].dtype == plain["answer"].dtype
    assert_as_accurate_together(fast, plain, exact)


# ------------------------------------------------------------------------------------------------- who listens is heard


def listen_forward(module, heard):
    return module.register_forward_hook(lambda *_: heard.append("forward"))


def listen_before(module, heard):
    return module.register_forward_pre_hook(lambda *_: heard.append("forward"))


def listen_backward(module, heard):
    return module.register_full_backward_hook(lambda *_: heard.append("backward"))


PLACES = {
    "a block": ("encoder.1", listen_forward, set()),
    "before a block": ("encoder.2", listen_before, set()),
    "a norm in a block": ("encoder.1.branch.norm2", listen_forward, set()),
    "a weight in a block, backward": ("encoder.2.branch.fc1", listen_backward, set()),
    "the last layer": ("encoder.5", listen_forward, set()),
    "the encoder": ("encoder", listen_forward, {"clean_blocks"}),
    "the pooling": ("pool", listen_forward, {"clean_blocks"}),
    "the decoder": ("decoder.0", listen_forward, {"clean_blocks", "norm_relu_pool"}),
}


@cache
def undisturbed():
    """What nobody listens to."""
    outcome, used = run(make("deep_sets++ sum"), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE))
    assert used.keys() == {"clean_blocks", "norm_relu_pool"}
    return outcome


@pytest.mark.parametrize("place", PLACES)
def test_who_listens_to_a_module_hears_it_and_changes_nothing(place):
    model, batch = make("deep_sets++ sum"), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    name, listen, fused = PLACES[place]
    heard = []
    handle = listen(model.get_submodule(name), heard)
    with_listener, used = run(model, batch)
    handle.remove()
    assert len(heard) == 1
    assert used.keys() & FUSED == fused
    for name, value in undisturbed().items():
        # the same to rounding: gradients are sums of numbers up to the largest of all
        torch.testing.assert_close(with_listener[name], value, rtol=1e-4, atol=1e-5 * max(1, value.abs().max().item()))


@pytest.mark.parametrize("place", ["encoder.1.gather", "encoder.2", "pool.mab.attend"])
def test_who_listens_to_attention_hears_it(place, tf32):
    model, batch = make("set_transformer++ attention"), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    expected = model(batch)
    heard = []
    listen_forward(model.get_submodule(place), heard)
    torch.testing.assert_close(model(batch), expected, **TF32)
    assert heard == ["forward"]


def test_who_listens_to_all_modules_hears_blocks_and_poolings():
    model, batch = make("deep_sets++ sum"), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    heard = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: heard.append(type(module).__name__))
    try:
        model(batch)
    finally:
        handle.remove()
    assert {"CleanBlock", "SetNorm", "SumPool", "Encoder"} <= set(heard)


# ------------------------------------------------------------------------------------------------ what makes one run of blocks


def assert_same_by_kernels(layers, used, *, pool=None, sizes=SIZES, dim=32, close=None):
    encoder = Encoder(*layers).to(DEVICE)
    batch = make_batch(sizes, dim, dtype=torch.float32).to(DEVICE)
    compute = encoder if pool is None else partial(encoder.pooled, pool=pool)
    with ops.backend.recording() as counted:
        found = numbers(compute(batch))
    assert counted == {(op, "triton"): count for op, count in used.items()}
    with patch.dict(os.environ, {VARIABLE: "reference"}):
        # float32 roundings of numbers around 1
        torch.testing.assert_close(found, numbers(compute(batch)), **close or {"rtol": 1e-4, "atol": 1e-5})


def test_blocks_of_one_kind_in_a_row_are_one_run():
    layers = [CleanBlock(32), CleanBlock(32), ElementReLU(), CleanBlock(32)]
    assert_same_by_kernels(layers, {"clean_blocks": 2})


def test_kinds_may_follow_each_other(tf32):
    layers = [CleanBlock(32), ISABPlusPlus(32, num_heads=2, num_inducing=8), CleanBlock(32)]
    assert_same_by_kernels(layers, {"clean_blocks": 2, "induced_blocks": 1}, close=TF32)


def test_blocks_with_another_eps_are_another_run():
    layers = [CleanBlock(32, eps=1e-5), CleanBlock(32, eps=1.0), CleanBlock(32, eps=1.0)]
    assert_same_by_kernels(layers, {"clean_blocks": 2})


def test_attention_of_other_sizes_is_another_run():
    sizes = [(2, 4, 1e-5), (2, 4, 1e-5), (2, 6, 1e-5), (4, 6, 1e-5), (4, 6, 1.0)]
    layers = [ISABPlusPlus(16, num_heads=h, num_inducing=i, eps=eps) for h, i, eps in sizes]
    assert [(kind, len(run)) for kind, run in _runs(layers)] == [(ISABPlusPlus, n) for n in (2, 1, 1, 1)]


def test_a_block_with_two_eps_is_computed_layer_by_layer():
    block = CleanBlock(32)
    block.branch.norm2.eps = 1.0
    assert_same_by_kernels([block], {"set_norm": 2})


class LoudBlock(CleanBlock):
    def forward(self, batch):
        return batch.with_x(10 * super().forward(batch).x)


class Adapted(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def adapted_block():
    block = CleanBlock(32)
    block.branch.fc2 = Adapted(32, 32, bias=False)
    return block


def adapted_attention():
    block = ISABPlusPlus(32, num_heads=2, num_inducing=8)
    block.scatter.attend.fc_v = Adapted(32, 32)
    return block


def block_with_bias():
    block = CleanBlock(32)
    block.branch.fc1 = nn.Linear(32, 32)
    return block


@pytest.mark.parametrize("make_block", [lambda: LoudBlock(32), adapted_block, adapted_attention, block_with_bias])
def test_what_was_put_in_the_place_of_a_block_or_a_map_runs(make_block):
    block = make_block()
    norms = sum(isinstance(m, ol.nn.SetNorm) for m in block.modules())
    assert_same_by_kernels([block], {"set_norm": norms})


class HalfSum(SumPool):
    def forward(self, batch):
        return super().forward(batch) / 2


@pytest.mark.parametrize("pool", [SumPool(), HalfSum()], ids=lambda p: type(p).__name__)
def test_a_pooling_of_ones_own_runs(pool):
    layers = [CleanBlock(32), ol.nn.SetNorm(32), ElementReLU(), ElementLinear(32, 8, bias=False)]
    used = {"clean_blocks": 1, "norm_relu_pool" if type(pool) is SumPool else "set_norm": 1}
    assert_same_by_kernels(layers, used, pool=pool)


def test_layers_before_a_pooling_run_once_where_kernels_left_no_statistics():
    first = ElementLinear(32, 32)
    encoder = Encoder(first, ol.nn.SetNorm(32), ElementReLU(), ElementLinear(32, 32)).to(DEVICE)
    calls, forward = [], first.forward
    first.forward = lambda batch: calls.append(1) or forward(batch)
    encoder.pooled(make_batch(SIZES, 32, dtype=torch.float32).to(DEVICE), SumPool())
    assert calls == [1]


def test_what_is_too_wide_for_one_op_goes_layer_by_layer():
    assert_same_by_kernels([CleanBlock(129)], {"set_norm": 2}, dim=129)
    block = ISABPlusPlus(32, num_heads=2, num_inducing=65)
    assert_same_by_kernels([block], {"set_norm": 5}, sizes=[3])


# -------------------------------------------------------------------------------------------------------- less memory


@pytest.mark.parametrize("backend", ["reference", "triton"])
def test_layers_that_are_computed_again_give_the_same_gradients(backend):
    model, batch = make("deep_sets++ sum"), make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    expected, _ = run(model, batch, backend=backend)
    model.encoder.recompute = True
    found, used = run(model, batch, backend=backend)
    assert used == ({"clean_blocks": 2, "set_norm": 1} if backend == "triton" else {})
    for name, value in expected.items():
        exactly = backend == "reference" and not HAS_GPU  # where PyTorch adds rows in any order
        atol = 0 if exactly else 1e-5 * max(1, value.abs().max().item())
        torch.testing.assert_close(found[name], value, rtol=1e-4 if atol else 0, atol=atol)
    with torch.no_grad(), patch.dict(os.environ, {VARIABLE: backend}), ops.backend.recording() as used:
        model(batch)
    assert {op for op, way in used if way == "triton"} == ({"clean_blocks", "norm_relu_pool"} if backend == "triton" else set())


class Noise(nn.Module):
    """Draws without telling: it is no dropout of torch's."""

    def forward(self, batch):
        return batch.with_x(batch.x * torch.rand_like(batch.x))


@pytest.mark.parametrize("make_layer", [lambda: ElementDropout(0.5), Noise], ids=["dropout", "noise"])
def test_what_was_drawn_is_drawn_again(make_layer, monkeypatch):
    monkeypatch.setenv(VARIABLE, "reference")
    encoder = Encoder(ElementLinear(2, 8), make_layer(), ElementLinear(8, 8))
    batch = make_batch([5, 3], 2, dtype=torch.float32)

    def gradients(recompute):
        encoder.recompute = recompute
        torch.manual_seed(3)
        return torch.autograd.grad(encoder(batch).x.square().sum(), list(encoder.parameters()))

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("norm", ["feature", "batch"])
def test_running_statistics_take_a_batch_in_once(norm):
    batch = make_batch([5, 3], 2, dtype=torch.float32).to(DEVICE)
    models = [ol.create_model("deep_sets++", 2, 1, depth=2, width=8, norm=norm).to(DEVICE) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].encoder.recompute = True
    for model in models:
        model(batch).square().sum().backward()
    for (name, kept), computed in zip(models[0].named_buffers(), models[1].buffers(), strict=True):
        torch.testing.assert_close(computed, kept, rtol=0, atol=0, msg=name)


# ------------------------------------------------------------------------------------------------------ compiled layers


@pytest.fixture
def compilations(monkeypatch):
    """What was sent to the compiler: the kinds of layers. It compiles nothing, so that it costs no time."""
    asked = []
    _compiled_forward.cache_clear()
    monkeypatch.setattr(torch, "compile", lambda forward: asked.append(forward.__qualname__) or forward)
    yield asked
    _compiled_forward.cache_clear()


@pytest.mark.parametrize("recompute", [False, True])
def test_layers_of_a_kind_are_compiled_once(compilations, recompute, monkeypatch):
    monkeypatch.setenv(VARIABLE, "reference")
    model = ol.create_model("deep_sets", 2, 1, depth=5, width=8, norm="layer")
    batch = make_batch(SIZES, 2, dtype=torch.float32)
    expected = model(batch)
    model.encoder.compile_layers, model.encoder.recompute = True, recompute
    torch.testing.assert_close(model(batch), expected, rtol=0, atol=0)
    assert sorted(compilations) == sorted({f"{type(layer).__name__}.forward" for layer in model.encoder})


def test_a_layer_with_a_hook_is_not_compiled(compilations, monkeypatch):
    monkeypatch.setenv(VARIABLE, "reference")
    model, seen = Encoder(ElementLinear(2, 8), ElementReLU()), []
    model.compile_layers = True
    model[0].register_forward_hook(lambda *_: seen.append("hook"))
    model(make_batch(SIZES, 2, dtype=torch.float32))
    assert (seen, compilations) == (["hook"], ["ElementReLU.forward"])


# ----------------------------------------------------------------------------------------------------- files stay readable

DEEP_SETS_NAMES = (
    "encoder.0.weight encoder.1.branch.norm1.weight encoder.1.branch.norm1.bias encoder.1.branch.fc1.weight "
    "encoder.1.branch.norm2.weight encoder.1.branch.norm2.bias encoder.1.branch.fc2.weight encoder.2.weight encoder.2.bias "
    "encoder.4.weight encoder.4.bias decoder.0.weight decoder.0.bias decoder.2.weight decoder.2.bias decoder.4.weight "
    "decoder.4.bias decoder.6.weight decoder.6.bias"
)


def linear_names(module, *maps):
    return {f"{module}.{m}.{part}" for m in maps for part in ("weight", "bias")}


def test_parameters_have_the_names_that_saved_models_have():
    model = ol.create_model("deep_sets++", 2, 1, depth=2, width=8)
    assert list(model.state_dict()) == DEEP_SETS_NAMES.split()
    model = ol.create_model("set_transformer++", 2, 1, depth=1, width=8, num_heads=2, num_inducing=3)
    attention = ("attend.fc_q", "attend.fc_k", "attend.fc_v", "fc")
    expected = {"encoder.1.points", "pool.seeds"} | linear_names("encoder", "0", "2") | linear_names("decoder", "out")
    expected |= linear_names("encoder.1.gather", *attention, "key_norm", "out_norm")
    expected |= linear_names("encoder.1.scatter", *attention, "query_norm", "key_norm", "out_norm")
    expected |= linear_names("pool.mab", *attention)
    expected |= {name for i in range(3) for name in linear_names(f"decoder.blocks.{i}.mab", *attention)}
    assert set(model.state_dict()) == expected


def test_part_of_an_encoder_is_an_encoder():
    encoder = make("deep_sets++ sum").encoder
    assert isinstance(encoder[1:3], Encoder)
    batch = make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE)
    torch.testing.assert_close(encoder[1:](encoder[:1](batch)).x, encoder(batch).x)


# -------------------------------------------------------------------------------------------------------- torch's other eyes

tracing = [
    pytest.mark.traced,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, while it traces
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch.*"),
]


def traced(test):
    for mark in tracing:
        test = mark(test)
    return test


@traced
@BOTH
def test_compiled_a_model_is_one_graph_for_all_sizes_with_the_same_gradients(key, tf32):
    torch._dynamo.reset()
    model = make(key)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for i, sizes in enumerate(([3, 0, 2], [5, 18, 1])):
        batch = make_batch(sizes, 2, dtype=torch.float32).to(DEVICE).mark_dynamic()
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            found = compiled(batch)
        expected = model(batch)
        torch.testing.assert_close(found, expected)
        parameters = list(model.parameters())
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), parameters) for y in (found, expected)), strict=True):
            torch.testing.assert_close(a, b)


@traced
@BOTH
def test_a_compiled_model_has_the_kernels_in_its_graph(key, tf32):
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append({str(node.target) for node in graph.graph.nodes if node.op == "call_function"})
        return graph

    with torch.no_grad():
        torch.compile(make(key), fullgraph=True, backend=backend)(make_batch(SIZES, 2, dtype=torch.float32).to(DEVICE))
    (targets,) = graphs
    op = "clean_blocks" if key.startswith("deep") else "induced_blocks"
    assert any(op in target for target in targets)


@traced
@BOTH
def test_an_exported_program_runs_by_kernels_and_takes_any_sizes(key, tf32):
    model = make(key).eval()
    program = export_model(model).module()
    for sizes in ([3, 0, 18], [5], [0], [1, 2]):
        batch = make_batch(sizes, 2, dtype=torch.float32).to(DEVICE)
        torch.testing.assert_close(program(batch), model(batch))
    parts = [module for module in program.modules() if isinstance(module, torch.fx.GraphModule)]
    targets = [str(node.target) for part in parts for node in part.graph.nodes]
    assert any(f"orderless.{'clean' if key.startswith('deep') else 'induced'}_blocks" in target for target in targets)
