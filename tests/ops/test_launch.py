"""How kernels are launched: the table is whole, and what torch is set to decides how float32 is multiplied."""

from contextlib import nullcontext

import pytest
import torch
from kernels import DEVICE, multiplying

import orderless.ops.clean_blocks.triton  # noqa: F401 - kernels are made for the interpreter or not when they are loaded
from orderless.ops import _launch, clean_blocks_obstacle, induced_blocks_obstacle
from orderless.ops._launch import (
    INTERPRETED_ROWS,
    PLANS,
    SMALL,
    Launch,
    add_parts,
    are_small,
    describe_plans,
    memory_obstacle,
    on_device_of,
    plan_for,
    product_precision,
)

WAYS = {f"{op}-{how}": plans for op, ways in PLANS.items() for how, plans in ways.items()}


@pytest.fixture
def on_a_gpu(monkeypatch):
    """As kernels are launched where there is a GPU of 100 multiprocessors."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(_launch, "num_programs", lambda device, per_processor: 100 * per_processor)


@pytest.mark.parametrize("op", PLANS)
def test_every_op_has_a_shape_for_every_kernel_and_every_way_to_multiply(op):
    ways = PLANS[op]
    # those of small sets may be missing, and are then the usual ones; attention kernels do not multiply float32 in full
    assert set(ways) >= ({"half", "tf32", "tf32x3"} if op == "clean_blocks" else {"half", "tf32"})
    assert len({frozenset(plan.shapes) for plans in ways.values() for plan in plans}) == 1


@pytest.mark.parametrize("plans", WAYS.values(), ids=WAYS.keys())
def test_plans_can_be_launched_and_the_leaner_come_later(plans):
    assert [plan.shared for plan in plans] == sorted({plan.shared for plan in plans}, reverse=True)
    for plan in plans:
        for rows in (plan.rows, plan.backward_rows):
            assert rows >= 16  # the smallest side of a product
            assert rows & (rows - 1) == 0
        for shape in plan.shapes.values():
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
def test_the_shape_is_that_of_the_plan(dtype, precision, how, kernel, on_a_gpu):
    with multiplying(precision):
        launch = Launch.of("clean_blocks", kernel, torch.zeros(2, 4, dtype=dtype), D=4)
    plan = PLANS["clean_blocks"][how][0]
    shape = plan.shapes[kernel]
    assert launch.grid == (100 * shape.programs,)
    assert launch.rows == plan.rows
    options = {"D": 4, "M": plan.rows, "num_warps": shape.warps, "STAGES": shape.stages}
    assert launch.options == options | ({"maxnreg": shape.registers} if shape.registers else {})


class OnAGpu(torch.Tensor):
    """As if it were on a GPU."""

    device = property(lambda self: torch.device("cuda", 0))


@pytest.mark.parametrize(("kib", "clean", "induced"), [(227, 0, 0), (163, 1, 1), (99, 1, 1)], ids=["H200", "A100", "RTX 4090"])
def test_a_gpu_gets_the_fastest_plan_that_it_has_room_for(monkeypatch, kib, clean, induced):
    monkeypatch.setattr(_launch, "_asked_shared_memory", lambda index: kib * 2**10)
    x = torch.zeros(2, 4, dtype=torch.bfloat16).as_subclass(OnAGpu)
    assert plan_for("clean_blocks", x) is PLANS["clean_blocks"]["half"][clean]
    assert plan_for("induced_blocks", x) is PLANS["induced_blocks"]["half"][induced]
    assert describe_plans(x).startswith("leaner than" if clean else "as measured")


def test_where_no_plan_has_room_kernels_do_not_run_and_say_why(monkeypatch, on_a_gpu):
    monkeypatch.setattr(_launch, "_asked_shared_memory", lambda index: 99 * 2**10)
    monkeypatch.setattr("orderless.ops.backend._obstacle", lambda x: None)
    x = torch.zeros(2, 4).as_subclass(OnAGpu)
    need = "kernels for torch.float32 need 160 KiB of shared memory, and the GPU has 99 for a program"
    with multiplying("highest"):
        assert clean_blocks_obstacle(x) == memory_obstacle("clean_blocks", x) == need
    with multiplying("high"):
        assert clean_blocks_obstacle(x) is None
        assert induced_blocks_obstacle(x, 32, 4) == need
    assert induced_blocks_obstacle(x.half(), 64, 4) is None
    assert "65 inducing points are more than 64" in induced_blocks_obstacle(x.half(), 65, 4)


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
    assert launch.rows == INTERPRETED_ROWS
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


@pytest.mark.parametrize("interpreted", [True, False], ids=["interpreted", "on a GPU"])
@pytest.mark.parametrize("shape", [(2, 3, 11), (2, 43, 49)], ids=["few", "many"])
def test_shares_are_added_up_over_programs_whatever_their_shape(shape, interpreted, monkeypatch):
    monkeypatch.setattr(_launch, "is_interpreted", lambda: interpreted)
    parts = torch.randn(70, *shape, device=DEVICE)
    out = torch.full(shape, torch.nan, device=DEVICE)
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


def test_triton_is_asked_how_much_shared_memory_there_is(monkeypatch):
    from triton.runtime import driver

    class Here:
        """A driver that knows two GPUs."""

        utils = property(lambda self: self)

        def get_device_properties(self, index):
            return {"max_shared_mem": [232_448, 101_376][index]}

    monkeypatch.setattr(driver, "_active", Here())
    _launch._asked_shared_memory.cache_clear()
    x = torch.zeros(1).as_subclass(Elsewhere)  # on the second
    assert _launch.shared_memory(x) == 99
    _launch._asked_shared_memory.cache_clear()
