"""How kernels are launched: the table is whole, and what torch is set to decides how float32 is multiplied."""

from contextlib import nullcontext

import pytest
import torch
from kernels import DEVICE, multiplying

from orderless.ops import _launch
from orderless.ops._launch import INTERPRETED, SMALL, TABLE, Launch, add_parts, are_small, on_device_of, product_precision

OPS = sorted({op for op, _ in TABLE})


@pytest.fixture
def on_a_gpu(monkeypatch):
    """As kernels are launched where there is a GPU of 100 multiprocessors."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(_launch, "num_programs", lambda device, per_processor: 100 * per_processor)


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_shape_for_every_kernel_and_every_way_to_multiply(op):
    ways = {how: kernels for name, how in TABLE for kernels in [TABLE[name, how]] if name == op}
    assert set(ways) >= {"half", "tf32", "tf32x3"}  # those of small sets may be missing, and are then the usual ones
    assert len({frozenset(kernels) for kernels in ways.values()}) == 1


@pytest.mark.parametrize("key", TABLE, ids="-".join)
def test_kernels_of_an_op_walk_by_the_same_tiles(key):
    """Statistics that one kernel leaves are read by the next, tile by tile."""
    shapes = TABLE[key].values()
    assert len({shape.rows for shape in shapes}) == 1
    for shape in shapes:
        assert shape.rows >= 16  # the smallest side of a product
        assert shape.rows & (shape.rows - 1) == 0
        assert shape.warps in (1, 2, 4, 8, 16)
        assert shape.stages >= 1
        assert shape.programs >= 1


@pytest.mark.parametrize(
    ("dtype", "precision", "how"),
    [
        (torch.float32, "highest", "tf32x3"),
        (torch.float32, "high", "tf32"),
        (torch.float32, "medium", "tf32"),
        (torch.float16, "highest", "half"),
        (torch.bfloat16, "high", "half"),
    ],
)
@pytest.mark.parametrize("kernel", ["forward", "backward", "weights"])
def test_the_shape_is_that_of_the_table(dtype, precision, how, kernel, on_a_gpu):
    with multiplying(precision):
        launch = Launch.of("clean_blocks", kernel, torch.zeros(2, 4, dtype=dtype), D=4)
    shape = TABLE["clean_blocks", how][kernel]
    assert launch.grid == (100 * shape.programs,)
    assert launch.rows == shape.rows
    options = {"D": 4, "M": shape.rows, "num_warps": shape.warps, "STAGES": shape.stages}
    assert launch.options == options | ({"maxnreg": shape.registers} if shape.registers else {})


def test_small_sets_have_small_tiles_where_the_table_has_them(on_a_gpu):
    x = torch.zeros(2, 4, dtype=torch.bfloat16)
    assert Launch.of("clean_blocks", "forward", x, small=True).rows == 16
    assert Launch.of("clean_blocks", "forward", x).rows == 64
    assert Launch.of("clean_blocks", "forward", x.float(), small=True) == Launch.of("clean_blocks", "forward", x.float())


def test_sets_are_small_by_their_average():
    assert are_small(SMALL * 3, 3)
    assert not are_small(SMALL * 3 + 1, 3)
    assert are_small(0, 0)


def test_the_interpreter_has_one_shape(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    launch = Launch.of("clean_blocks", "backward", torch.zeros(2, 4), D=4)
    assert launch.rows == INTERPRETED.rows
    assert launch.options == {"D": 4, "M": 16, "num_warps": 1, "STAGES": 1}


def test_float32_is_multiplied_as_torch_is_set_to(monkeypatch):
    x = torch.zeros(1)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    for precision, expected in (("highest", "tf32x3"), ("high", "tf32"), ("medium", "tf32")):
        with multiplying(precision):
            assert product_precision(x) == expected
            assert product_precision(x.half()) == "ieee"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert product_precision(x) == "ieee"


@pytest.mark.traced
def test_how_float32_is_multiplied_can_be_asked_in_a_traced_program(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # with it nobody asks
    traced = torch.compile(lambda x: x + (1 if product_precision(x) == "tf32" else 2), backend="eager", fullgraph=True)
    for precision, expected in (("highest", 2), ("high", 1)):
        with multiplying(precision):
            assert traced(torch.zeros(1)).item() == expected


def test_shares_are_added_up_over_programs_whatever_their_shape():
    parts = torch.randn(5, 2, 3, 11, device=DEVICE)
    out = torch.full((2, 3, 11), torch.nan, device=DEVICE)
    add_parts(parts, out)
    torch.testing.assert_close(out, parts.sum(0))


class Elsewhere(torch.Tensor):
    """As if it were on the second GPU."""

    device = property(lambda self: torch.device("cuda", 1))


def test_kernels_are_launched_where_the_elements_are(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: asked.append(device) or nullcontext())
    with on_device_of(torch.zeros(1)):
        pass
    assert asked == []
    with on_device_of(torch.zeros(1).as_subclass(Elsewhere)):
        pass
    assert asked == [torch.device("cuda", 1)]
