"""Where elements come from (`source.py`): cut anywhere, read as often as needed, and never silently other ones."""

import gc
import weakref

import numpy as np
import pytest
import torch
from batches import SIZES

from orderless import SetBatch
from orderless.models.chunked import Blocks, SourceChangedError
from orderless.models.chunked.source import Source, as_blocks, cut

CPU = torch.device("cpu")
X = torch.arange(46, dtype=torch.float64).reshape(23, 2)


def make_source(sets, *, chunk_elements=4, element_shape=(2,), dtype=torch.float64):
    return Source(as_blocks(sets), chunk_elements=chunk_elements, element_shape=element_shape, device=CPU, dtype=dtype)


def read(source):
    return torch.cat([x for _, x in source.read()])


@pytest.mark.parametrize("chunk_elements", [1, 3, 7, 1000])
@pytest.mark.parametrize("sizes", [*SIZES.values(), [0, 3, 0, 0, 9, 0]], ids=[*SIZES, "empty around"])
def test_chunks_cover_every_element_of_every_set_once(sizes, chunk_elements):
    chunks = cut(sizes, chunk_elements, CPU)
    found = [0] * len(sizes)
    for number, chunk in enumerate(chunks):
        assert chunk.number == number
        assert chunk.start == sum(c.num_elements for c in chunks[:number])
        assert chunk.num_elements == sum(chunk.sizes) <= chunk_elements
        for n, size in enumerate(chunk.sizes, chunk.first):
            assert sum(sizes[:n]) <= chunk.start + sum(chunk.sizes[: n - chunk.first]) <= sum(sizes[: n + 1])
            found[n] += size
    assert found == sizes
    assert len(chunks) == max(-(-sum(sizes) // chunk_elements), 1)


def test_a_chunk_spreads_and_adds_up_set_by_set():
    for sizes in ([2, 0, 3], [5]):
        (chunk,) = cut(sizes, 5, CPU)
        per_set, rows = torch.randn(len(sizes), 3), torch.randn(5, 3)
        parts = rows.split(sizes)
        torch.testing.assert_close(chunk.total(rows), torch.stack([part.sum(0) for part in parts]))
        spread = chunk.spread(per_set).expand(5, 3)
        assert torch.equal(spread, per_set.repeat_interleave(torch.tensor(sizes), dim=0))
        assert [(n, rows[here].tolist()) for n, here in chunk.pieces] == [(n, p.tolist()) for n, p in enumerate(parts) if len(p)]
        assert chunk.batch(rows).sizes.tolist() == sizes


def many_blocks():
    return iter([X[:0], X[:5], X[5:6], X[6:20].numpy(), X[20:23]])


@pytest.mark.parametrize("chunk_elements", [1, 4, 100])
@pytest.mark.parametrize(
    "one_set",
    [X, X.numpy(), lambda: [X], many_blocks, Blocks(many_blocks, 23), X.numpy()[::-1][::-1], X.numpy().astype(">f8")],
    ids=["tensor", "array", "function", "blocks", "counted", "strided", "big-endian"],
)
def test_one_set_comes_in_whatever_form(one_set, chunk_elements):
    source = make_source(one_set, chunk_elements=chunk_elements)
    assert source.sizes == [23]
    for _ in range(2):
        assert [x.shape[0] for _, x in source.read()] == [chunk.num_elements for chunk in source.chunks]
        assert torch.equal(read(source), X)


def test_several_sets_come_as_a_batch_or_a_list():
    batch = SetBatch(X, [0, 5, 5, 23])
    for sets in (batch, [X[:5], X[5:5].numpy(), Blocks(lambda: [X[5:9], X[9:]])]):
        source = make_source(sets)
        assert source.sizes == [5, 0, 18]
        assert torch.equal(read(source), X)
        assert source.all_sets().sizes.tolist() == source.sizes


def test_a_mapped_file_is_read_chunk_by_chunk(tmp_path):
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = make_source(mapped, dtype=torch.float32)
    assert all(x.dtype == torch.float32 and x.shape[0] <= 4 for _, x in source.read())
    assert torch.equal(read(source), X.float())


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_a_function_may_fill_the_same_memory_for_every_block(kind):
    def refill():
        room = torch.empty(3, 2, dtype=torch.float64)
        for start in range(0, 21, 3):
            room.copy_(X[start : start + 3])
            yield room.numpy() if kind == "array" else room

    for chunk_elements in (2, 3, 4, 50):
        assert torch.equal(torch.cat([x.clone() for _, x in make_source(refill, chunk_elements=chunk_elements).read()]), X[:21])


def test_no_more_is_alive_than_a_chunk_and_a_block():
    alive = most = 0

    def gone(count):
        nonlocal alive
        alive -= count

    def blocks():
        nonlocal alive, most
        for _ in range(50):
            x = torch.zeros(3, 2, dtype=torch.float64)
            alive += 3
            most = max(most, alive)
            weakref.finalize(x, gone, 3)
            yield x
            del x

    gc.disable()  # counting references alone must do
    try:
        for _ in make_source(Blocks(blocks, 150), chunk_elements=10).read():
            pass
    finally:
        gc.enable()
    assert most <= 3
    assert alive == 0


def test_no_elements_are_one_chunk_of_none():
    for empty in (X[:0], list, [X[:0], X[:0]], []):
        source = make_source(empty)
        ((chunk, x),) = source.read()
        assert x.shape == (0, 2)
        assert chunk.num_elements == 0
        assert chunk.num_sets == source.num_sets == (1 if callable(empty) else len(as_blocks(empty)))


# ------------------------------------------------------------------------------------------------- what is not the same


def changing(*versions):
    """A function that gives another version of a set at each call, after it was counted."""
    turns = iter([X, *versions])
    return lambda: [next(turns)]


def test_another_number_in_a_second_pass_is_noticed():
    other = X.clone()
    other[17, 1] = torch.nextafter(other[17, 1], torch.tensor(torch.inf))
    source = make_source(changing(X, other))
    read(source)
    with pytest.raises(SourceChangedError, match="elements 16 to 19 were not the same"):
        read(source)


def test_another_order_in_a_second_pass_is_noticed():
    source = make_source(changing(X, X.flip(0)))
    read(source)
    with pytest.raises(SourceChangedError, match="fix the seed and the order of reading"):
        read(source)


@pytest.mark.parametrize(
    ("again", "words"), [(X[:22], "now has 22"), (X[:0], "now has 0"), (torch.cat([X, X[:1]]), "now has more")]
)
def test_another_number_of_elements_is_noticed(again, words):
    with pytest.raises(SourceChangedError, match=rf"set 0 had 23 elements and {words}.*starts again at every call"):
        read(make_source(changing(again)))


def test_a_wrong_count_is_noticed():
    with pytest.raises(SourceChangedError, match="set 1 had 24 elements and now has 23"):
        read(make_source([X[:3], Blocks(lambda: [X], 24)]))


def test_not_a_number_is_the_same_number_the_next_time():
    x = X.clone()
    x[3] = torch.nan
    source = make_source(x)
    read(source)
    assert read(source).isnan().sum() == 2


# ---------------------------------------------------------------------------------------------------- what is no set


@pytest.mark.parametrize(
    ("sets", "error", "words"),
    [
        (iter([X]), TypeError, "read only once: pass the function that makes it"),
        ("cells.npy", TypeError, "a set is a tensor or array"),
        ([SetBatch(X, [0, 23])], TypeError, "a set is a tensor or array"),
        (X[:, 0], ValueError, r"a set must have shape \(n, \*element\), got \(23,\)"),
        (Blocks(lambda: [X[:, 0]], 23), ValueError, r"a block must have shape"),
        (Blocks(lambda: [[1.0, 2.0]], 1), TypeError, "blocks of elements must be tensors or arrays, got list"),
        (lambda: [X, X[:, :1]], ValueError, r"shape \(2,\), but those of set 0 from element 23 on have \(1,\)"),
    ],
    ids=["iterator", "path", "batch in a list", "vector", "vector block", "list", "other shape"],
)
def test_what_is_no_set_is_refused_with_a_way_out(sets, error, words):
    with pytest.raises(error, match=words):
        read(make_source(sets))


def test_the_shape_of_an_element_may_come_from_the_blocks():
    images = torch.rand(3, 1, 4, 4)
    assert make_source(lambda: iter(images.split(2)), element_shape=None, dtype=None).no_elements().shape == (0, 1, 4, 4)
    source = make_source(images, element_shape=None, dtype=None)
    assert torch.equal(read(source), images)
    with pytest.raises(ValueError, match="shape of an element cannot be known"):
        make_source(list, element_shape=None).no_elements()
