"""The block diagrams show what the layers compute: the same operations of the same parts, in the same order."""

from itertools import pairwise

import pytest
import torch
from batches import make_batch
from torch import nn

from orderless.experiments.figures.diagrams import IN_THE_PAPER, Attention, Op, Residual, arrangements, draw_arrangements
from orderless.nn import AggregatedBlock, AggregatedSkip, CleanBlock, FreqAddBlock, MABPlusPlus, NonCleanBlock, SetNorm
from orderless.nn.attention import MAB, MultiheadAttention
from orderless.sets import SetBatch

DIM = 8
ORDERS = ("released", "paper")
LAYERS = {
    "set_transformer_non_clean": lambda order: MAB(DIM, DIM, DIM, num_heads=2, norm="set"),
    "set_transformer_clean": lambda order: MABPlusPlus(DIM, num_heads=2, order=order),
    "deep_sets_non_clean": lambda order: NonCleanBlock(DIM),
    "deep_sets_clean": lambda order: CleanBlock(DIM, order=order),
    "deep_sets_freq_add": lambda order: FreqAddBlock(DIM),
    "deep_sets_aggregated": lambda order: AggregatedBlock(DIM, "mean", order=order),
    "set_transformer_aggregated": lambda order: MABPlusPlus(DIM, num_heads=2, order=order, aggregate="mean"),
}
every_arrangement = pytest.mark.parametrize("name", LAYERS)
both_orders = pytest.mark.parametrize("order", ORDERS)


class Symbol:
    """Stands for a tensor, and remembers in one line how it was computed."""

    shape = (5, DIM)

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return Symbol(f"({self.text} + {other.text})")

    def relu(self):
        return Symbol(f"relu({self.text})")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        assert function is torch.relu, f"{function} is no operation that a diagram knows"
        return args[0].relu()


class Recorder(nn.Module):
    """Stands for a part of a layer: writes its name down, on elements or on a batch of them."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        if isinstance(x, SetBatch):
            return x.with_x(self(x.x))
        return Symbol(f"{self.name}({x.text})")


def traced(layer, monkeypatch):
    """What the layer computes of x and y, in one line: its parts are recorders, its own code is as it is."""

    def attention(q, q_offsets, k, v, offsets, **options):
        return Symbol(f"attention({q.text}, {k.text}, {v.text})")

    monkeypatch.setattr("orderless.nn.attention.ops.packed_attention", attention)
    parts = {name: part for name, part in layer.named_modules() if isinstance(part, nn.Linear | SetNorm | AggregatedSkip)}
    for name in parts:
        layer.set_submodule(name, Recorder(name))
    offsets = make_batch([3, 2]).offsets
    batches = [SetBatch._trusted(Symbol(name), offsets) for name in "xy"]
    return layer(*batches[: 2 if isinstance(layer, MAB | MABPlusPlus) else 1]).x.text


@both_orders
@every_arrangement
def test_a_diagram_has_the_operations_of_its_layer_in_their_order(name, order, monkeypatch):
    assert arrangements(order)[name].formula == traced(LAYERS[name](order), monkeypatch)


@both_orders
@every_arrangement
def test_walking_a_diagram_with_a_layers_parts_gives_what_the_layer_gives(name, order):
    layer = LAYERS[name](order).double()
    x, y = make_batch([4, 1, 6], dim=DIM), make_batch([3, 5, 2], dim=DIM, seed=1)
    expected = layer(x, y) if isinstance(layer, MAB | MABPlusPlus) else layer(x)
    torch.testing.assert_close(walk(arrangements(order)[name].path, layer, x, y).x, expected.x)


def walk(steps, layer, h, y):
    for step in steps:
        if isinstance(step, Residual):
            h = h.with_x(walk(step.skip, layer, h, y).x + walk(step.branch, layer, h, y).x)
        elif isinstance(step, Attention):
            keys, values = ([op for op in ops if op.kind == "norm"] for ops in (step.keys, step.values))
            h = layer.attend.from_query(h, walk(keys, layer, y, y), walk(values, layer, y, y))
        elif step.kind == "relu":
            h = h.with_x(h.x.relu())
        else:
            part = layer.get_submodule(step.part)
            h = h.with_x(part(h.x)) if step.kind == "weight" else part(h)
    return h


@both_orders
def test_only_clean_arrangements_have_nothing_on_their_path(order):
    acting = {name: [op.kind for op in diagram.on_path] for name, diagram in arrangements(order).items()}
    assert acting == {
        "set_transformer_non_clean": ["weight", "norm", "norm"],
        "set_transformer_clean": [],
        "deep_sets_non_clean": ["relu"],
        "deep_sets_clean": [],
        "deep_sets_freq_add": ["relu"],
        "deep_sets_aggregated": ["aggregate"],
        "set_transformer_aggregated": ["aggregate", "aggregate"],
    }


def test_a_diagram_names_the_class_that_it_shows():
    for name, diagram in arrangements().items():
        assert type(LAYERS[name]("released")).__name__ == diagram.layer


def test_keys_and_values_share_a_norm_in_the_released_order_only():
    def first_ops(order):
        attention = arrangements(order)["set_transformer_clean"].path[0].branch[-1]
        return attention.keys[0].part, attention.values[0].part

    assert first_ops("released") == ("key_norm", "key_norm")
    assert first_ops("paper") == ("key_norm", "attend.fc_v")
    assert MultiheadAttention(4, 4, 4, num_heads=1).get_submodule("fc_v")


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def boxes(steps):
    for step in steps:
        if isinstance(step, Op):
            yield step
        elif isinstance(step, Residual):
            yield from boxes((*step.skip, *step.branch))
        else:
            yield from {op.part: op for op in (*step.keys, *step.values)}.values()


@both_orders
@every_arrangement
def test_every_operation_is_a_box_of_the_drawing(name, order):
    drawn = words(draw_arrangements(order, [name]))
    expected = [op.label for op in boxes(arrangements(order)[name].path)]
    assert sorted(word for word in drawn if word in expected) == sorted(expected)


def test_the_drawing_says_what_acts_on_the_path_and_in_which_order_it_is():
    said = words(draw_arrangements("paper"))
    assert said.count("nothing on the path") == 2
    assert "on the path: weight Q, norm, norm" in said
    assert "on the path: ReLU" in said
    assert any("Order 'paper'" in word for word in said)


def test_nothing_is_drawn_outside_the_sheet():
    figure = draw_arrangements("released", list(arrangements()))
    (sheet,) = figure.axes
    frame = figure.bbox
    for text in sheet.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1, text.get_text()
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1, text.get_text()


def test_titles_do_not_run_into_each_other():
    figure = draw_arrangements("released", IN_THE_PAPER)
    titles = {diagram.title for diagram in arrangements().values()}
    spans = sorted(
        (text.get_window_extent().x0, text.get_window_extent().x1) for text in figure.axes[0].texts if text.get_text() in titles
    )
    assert len(spans) == 4
    assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_wrong_names_are_told():
    with pytest.raises(ValueError, match="order must be one of released, paper; got 'printed'"):
        arrangements("printed")
    with pytest.raises(ValueError, match=r"there is no arrangement 'clean'\. Arrangements: set_transformer_non_clean"):
        draw_arrangements(names=["clean"])
    with pytest.raises(ValueError, match="at least one"):
        draw_arrangements(names=[])
