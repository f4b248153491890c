"""Which implementation runs, and why: what is said is what happens."""

import os
import subprocess
import sys

import pytest
import torch
from kernels import HAS_GPU
from torch.autograd import forward_ad

from orderless import ops
from orderless.ops import backend
from orderless.ops.backend import VARIABLE, Choice, choose, recording

CPU = torch.zeros(2, 4)


class Elements(torch.Tensor):
    """Elements that say they are on a device that need not be there."""

    @staticmethod
    def __new__(cls, device, dtype=torch.float32):
        return torch.Tensor._make_wrapper_subclass(cls, (2, 4), dtype=dtype, device=torch.device(device))

    @classmethod
    def __torch_dispatch__(cls, function, *_, **__):
        raise AssertionError(f"{function} was called: nobody may compute with them")


@pytest.fixture(autouse=True)
def _nothing_is_forced(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def test_a_wrong_value_is_an_error_that_says_the_right_ones(monkeypatch):
    monkeypatch.setenv(VARIABLE, "cuda")
    with pytest.raises(ValueError, match="ORDERLESS_BACKEND must be reference or triton, or not set; got 'cuda'"):
        choose(CPU)


def test_an_empty_value_is_none(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    assert choose(CPU).name == "reference"


def test_the_reference_can_be_forced_anywhere(monkeypatch):
    monkeypatch.setenv(VARIABLE, "reference")
    assert choose(CPU) == Choice("reference", "ORDERLESS_BACKEND=reference")
    assert choose(Elements("cuda:0")) == Choice("reference", "ORDERLESS_BACKEND=reference")


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_on_the_cpu_the_reference_runs_unless_kernels_are_asked_for(interpret, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    assert choose(CPU) == Choice("reference", "elements are on cpu, kernels run on cuda")
    monkeypatch.setenv(VARIABLE, "triton")
    if interpret == "1":
        assert choose(CPU) == Choice("triton", "ORDERLESS_BACKEND=triton")
    else:
        with pytest.raises(ValueError, match=r"but elements are on cpu, kernels run on cuda\. Unset it"):
            choose(CPU)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.complex64], ids=str)
def test_kernels_take_no_other_dtypes(dtype, monkeypatch, interpreted):
    assert choose(CPU.to(dtype)) == Choice("reference", f"elements are {dtype}, which kernels do not support")
    monkeypatch.setenv(VARIABLE, "triton")
    with pytest.raises(ValueError, match=f"ORDERLESS_BACKEND=triton, but elements are {dtype}"):
        choose(CPU.to(dtype))


def test_without_triton_the_reference_runs(monkeypatch, interpreted):
    monkeypatch.setattr(backend, "_has_triton", lambda: False)
    assert choose(Elements("cuda:0")) == Choice("reference", "Triton is not installed")
    monkeypatch.setenv(VARIABLE, "triton")
    with pytest.raises(ValueError, match="but Triton is not installed"):
        choose(CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_on_a_gpu_kernels_run(dtype, monkeypatch):
    asked = []
    monkeypatch.setattr(backend, "_capability", lambda index: asked.append(index) or (9, 0))
    assert choose(Elements("cuda:1", dtype)) == Choice("triton", f"elements are {dtype} on cuda")
    assert asked == [1]
    monkeypatch.setenv(VARIABLE, "triton")
    assert choose(Elements("cuda:1", dtype)) == Choice("triton", "ORDERLESS_BACKEND=triton")


def test_an_old_gpu_runs_the_reference(monkeypatch):
    monkeypatch.setattr(backend, "_capability", lambda index: (7, 5))
    assert choose(Elements("cuda:0")) == Choice("reference", "the GPU has compute capability 7.5, kernels need 8.0")
    monkeypatch.setattr(backend, "_capability", lambda index: (8, 0))
    assert choose(Elements("cuda:0")).name == "triton"


def test_other_devices_run_the_reference():
    assert choose(CPU.to("meta")) == Choice("reference", "elements are on meta, kernels run on cuda")


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own, in its jvp
@pytest.mark.parametrize("taken", ["jvp", "grad", "vmap", "dual level"])
def test_kernels_leave_what_torch_transforms_to_the_reference(taken, monkeypatch, interpreted):
    """A kernel has no way forward: the elements would count as constant, and derivatives be wrong without a word."""
    monkeypatch.setattr(backend, "_capability", lambda index: (9, 0))
    chosen, forced = [], []

    def sums(x):
        monkeypatch.delenv(VARIABLE, raising=False)
        chosen.append(choose(Elements("cuda:0")))
        monkeypatch.setenv(VARIABLE, "triton")
        with pytest.raises(ValueError, match=r"=triton, but torch\.func or forward derivatives are in use") as error:
            choose(CPU)
        forced.append(error)
        return x.sum()

    if taken == "jvp":
        torch.func.jvp(sums, (CPU,), (CPU,))
    elif taken == "dual level":
        with forward_ad.dual_level():
            sums(CPU)
    else:
        getattr(torch.func, taken)(sums)(CPU)
    assert chosen == [Choice("reference", "torch.func or forward derivatives are in use, which kernels do not support")]
    assert len(forced) == 1
    monkeypatch.delenv(VARIABLE)
    assert choose(Elements("cuda:0")).name == "triton"


def test_recordings_count_calls_by_op_and_backend():
    offsets, ones = torch.tensor([0, 2]), torch.ones(4)
    with recording() as outer:
        ops.set_norm(CPU, offsets, ones, ones)
        with recording() as inner:
            ops.set_norm(CPU, offsets, ones, ones)
            ops.norm_relu_pool(CPU, offsets, ones, ones, mean=True)
    ops.set_norm(CPU, offsets, ones, ones)
    assert inner == {("set_norm", "reference"): 1, ("norm_relu_pool", "reference"): 1}
    assert outer == {("set_norm", "reference"): 2, ("norm_relu_pool", "reference"): 1}


def test_equal_recordings_are_told_apart():
    with recording() as outer:
        with recording() as inner:
            pass  # both have counted nothing so far
        backend.note("set_norm", "reference")
    assert outer == {("set_norm", "reference"): 1}
    assert inner == {}


def test_a_recording_ends_with_an_error():
    def fail():
        with recording():
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert backend._recordings == []


def run(code, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", VARIABLE)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=kept | environment
    ).stdout.strip()


def test_an_import_neither_looks_for_a_gpu_nor_loads_triton():
    """On a GPU as well: who only imports, or works on the CPU, must not wait for CUDA."""
    code = (
        "import sys, torch\n"
        "before = 'triton' in sys.modules\n"
        "def refuse(*_, **__): raise SystemExit('asked for a GPU')\n"
        "torch.cuda.is_available = torch.cuda.get_device_capability = torch.cuda.get_device_properties = refuse\n"
        "torch.cuda.device_count = torch.cuda._lazy_init = refuse\n"
        "import orderless as ol\n"
        "model = ol.create_model('deep_sets++', in_features=2, out_features=1, depth=2, width=8)\n"
        "model(ol.SetBatch.from_list([torch.randn(3, 2)])).sum().backward()\n"
        "print(torch.cuda.is_initialized(), before or 'triton' not in sys.modules)\n"
    )
    assert run(code, CUDA_VISIBLE_DEVICES="") == "False True"
    assert run(code) == "False True"


@pytest.mark.skipif(HAS_GPU, reason="the interpreter is for machines without a GPU")
def test_kernels_are_loaded_where_they_are_asked_for_on_the_cpu():
    code = (
        "import torch\n"
        "from orderless import ops\n"
        "offsets, ones = torch.tensor([0, 2]), torch.ones(4)\n"
        "with ops.backend.recording() as used:\n"
        "    ops.set_norm(torch.randn(2, 4), offsets, ones, ones)\n"
        "print(*used)\n"
    )
    assert run(code, ORDERLESS_BACKEND="triton", TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="") == "('set_norm', 'triton')"
