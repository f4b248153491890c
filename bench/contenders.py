"""Who runs on a case, and how one call of each is made ready.

| contender           | computes                                          | in                | how                           |
|---------------------|---------------------------------------------------|-------------------|-------------------------------|
| `orderless`         | our model or op                                   | bfloat16 autocast | the whole step in a CUDA graph |
| `orderless-float32` | the same                                          | float32           | CUDA graph                    |
| `orderless-tf32`    | the same                                          | TF32 products     | CUDA graph                    |
| `orderless-eager`   | the same                                          | bfloat16 autocast | call by call                  |
| `orderless-compiled` | the same, layers without kernels compiled        | bfloat16 autocast | CUDA graph                    |
| `reference`         | the same, `ORDERLESS_BACKEND=reference`           | bfloat16 autocast | CUDA graph                    |
| `released`          | the authors' computation, on padded tensors       | float32           | call by call                  |
| `compiled`          | the network written plainly, by `torch.compile`   | bfloat16 autocast | the whole step in a CUDA graph |
| `plain`             | the network written plainly                       | float32           | call by call                  |
| `pyg`               | PyTorch Geometric's `LayerNorm(mode="graph")`     | float32           | call by call                  |

On a CPU all are in float32, call by call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from cases import BenchCase
from peers import Style, build_peer, pyg_set_norm, set_norm
from torch import Tensor, nn

import orderless as ol
from orderless import ops
from orderless.ops import backend

Code = Literal["orderless", "released", "plain", "pyg"]
DtypeName = Literal["bfloat16", "float32", "tf32"]
LEARNING_RATE, EPS = 1e-4, 1e-5


@dataclass(frozen=True)
class Contender:
    """One way to compute a case.

    Attributes:
        name: As rows and cases call it.
        code: Whose code.
        dtype: What matrix products are in.
        graph: Whether the whole step is recorded once as a CUDA graph and replayed.
        compiled: Whether `torch.compile` gets the network; of ours, every layer that has no kernel.
        backend: Forces that backend of ours.
        rank: Of its importance; low ones run first.
        expected_seconds: It is not begun with less time left.
    """

    name: str
    code: Code
    dtype: DtypeName
    graph: bool = False
    compiled: bool = False
    backend: Literal["reference"] | None = None
    rank: int = 0
    expected_seconds: float = 5.0

    @property
    def is_peer(self) -> bool:
        return self.code != "orderless"


CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("orderless", "orderless", "bfloat16", graph=True),
        Contender("released", "released", "float32", rank=1),
        Contender("pyg", "pyg", "float32", rank=1),
        Contender("plain", "plain", "float32", rank=1),
        Contender("compiled", "plain", "bfloat16", graph=True, compiled=True, rank=2, expected_seconds=45),
        Contender("orderless-float32", "orderless", "float32", graph=True, rank=3),
        Contender("orderless-tf32", "orderless", "tf32", graph=True, rank=3),
        Contender("orderless-eager", "orderless", "bfloat16", rank=3),
        Contender("orderless-compiled", "orderless", "bfloat16", graph=True, compiled=True, rank=3, expected_seconds=20),
        Contender("reference", "orderless", "bfloat16", graph=True, backend="reference", rank=3),
    )
}
PEERS = tuple(name for name, contender in CONTENDERS.items() if contender.is_peer)


def on_device(contender: Contender, case: BenchCase, device: torch.device) -> Contender:
    """The contender as it runs there: a CPU has no graphs, and bfloat16 only slows it down."""
    dtype = case.dtype or contender.dtype
    if device.type == "cpu":
        return replace(contender, dtype="float32", graph=False)
    return replace(contender, dtype=dtype)


def expects_fused(contender: Contender, case: BenchCase, device: torch.device) -> bool:
    """Whether a run of ours by anything but the fused kernels would be a silent fallback."""
    forced = os.environ.get(backend.VARIABLE) == "reference" or contender.backend == "reference"
    return not contender.is_peer and device.type == "cuda" and not forced and obstacle(contender, case) is None


def obstacle(contender: Contender, case: BenchCase) -> str | None:
    """What fused kernels are not made for, as docs/performance.md tells; such networks run layer by layer."""
    if contender.is_peer or case.network == "set_norm":
        return None
    if case.width > 128:
        return "wider than 128"
    if case.network == "set_transformer++" and contender.dtype == "float32":
        return "attention kernels multiply float32 in TF32 only"
    return None


@contextmanager
def settings_of(contender: Contender) -> Iterator[None]:
    """What a contender wants of the process, while it runs."""
    forced = os.environ.get(backend.VARIABLE)
    precision = torch.get_float32_matmul_precision()
    if contender.backend is not None:
        os.environ[backend.VARIABLE] = contender.backend
    torch.set_float32_matmul_precision("high" if contender.dtype == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        if contender.backend is not None:
            os.environ.pop(backend.VARIABLE)
            if forced is not None:
                os.environ[backend.VARIABLE] = forced


def prepare(case: BenchCase, contender: Contender, device: torch.device) -> Callable[[], object]:
    """One call of the contender on the case, to be repeated. The same seed gives all the same weights and elements."""
    torch.manual_seed(0)
    if case.network == "set_norm":
        return _prepare_norm(case, contender, device)
    model = ol.create_model(case.network, case.in_features, 1, depth=case.depth, width=case.width)
    num_elements = sum(case.sizes)
    x, target = torch.randn(num_elements, case.in_features), torch.randn(len(case.sizes), 1)
    inputs: tuple[Any, ...]
    network: nn.Module = model
    if contender.code == "orderless":
        inputs = (_batch(x.to(device), case),)
    else:
        assert contender.code != "pyg", "PyTorch Geometric has none of these networks"
        network = build_peer(model, contender.code)
        inputs = _pad(x.to(device), case)
    network = network.to(device)
    target = target.to(device)
    call: Callable[..., Tensor] = network
    if contender.compiled and contender.code == "orderless":
        model.encoder.compile_layers = True
    elif contender.compiled:
        call = torch.compile(network)
    if case.direction == "inference":
        network.eval()
        return lambda: _infer(call, inputs, contender, device)
    optimizer = _adam(network, contender)
    return lambda: _train(call, optimizer, inputs, target, contender, device)


def _infer(call: Callable[..., Tensor], inputs: tuple[Any, ...], contender: Contender, device: torch.device) -> Tensor:
    with torch.no_grad(), _autocast(contender, device):
        return call(*inputs)


def _train(
    call: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: tuple[Any, ...],
    target: Tensor,
    contender: Contender,
    device: torch.device,
) -> Tensor:
    optimizer.zero_grad(set_to_none=True)
    with _autocast(contender, device):
        out = call(*inputs)
    loss = (out.float() - target).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def _adam(network: nn.Module, contender: Contender) -> torch.optim.Optimizer:
    if not contender.graph:
        return torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    return torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True, capturable=True)


def _autocast(contender: Contender, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=contender.dtype == "bfloat16")


def _prepare_norm(case: BenchCase, contender: Contender, device: torch.device) -> Callable[[], object]:
    """Set norm alone, forward and backward to its input, scales and shifts."""
    dim = case.in_features
    x, gradient = (torch.randn(sum(case.sizes), dim, device=device) for _ in range(2))
    weight, bias = torch.rand(dim, device=device) + 0.5, torch.randn(dim, device=device)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    batch = _batch(x.detach(), case)
    forward: Callable[[], Tensor]
    if contender.code == "orderless":
        forward = lambda: ops.set_norm(x, batch.offsets, weight, bias, eps=EPS, set_size=batch.set_size)  # noqa: E731
    elif contender.code == "pyg":
        norm = pyg_set_norm(weight.detach(), bias.detach(), EPS)
        leaves = [x, *norm.parameters()]
        numbers = torch.repeat_interleave(batch.sizes)
        forward = lambda: norm(x, numbers, len(batch))  # noqa: E731
    else:
        style: Style = contender.code
        assert case.is_dense, "sets of different sizes would have to be padded first"
        shape = (len(case.sizes), case.sizes[0], dim)
        forward = lambda: set_norm(x.reshape(shape), weight, bias, EPS, style=style)  # noqa: E731
    return lambda: torch.autograd.grad(out := forward(), leaves, gradient.view_as(out))


def _batch(x: Tensor, case: BenchCase) -> ol.SetBatch:
    if case.is_dense:
        return ol.SetBatch.from_padded(x.reshape(len(case.sizes), case.sizes[0], x.shape[1]))
    return ol.SetBatch(x, torch.tensor([0, *case.sizes]).cumsum(0))


def _pad(x: Tensor, case: BenchCase) -> tuple[Tensor, ...]:
    """What the networks of others take: a dense tensor, and a mask where sizes differ."""
    if case.is_dense:
        return (x.reshape(len(case.sizes), case.sizes[0], x.shape[1]),)
    return _batch(x, case).to_padded()
