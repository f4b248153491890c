"""Reading sets: every form gives the same sets, batch by batch, and samples take from all of them."""

import numpy as np
import pytest
import torch
from evaluate.drawn_sets import CONTRASTS, SUMMARIES, Dataset, assert_rows_agree, draw, every_transformer, tolerance_of

from orderless import SetBatch
from orderless.evaluate import MomentSummary, iterate_sets, num_sets
from orderless.evaluate.reading import sample_elements, sizes_of
from orderless.io import MemorySets, Samples


@every_transformer
def test_every_form_of_sets_gives_the_same_rows(make):
    dense = np.stack(draw([12] * 5))
    forms = {
        "tensors": [torch.from_numpy(x) for x in dense],
        "tuple": tuple(dense),
        "batch": SetBatch.from_list(list(dense)),
        "dense": dense,
        "dense tensor": torch.from_numpy(dense),
        "dense batch": SetBatch.from_padded(dense),
        "dataset": Dataset(list(dense)),
        "elements of another shape": dense.reshape(5, 12, 2, 2),
    }
    wanted = make().fit_transform(list(dense))
    for form in forms.values():
        assert num_sets(form) == 5
        assert_rows_agree(make().fit_transform(form), wanted, tolerance_of(make()))


def test_an_array_of_arrays_is_a_list():
    sets = np.empty(2, dtype=object)
    sets[:] = draw([3, 4])
    assert num_sets(sets) == 2
    assert MomentSummary().fit_transform(sets).shape == (2, 36)


def test_a_dataset_is_never_loaded_whole():
    data = Dataset(draw([4] * 50))
    for make in (*SUMMARIES.values(), *CONTRASTS.values()):
        make(batch_size=8).fit(data).transform(data)
    assert data.largest == 8
    assert [len(batch) for batch in iterate_sets(data, 20)] == [20, 20, 10]


def test_samples_take_no_element_twice_and_are_the_same_for_every_batch_size():
    sets = [np.arange(start, start + n, dtype=np.float64)[:, None] for start, n in ((0, 10), (100, 3), (200, 0), (300, 500))]
    sample = sample_elements(sets, 40, 0, 2)
    assert len(np.unique(sample)) == len(sample) == 10 + 3 + 10
    np.testing.assert_array_equal(sample, sample_elements(sets, 40, 0, 100))
    few = sample_elements([np.full((3, 1), n) for n in range(100)], 10, 0, 7)
    assert len(np.unique(few)) == len(few) == 10  # more sets than wanted elements: one of each of some sets


def test_samples_come_from_the_sets_that_have_elements():
    sets = [np.zeros((0, 1))] * 200
    sets[150] = np.array([[3.0], [3.0]])
    assert sample_elements(sets, 5, 0, 64).tolist() == [[3.0]]  # though most sets of which one element is wanted have none


def test_stored_sets_are_gathered_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr("orderless.evaluate.reading._GATHERED_ELEMENTS", 20)
    sets = draw([3, 0, 70, 9, 9, 9, 1], dtype=np.float32)
    samples = Samples(MemorySets(sets), tuple("abcdefg"), tuple("wxyz"))
    assert num_sets(samples) == 7
    assert sizes_of(samples).tolist() == [3, 0, 70, 9, 9, 9, 1]
    batches = list(iterate_sets(samples, 3))
    assert [batch.sizes.tolist() for batch in batches] == [[3, 0], [70], [9, 9], [9, 1]]  # a set is never divided
    assert_rows_agree(MomentSummary().fit_transform(samples), MomentSummary().fit_transform(sets))


@pytest.mark.parametrize("form", [list, SetBatch.from_list, Dataset], ids=["list", "batch", "dataset"])
def test_sizes_are_those_of_the_sets(form):
    assert sizes_of(form(draw([3, 0, 70]))).tolist() == [3, 0, 70]


def test_no_sets_have_no_sizes():
    assert sizes_of([]).shape == (0,)


def test_other_things_are_no_sets():
    with pytest.raises(TypeError, match="got dict"):
        MomentSummary().fit({})
