"""How kernels are held to their definitions: where they run, how exact they must be, and memory that shows what was not written.

Without a GPU kernels run in Triton's interpreter, in float32 and float16 (it cuts bfloat16 toward zero instead of rounding); with
one they run on it, in bfloat16 and TF32 too.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU: the interpreter has neither bfloat16 nor TF32, and is slow")
NUMBERS = {  # dtype of the elements, and how torch multiplies float32
    "float32": (torch.float32, "highest"),
    "float16": (torch.float16, "highest"),
    "bfloat16": (torch.bfloat16, "highest"),
    "tf32": (torch.float32, "high"),
}
_GUARD = 64  # numbers on each side of a tensor; leaves pointers aligned


without_gpu = pytest.mark.skipif(HAS_GPU, reason="another width does it on a GPU: kernels of each take seconds to compile")


def case(*values: object, numbers: str, name: str, marks: tuple[pytest.MarkDecorator, ...] = ()) -> object:
    """A case of a parametrised test, for the GPU only where the interpreter has no such numbers."""
    gpu_only = (needs_gpu,) if numbers in ("bfloat16", "tf32") else ()
    return pytest.param(*values, numbers, id=f"{name}-{numbers}", marks=[*marks, *gpu_only])


@contextmanager
def multiplying(precision: str) -> Iterator[None]:
    """Sets how torch, and with it the kernels, multiplies float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


Outcome = dict[str, Tensor]


def outcome(compute: Callable[..., Tensor], tensors: dict[str, Tensor], direction: Tensor) -> Outcome:
    """The result of `compute(**tensors)`, and the gradient of each tensor along `direction`."""
    inputs = {name: t.detach().requires_grad_() for name, t in tensors.items()}
    result = compute(**inputs)
    gradients = torch.autograd.grad(result, list(inputs.values()), direction.to(result))
    return {"result": result.detach()} | {f"gradient of {name}": g for name, g in zip(inputs, gradients, strict=True)}


def assert_as_accurate(
    fast: Outcome, plain: Outcome, exact: Outcome, *, slack: float = 2.0, terms: dict[str, float] | None = None
) -> None:
    """Kernels may be at most `slack` times further from the float64 truth than plain PyTorch is, each by its largest error.

    On top come a few roundings of the largest number, float32's or half of one of a narrower result: where PyTorch happens to be
    right to the last bit, twice that is not a fair bound. Where a result is a sum of numbers that cancel, `terms` tells what
    their absolute values sum to, which is what roundings are of.
    """
    assert fast.keys() == exact.keys()
    for name, truth in exact.items():
        assert fast[name].dtype == plain[name].dtype, name
        assert fast[name].shape == truth.shape, name
        if truth.numel() == 0:
            continue
        largest = max(truth.abs().max().item(), (terms or {}).get(name, 0))
        error, theirs = ((found[name].double() - truth).abs().max().item() for found in (fast, plain))
        rounding = max(4 * torch.finfo(torch.float32).eps, torch.finfo(fast[name].dtype).eps / 2) * largest
        assert error <= slack * theirs + rounding, (
            f"{name}: kernels are off by {error:.2e}, PyTorch by {theirs:.2e}; a rounding is {rounding:.2e}"
        )


def assert_as_accurate_together(fast: Outcome, plain: Outcome, exact: Outcome, *, slack: float = 2.0) -> None:
    """The same of all gradients of a network together, by the root of their summed squares, and of its answer.

    For half precision and TF32: a number near a ReLU's kink may be cut by the one and not by the other, which no bound on single
    gradients survives. One rounding of the answer comes on top.
    """

    def error(found: Outcome) -> float:
        return math.sqrt(sum((found[name].double() - exact[name]).square().sum().item() for name in exact if name != "answer"))

    assert error(fast) <= slack * error(plain), f"kernels are off by {error(fast):.2e}, PyTorch by {error(plain):.2e}"
    off, theirs = ((found["answer"].double() - exact["answer"]).abs().max().item() for found in (fast, plain))
    rounding = max(2**-10, torch.finfo(fast["answer"].dtype).eps) * exact["answer"].abs().max().item()
    assert off <= slack * theirs + rounding, f"answer: kernels are off by {off:.2e}, PyTorch by {theirs:.2e}"


def assert_same(found: Outcome, expected: Outcome) -> None:
    """Bit for bit."""
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}")


class Memory:
    """Memory full of NaN, with more NaN around it: what is read before it is written, or beyond its end, shows in the results."""

    def __init__(self) -> None:
        self._buffers: list[Tensor] = []

    def room(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        count = math.prod(shape)
        buffer = torch.full((count + 2 * _GUARD,), math.nan, dtype=dtype, device=device)
        self._buffers.append(buffer)
        return buffer[_GUARD : _GUARD + count].view(shape)

    def hold(self, tensor: Tensor) -> Tensor:
        """The same numbers, with NaN around them."""
        return self.room(tuple(tensor.shape), tensor.dtype, tensor.device).copy_(tensor)

    def assert_nothing_written_around(self) -> None:
        for buffer in self._buffers:
            assert buffer[:_GUARD].isnan().all(), "a kernel wrote before the beginning of a tensor"
            assert buffer[-_GUARD:].isnan().all(), "a kernel wrote beyond the end of a tensor"


def poison(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Lets every new floating tensor come from a `Memory`."""
    memory = Memory()

    def room_like(made: Tensor) -> Tensor:
        return memory.room(tuple(made.shape), made.dtype, made.device) if made.is_floating_point() else made

    _replace_empty(monkeypatch, room_like)
    return memory


def start_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets memory that nobody writes, such as slots of statistics that no program has use for, be the same in every call."""
    _replace_empty(monkeypatch, Tensor.zero_)


def _replace_empty(monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Tensor], Tensor]) -> None:
    for owner, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
        make = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, make=make, **options: prepare(make(*args, **options)))
