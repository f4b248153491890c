"""`SetBatch` in DataLoader, pytrees, the tracer and autograd, and as a whole.

Letters: N sets, T elements in all sets together, M elements in the largest set.
"""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numbered_sets import assert_holds, few_examples, forks, make_batch, make_sets, nested
from torch.utils import _pytree as pytree
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from orderless import SetBatch

# ------------------------------------------------------------------------------------------------------- DataLoader


def make_samples():
    return [make_batch([2, 0]), make_batch([1]), make_batch([3]), make_batch([0, 4])]


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_by_itself(num_workers):
    samples = make_samples()
    first, second = DataLoader(samples, batch_size=2, num_workers=num_workers)
    assert_holds(first, [*samples[0], *samples[1]])
    assert_holds(second, [*samples[2], *samples[3]])


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_inside_tuples(num_workers):
    samples = make_samples()
    loader = DataLoader([(s, torch.tensor(float(i))) for i, s in enumerate(samples)], batch_size=4, num_workers=num_workers)
    [(joined, target)] = loader
    assert_holds(joined, [s for sample in samples for s in sample])
    assert target.tolist() == [0, 1, 2, 3]


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_data_loader_joins_batches_inside_dicts(num_workers):
    samples = make_samples()
    loader = DataLoader(
        [{"cells": s, "age": i, "pair": (s, s)} for i, s in enumerate(samples)], batch_size=3, num_workers=num_workers
    )
    first, second = loader
    assert_holds(first["cells"], [s for sample in samples[:3] for s in sample])
    assert first["age"].tolist() == [0, 1, 2]
    assert_holds(second["cells"], list(samples[3]))
    assert_holds(second["pair"][1], list(samples[3]))


@forks
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_is_itself_a_dataset_that_a_batch_sampler_draws_from(num_workers):
    sets = make_sets([3, 0, 2, 1, 4])
    batch = SetBatch.from_list(sets)
    draws = BatchSampler(SequentialSampler(batch), batch_size=2, drop_last=False)
    drawn = list(DataLoader(batch, sampler=draws, batch_size=None, num_workers=num_workers))
    assert len(drawn) == 3
    assert_holds(drawn[0], sets[:2])
    assert_holds(drawn[1], sets[2:4])
    assert_holds(drawn[2], sets[4:])


def test_collation_keeps_the_set_size_that_samples_share():
    x = torch.randn(3, 4, 2)
    assert_holds(default_collate([SetBatch.from_padded(x[:1]), SetBatch.from_padded(x[1:])]), list(x), set_size=4)


def test_collation_of_samples_that_do_not_fit_says_why():
    with pytest.raises(ValueError, match=r"batch 0 has \(2,\), batch 1 has \(3,\)"):
        default_collate([make_batch([2]), make_batch([2], (3,))])


# ----------------------------------------------------------------------------------------------------------- pytree


def test_the_leaves_of_the_tree_are_elements_and_offsets():
    batch = make_batch([3, 2])
    leaves, spec = pytree.tree_flatten({"a": batch, "b": [torch.zeros(1)]})
    assert leaves[0] is batch.x
    assert leaves[1] is batch.offsets
    assert len(leaves) == 3
    assert_holds(pytree.tree_unflatten(leaves, spec)["a"], make_sets([3, 2]))


def test_the_leaves_of_the_tree_have_names():
    paths, _ = pytree.tree_flatten_with_path(make_batch([3, 2]))
    assert [pytree.keystr(path) for path, _ in paths] == [".x", ".offsets"]


def test_tree_map_changes_the_leaves():
    batch = make_batch([3, 2])
    moved = pytree.tree_map(lambda t: t.to("meta"), batch)
    assert isinstance(moved, SetBatch)
    assert moved.x.is_meta
    assert moved.offsets.is_meta


def test_unflattening_does_not_validate():
    _, spec = pytree.tree_flatten(make_batch([3, 2]))
    strange = pytree.tree_unflatten(["not a tensor", None], spec)
    assert strange.x == "not a tensor"
    assert strange.offsets is None


def test_the_set_size_is_no_part_of_the_tree():
    dense, ragged = SetBatch.from_padded(torch.randn(2, 3, 2)), make_batch([4, 2])
    leaves, spec = pytree.tree_flatten(dense)
    assert spec == pytree.tree_flatten(ragged)[1]
    assert_holds(pytree.tree_unflatten(leaves, spec), dense.to_list(), set_size=None)


def test_the_tree_can_be_written_down_and_read_back():
    leaves, spec = pytree.tree_flatten(make_batch([3, 2]))
    read = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert_holds(pytree.tree_unflatten(leaves, read), make_sets([3, 2]))


# ---------------------------------------------------------------------------------------------------------- tracing


@pytest.fixture
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


TRACED = {
    "with_x": lambda b: b.with_x(b.x * 2),
    "constructor": lambda b: SetBatch(b.x * 2, b.offsets),
    "from_padded": lambda b: SetBatch.from_padded(b.x.reshape(1, *b.x.shape) * 2),
    "repeat": lambda b: SetBatch.repeat(b.x, len(b)),
    "cat": lambda b: SetBatch.cat([b, b.with_x(b.x + 1)]),
    "to": lambda b: b.to(torch.float64),
    "sizes": lambda b: b.with_x(b.x * b.sizes.sum()),
}


@pytest.mark.traced
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("build", TRACED.values(), ids=TRACED.keys())
def test_building_a_batch_does_not_break_the_graph(build):
    batch = make_batch([3, 0, 2])
    eager, compiled = build(batch), torch.compile(build, backend="eager", fullgraph=True)(batch)
    assert_holds(compiled, eager.to_list(), set_size=eager.set_size)


@pytest.mark.traced
@pytest.mark.usefixtures("_fresh_compiler")
def test_a_batch_marked_dynamic_is_compiled_once_for_all_sizes():
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    double = torch.compile(lambda b: b.with_x(b.x * 2), backend=count, fullgraph=True, dynamic=False)
    for sizes in ([3, 0, 2], [4, 4, 4], [1, 2, 9]):
        batch = make_batch(sizes)
        assert batch.mark_dynamic() is batch
        assert_holds(double(batch), [2 * s for s in batch])
    assert len(graphs) == 1


# -------------------------------------------------------------------------------------------------------- gradients

CONVERSIONS = {
    "constructor": lambda x: SetBatch(x, [0, 2, 2, 6]).x,
    "from_list": lambda x: SetBatch.from_list([x[2:], x[:0], x[:2]]).x,
    "from_padded dense": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2)).x,
    "from_padded mask": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2), [[False, True, True], [True, False, False]]).x,
    "from_padded lengths": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2), lengths=[0, 2]).x,
    "from_index": lambda x: SetBatch.from_index(x, [2, 0, 2, 0, 4, 2], num_sets=6).x,
    "from_nested": lambda x: SetBatch.from_nested(SetBatch(x, [0, 2, 2, 6]).to_nested()).x,
    "repeat": lambda x: SetBatch.repeat(x, 3).x,
    "cat": lambda x: SetBatch.cat([SetBatch(x, [0, 2, 6]), SetBatch(3 * x, [0, 6])]).x,
    "to_list": lambda x: SetBatch(x, [0, 2, 2, 6]).to_list()[2],
    "to_padded": lambda x: SetBatch(x, [0, 2, 2, 6]).to_padded(fill=5.0)[0],
    "to_padded dense": lambda x: SetBatch.from_padded(x.reshape(2, 3, 2)).to_padded()[0],
    "to": lambda x: SetBatch(x, [0, 2, 2, 6]).to("cpu", copy=True).x,
    "with_x": lambda x: SetBatch(x, [0, 2, 2, 6]).with_x(x.square()).x,
    "one set": lambda x: SetBatch(x, [0, 2, 2, 6])[-1],
    "slice": lambda x: SetBatch(x, [0, 2, 2, 6])[::-2].x,
    "repeated numbers": lambda x: SetBatch(x, [0, 2, 2, 6])[[0, 2, 0]].x,
    "bool mask": lambda x: SetBatch(x, [0, 2, 2, 6])[[True, False, False]].x,
    "tree_map": lambda x: pytree.tree_map(lambda t: t * 2, SetBatch(x, [0, 2, 2, 6])).x,
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS.keys())
@nested
def test_gradients_flow_through_every_conversion(convert):
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert convert(x).requires_grad
    assert torch.autograd.gradcheck(convert, x)


def test_offsets_have_no_gradient():
    assert not SetBatch(torch.randn(5, 2, requires_grad=True), [0, 5]).offsets.requires_grad


# ------------------------------------------------------------------------------------------------------- properties

some_sizes = st.lists(st.integers(0, 6), min_size=1, max_size=7)
some_element = st.sampled_from([(), (1,), (3,), (2, 3)])
some_dtype = st.sampled_from([torch.float32, torch.float64, torch.int64])


@nested
@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element, dtype=some_dtype)
def test_a_tour_of_all_formats_ends_where_it_began(data, sizes, element, dtype):
    sets = make_sets(sizes, element, dtype)
    batch = SetBatch.from_list(sets)

    padded, mask = batch.to_padded(fill=-1)
    batch = SetBatch.from_padded(padded, mask)
    assert_holds(batch, sets)

    index = torch.tensor(data.draw(st.permutations([n for n, size in enumerate(sizes) for _ in range(size)])), dtype=torch.int64)
    scattered = torch.empty_like(batch.x)
    scattered[index.argsort(stable=True)] = batch.x  # sets interleaved, each in its own order
    batch = SetBatch.from_index(scattered, index, num_sets=len(sizes))
    assert_holds(batch, sets)

    batch = SetBatch.from_nested(batch.to_nested())
    assert_holds(batch, sets)
    assert all(torch.equal(a, b) for a, b in zip(batch.to_list(), sets, strict=True))


@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element)
def test_picking_sets_is_picking_from_a_list(data, sizes, element):
    sets = make_sets(sizes, element)
    numbers = data.draw(st.lists(st.integers(-len(sizes), len(sizes) - 1), max_size=8))
    mask = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    cut = data.draw(st.slices(len(sizes)))
    batch = SetBatch.from_list(sets)
    assert_holds(batch[numbers], [sets[n] for n in numbers])
    assert_holds(batch[mask], list(itertools.compress(sets, mask)))
    assert_holds(batch[cut], sets[cut])


@few_examples
@given(data=st.data(), sizes=some_sizes, element=some_element)
def test_cutting_a_batch_and_joining_it_changes_nothing(data, sizes, element):
    sets = make_sets(sizes, element)
    batch = SetBatch.from_list(sets)
    cut = data.draw(st.integers(0, len(sizes)))
    assert_holds(SetBatch.cat([batch[:cut], batch[cut:]]), sets)


@few_examples
@given(data=st.data(), num_sets=st.integers(0, 4), max_size=st.integers(0, 4))
def test_any_mask_picks_what_plain_indexing_picks(data, num_sets, max_size):
    bits = data.draw(st.lists(st.booleans(), min_size=num_sets * max_size, max_size=num_sets * max_size))
    mask = torch.tensor(bits, dtype=torch.bool).reshape(num_sets, max_size)
    x = torch.arange(num_sets * max_size * 2.0).reshape(num_sets, max_size, 2)
    junk = torch.where(mask[..., None], x, float("nan"))
    assert_holds(SetBatch.from_padded(junk, mask), [x[n][mask[n]] for n in range(num_sets)])


@few_examples
@given(offsets=st.lists(st.integers(-2, 7), max_size=5), num_elements=st.integers(0, 5))
def test_the_constructor_accepts_exactly_the_legal_offsets(offsets, num_elements):
    legal = bool(offsets) and offsets == sorted(offsets) and offsets[0] == 0 and offsets[-1] == num_elements
    try:
        SetBatch(torch.zeros(num_elements, 1), offsets)
    except ValueError:
        assert not legal
    else:
        assert legal
