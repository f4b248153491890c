"""Contrasts: right against plain distances, in the order of elements, and nothing where an element is alone."""

import numpy as np
import pytest
from evaluate.drawn_sets import assert_rows_agree, draw, every_contrast, tolerance_of

from orderless.evaluate import ElementContrast, contrasts


def test_contrasts_are_the_distances_to_the_other_elements():
    sets = draw([6, 2, 90, 6])
    found = ElementContrast().fit_transform(sets)
    every = np.concatenate(sets)
    wanted = []
    for x in ((x - every.mean(0)) / every.std(0) for x in sets):
        for i in range(len(x)):
            others = np.delete(x, i, 0)
            deviation = x[i] - others.mean(0)
            distances = np.linalg.norm(others - x[i], axis=1)
            wanted.append([*deviation, *abs(deviation), np.linalg.norm(deviation), distances.mean(), distances.min()])
    assert_rows_agree(found, wanted)


@every_contrast
def test_an_element_that_is_alone_contrasts_with_nothing(make):
    rows = make().fit(draw([5, 6])).transform(draw([1, 4, 1]))
    np.testing.assert_array_equal(rows[[0, 5]], 0)


@every_contrast
def test_a_huge_set_is_worked_on_a_few_rows_at_a_time(make, monkeypatch):
    sets = draw([50, 7, 0, 8])
    wanted = make().fit_transform(sets)
    monkeypatch.setattr(contrasts, "BLOCK_NUMBERS", 200)
    assert_rows_agree(make().fit_transform(sets), wanted)


@every_contrast
def test_contrasts_follow_the_order_of_elements(make):
    sets = draw([9, 5])
    transformer = make().fit(sets)
    order = np.random.default_rng(1).permutation(9)
    rows, moved = transformer.transform(sets), transformer.transform([sets[0][order], sets[1]])
    np.testing.assert_allclose(moved[:9], rows[:9][order], rtol=1e-5, atol=1e-5)  # float32 in the embedding
    assert transformer.get_feature_names_out()[-1] == "nearest"
    assert len(transformer.get_feature_names_out()) == rows.shape[1]


@every_contrast
def test_an_empty_set_gives_no_row(make):
    transformer = make().fit(draw([5, 0, 6]))
    assert len(transformer.transform(draw([3, 0, 2, 0]))) == 5


@every_contrast
@pytest.mark.parametrize("sizes", [[4, 1, 3], [5, 2, 3], [0, 6, 3, 3]])
def test_a_set_has_the_rows_that_it_has_alone(make, sizes):
    sets = draw(sizes)
    transformer = make().fit(sets)
    alone = np.concatenate([transformer.transform([x]) for x in sets])
    assert_rows_agree(transformer.transform(sets), alone, tolerance_of(transformer))
